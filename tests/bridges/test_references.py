"""Reference files of kerchunk and VirtualiZarr: the values of the HDF5 files that they are about."""

from __future__ import annotations

import base64
import json
import time
import warnings
from pathlib import Path
from typing import Any

import fsspec
import h5py
import numpy as np
import pytest
import xarray
from kerchunk_references import kerchunk_references

import chunkwise as ts
from chunkwise.core.kvstore.reference.table import cell_of
from chunkwise.errors import (
    ChunkwiseError,
    DataCorruptionError,
    NotFoundError,
    PermissionDeniedError,
    TooLargeError,
    UnsupportedError,
)

pytestmark = pytest.mark.filterwarnings("ignore:The .fastparquet. engine:DeprecationWarning")


@pytest.fixture
def netcdf(tmp_path: Path) -> Path:
    """A NetCDF-4 file with compressed chunks, contiguous data and a scale."""
    n = np.arange(60 * 50, dtype="f4").reshape(60, 50)
    data = xarray.Dataset(
        {"v": (("y", "x"), n, {"units": "m"}), "flat": (("x",), np.arange(50))},
        coords={"x": np.arange(50) * 0.5},
    )
    path = tmp_path / "x.nc"
    encoding = {"v": {"zlib": True, "shuffle": True, "chunksizes": (7, 20)}, "flat": {"contiguous": True}}
    data.to_netcdf(path, engine="netcdf4", encoding=encoding)
    return path


def _write(path: Path, refs: Any) -> str:
    path.write_text(json.dumps(refs))
    return str(path)


def _compare(url: str, netcdf: Path) -> None:
    group = ts.open_group(url)
    with h5py.File(netcdf) as file:
        for name in ("v", "flat", "x"):
            np.testing.assert_array_equal(group[name].read().result(), file[name][...])
            np.testing.assert_array_equal(group[name][3:20:2].read().result(), file[name][3:20:2])


