"""Zarr v1 against its specification: stores made by hand are read, what is written is taken apart by hand."""

import bz2
import json
import lzma
import zlib

import numcodecs
import numpy as np
import pytest

import chunkwise as ts

# Each compression as stores have it: options in ``meta``, and how a chunk is encoded with them.
COMPRESSIONS = {
    "none": (None, bytes),
    "null": (None, bytes),
    "zlib": (1, lambda b: zlib.compress(b, 1)),
    "bz2": (1, lambda b: bz2.compress(b, 1)),
    "lzma": ({"format": 1, "check": -1, "preset": None, "filters": None}, lzma.compress),
    "lzma-preset": ({"preset": 1}, lambda b: lzma.compress(b, preset=1)),
    "blosc": ({"cname": "lz4", "clevel": 5, "shuffle": 1}, lambda b: numcodecs.Blosc("lz4", 5, 1).encode(b)),
    "blosc-zstd": (
        {"cname": "zstd", "clevel": 1, "shuffle": 2},
        lambda b: numcodecs.Blosc("zstd", 1, 2).encode(b),
    ),
    "blosc-default": (None, lambda b: numcodecs.Blosc().encode(b)),
}
NAMES = {"null": None, "lzma-preset": "lzma", "blosc-zstd": "blosc", "blosc-default": "blosc"}
DTYPES = ["|b1", "|u1", "<i4", ">i4", "<f8", ">f2", "<c16", "|S4", [["r", "|u1"], ["g", ">u2"]]]


def _spec(path):
    return {"driver": "zarr1", "kvstore": f"file://{path}/"}


def _numpy(dtype):
    return np.dtype([tuple(f) for f in dtype]) if isinstance(dtype, list) else np.dtype(dtype)


def _values(dtype, shape):
    n = int(np.prod(shape))
    if dtype.kind == "b":
        return (np.arange(n) % 3 == 0).reshape(shape)
    if dtype.kind == "S":
        return np.array([b"x" * (i % 5) for i in range(n)], dtype).reshape(shape)
    return np.frombuffer(np.random.default_rng(1).bytes(n * dtype.itemsize), dtype).reshape(shape)


def _store_by_hand(path, values, dtype, name, order, fill_value=None):
    options, encode = COMPRESSIONS[name]
    path.mkdir()
    meta = {
        "zarr_format": 1,
        "shape": list(values.shape),
        "chunks": [2, 3],
        "dtype": dtype,
        "compression": NAMES.get(name, name),
        "compression_opts": options,
        "fill_value": fill_value,
        "order": order,
        "filters": "a member that Zarr v1 doesn't know",
    }
    (path / "meta").write_text(json.dumps(meta))
    (path / "attrs").write_text('{"foo": 42}')
    padded = np.zeros((6, 6), values.dtype)
    padded[:5, :4] = values
    for i in range(3):
        for j in range(2):
            chunk = padded[2 * i : 2 * i + 2, 3 * j : 3 * j + 3]
            (path / f"{i}.{j}").write_bytes(encode(chunk.tobytes(order)))


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", list(COMPRESSIONS))
@pytest.mark.parametrize("order", "CF")
def test_reading_a_store_made_by_hand(dtype, name, order, tmp_path):
    path, numpy_dtype = tmp_path / "a", _numpy(dtype)
    values = _values(numpy_dtype, (5, 4))
    _store_by_hand(path, values, dtype, name, order)
    store = ts.open(_spec(path)).result()
    want = values.astype(numpy_dtype.newbyteorder("="))
    assert store.read().result().dtype == want.dtype
    assert store.read().result().tobytes() == want.tobytes()
    (path / "1.1").unlink()
    store[1:3, 2:] = want[1:3, 2:]
    assert store[:3].read().result().tobytes() == want[:3].tobytes()


@pytest.mark.parametrize("fill_value", [0, 42, -1, None])
def test_missing_chunks(fill_value, tmp_path):
    path = tmp_path / "a"
    _store_by_hand(path, np.ones((5, 4), "<i4"), "<i4", "zlib", "C", fill_value)
    (path / "0.0").unlink()
    store = ts.open(_spec(path)).result()
    assert (store[:2, :3].read().result() == (fill_value or 0)).all()
    assert (store[2:].read().result() == 1).all()
    assert store.fill_value == fill_value


def test_not_a_number_as_a_fill_value(tmp_path):
    """The old writer stored it as the bare word that Python's json writes."""
    path = tmp_path / "a"
    _store_by_hand(path, np.ones((5, 4), "<f4"), "<f4", "zlib", "C", float("nan"))
    assert "NaN" in (path / "meta").read_text()
    (path / "0.0").unlink()
    assert np.isnan(ts.open(_spec(path)).result()[0, 0].read().result())


@pytest.mark.parametrize("name", list(COMPRESSIONS))
@pytest.mark.parametrize("order", "CF")
def test_what_is_written(name, order, tmp_path):
    """The document has exactly the members of the specification, and chunks are what its libraries decode."""
    options, _ = COMPRESSIONS[name]
    metadata = {
        "compression": NAMES.get(name, name),
        "compression_opts": options,
        "order": order,
        "dtype": ">i4",
    }
    metadata["chunks"] = [2, 3]
    store = ts.open(
        {**_spec(tmp_path), "metadata": metadata}, create=True, shape=(5, 4), fill_value=42
    ).result()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["attrs", "meta"]
    assert json.loads((tmp_path / "attrs").read_text()) == {}
    meta = json.loads((tmp_path / "meta").read_text())
    assert set(meta) == {
        *("zarr_format", "shape", "chunks", "dtype", "compression", "compression_opts", "fill_value", "order")
    }
    assert meta["zarr_format"] == 1 and meta["dtype"] == ">i4" and meta["fill_value"] == 42
    assert meta["compression"] == (NAMES.get(name, name) or "none") and meta["order"] == order
    values = np.arange(20, dtype=np.int32).reshape(5, 4)
    store[...] = values
    decode = {
        "none": bytes,
        "zlib": zlib.decompress,
        "bz2": bz2.decompress,
        "lzma": lzma.decompress,
        "blosc": numcodecs.Blosc().decode,
    }[meta["compression"]]
    chunk = np.frombuffer(decode((tmp_path / "1.0").read_bytes()), ">i4").reshape((2, 3), order=order)
    np.testing.assert_array_equal(chunk, values[2:4, :3])
    edge = np.frombuffer(decode((tmp_path / "2.1").read_bytes()), ">i4").reshape((2, 3), order=order)
    assert edge[0, 0] == values[4, 3]
    again = ts.open(store.spec()).result()
    np.testing.assert_array_equal(again.read().result(), values)


