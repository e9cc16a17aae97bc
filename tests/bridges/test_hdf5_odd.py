"""HDF5 objects that no array can be: they are left out and named, and nothing else of the file is."""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
from h5py import h5a, h5d, h5p, h5s, h5t

import chunkwise as ts
from chunkwise.errors import ChunkwiseError, LossWarning

REFUSED = {
    "i128": "data type '<i16'",
    "long_double": "data type float128 has no counterpart",
    "complex_long_double": "data type complex256 has no counterpart",
    "record_of_long_double": "has no counterpart",
    "time": "TypeTimeID",
    "bad_name": "HDF5 can't read",
}
"""What is left out, and a part of the reason."""


def _integer_of_16_bytes() -> Any:
    kind = h5t.NATIVE_INT32.copy()
    kind.set_size(16)
    kind.set_precision(128)
    return kind


def _compound(name: bytes, member: Any) -> Any:
    kind = h5t.create(h5t.COMPOUND, 32)
    kind.insert(b"a", 0, h5t.NATIVE_INT32)
    kind.insert(name, 16, member)
    return kind


def _without_fill_value(file: h5py.File) -> None:
    """Make a dataset without any fill value, which h5py has no function for."""
    folder = os.path.join(os.path.dirname(os.path.dirname(h5py.__file__)), "h5py.libs", "libhdf5-*.so*")
    library = ctypes.CDLL(glob.glob(folder)[0])
    library.H5Pset_fill_value.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    for name, chunks in (("undefined", None), ("undefined_chunked", (2,))):
        properties = h5p.create(h5p.DATASET_CREATE)
        if chunks:
            properties.set_chunk(chunks)
        assert library.H5Pset_fill_value(properties.id, h5t.NATIVE_INT32.id, None) >= 0
        assert properties.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED
        made = h5d.create(file.id, name.encode(), h5t.NATIVE_INT32, h5s.create_simple((4,)), properties)
        made.write(h5s.ALL, h5s.ALL, np.arange(4, dtype="i4"))


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of usual and of unusual objects."""
    path = tmp_path_factory.mktemp("odd") / "odd.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(5)
        file["group/inner"] = np.arange(3)
        space = h5s.create_simple((4,))
        opaque = h5t.create(h5t.OPAQUE, 5)
        opaque.set_tag(b"text")
        for name, kind in {
            "i128": _integer_of_16_bytes(),
            "record_of_long_double": _compound(b"l", h5t.NATIVE_LDOUBLE),
            "time": h5t.UNIX_D32LE,
            "bad_name": _compound(b"\xff\xfe", h5t.NATIVE_INT32),
            "opaque": opaque,
            "lists_of_lists": h5t.vlen_create(h5t.vlen_create(h5t.NATIVE_INT32)),
        }.items():
            h5d.create(file.id, name.encode(), kind, space)
        file["long_double"] = np.arange(4, dtype=np.longdouble)
        file["complex_long_double"] = np.arange(4, dtype=np.clongdouble)
        file["named_type"] = np.dtype("f8")
        file.create_dataset("list", (), dtype=h5py.vlen_dtype("i4"))[()] = np.arange(3, dtype="i4")
        file.create_dataset("nothing", data=h5py.Empty("f4"))
        _without_fill_value(file)
        for name, kind in (("i128", _integer_of_16_bytes()), ("time", h5t.UNIX_D32LE)):
            h5a.create(file["good"].id, name.encode(), kind, h5s.create(h5s.SCALAR))
        file["good"].attrs["units"] = "m"
    return path


def test_what_is_left_is_read(odd: Path) -> None:
    """By the walk, the members and xarray, each with a warning that names what isn't."""
    group = ts.open_group(odd)
    ways: list[Callable[[], set[str]]] = [
        lambda: {path for path, _ in group.walk()} - {"group/inner"},
        lambda: {name for name, _ in group.items()},
        lambda: {*xarray.open_dataset(f"{odd}|hdf5:", engine="chunkwise").variables, "group"},
    ]
    with h5py.File(odd) as file:
        expected = set(file) - set(REFUSED) - {"named_type"}
    for way in ways:
        with pytest.warns(UserWarning, match="is left out") as caught:
            assert way() == expected
        texts = [str(warning.message) for warning in caught]
        assert len(texts) == len(REFUSED)
        for name, why in REFUSED.items():
            assert any(name in text and why in text for text in texts), name
    for name in ("undefined", "undefined_chunked"):
        np.testing.assert_array_equal(group[name].read().result(), np.arange(4))
    np.testing.assert_array_equal(group["list"].read().result().item(), np.arange(3))
    np.testing.assert_array_equal(group["good"].read().result(), np.arange(5))
    for name, why in REFUSED.items():
        with pytest.raises(ChunkwiseError, match=why):
            group[name]