@pytest.mark.parametrize("version", [0, 1])
def test_references_of_kerchunk(netcdf: Path, version: int) -> None:
    """Both versions, as pipelines and in fsspec's order, and by xarray."""
    refs = kerchunk_references(netcdf)
    place = _write(netcdf.parent / "refs.json", refs if version else refs["refs"])
    for url in (f"{place}|reference:", f"reference::{place}", f"file://{place}|reference:"):
        _compare(url, netcdf)
    found = ts.open(
        {"driver": "zarr", "kvstore": {"driver": "reference", "base": f"file://{place}", "path": "v"}}
    )
    assert found.result().shape == (60, 50)
    opened = xarray.open_dataset(f"file://{place}|reference:", engine="chunkwise").load()
    expected = xarray.open_dataset(netcdf, engine="h5netcdf").load()
    xarray.testing.assert_equal(opened, expected)
    oracle = fsspec.filesystem("reference", fo=place)
    kv = ts.KvStore.open(f"file://{place}|reference:").result()
    keys = sorted(key.decode() for key in kv.list().result())
    assert keys == sorted(
        name for name, entry in oracle.find("", detail=True).items() if entry["type"] == "file"
    )
    assert all(kv[key] == oracle.cat(key) for key in keys)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_references_of_virtualizarr(netcdf: Path, form: str) -> None:
    """Written by `to_kerchunk`, relative to nothing: with the path of the file."""
    import obstore
    from obspec_utils.registry import ObjectStoreRegistry
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import HDFParser

    registry = ObjectStoreRegistry({"file://": obstore.store.LocalStore()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_virtual_dataset(f"file://{netcdf}", registry=registry, parser=HDFParser()) as virtual:
            place = netcdf.parent / f"refs.{form}"
            virtual.vz.to_kerchunk(str(place), format=form)
    _compare(f"{place}|reference:", netcdf)


def test_parquet_of_kerchunk(netcdf: Path) -> None:
    """Several files of a few records, with chunks that aren't there."""
    from kerchunk.df import refs_to_dataframe

    refs = kerchunk_references(netcdf)
    del refs["refs"]["v/2.1"]
    place = netcdf.parent / "refs.parq"
    refs_to_dataframe(refs, str(place), record_size=5)
    group = ts.open_group(f"{place}|reference:")
    with h5py.File(netcdf) as file:
        expected = file["v"][...]
    expected[14:21, 20:40] = np.nan
    np.testing.assert_array_equal(group["v"].read().result(), expected)
    kv = ts.KvStore.open(f"file://{place}/|reference:").result()
    chunks = [k for k in kv.list().result() if k.startswith(b"v/") and not k.startswith(b"v/.")]
    assert len(chunks) == 9 * 3 - 1
    assert b"v/2.1" not in chunks
    with pytest.raises(UnsupportedError, match='"reference" can only be read'):
        kv["v/0.0"] = b""


def test_templates_and_inline_values(tmp_path: Path) -> None:
    """What version 1 can say, with fsspec as the oracle."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "data_1.bin").write_bytes(bytes(range(100)))
    (tmp_path / "d" / "data_2.bin").write_bytes(bytes(range(100, 200)))
    refs = {
        "version": 1,
        "templates": {"u": str(tmp_path / "d"), "f": "{{c}}/data_{{n}}.bin", "one": "1"},
        "gen": [
            {
                "key": "gen/{{i}}.{{j}}",
                "url": "{{u}}/data_{{j + 1}}.bin",
                "offset": "{{(i + 1) * 10}}",
                "length": "{{i * 2 + 1}}",
                "dimensions": {"i": {"stop": 5}, "j": [0, 1]},
            },
            {
                "key": "whole/{{i}}",
                "url": "{{u}}/data_{{i}}.bin",
                "dimensions": {"i": {"start": 1, "stop": 3}},
            },
        ],
        "refs": {
            "text": "a text",
            "binary": "base64:" + base64.b64encode(b"\0\1\xff").decode(),
            "whole": ["{{u}}/data_{{one}}.bin"],
            "part": ["{{f(c='" + str(tmp_path / "d") + "', n=2)}}", 10, 5],
            "empty": ["{{u}}/data_1.bin", 3, 0],
        },
    }
    place = _write(tmp_path / "refs.json", refs)
    oracle = fsspec.filesystem("reference", fo=place, simple_templates=False)
    kv = ts.KvStore.open(f"file://{place}|reference:").result()
    keys = [key.decode() for key in kv.list().result()]
    assert len(keys) == 5 + 10 + 2
    for key in keys:
        assert kv[key] == (b"" if key == "empty" else oracle.cat(key))
    assert kv["text"] == b"a text"
    assert kv["binary"] == b"\0\1\xff"


def test_relative_urls_lie_beside_the_file(tmp_path: Path) -> None:
    """They are relative to the reference file, wherever the program runs."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.bin").write_bytes(b"0123456789")
    refs = {
        "a": ["below/a.bin", 2, 3],
        "b": ["./below/../below/a.bin"],
        "c": ["../" + tmp_path.name + "/refs"],
    }
    place = _write(tmp_path / "refs.json", {**refs, "d": ["../../etc/hostname"]})
    kv = ts.KvStore.open(f"file://{place}|reference:").result()
    assert kv["a"] == b"234"
    assert kv["b"] == b"0123456789"
    with pytest.raises(NotFoundError, match=r'"c" in .*refs\.json.* is in .*refs"?, which is missing'):
        kv["c"]
    with pytest.raises(PermissionDeniedError, match="lies above the reference file"):
        kv["d"]


def test_what_is_allowed(tmp_path: Path) -> None:
    """Places elsewhere are read if the caller lists them, by whole components."""
    data, other = tmp_path / "data", tmp_path / "refs"
    data.mkdir()
    other.mkdir()
    (data / "a").write_bytes(b"abc")
    (other / "link").symlink_to(data / "a")
    refs = {"a": [str(data / "a")], "b": [f"file://{data}/a"], "c": ["link"], "d": [f"{data}/../data/a"]}
    place = _write(other / "refs.json", refs)

    def store(*allow: Any) -> Any:
        base = {"driver": "reference", "base": f"file://{place}", **({"allow": list(allow)} if allow else {})}
        return ts.KvStore.open(base).result()

    for key in "abc":
        with pytest.raises(PermissionDeniedError, match="is refused"):
            store()[key]
    for allow in (
        f"file://{data}/",
        f"file://{data}",
        str(data),
        {"url": str(data), "kvstore": f"file://{data}"},
    ):
        assert store(allow)["a"] == store(allow)["b"] == b"abc"
    with pytest.raises(PermissionDeniedError, match='the member "allow" lists'):
        store(str(tmp_path / "dat"))["a"]
    with pytest.raises(PermissionDeniedError, match=r'component "\.\."'):
        store(str(data))["d"]
    spec = store(str(data)).spec()
    assert ts.KvStore.Spec(spec.to_json()) == spec
    with pytest.raises(ValueError, match='Error parsing object member "allow"'):
        store(3)


@pytest.mark.parametrize(
    ("reference", "error", "match"),
    [
        (["x", -1, 3], DataCorruptionError, "expected an offset of 0 to"),
        (["x", 0, -3], DataCorruptionError, "expected a length of 0 to"),
        (["x", 0, 1e9], DataCorruptionError, "expected a length"),
        (["x", True, 3], DataCorruptionError, "expected an offset"),
        (["x", 0, 10**30], DataCorruptionError, "expected a length"),
        (["x", 0, 10**15], DataCorruptionError, "is bytes 0 to 1000000000000000 of"),
        (["x", 10**15, 4], DataCorruptionError, "is bytes 1000000000000000 to"),
        (["x", 0], DataCorruptionError, r"expected text, an object, \[url\]"),
        ([3, 0, 1], DataCorruptionError, "expected a URL"),
        (None, DataCorruptionError, "expected text"),
        (4, DataCorruptionError, "expected text"),
        ("base64:!!", DataCorruptionError, "not base64"),
        (["{{a}}"], DataCorruptionError, "needs arguments"),
        (["{{c}}"], DataCorruptionError, "unknown name"),
        (["{{a(x='y')}}"], DataCorruptionError, "unknown template"),
        (["{{9 ** 9 ** 9}}"], DataCorruptionError, "unsupported arithmetic"),
        (["{{''.__class__}}"], DataCorruptionError, "unsupported expression"),
        (["{{" + "(" * 400 + "}}"], DataCorruptionError, "invalid expression"),
        (["{{" + "-" * 90 + "1}}"], NotFoundError, "which is missing"),
        (["ftp://host/x"], UnsupportedError, "unsupported URL scheme"),
        (["file:///etc/hostname|zip:x"], ChunkwiseError, "unsupported character"),
        (["http://169.254.169.254/latest"], PermissionDeniedError, "is refused"),
        (["http://user:password@host/x"], PermissionDeniedError, "credentials"),
    ],
)
def test_hostile_references(tmp_path: Path, reference: Any, error: Any, match: str) -> None:
    """An error that names the key and what was expected, soon."""
    (tmp_path / "x").write_bytes(b"0123")
    templates = {"a": "{{b(x='1')}}", "b": "{{a(x='1')}}"}
    document = {"version": 1, "templates": templates, "refs": {"k": reference}}
    place = _write(tmp_path / "refs.json", document)
    kv = ts.KvStore.open(f"file://{place}|reference:").result()
    began = time.process_time()
    with pytest.raises(error, match=match):
        kv["k"]
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("document", "error", "match"),
    [
        ("[" * 100_000, DataCorruptionError, "not JSON"),
        ("[]", DataCorruptionError, "not a JSON object"),
        ('{"version": 2}', UnsupportedError, "version 2"),
        ('{"version": 1, "templates": {"a": 3}}', ValueError, 'template "a"'),
        ('{"version": 1, "refs": []}', ValueError, "Expected object"),
        (
            '{"version": 1, "gen": [{"key": "{{i}}", "url": "u", "dimensions": {"i": {"stop": 1e9}}}]}',
            TooLargeError,
            "more than 4000000 values",
        ),
        (
            '{"version": 1, "gen": [{"key": "{{i}}{{j}}", "url": "u", "dimensions":'
            ' {"i": {"stop": 100000}, "j": {"stop": 100000}}}]}',
            TooLargeError,
            "more than 4000000 references",
        ),
        (
            '{"version": 1, "gen": [{"key": "{{i}}", "url": "u", "offset": "1", "dimensions": {"i": [1]}}]}',
            ValueError,
            'both "offset" and "length"',
        ),
    ],
)
def test_hostile_files(tmp_path: Path, document: str, error: Any, match: str) -> None:
    """A file that is none is told at once."""
    (tmp_path / "refs.json").write_text(document)
    began = time.process_time()
    with pytest.raises(error, match=match):
        ts.open_group(f"{tmp_path}/refs.json|reference:")
    assert time.process_time() - began < 2