def test_the_example_of_the_specification(tmp_path):
    """Shape (20, 20), chunks (10, 10), dtype i4, fill value 42, zlib at level 1."""
    metadata = {
        "compression": "zlib",
        "compression_opts": 1,
        "dtype": "<i4",
        "chunks": [10, 10],
        "fill_value": 42,
    }
    store = ts.open({**_spec(tmp_path), "metadata": metadata}, create=True, shape=(20, 20)).result()
    assert json.loads((tmp_path / "meta").read_text()) == {
        "chunks": [10, 10],
        "compression": "zlib",
        "compression_opts": 1,
        "dtype": "<i4",
        "fill_value": 42,
        "order": "C",
        "shape": [20, 20],
        "zarr_format": 1,
    }
    store[0:10, 0:10] = 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.0", "attrs", "meta"]
    store[0:10, 10:20] = 2
    store[10:20, :] = 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.0", "0.1", "1.0", "1.1", "attrs", "meta"]
    first = np.frombuffer(zlib.decompress((tmp_path / "0.0").read_bytes()), "<i4")
    assert (first == 1).all() and first.size == 100


def test_default_compression(tmp_path):
    """As the specification's first example has it."""
    ts.open(_spec(tmp_path), create=True, dtype="float64", shape=(5, 4)).result()
    meta = json.loads((tmp_path / "meta").read_text())
    assert (meta["compression"], meta["compression_opts"]) == (
        "blosc",
        {"cname": "lz4", "clevel": 5, "shuffle": 1},
    )


def test_attributes_are_left_alone(tmp_path):
    path = tmp_path / "a"
    _store_by_hand(path, np.ones((5, 4), "<i4"), "<i4", "zlib", "C")
    ts.open(_spec(path)).result().resize(exclusive_max=[7, 4]).result()
    assert json.loads((path / "attrs").read_text()) == {"foo": 42}
    meta = json.loads((path / "meta").read_text())
    assert meta["shape"] == [7, 4] and meta["compression_opts"] == 1 and meta["zarr_format"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"zarr_format": 2}, "zarr_format"),
        ({"compression": "szip"}, "szip"),
        ({"compression": 5}, "compression"),
        ({"compression_opts": "fast"}, "compression_opts"),
        ({"compression_opts": 10}, "10"),
        ({"compression": ...}, "compression"),
        ({"shape": [5]}, "chunks"),
        ({"order": "A"}, "order"),
        ({"dtype": "i4"}, "i4"),
    ],
)
def test_bad_documents(change, message, tmp_path):
    path = tmp_path / "a"
    _store_by_hand(path, np.ones((5, 4), "<i4"), "<i4", "zlib", "C")
    meta = {**json.loads((path / "meta").read_text()), **change}
    (path / "meta").write_text(json.dumps({k: v for k, v in meta.items() if v is not ...}))
    with pytest.raises(ValueError, match=f"FAILED_PRECONDITION.*a/meta.*{message}"):
        ts.open(_spec(path)).result()


@pytest.mark.parametrize("metadata", [{"filters": []}, {"dimension_separator": "/"}, {"compressor": None}])
def test_members_of_zarr_v2_are_refused(metadata):
    with pytest.raises(ValueError, match="not a member of Zarr v1"):
        ts.Spec({"driver": "zarr1", "metadata": metadata})


@pytest.mark.parametrize("driver", ["zarr1", "zarr2"])
@pytest.mark.parametrize(
    ("view", "dtype", "shape"), [({"field": "g"}, "uint16", (5,)), ({"open_as_void": True}, "byte", (5, 3))]
)
def test_new_records_are_described_by_what_is_seen_of_them(driver, view, dtype, shape, tmp_path):
    """The schema is that of the view; a fill value in it would have to be that of the whole record."""
    metadata = {"shape": [5], "chunks": [2], "dtype": DTYPES[-1]}
    spec = {"driver": driver, "kvstore": f"file://{tmp_path}/a/", "metadata": metadata, **view}
    with pytest.raises(ValueError, match="fill_value through schema for structured"):
        ts.open(
            spec, create=True, dtype=dtype, fill_value=np.zeros((), "V1" if dtype == "byte" else "u2")
        ).result()
    with pytest.raises(ValueError, match="dtype"):
        ts.open(spec, create=True, dtype="float32").result()
    assert not list(tmp_path.iterdir())
    array = ts.open(spec, create=True, dtype=dtype).result()
    assert (array.dtype.name, array.shape) == (dtype, shape)
    if dtype == "uint16":
        array[1:4].write(np.array([5, 6, 7], np.uint16)).result()
        whole = ts.open({**_spec(tmp_path / "a"), "driver": driver}).result().read().result()
        assert whole.tolist() == [(0, 0), (0, 5), (0, 6), (0, 7), (0, 0)]
