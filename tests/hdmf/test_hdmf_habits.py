"""Uses of datasets and files in programs for hdmf-zarr, beside reading and writing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pynwb
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder
from hdmf.data_utils import DataChunkIterator
from nwb_content import new_file

from chunkwise.errors import InvalidArgumentError
from chunkwise.hdmf import NWBZarrIO, ZarrDataIO, ZarrIO, convert
from chunkwise.hdmf.model.place import source_name, with_storage_options

FORMATS = ("zarr2", "zarr3", "n5")
DATA = np.arange(6000, dtype="i4").reshape(2000, 3)

pytestmark = pytest.mark.filterwarnings("ignore")
ONE = ("n5", *(pytest.param(format, marks=pytest.mark.slow) for format in ("zarr2", "zarr3")))
"""Formats of tests that take long, of which one is in each run."""


def _size(path: Path) -> int:
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


@pytest.mark.parametrize("format", FORMATS)
def test_what_a_dataset_that_was_read_says_of_its_storage(format: str, tmp_path: Path) -> None:
    data = ZarrDataIO(DATA, chunks=(500, 3), compressor=numcodecs.GZip(3))
    words = DatasetBuilder("words", ["a", "b"])
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        own = DatasetBuilder("d", data, attributes={"unit": "V"})
        io.write_builder(GroupBuilder("root", datasets=[own, words]))
    with ZarrIO(tmp_path / "a") as io:
        found = io.read_builder().datasets["d"].data
        assert found.compressor == numcodecs.GZip(3)
        assert found.compressors == (numcodecs.GZip(3),)
        assert found.filters == []
        assert found.attrs == {"unit": "V"}
        found.attrs["unit"] = "A"
        assert found.attrs == {"unit": "V"}
        assert (found.nbytes, found.maxshape) == (DATA.nbytes, DATA.shape)
        assert found.nbytes_stored == _size(tmp_path / "a" / "d")
        info = found.info
        assert (info["shape"], info["chunks"], info["nbytes_stored"]) == (
            (2000, 3),
            (500, 3),
            found.nbytes_stored,
        )
        assert "24,000" in str(info)
        text = io.read_builder().datasets["words"].data
        assert text.nbytes_stored == _size(tmp_path / "a" / "words")
        assert text.info["dtype"] == "str"
    with pytest.raises(ValueError, match="is closed"):
        _ = found.info


@pytest.mark.parametrize(("format", "shards"), [("zarr2", None), ("zarr3", None), ("zarr3", (1000, 3))])
def test_filters_of_a_dataset_that_was_read(format: str, shards: Any, tmp_path: Path) -> None:
    delta, blosc = numcodecs.Delta("<i4"), numcodecs.Blosc("zstd", 3)
    options = {} if shards is None else {"shards": shards}
    data = ZarrDataIO(DATA, chunks=(500, 3), compressor=blosc, filters=[delta], **options)
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", data)]))
    with ZarrIO(tmp_path / "a") as io:
        found = io.read_builder().datasets["d"].data
        assert found.filters == [delta]
        assert (found.compressor.codec_id, found.compressor.cname) == ("blosc", "zstd")
        assert found.info.get("shards") == shards
        np.testing.assert_array_equal(found[:], DATA)


def test_arguments_of_write_builder_by_position(tmp_path: Path) -> None:
    rows = DataChunkIterator((np.full(3, i, "f4") for i in range(4)), buffer_size=1)
    root = GroupBuilder("root", datasets=[DatasetBuilder("d", rows, dtype="float32")])
    with ZarrIO(tmp_path / "a", "w", format="zarr2") as io:
        io.write_builder(root, False, True, None, False)
    assert not (tmp_path / "a" / ".zmetadata").exists()
    with pytest.raises(TypeError, match="bogus"), ZarrIO(tmp_path / "b", "w") as io:
        io.write_builder(root, bogus=1)


@pytest.mark.parametrize("format", FORMATS)
def test_whether_a_builder_is_stored_is_looked_up(format: str, tmp_path: Path) -> None:
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        group = GroupBuilder("g", datasets=[DatasetBuilder("d", DATA), DatasetBuilder("t", ["a"])])
        root = GroupBuilder("root", groups=[group])
        assert not io.get_written(root, check_on_disk=True)
        io.write_builder(root)
        datasets = list(group.datasets.values())
        assert all(io.get_written(b, check_on_disk=True) for b in (root, group, *datasets))
        shutil.rmtree(tmp_path / "a" / "g" / "d")
        assert io.get_written(datasets[0])
        assert not io.get_written(datasets[0], check_on_disk=True)
        assert io.get_written(datasets[1], check_on_disk=True)


def test_a_link_has_a_name(tmp_path: Path) -> None:
    group = GroupBuilder("g")
    root = GroupBuilder("root", groups=[group], links=[LinkBuilder(group, "")])
    with ZarrIO(tmp_path / "a", "w") as io, pytest.raises(InvalidArgumentError, match="empty name"):
        io.write_builder(root)
    with ZarrIO(tmp_path / "b", "w") as io:
        io.write_builder(GroupBuilder("root", groups=[group]))
        with pytest.raises(InvalidArgumentError, match="empty name"):
            io.write_link("/", LinkBuilder(group, ""))


def test_gcs_is_another_name_of_gs() -> None:
    assert source_name("gcs://bucket/a.zarr/") == "gs://bucket/a.zarr"
    assert with_storage_options("gcs://bucket/a.zarr", {"anon": True}) == "gcs://bucket/a.zarr"


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("format", ONE)
def test_a_conversion_that_fails_leaves_what_was_there(format: str, there: bool, tmp_path: Path) -> None:
    with NWBZarrIO(tmp_path / "a.nwb.zarr", "w", format="zarr2") as io:
        nwb = new_file()
        nwb.add_scratch(DATA, name="good", description="d")
        nwb.add_scratch(DATA, name="late", description="d")
        io.write(nwb)
    chunk = tmp_path / "a.nwb.zarr" / "scratch" / "late" / "0.0"
    chunk.write_bytes(b"this is no Blosc")
    if there:
        with NWBZarrIO(tmp_path / "b", "w", format=format) as io:
            io.write(new_file("old"))
    before = {p: p.read_bytes() for p in (tmp_path / "b").rglob("*") if p.is_file()}
    with pytest.raises(ValueError, match="late"):
        convert(tmp_path / "a.nwb.zarr", tmp_path / "b", format=format, overwrite=there)
    assert {p: p.read_bytes() for p in (tmp_path / "b").rglob("*") if p.is_file()} == before


def test_threads_are_counted_and_processes_refused(tmp_path: Path) -> None:
    nwb = new_file()
    nwb.add_scratch(DATA, name="d", description="d")
    with NWBZarrIO(tmp_path / "a", "w") as io:
        with pytest.raises(InvalidArgumentError, match="no multiprocessing_context"):
            io.write(nwb, multiprocessing_context="fork")
        with pytest.raises(InvalidArgumentError, match="number_of_jobs is 0, but expected a positive number"):
            io.write(nwb, number_of_jobs=0)
        io.write(nwb, number_of_jobs=2, max_threads_per_process=2)
        assert io.store.pool.n_workers == 4
    with NWBZarrIO(tmp_path / "one", "w") as io:
        io.write(new_file(), number_of_jobs=1)
        assert io.store.pool.n_workers == 1
    with NWBZarrIO(tmp_path / "a") as io:
        np.testing.assert_array_equal(io.read().scratch["d"].data[:], DATA)


def test_pynwb_validates_a_store_by_its_path(tmp_path: Path) -> None:
    with NWBZarrIO(tmp_path / "a", "w") as io:
        io.write(new_file())
    with NWBZarrIO(tmp_path / "a", driver=None, aws_region=None) as io:  # as pynwb.validate does
        assert pynwb.validate(io=io) == []
    with pytest.raises(InvalidArgumentError, match="driver is an option of HDF5"):
        NWBZarrIO(tmp_path / "a", driver="ros3")  # type: ignore[arg-type]


@pytest.mark.parametrize("format", FORMATS)
def test_masked_values_are_refused(format: str, tmp_path: Path) -> None:
    masked = np.ma.masked_equal(DATA, 7)
    for data in (masked, ZarrDataIO(masked, chunks=(500, 3))):
        with (
            pytest.raises(InvalidArgumentError, match="values are masked"),
            ZarrIO(tmp_path / "a", "w", format=format) as io,
        ):
            io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", data)]))