def test_hostile_parquet(netcdf: Path) -> None:
    """Directories with wrong sizes, files that are cut off, and wrong columns."""
    import pandas
    from kerchunk.df import refs_to_dataframe

    place = netcdf.parent / "refs.parq"
    refs_to_dataframe(kerchunk_references(netcdf), str(place), record_size=5)
    url = f"{place}|reference:"
    first = place / "v" / "refs.0.parq"
    whole = first.read_bytes()
    for content, match in ((whole[:-20], "refs.0.parq"), (b"", "refs.0.parq"), (b"PAR1" * 9, "refs.0.parq")):
        first.write_bytes(content)
        with pytest.raises(DataCorruptionError, match=match):
            ts.open_group(url)["v"].read().result()
    bad = {"path": ["x.nc"], "offset": [-4], "size": [10], "raw": [None]}
    pandas.DataFrame(bad).to_parquet(first)
    with pytest.raises(DataCorruptionError, match="expected an offset"):
        ts.open_group(url)["v"].read().result()
    pandas.DataFrame({**bad, "offset": ["0"]}).to_parquet(first)
    with pytest.raises(DataCorruptionError, match="expected integers"):
        ts.open_group(url)["v"].read().result()
    pandas.DataFrame({name: value * 9 for name, value in bad.items()}).to_parquet(first)
    with pytest.raises(DataCorruptionError, match="has 9 rows, expected at most 5"):
        ts.open_group(url)["v"].read().result()
    metadata = json.loads((place / ".zmetadata").read_text())
    for size in (0, -1, 10**12, "5", None):
        (place / ".zmetadata").write_text(json.dumps({**metadata, "record_size": size}))
        with pytest.raises(DataCorruptionError, match='"record_size": expected an integer'):
            ts.open_group(url)


