"""Rows added to tables that were read: ragged columns, and indexes that need wider types."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf.common import DynamicTable, VectorData, VectorIndex, get_manager
from nwb_content import file_of, new_file
from pynwb import TimeSeries

from chunkwise import open_array
from chunkwise.errors import InvalidArgumentError
from chunkwise.hdmf import NWBZarrIO, ZarrDataIO, ZarrIO, open_store, validate
from chunkwise.hdmf.model.element import number
from chunkwise.hdmf.replacement import rewrite


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """pynwb warns of its own deprecations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _add_unit(nwb: Any, n_spikes: int) -> None:
    nwb.add_unit(
        spike_times=np.arange(float(n_spikes)),
        obs_intervals=[[0.0, 1.0]],
        electrodes=[1],
        electrode_group=nwb.electrode_groups["shank1"],
        waveform_mean=np.ones(4),
        quality="new",
    )


@pytest.mark.parametrize(
    "format", ["zarr2", *(pytest.param(f, marks=pytest.mark.slow) for f in ("zarr3", "n5"))]
)
def test_units_are_added_and_their_index_grows(format: str, tmp_path: Path) -> None:
    path = tmp_path / "a.nwb.zarr"
    with NWBZarrIO(path, mode="w", format=format) as io:
        io.write(file_of("ecephys"))
    for n_spikes in (2, 300, 70000, 1):
        with NWBZarrIO(path, mode="r+") as io:
            nwb = io.read()
            _add_unit(nwb, n_spikes)
            io.write(nwb)
    for options in ({}, {"mode": "r-"}, {"consolidated": "check"}):
        with NWBZarrIO(path, **options) as io:
            units = io.read().units
            assert [len(units["spike_times"][i]) for i in range(len(units))] == [1, 2, 3, 2, 300, 70000, 1]
            assert units["spike_times"][2].tolist() == pytest.approx([0, 1 / 7, 2 / 7])
            # At least 32 bits, so that a growing index is hardly ever written again.
            assert units.spike_times_index.data.dtype == units.electrodes_index.data.dtype == "u4"
            assert units["electrode_group"][5].name == "shank1"
    assert validate(path) == []


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_rows_with_ragged_text_and_double_indexes(format: str, tmp_path: Path) -> None:
    path = tmp_path / "a.nwb.zarr"
    with NWBZarrIO(path, mode="w", format=format) as io:
        io.write(file_of("tables"))
    with NWBZarrIO(path, mode="r+") as io:
        nwb = io.read()
        for ragged in (["x", "yy"], []):
            nwb.scratch["dt"].add_row(
                number=np.uint16(9),
                flag=True,
                word="a longer word",
                ragged=ragged,
                double=[[1.0], [2.0, 3.0]],
                choice="lo",
            )
        io.write(nwb)
    with NWBZarrIO(path) as io:
        table = io.read().scratch["dt"]
        assert [list(table["ragged"][i]) for i in (3, 4, 5)] == [["r0", "r1", "r2"], ["x", "yy"], []]
        assert [list(part) for part in table["double"][4]] == [[1.0], [2.0, 3.0]]
        assert (table["word"][5], table["number"][5]) == ("a longer word", 9)


def test_a_narrow_index_of_another_writer_is_widened(tmp_path: Path) -> None:
    columns = [VectorData(name="x", description="d", data=np.arange(3.0))]
    columns.append(VectorIndex(name="x_index", target=columns[0], data=np.array([1, 3], "u1")))
    with ZarrIO(tmp_path / "a", "w", get_manager()) as io:
        io.write(DynamicTable(name="root", description="d", columns=columns, id=[0, 1]))
    # As hdmf itself writes it.
    with ZarrIO(tmp_path / "a", "r+") as io:
        io.read_builder().datasets["x_index"].data.dataset.forget()
        rewrite(io.store.dataset("/x_index"), number("uint8"), np.array([1, 3], "u1"))
    for n in (300, 70_000):
        with ZarrIO(tmp_path / "a", "r+", get_manager()) as io:
            io.read().add_row(x=np.zeros(n))
    with ZarrIO(tmp_path / "a", "r", get_manager()) as io:
        table = io.read()
        assert [len(table["x"][i]) for i in range(4)] == [1, 2, 300, 70_000]
        assert table.x_index.data.dtype == "u4"


