"""Datasets of text and bytes: what is read, beside what hdmf's HDF5 backend gives of the same file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.backends.hdf5 import HDF5IO
from hdmf.backends.io import HDMFIO
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, TypeMap
from hdmf.spec import DatasetSpec, GroupSpec, NamespaceCatalog, SpecCatalog, SpecNamespace
from nwb_content import new_file

from chunkwise.hdmf import NWBZarrIO, ZarrIO, open_store

FORMATS = ("zarr2", "zarr3", "n5")
DATA: dict[str, tuple[Any, str]] = {
    "words": (["a", "ü"], "utf8"),
    "word": (["a"], "utf8"),
    "table": ([["a", "b"], ["c", "d"]], "utf8"),
    "none": (np.empty(0, object), "utf8"),
    "codes": (["a", "bb"], "ascii"),
    "long": ([f"w{i}" for i in range(40_000)], "utf8"),
}

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.each_once("format")]


def _plain(path: Path, format: str, mode: str) -> HDMFIO:
    manager = BuildManager(TypeMap(NamespaceCatalog()))
    if format == "hdf5":
        return HDF5IO(str(path), mode, manager=manager)
    return ZarrIO(path, mode, manager, format=format)


def _root() -> GroupBuilder:
    return GroupBuilder("root", datasets=[DatasetBuilder(k, v, dtype=t) for k, (v, t) in DATA.items()])


@pytest.fixture(scope="module")
def from_hdf5(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, ...]]:
    """Of each dataset, as hdmf's HDF5 backend reads it: dtype, shape, values, elements one by one."""
    path = tmp_path_factory.mktemp("text") / "hdf5"
    with _plain(path, "hdf5", "w") as io:
        io.write_builder(_root())
    with _plain(path, "hdf5", "r") as io:
        found = {name: builder.data for name, builder in io.read_builder().datasets.items()}
        return {name: (data.dtype, data.shape, data[:], list(data)) for name, data in found.items()}


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("format", FORMATS)
def test_text_is_read_as_from_hdf5(format: str, mode: str, tmp_path: Path, from_hdf5: Any) -> None:
    with _plain(tmp_path / format, format, "w") as io:
        io.write_builder(_root())
    with _plain(tmp_path / format, format, mode) as io:
        found = io.read_builder().datasets
        for name in DATA:
            ours, (kind, shape, whole, elements) = found[name].data, from_hdf5[name]
            assert ours.dtype == kind == np.dtype(object)
            assert (ours.shape, len(ours)) == (shape, len(elements))
            assert ours[:].tolist() == whole.tolist()
            assert [np.asarray(x).tolist() for x in ours] == [np.asarray(x).tolist() for x in elements]
            # The truth of an array of two would be an error.
            assert bool(ours) is (len(ours) > 0)
            if len(ours):
                assert type(ours[0]) is type(elements[0])


def test_keywords_of_a_file_have_a_truth(tmp_path: Path) -> None:
    with NWBZarrIO(tmp_path / "a.nwb.zarr", "w") as io:
        io.write(new_file())
    with NWBZarrIO(tmp_path / "a.nwb.zarr") as io:
        nwb = io.read()
        assert nwb.keywords
        assert list(nwb.keywords) == ["a", "bb"]
        assert all(isinstance(when, datetime) for when in nwb.file_create_date)


def _schema() -> TypeMap:
    """A schema with a type that has ASCII and dates, and a dataset type of ASCII."""
    codes = DatasetSpec("d", dtype="ascii", shape=(None,), data_type_def="Codes")
    holder = GroupSpec(
        "d",
        data_type_def="Holder",
        datasets=[
            DatasetSpec("d", dtype="ascii", name="one"),
            DatasetSpec("d", dtype="isodatetime", shape=(None,), name="when"),
            DatasetSpec("d", dtype="text", shape=(None,), name="words"),
            DatasetSpec("d", data_type_inc="Codes", name="codes"),
        ],
        groups=[GroupSpec("d", name="in", datasets=[DatasetSpec("d", dtype="ascii", name="two")])],
    )
    specs = SpecCatalog()
    for spec in (codes, holder):
        specs.register_spec(spec, "s.yaml")
    catalog = NamespaceCatalog()
    catalog.add_namespace("x", SpecNamespace("d", "x", [{"source": "s.yaml"}], version="1.0", catalog=specs))
    return TypeMap(catalog)


def test_ascii_that_is_marked_as_text_is_bytes_as_the_schema_says(tmp_path: Path) -> None:
    def typed(name: str) -> dict[str, str]:
        return {"namespace": "x", "data_type": name, "object_id": name}

    text = [
        DatasetBuilder("one", "z"),
        DatasetBuilder("when", ["2024-01-01T00:00:00"]),
        DatasetBuilder("words", ["x"]),
        DatasetBuilder("codes", ["a", "bb"], attributes=typed("Codes")),
    ]
    inner = GroupBuilder("in", datasets=[DatasetBuilder("two", "zz")])
    with ZarrIO(tmp_path / "a", "w") as io:  # with no schema all are text, as 0.14 of hdmf-zarr writes them
        holder = GroupBuilder("h", attributes=typed("Holder"), datasets=text, groups=[inner])
        io.write_builder(GroupBuilder("root", groups=[holder]))
    assert open_store(tmp_path / "a").dataset("/h/one").value() == "z"
    with ZarrIO(tmp_path / "a", "r+", BuildManager(_schema())) as io:
        holder = io.read_builder().groups["h"]
        found = {name: builder.data for name, builder in holder.datasets.items()}
        assert found["one"] == b"z"
        assert holder.groups["in"].datasets["two"].data == b"zz"
        assert found["codes"][:].tolist() == [b"a", b"bb"]
        found["codes"].append(b"ccc")
        assert found["codes"][:].tolist() == [b"a", b"bb", b"ccc"]
        assert found["words"][:].tolist() == ["x"]
        assert isinstance(found["when"], np.ndarray)  # hdmf parses dates in arrays only
    assert open_store(tmp_path / "a").dataset("/h/codes").read().tolist() == ["a", "bb", "ccc"]


@pytest.mark.parametrize("format", FORMATS)
def test_an_integer_and_a_list_around_a_slice_keep_the_order_of_axes(format: str, tmp_path: Path) -> None:
    values = np.array([f"w{i}" for i in range(24)], object).reshape(2, 3, 4)
    with _plain(tmp_path / format, format, "w") as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("words", values, dtype="utf8")]))
    with _plain(tmp_path / format, format, "r") as io:
        words = io.read_builder().datasets["words"].data
        assert words[1, :, [0, 3]].tolist() == [["w12", "w15"], ["w16", "w19"], ["w20", "w23"]]
        assert words[:, [2], ::-2].tolist() == [[["w11", "w9"]], [["w23", "w21"]]]
        assert words[-1, 2, 3] == "w23" and words[0, 1].tolist() == ["w4", "w5", "w6", "w7"]


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_the_type_of_text_and_bytes_says_which_it_is(format: str, tmp_path: Path) -> None:
    """As that of a dataset of h5py does; hdmf 3 validates by it."""
    datasets = [DatasetBuilder("text", ["a"] * 3), DatasetBuilder("bytes", [b"a"] * 3)]
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=datasets))
    with ZarrIO(tmp_path / "a") as io:
        found = {name: builder.data.dtype for name, builder in io.read_builder().datasets.items()}
    assert [h5py.check_string_dtype(found[name]).encoding for name in ("text", "bytes")] == ["utf-8", "ascii"]
