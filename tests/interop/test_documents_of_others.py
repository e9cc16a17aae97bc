"""Documents as other programs write them: read where the meaning is plain, and written as specified."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import chunkwise as ts
from chunkwise.errors import ChunkwiseError

UTF8 = [{"id": "vlen-utf8"}]
BYTES = [{"id": "vlen-bytes"}]


def _zarr2(path: Path, stored: dict[str, bytes], **members: Any) -> Path:
    document = {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i4", "compressor": None}
    document |= {"fill_value": 0, "order": "C", "filters": None, **members}
    path.mkdir(parents=True)
    (path / ".zarray").write_text(json.dumps(document))
    for name, value in stored.items():
        (path / name).write_bytes(value)
    return path


def _read(path: Path) -> Any:
    return ts.open(str(path)).result().read().result()


# Data type, filters, fill value, and the element that it is; as zarr-python 3.4 gives them, or 2.x where
# that has only zeros.
FILLS: list[tuple[Any, Any, Any, Any]] = [
    ("|O", UTF8, 0, "0"),
    ("|O", UTF8, 15, "15"),
    ("|O", UTF8, 1.5, "1.5"),
    ("|O", UTF8, "", ""),
    ("|O", UTF8, "x", "x"),
    ("|O", BYTES, 0, b""),
    ("<U3", None, 0, ""),
    ("|S3", None, 0, b""),
    ("|V3", None, 0, b"\0\0\0"),
    ([["a", "<i4"], ["b", "|S3"]], None, 0, (0, b"")),
    ([["a", "<f4"], ["b", "<i2", [2]]], None, 0, (0.0, [0, 0])),
    ("<i4", None, "0", 0),
    (">i8", None, "-1152921504606846977", -(2**60) - 1),
    ("|u1", None, "255", 255),
    ("<f4", None, "1.5", 1.5),
    ("|b1", None, 0, False),
]


@pytest.mark.parametrize(("dtype", "filters", "fill", "element"), FILLS)
def test_fill_values_of_zarr2(tmp_path: Path, dtype: Any, filters: Any, fill: Any, element: Any) -> None:
    """Of missing chunks; a new document has them as the specification does."""
    path = _zarr2(tmp_path / "a", {}, dtype=dtype, filters=filters, fill_value=fill)
    read = _read(path)[1]
    assert _plain(read) == element
    ts.copy(path, tmp_path / "b")
    assert _plain(_read(tmp_path / "b")[1]) == element


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return tuple(map(np.ndarray.tolist, map(np.asarray, value))) if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("<i4", "1.5"),
        ("<i4", "x"),
        ("|u1", "256"),
        ("|u1", "-1"),
        ("|b1", "0"),
        ([["a", "<i4"]], 1),
        ("<i4", True),
    ],
)
def test_fill_values_of_two_readings_are_refused(tmp_path: Path, dtype: Any, fill: Any) -> None:
    """Nothing is guessed."""
    with pytest.raises(ChunkwiseError, match="fill_value"):
        _read(_zarr2(tmp_path / "a", {}, dtype=dtype, fill_value=fill))


@pytest.mark.parametrize("dtype", [">i4", "<f8", "|S2", "|b1"])
@pytest.mark.parametrize("fill", [None, [1]], ids=["none", "list"])
def test_fill_values_of_netcdf(tmp_path: Path, dtype: str, fill: Any) -> None:
    """netCDF-C 4.8.0 left it out, or put it into a list: copied, consolidated, and written on."""
    fill = fill and np.ones(1, dtype).tolist()
    if dtype == "|S2" and fill:
        fill = ["MQA="]  # base64
    one = np.zeros(2, dtype) if fill is None else np.ones(2, dtype)
    (tmp_path / "g").mkdir()
    (tmp_path / "g/.zgroup").write_text('{"zarr_format": 2}')
    for name, size in (("a", 4), ("b", 6)):
        path = _zarr2(tmp_path / "g" / name, {"0": np.ones(2, dtype).tobytes()}, dtype=dtype, shape=[size])
        document = json.loads((path / ".zarray").read_text())
        del document["fill_value"]
        (path / ".zarray").write_text(
            json.dumps(document if fill is None else {**document, "fill_value": fill})
        )
    group = ts.open_group(tmp_path / "g", "r+")
    ts.copy_tree(tmp_path / "g", tmp_path / "copy")
    assert ts.diff(tmp_path / "g", tmp_path / "copy") == []
    group["a"].resize(exclusive_max=[5]).result()
    group.consolidate()
    assert not any(report.bad for report in ts.verify(tmp_path / "g"))
    written = json.loads((tmp_path / "g/a/.zarray").read_text())
    assert written["fill_value"] == (fill and fill[0])
    for opened in (group, ts.open_group(tmp_path / "g"), ts.open_group(tmp_path / "copy")):
        for name in "ab":
            np.testing.assert_array_equal(opened[name][1:4], np.concatenate([np.ones(1, dtype), one]))


def test_a_missing_compressor_is_none(tmp_path: Path) -> None:
    """As in zarr-python; any other member that is missing is named."""
    path = _zarr2(tmp_path / "a", {"0": np.ones(2, "<i4").tobytes()}, dtype="<i4", fill_value=7)
    document = json.loads((path / ".zarray").read_text())
    for name in ("compressor", "shape", "chunks", "dtype", "order"):
        (path / ".zarray").write_text(json.dumps({k: v for k, v in document.items() if k != name}))
        if name == "compressor":
            assert _read(path).tolist() == [1, 1, 7, 7]
        else:
            with pytest.raises(ChunkwiseError, match=f'"{name}".*member is missing'):
                _read(path)


def test_lists_that_are_fill_values(tmp_path: Path) -> None:
    """Of objects in JSON; a list of several is none."""
    path = _zarr2(tmp_path / "a", {}, dtype="|O", filters=[{"id": "json2"}], fill_value=[1])
    assert _read(path).tolist() == [[1]] * 4
    with pytest.raises(ChunkwiseError, match="fill_value"):
        _read(_zarr2(tmp_path / "b", {}, fill_value=[1, 2]))


@pytest.mark.parametrize("kind", ["zarr2", "zarr3", "n5", "zarr2 consolidated", "zarr3 consolidated"])
def test_whole_numbers_with_a_point(tmp_path: Path, kind: Any) -> None:
    """JSON has one type of number, so ``3.0`` is 3: in each document of a tree, which is written on."""
    group = ts.create_group(tmp_path / "g", format=kind.split()[0])
    group.create_array("a", np.arange(6), chunks=[2])
    if "consolidated" in kind:
        group.consolidate()
    for path in (tmp_path / "g").rglob("*"):
        if path.name in ("zarr.json", ".zarray", ".zgroup", ".zmetadata", "attributes.json"):
            document = json.loads(path.read_text(), parse_int=float)
            path.write_text(json.dumps(document))
    assert not any(report.bad for report in ts.verify(tmp_path / "g"))
    for opened in (ts.open_group(tmp_path / "g"), ts.open_group(tmp_path / "g", "r+")):
        np.testing.assert_array_equal(opened["a"][1:6], np.arange(1, 6))
    opened.attrs["k"] = 1
    opened["a"].attrs["k"] = 2
    assert opened["a"].append([6]) == (7,)
    opened = ts.open_group(tmp_path / "g")
    assert (opened.attrs, opened["a"].attrs) == ({"k": 1}, {"k": 2})
    np.testing.assert_array_equal(opened["a"], np.arange(7))
    assert "(7)  chunks 2  " in str(opened.tree())
    assert not any(report.bad for report in ts.verify(tmp_path / "g"))
    ts.copy_tree(tmp_path / "g", tmp_path / "copy")
    assert ts.diff(tmp_path / "g", tmp_path / "copy") == []


def test_sizes_of_one_dimension_as_numbers(tmp_path: Path) -> None:
    """The values, the summary, and what is written when the array grows."""
    values = np.array([1, 2], "<i4")
    path = _zarr2(tmp_path / "a", {"0": values[:1].tobytes(), "1": values[1:].tobytes()}, shape=2, chunks=1)
    np.testing.assert_array_equal(_read(path), values)
    ts.open(str(path), read=True, write=True).result().resize(exclusive_max=[3]).result()
    document = json.loads((path / ".zarray").read_text())
    assert (document["shape"], document["chunks"]) == ([3], [1])
    np.testing.assert_array_equal(_read(path), [1, 2, 0])
    assert not any(report.bad for report in ts.verify(path))
    path = _zarr2(tmp_path / "b", {"0": values.tobytes()}, shape=2, chunks=2)
    assert ts.open_array(path, "r+").append([3]) == (3,)
    np.testing.assert_array_equal(_read(path), [1, 2, 3])


def test_the_level_that_java_has_by_default(tmp_path: Path) -> None:
    """Read, and written with."""
    values = np.arange(4, dtype="<i4")
    stored = gzip.compress(values.tobytes())
    path = _zarr2(tmp_path / "a", {"0": stored}, chunks=[4], compressor={"id": "gzip", "level": -1})
    np.testing.assert_array_equal(_read(path), values)
    array = ts.open(str(path), read=True, write=True).result()
    array[:] = values + 1
    np.testing.assert_array_equal(_read(path), values + 1)


# Compressors as other programs describe them, and the options that a copy in any format has.
ODD_ZARR2: dict[str, tuple[dict[str, Any], str]] = {
    "bytes, by GDAL": (
        {"id": "blosc", "cname": "zstd", "clevel": 2, "shuffle": "BYTE"},
        "blosc:zstd:2:shuffle",
    ),
    "bits, by GDAL": (
        {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": "BIT"},
        "blosc:lz4:5:bitshuffle",
    ),
    "none, by GDAL": ({"id": "blosc", "shuffle": "NONE"}, "blosc:lz4:5:noshuffle"),
    "automatic": ({"id": "blosc", "shuffle": -1}, "blosc:lz4:5:shuffle"),
    "with a point": (
        {"id": "blosc", "cname": "lz4", "clevel": 3.0, "shuffle": 2.0},
        "blosc:lz4:3:bitshuffle",
    ),
    "level with a point": ({"id": "zstd", "level": 5.0}, "zstd:5"),
    "extreme": ({"id": "lzma", "preset": lzma.PRESET_EXTREME | 4}, "xz:4"),
    "default of NumCodecs": ({"id": "zlib"}, "zlib:1"),
}
ODD_N5: dict[str, tuple[dict[str, Any], str]] = {
    "level of blosc": ({"type": "blosc", "cname": "lz4", "clevel": 99, "shuffle": 1}, "blosc:lz4:6:shuffle"),
    "defaults of blosc": ({"type": "blosc"}, "blosc:blosclz:6:noshuffle"),
    "words of blosc": (
        {"type": "blosc", "cname": "zzz", "clevel": 4, "shuffle": 7},
        "blosc:blosclz:4:noshuffle",
    ),
    "level of gzip": ({"type": "gzip", "level": 99}, "gzip:6"),
    "level of zstd": ({"type": "zstd", "level": 1000}, "zstd:0"),
    "preset": ({"type": "xz", "preset": 99}, "xz:6"),
    "size": ({"type": "bzip2", "blockSize": 0}, "bz2:9"),
}


@pytest.mark.parametrize("name", [*ODD_ZARR2, *ODD_N5])
def test_compressors_of_others_are_those_of_copies(tmp_path: Path, name: str) -> None:
    """In each format; what can be read can be copied."""
    values = np.arange(4, dtype="i4")
    if name in ODD_ZARR2:
        described, same = ODD_ZARR2[name]
        path = _zarr2(tmp_path / "a", {}, compressor=described)
    else:
        described, same = ODD_N5[name]
        path = tmp_path / "a"
        path.mkdir()
        members = {"dimensions": [4], "blockSize": [2], "dataType": "int32", "compression": described}
        (path / "attributes.json").write_text(json.dumps(members))
    ts.open(str(path)).result().write(values).result()
    for format in ("zarr3", "zarr2", "n5"):
        copy = ts.copy(path, tmp_path / format, format=format).array
        assert copy.read().result().tolist() == values.tolist()
        expected = ts.create_array(tmp_path / f"{format}-like", values, codec=same, format=format, chunks=2)
        if not (format == "zarr2" and name in ODD_ZARR2):  # where the document says it
            assert copy.codec.to_json() == expected.codec.to_json()


@pytest.mark.parametrize("consolidated", [False, True])
def test_members_of_nczarr_in_groups(tmp_path: Path, consolidated: bool) -> None:
    """Of netCDF 4.8.1 to 4.9.2: in ``.zgroup`` and ``.zarray``; the group takes attributes all the same."""
    values = np.array([1, 2], "<f4")
    members = {"_NCZARR_ARRAY": {"dimrefs": ["/y"], "storage": "chunked"}}
    _zarr2(tmp_path / "g/t", {"0": values.tobytes()}, shape=[2], dtype="<f4", fill_value=-9, **members)
    group = {"zarr_format": 2, "_NCZARR_SUPERBLOCK": {"version": "2.0.0"}, "_NCZARR_GROUP": {"vars": ["t"]}}
    (tmp_path / "g/.zgroup").write_text(json.dumps(group))
    (tmp_path / "g/t/.zattrs").write_text('{"_FillValue": -9, "units": "K"}')
    if consolidated:
        ts.open_group(tmp_path / "g", "r+").consolidate()
    dataset = xarray.open_dataset(tmp_path / "g", engine="chunkwise")
    assert dataset.t.dims == ("y",) and dataset.t.attrs == {"units": "K"}
    np.testing.assert_array_equal(dataset.t.values, values)
    opened = ts.open_group(tmp_path / "g", "r+")
    opened.attrs["title"] = "x"
    assert json.loads((tmp_path / "g/.zgroup").read_text()) == group
    for wrong in ({"zarr_format": 3}, {}, []):
        (tmp_path / "g/.zgroup").write_text(json.dumps(wrong))
        (tmp_path / "g/.zmetadata").unlink(missing_ok=True)
        with pytest.raises(ChunkwiseError):
            ts.open_group(tmp_path / "g")


def test_nulls_and_numbers_in_zarr3(tmp_path: Path) -> None:
    """Null for no names and no attributes, of arrays and groups, alone and consolidated; 0 for False."""
    group = ts.create_group(tmp_path / "g")
    group.create_array("a", np.array([True, False]), chunks=[1])
    nothing = {"dimension_names": None, "attributes": None, "storage_transformers": None}
    for path, changes in (
        ("g/a", {**nothing, "fill_value": 0, "shape": 3}),
        ("g", {"attributes": None}),
    ):
        file = tmp_path / path / "zarr.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    for _ in range(2):
        opened = ts.open_group(tmp_path / "g")
        assert dict(opened.attrs) == {} and dict(opened["a"].attrs) == {}
        np.testing.assert_array_equal(opened["a"].read().result(), [True, False, False])
        assert opened["a"].domain.labels == ("",)
        np.testing.assert_array_equal(_read(tmp_path / "g/a"), [True, False, False])
        ts.open_group(tmp_path / "g", "r+").consolidate()
    ts.open_group(tmp_path / "g", "r+")["a"].attrs["x"] = 1
    assert dict(ts.open(str(tmp_path / "g/a")).result().attrs) == {"x": 1}