def test_reports_name_what_is_left_out(odd: Path, tmp_path: Path) -> None:
    """`verify` and copies."""
    reports = {report.name: report for report in ts.verify(odd)}
    assert {name for name, report in reports.items() if report.bad} == set(REFUSED)
    assert all(REFUSED[name] in reports[name].bad[0].reason for name in REFUSED)
    with pytest.warns(LossWarning, match="i128"):
        copied = ts.copy_tree(odd, tmp_path / "x.zarr", format="zarr3")
    left_out = dict(copied.left_out)
    assert set(REFUSED) <= set(left_out) and all(why in left_out[name] for name, why in REFUSED.items())
    notes = [note for path, note in copied.notes if path == "good"]
    assert [note.split('"')[1] for note in notes if "left out" in note] == ["i128", "time"]
    made = ts.open_group(tmp_path / "x.zarr")
    np.testing.assert_array_equal(made["group/inner"].read().result(), np.arange(3))
    assert dict(made["good"].attrs) == {"units": "m"}


def test_a_damaged_heap(tmp_path: Path) -> None:
    """The text in it is an error where it is read; numbers, and the tree, are there."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["numbers"] = np.arange(4)
        file["numbers"].attrs["text"] = np.array(["some", "words"], object)
        file["numbers"].attrs["one"] = 1
        file.create_dataset("text", data=np.array(["a", "b"], object), dtype=h5py.string_dtype())
    content = path.read_bytes().replace(b"GCOL", b"XXXX")
    path.write_bytes(content)
    group = ts.open_group(path)
    assert [name for name, _ in group.walk()] == ["numbers", "text"]
    np.testing.assert_array_equal(group["numbers"].read().result(), np.arange(4))
    assert dict(group["numbers"].attrs) == {"one": 1}
    with pytest.raises(ChunkwiseError, match="text"):
        group["text"].read().result()
    reports = {report.name: report for report in ts.verify(path)}
    assert reports["text"].bad and not reports["numbers"].bad


def test_a_tree_of_zarr_with_one_bad_part(tmp_path: Path) -> None:
    """The same where it is a document of Zarr that can't be read, or names a codec that nobody has."""
    path = tmp_path / "x.zarr"
    group = ts.create_group(path)
    for name in ("a", "b", "c"):
        group.create_array(name, np.arange(4))
    (path / "a/zarr.json").write_text("{broken")
    document = (path / "b/zarr.json").read_text().replace('"zstd"', '"no-such-codec"')
    (path / "b/zarr.json").write_text(document)
    group = ts.open_group(path)
    with pytest.warns(UserWarning, match="is left out") as caught:
        assert [name for name, _ in group.walk()] == ["c"]
    assert len(caught) == 2
    with pytest.warns(LossWarning, match="no-such-codec"):
        report = ts.copy_tree(path, tmp_path / "y.zarr")
    assert {name for name, _ in report.left_out} == {"a", "b"}
    np.testing.assert_array_equal(ts.open_group(tmp_path / "y.zarr")["c"].read().result(), np.arange(4))


def test_work_grows_with_the_number_of_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is described, and looked up in its group, a fixed number of times, however many there are."""
    from chunkwise.core.kvstore.reference import hdf5_file, hdf5_objects, hdf5_table

    counts: dict[str, int] = {}

    def counted(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def count(*arguments: Any, **options: Any) -> Any:
            counts[name] = counts.get(name, 0) + 1
            return function(*arguments, **options)

        monkeypatch.setattr(owner, name, count)

    counted(hdf5_table, "describe_dataset")
    counted(hdf5_file.Hdf5Files, "find")
    counted(hdf5_objects, "_paths_in")
    found: dict[int, list[dict[str, int]]] = {}
    for number in (50, 200):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(4.0)
            file["x"].make_scale("x")
            for i in range(number - 1):
                file.create_dataset(f"v{i}", data=np.arange(4)).dims[0].attach_scale(file["x"])
        for what in (
            lambda path=path: list(ts.verify(path)),
            lambda path=path: xarray.open_dataset(f"{path}|hdf5:", engine="chunkwise"),
        ):
            counts.clear()
            what()
            found.setdefault(number, []).append(dict(counts))
    for few, many in zip(*found.values(), strict=True):
        assert few["describe_dataset"] == 50 and many["describe_dataset"] == 200
        assert few["_paths_in"] == many["_paths_in"] == 1
        assert many["find"] <= 4.1 * few["find"] <= 4.1 * 50 * 3


@pytest.mark.parametrize("chunks", [None, (2,)])
@pytest.mark.parametrize("kind", ["<M8[us]", ">M8[s]", "m8[ns]", ">f4", "?", "S3"])
def test_elements_that_were_never_written_are_those_of_h5py(
    kind: str, chunks: tuple[int] | None, tmp_path: Path
) -> None:
    """Times are 0 there, not NaT."""
    stored = h5py.opaque_dtype(np.dtype(kind)) if np.dtype(kind).kind in "mM" else np.dtype(kind)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (5,), stored, chunks=chunks)
        if chunks:
            file["x"][:2] = np.ones(2, "i8").astype(kind).astype(stored)
        expected = file["x"][()].astype(kind)
    read = ts.open_group(tmp_path / "a.h5")["x"].read().result()
    np.testing.assert_array_equal(read, expected)
