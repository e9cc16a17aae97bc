"""Compounds: scalar, one-dimensional, nested, in datasets and attributes, as hdmf's HDF5 backend has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pynwb
import pytest
from hdmf.backends.hdf5 import HDF5IO
from hdmf.backends.io import HDMFIO
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, ReferenceBuilder, TypeMap
from hdmf.spec import DtypeSpec, NamespaceCatalog, RefSpec
from nwb_content import new_file
from pynwb import NWBHDF5IO, NWBData, TimeSeries, get_type_map
from pynwb.spec import NWBDatasetSpec, NWBGroupSpec, NWBNamespaceBuilder

from chunkwise.errors import InvalidArgumentError
from chunkwise.hdmf import NWBZarrIO, RegionReference, ZarrDataIO, ZarrIO, convert, open_store
from chunkwise.hdmf.summary import broken_links

FORMATS = ("zarr2", "zarr3", "n5")
XYZ = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4")])
NESTED = np.dtype([("i", "u2"), ("at", XYZ), ("ok", "?")])
ARRAYS = {
    "scalar": np.array((1.5, -2, 3), XYZ),
    "one": np.array([(1.5, -2, 3)], XYZ),
    "many": np.array([(i, i * 0.1, -i) for i in range(300)], XYZ),
    "empty": np.empty(0, XYZ),
    "nested": np.array((7, (1, 2, 3), True), NESTED),
    "nested rows": np.array([(i, (1, 2, i), i % 2) for i in range(5)], NESTED),
}

pytestmark = pytest.mark.filterwarnings("ignore")


def plain_io(path: Path, mode: str) -> HDMFIO:
    return HDF5IO(str(path), mode, manager=BuildManager(TypeMap(NamespaceCatalog())))


def nwb_io(path: Path, mode: str, format: str) -> HDMFIO:
    return NWBHDF5IO(str(path), mode) if format == "hdf5" else NWBZarrIO(path, mode=mode, format=format)


def same(found: Any, expected: np.ndarray) -> None:
    values = np.asarray(found[()] if hasattr(found, "name") else found)
    assert values.dtype == expected.dtype
    assert values.shape == expected.shape
    assert values.tolist() == expected.tolist()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ARRAYS)
def test_compound_datasets(tmp_path: Path, format: str, name: str) -> None:
    values = ARRAYS[name]
    with ZarrIO(tmp_path / "a", mode="w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", values)]))
    with ZarrIO(tmp_path / "a") as source:
        builder = source.read_builder().datasets["d"]
        same(builder.data, values)
        assert [member["name"] for member in builder.dtype] == list(values.dtype.names or ())
        if not values.shape:  # what HDF5IO gives, too
            assert type(builder.data) is np.ndarray
        with ZarrIO(tmp_path / "b", mode="w", format="zarr3") as io:
            io.export(source)
    with ZarrIO(tmp_path / "b") as io:
        same(io.read_builder().datasets["d"].data, values)


def test_a_scalar_compound_is_what_hdf5_gives(tmp_path: Path) -> None:
    dtype = [DtypeSpec(name, "d", "float32") for name in "xyz"]
    builder = DatasetBuilder("d", ARRAYS["scalar"], dtype=dtype)
    with plain_io(tmp_path / "a.h5", "w") as io:
        io.write_builder(GroupBuilder("root", datasets=[builder]))
    with ZarrIO(tmp_path / "a", mode="w") as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", ARRAYS["scalar"], dtype=dtype)]))
    with plain_io(tmp_path / "a.h5", "r") as h5, ZarrIO(tmp_path / "a") as io:
        ours, theirs = io.read_builder().datasets["d"], h5.read_builder().datasets["d"]
        assert type(ours.data) is type(theirs.data)
        assert (ours.data.dtype, ours.data.shape, ours.dtype) == (
            theirs.data.dtype,
            theirs.data.shape,
            theirs.dtype,
        )
        assert ours.data == theirs.data


def things_of(target: GroupBuilder, scalar: bool) -> tuple[list[DtypeSpec], Any]:
    members = [
        DtypeSpec("n", "d", "int32"),
        DtypeSpec("text", "d", "text"),
        DtypeSpec("what", "d", RefSpec("Thing", "object")),
    ]
    row = (5, "fünf", ReferenceBuilder(target))
    return members, row if scalar else [row, row]


@pytest.mark.parametrize("scalar", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_references_in_compounds_are_resolved(tmp_path: Path, format: str, scalar: bool) -> None:
    target = GroupBuilder("target", attributes={"object_id": "1"})
    dtype, data = things_of(target, scalar)
    root = GroupBuilder("root", groups=[target], datasets=[DatasetBuilder("d", data, dtype=dtype)])
    with ZarrIO(tmp_path / "a", mode="w", format=format) as io:
        io.write_builder(root)
    for path in (tmp_path / "a", tmp_path / "b"):
        with ZarrIO(path) as source:
            read = source.read_builder()
            found = read.datasets["d"].data
            row = found[()] if scalar else found[1]
            assert bool(found)
            assert found.shape == (() if scalar else (2,))
            assert (row["n"], row["text"]) == (5, "fünf")
            assert row["what"] is read.groups["target"]
            column = found["what"]
            assert (column if scalar else column[0]) is read.groups["target"]
            if path == tmp_path / "a":
                with ZarrIO(tmp_path / "b", mode="w", format="n5") as io:
                    io.export(source)
    assert broken_links(tmp_path / "b") == []


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ARRAYS)
def test_compound_attributes(tmp_path: Path, format: str, name: str) -> None:
    values = ARRAYS[name]
    with plain_io(tmp_path / "a.h5", "w") as io:
        io.write_builder(GroupBuilder("root", attributes={"a": values}))
    with ZarrIO(tmp_path / "a", mode="w", format=format) as io:
        io.write_builder(GroupBuilder("root", attributes={"a": values, "void": ARRAYS["one"][0]}))
    with plain_io(tmp_path / "a.h5", "r") as h5, ZarrIO(tmp_path / "a") as io:
        attributes = io.read_builder().attributes
        assert type(attributes["a"]) is type(h5.read_builder().attributes["a"])
        same(attributes["a"], values)
        same(attributes["void"], ARRAYS["scalar"])


@pytest.mark.parametrize("format", FORMATS)
def test_text_bytes_and_references_in_attributes_that_are_compounds(tmp_path: Path, format: str) -> None:
    target = GroupBuilder("target", attributes={"object_id": "1"})
    dtype = np.dtype([("t", "O"), ("b", "O"), ("to", "O"), ("u", "U3"), ("in", [("to", "O")])])
    rows = np.array([("ä", b"b", ReferenceBuilder(target), "abc", (target,))], dtype)
    root = GroupBuilder("root", groups=[target], attributes={"rows": rows, "row": rows[0]})
    with ZarrIO(tmp_path / "a", mode="w", format=format) as io:
        io.write_builder(root)
    with ZarrIO(tmp_path / "a") as source, ZarrIO(tmp_path / "b", mode="w", format=format) as io:
        io.export(source)
    for path in (tmp_path / "a", tmp_path / "b"):
        with ZarrIO(path) as io:
            read = io.read_builder()
            there = read.groups["target"]
            assert read.attributes["row"].tolist() == ("ä", b"b", there, "abc", (there,))
            assert read.attributes["rows"].tolist() == [read.attributes["row"].tolist()]
        assert broken_links(path) == []


def with_position(position: Any = (1.0, 2.0, 3.5)) -> pynwb.NWBFile:
    nwb = new_file()
    device = nwb.create_device("probe")
    group = nwb.create_electrode_group("shank", "d", "CA1", device, position)
    nwb.create_electrode_group("other", "d", "CA1", device)
    nwb.add_electrode(group=group, location="CA1")
    return nwb


@pytest.mark.parametrize("format", ["hdf5", *(pytest.param(f, marks=pytest.mark.slow) for f in FORMATS)])
def test_the_position_of_an_electrode_group(tmp_path: Path, format: str) -> None:
    path, written = tmp_path / "a.nwb", with_position()
    with nwb_io(path, "w", format) as io:
        io.write(written)
    with nwb_io(path, "r", format) as io:
        nwb = io.read()
        same(nwb.electrode_groups["shank"].position, np.array((1.0, 2.0, 3.5), XYZ))
        assert nwb.electrode_groups["other"].position is None
        assert pynwb.validate(io=io) == []
    with nwb_io(path, "a", format) as io:  # and again, with something added
        nwb = io.read()
        nwb.add_acquisition(TimeSeries("more", np.arange(3), "V", rate=1.0))
        nwb.create_electrode_group("third", "d", "CA1", nwb.devices["probe"], (7.0, 8.0, 9.0))
        io.write(nwb)
    for to in ("hdf5", *FORMATS):
        if "hdf5" in (to, format) and to == format:
            continue
        copy = tmp_path / (f"{to}.nwb" if to == "hdf5" else f"{to}.nwb.zarr")
        convert(path, copy, **({} if to == "hdf5" else {"format": to}))
        with nwb_io(copy, "r", to) as io:
            nwb = io.read()
            same(nwb.electrode_groups["shank"].position, np.array((1.0, 2.0, 3.5), XYZ))
            same(nwb.electrode_groups["third"].position, np.array((7, 8, 9), XYZ))
            assert set(nwb.acquisition) == {"more"}


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> TypeMap:
    """Types of which one is a dataset that is one compound, and the other has such a dataset."""
    directory = tmp_path_factory.mktemp("ndx-point")
    builder = NWBNamespaceBuilder("points", "ndx-point", version="0.1.0", author="a", contact="c")
    builder.include_type("NWBData", namespace="core")
    builder.include_type("NWBDataInterface", namespace="core")
    members = [DtypeSpec("x", "d", "float32"), DtypeSpec("n", "d", "uint8")]
    data = NWBDatasetSpec("a point", neurodata_type_def="Point", neurodata_type_inc="NWBData", dtype=members)
    held = NWBDatasetSpec("the point", neurodata_type_inc="Point", name="point")
    holder = NWBGroupSpec(
        "has a point",
        neurodata_type_def="PointHolder",
        neurodata_type_inc="NWBDataInterface",
        datasets=[held],
    )
    for spec in (data, holder):
        builder.add_spec("ndx-point.extensions.yaml", spec)
    builder.export("ndx-point.namespace.yaml", outdir=str(directory))
    type_map = get_type_map()
    type_map.load_namespaces(str(directory / "ndx-point.namespace.yaml"))

    class Point(NWBData):
        pass

    type_map.register_container_type("ndx-point", "Point", Point)
    return type_map


@pytest.mark.each_once
@pytest.mark.parametrize("scalar", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_a_class_whose_dataset_is_one_compound(
    tmp_path: Path, format: str, scalar: bool, points: TypeMap
) -> None:
    def manager() -> BuildManager:
        return BuildManager(points)

    point = points.get_dt_container_cls("Point", "ndx-point")
    holder = points.get_dt_container_cls("PointHolder", "ndx-point")
    nwb = new_file()
    nwb.add_acquisition(holder(name="holder", point=point(name="point", data=[(2.5, 200)])))
    h5, path = tmp_path / "a.nwb", tmp_path / "a.nwb.zarr"
    with NWBHDF5IO(h5, "w", manager=manager()) as io:
        io.write(nwb)
    if scalar:  # hdmf itself writes only rows
        with h5py.File(h5, "r+") as file:
            group = file["acquisition/holder"]
            attributes, value = dict(group["point"].attrs), group["point"][0]
            del group["point"]
            group["point"] = value
            group["point"].attrs.update(attributes)
    with NWBHDF5IO(h5, "r", manager=manager()) as source, ZarrIO(path, mode="w", format=format) as io:
        io.export(source)
    with NWBHDF5IO(h5, "r", manager=manager()) as theirs, NWBZarrIO(path, manager=manager()) as ours:
        expected, found = theirs.read(), ours.read()
        given = expected.acquisition["holder"].point.data
        data = found.acquisition["holder"].point.data
        assert (type(data) is np.ndarray) == (type(given) is np.ndarray) == scalar
        values = np.asarray(given[()] if scalar else given[:])
        same(data, values)
    with NWBZarrIO(path, mode="r+", manager=manager()) as io:
        nwb = io.read()
        nwb.add_acquisition(TimeSeries("more", np.arange(3), "V", rate=1.0))
        io.write(nwb)
        same(nwb.acquisition["holder"].point.data, values)


@pytest.mark.parametrize("object_codec", ["json", "pickle"])
def test_rows_with_text_and_references_in_either_object_codec(object_codec: str, tmp_path: Path) -> None:
    group = GroupBuilder("group", attributes={"a": 1})
    words = [{"name": n, "dtype": t} for n, t in (("id", "int64"), ("label", "utf8"), ("to", "object"))]
    rows = [(2**40 + i, "ü" * i, ReferenceBuilder(group)) for i in range(5)]
    data = ZarrDataIO(rows, chunks=(2,))
    with ZarrIO(tmp_path / "a.zarr", "w", format="zarr2", object_codec=object_codec) as io:
        dataset = DatasetBuilder("rows", data, dtype=words)
        io.write_builder(GroupBuilder("root", groups=[group], datasets=[dataset]))
    document = open_store(tmp_path / "a.zarr").tree.nodes["/rows"].document
    assert document["filters"][0]["id"] == {"json": "json2"}.get(object_codec, "pickle")
    stored = [["id", "<i8"], ["label", "|O"], ["to", "|O"]]
    assert document["dtype"] == ("|O" if object_codec == "json" else stored)
    with ZarrIO(tmp_path / "a.zarr", "r+") as io:
        found = io.read_builder().datasets["rows"].data
        found.append((7, "last", io.read_builder().groups["group"]))
    with ZarrIO(tmp_path / "a.zarr", "r") as io:
        found = io.read_builder().datasets["rows"].data
        assert [(int(row[0]), row[1], row[2].name) for row in found] == [
            *((n, label, "group") for n, label, _ in rows),
            (7, "last", "group"),
        ]


@pytest.mark.parametrize("format", FORMATS)
def test_text_that_ends_in_nul_is_kept_or_refused(format: str, tmp_path: Path) -> None:
    dtype = [{"name": "n", "dtype": "int32"}, {"name": "word", "dtype": "utf8"}]
    rows = [(1, "\0a"), (2, "b\0")]
    root = GroupBuilder("root", datasets=[DatasetBuilder("rows", rows, dtype=dtype)])
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        if format == "zarr3":
            with pytest.raises(InvalidArgumentError, match=r'/rows: member "word" .* ends in NUL'):
                io.write_builder(root)
            return
        io.write_builder(root)
    assert open_store(tmp_path / "a").dataset("/rows").read().tolist() == rows


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("as_array", [False, True])
def test_regions_in_nested_records_are_kept(tmp_path: Path, format: str, as_array: bool) -> None:
    target = DatasetBuilder("target", np.arange(6))
    dtype = [{"name": "n", "dtype": "int32"}, {"name": "at", "dtype": [{"name": "r", "dtype": "object"}]}]
    data: Any = [(1, (RegionReference(slice(1, 3), target),)), (2, (RegionReference(slice(4), target),))]
    if as_array:
        data = np.array(data, [("n", "i4"), ("at", [("r", object)])])
    with ZarrIO(tmp_path / "a", mode="w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=[target, DatasetBuilder("d", data, dtype=dtype)]))
    rows = open_store(tmp_path / "a").dataset("/d").read()
    assert [row[1][0].region["slices"] for row in rows.tolist()] == [[[1, 3, 1]], [[0, 4, 1]]]


@pytest.mark.parametrize("format", FORMATS)
def test_rows_with_nested_references_are_appended(tmp_path: Path, format: str) -> None:
    target = GroupBuilder("target", attributes={"object_id": "1"})
    dtype = [{"name": "n", "dtype": "int32"}, {"name": "at", "dtype": [{"name": "r", "dtype": "object"}]}]
    builder = DatasetBuilder("d", [(1, (ReferenceBuilder(target),))], dtype=dtype)
    with ZarrIO(tmp_path / "a", mode="w", format=format) as io:
        io.write_builder(GroupBuilder("root", groups=[target], datasets=[builder]))
    with ZarrIO(tmp_path / "a", mode="r+") as io:
        root = io.read_builder()
        root.datasets["d"].data.append((2, (root.groups["target"],)))
    rows = open_store(tmp_path / "a").dataset("/d").read()
    assert [(row[0], row[1][0].path) for row in rows.tolist()] == [(1, "/target"), (2, "/target")]