def test_a_reference_file_that_is_replaced(tmp_path: Path) -> None:
    """An open store sees the new table; a missing file is told."""
    place = _write(tmp_path / "refs.json", {"a": "1"})
    kv = ts.KvStore.open(f"file://{place}|reference:").result()
    assert kv["a"] == b"1"
    _write(tmp_path / "new.json", {"a": "22"})
    (tmp_path / "new.json").rename(place)
    assert kv["a"] == b"22"
    Path(place).unlink()
    with pytest.raises(NotFoundError, match="there are no references: neither"):
        kv["a"]


@pytest.mark.parametrize("compressor", [None, {"id": "zlib", "level": 1}])
def test_grib_messages_say_what_is_missing(tmp_path: Path, compressor: Any) -> None:
    """The codec of kerchunk for GRIB comes last: the shape is known, values need the library of ECMWF."""
    array = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<f4", "order": "C", "fill_value": 0}
    document = {**array, "compressor": compressor, "filters": [{"id": "grib", "var": "t"}]}
    refs = {".zgroup": '{"zarr_format":2}', "t/.zarray": json.dumps(document), "t/0": ["x.grib", 0, 10]}
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    (tmp_path / "x.grib").write_bytes(b"GRIB" + bytes(6))
    place = f"{tmp_path}/refs.json|reference:t"
    if compressor is not None:
        with pytest.raises(ValueError, match='"grib" codec is supported as the last codec only'):
            ts.open(place).result()
        return
    opened = ts.open(place).result()
    assert opened.shape == (2,)
    with pytest.raises(NotImplementedError, match=r'"grib" codec needs a package .*eccodes'):
        opened.read().result()


@pytest.mark.parametrize(
    ("name", "grid", "separator", "cell"),
    [
        ("0.2", (1, 3), ".", (0, 2)),
        ("0/2", (1, 3), "/", (0, 2)),
        ("0", (), ".", ()),
        ("1", (), ".", None),
        ("0.0", (), ".", None),
        ("0.3", (1, 3), ".", None),
        ("0", (1, 3), ".", None),
        ("0.2.0", (1, 3), ".", None),
        ("0/2", (1, 3), ".", None),
        ("", (1,), ".", None),
        ("-0", (1,), ".", None),
        ("0.", (1,), ".", None),
        ("\u0660", (1,), ".", None),
        ("\u00b2", (3,), ".", None),
        ("9" * 18, (10**18,), ".", (10**18 - 1,)),
        ("9" * 19, (10**19,), ".", None),
    ],
)
def test_names_of_chunks(name, grid, separator, cell):
    """A name that no chunk of the grid has, other digits included, is no chunk's."""
    assert cell_of(name, grid, separator) == cell