def test_hdmf_is_left_as_it_is() -> None:
    program = """
import hdmf.container, hdmf.term_set
from hdmf.common import VectorData, VectorIndex
parts = (hdmf.container, hdmf.term_set, VectorIndex, VectorData)
before = [dict(vars(part)) for part in parts]
import chunkwise.hdmf.backend.io, chunkwise.hdmf.backend.nwb
assert before == [dict(vars(part)) for part in parts]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
@pytest.mark.parametrize(
    ("before", "added", "dtype"), [([1, 2], 2.5, "f8"), (np.array([1], "i1"), 300, "i8")]
)
def test_a_number_that_is_added_keeps_its_value(
    before: Any, added: Any, dtype: str, format: str, tmp_path: Path
) -> None:
    columns = [
        VectorData(name="word", description="d", data=["a"] * len(before)),
        VectorData(name="number", description="d", data=before),
    ]
    nwb = new_file()
    nwb.add_scratch(DynamicTable(name="t", description="d", columns=columns))
    with NWBZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write(nwb)
    with NWBZarrIO(tmp_path / "a", "r+") as io:
        table = io.read().scratch["t"]
        table.add_row(word="b", number=added)
        assert table["number"].data[-1] == added
    with NWBZarrIO(tmp_path / "a") as io:
        found = io.read().scratch["t"]["number"].data
        assert found.dtype == np.dtype(dtype) and found[:].tolist() == [*before, added]


def test_a_number_that_no_type_holds_with_those_before_is_refused(tmp_path: Path) -> None:
    with ZarrIO(tmp_path / "a", "w") as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", [2**53 + 1])]))
    with ZarrIO(tmp_path / "a", "r+") as io:
        data = io.read_builder()["d"].data
        for added in (0.5, 2**63 + 1):
            with pytest.raises(InvalidArgumentError, match="does not fit int64"):
                data.append(added)
        assert data[:].tolist() == [2**53 + 1]


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("columns", [(), (3,)])
def test_an_empty_dataset_grows_in_its_chunks(
    format: str, given: bool, columns: tuple[int, ...], tmp_path: Path
) -> None:
    """Many appends make few chunks, with the codec that was asked for, also when the store is opened anew."""
    path = tmp_path / ("a.n5" if format == "n5" else "a.zarr")
    values = np.empty((0, *columns), "f8")
    how: dict[str, Any] = {"chunks": (64, *columns), "compressor": "gzip"} if given else {}
    with ZarrIO(path, mode="w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", ZarrDataIO(values, **how))]))
    for first in range(0, 100, 20):
        with ZarrIO(path, mode="r+") as io:
            data = io.read_builder().datasets["d"].data
            for number in range(first, first + 20):
                data.append(np.full(columns, number))
    dataset = open_store(str(path)).dataset("/d")
    expected = np.broadcast_to(np.arange(100.0), (*columns, 100)).T
    np.testing.assert_array_equal(dataset.read(), expected)
    assert dataset.physical.chunk_shape == ((64, *columns) if given else (1024, *columns))
    if given:
        assert "gzip" in repr(open_array(path / "d").codec)


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_what_is_taken_out_and_stays_is_named(format: str, tmp_path: Path) -> None:
    """Writing deletes nothing; other writes warn of nothing."""
    path = tmp_path / ("a.nwb.n5" if format == "n5" else "a.nwb.zarr")
    file = new_file()
    for name in "ab":
        file.add_acquisition(TimeSeries(name, data=np.arange(4), unit="V", rate=1.0))
    module = file.create_processing_module("behavior", "d")
    module.add(TimeSeries("c", data=np.arange(4), unit="V", rate=1.0))
    with NWBZarrIO(path, mode="w", format=format) as io:
        io.write(file)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with NWBZarrIO(path, mode="r+") as io:
            file = io.read()
            file.add_acquisition(TimeSeries("d", data=np.arange(4), unit="V", rate=1.0))
            io.write(file)
        with NWBZarrIO(path, mode="r+") as io:
            file = io.read()
            file.acquisition.pop("a")
            file.processing["behavior"].data_interfaces.pop("c")
            io.write(file)
    (said,) = [str(w.message) for w in caught if "deletes nothing" in str(w.message)]
    assert said.startswith("/acquisition/a, /processing/behavior/c: ")
    with NWBZarrIO(path, mode="r") as io:
        assert set(io.read().acquisition) == {"a", "b", "d"}


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
@pytest.mark.parametrize(
    ("shape", "row", "several"),
    [((4,), 9.0, [8.0, 9.0]), ((4, 2), [5.0, 6.0], [[1.0, 2.0], [3.0, 4.0]])],
)
def test_a_row_may_have_an_axis_in_front(
    format: str, shape: tuple[int, ...], row: Any, several: Any, tmp_path: Path
) -> None:
    """As h5py takes it; several rows name the method that adds them."""
    with ZarrIO(tmp_path / "a", mode="w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("a", np.zeros(shape))]))
    with ZarrIO(tmp_path / "a", mode="r+") as io:
        data = io.read_builder().datasets["a"].data
        for added in (row, [row], np.array([row])):
            data.append(added)
        with pytest.raises(InvalidArgumentError, match=r"append adds one row, not 2: data\.extend\(rows\)"):
            data.append(several)
        data.extend(several)
    with ZarrIO(tmp_path / "a", mode="r") as io:
        found = io.read_builder().datasets["a"].data[4:]
    assert found.tolist() == [row, row, row, *several]
