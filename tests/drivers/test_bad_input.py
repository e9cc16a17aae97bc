"""Damaged, hostile and mistaken input: each error says where, what was found and what was expected."""

import gzip
import json
import struct
import tracemalloc
import zlib

import numcodecs
import numpy as np
import pytest

import chunkwise as ts

METADATA = {"zarr1": "meta", "zarr": ".zarray", "zarr3": "zarr.json", "n5": "attributes.json"}
CHUNK = {"zarr1": "0.0", "zarr": "0.0", "zarr3": "c/0/0", "n5": "0/0"}
GZIP = {
    "zarr1": {"compression": "zlib", "compression_opts": 1},
    "zarr": {"compressor": {"id": "gzip", "level": 1}},
    "zarr3": {
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "gzip", "configuration": {"level": 1}},
        ]
    },
    "n5": {"compression": {"type": "gzip", "level": 1}},
}


def _spec(driver, path, **members):
    return {"driver": driver, "kvstore": f"file://{path}/a/", **members}


def _create(driver, path, dtype="uint16", shape=(4, 6), chunks=(4, 6), **members):
    members.setdefault("metadata", GZIP[driver])
    store = ts.open(
        _spec(driver, path, **members),
        create=True,
        dtype=dtype,
        shape=shape,
        chunk_layout=ts.ChunkLayout(write_chunk_shape=chunks),
    ).result()
    store[...] = np.arange(1, np.prod(shape) + 1, dtype=dtype).reshape(shape)
    return store


def _encode(driver, raw, shape=(4, 6)):
    """Encode bytes as the chunk of a format with the compression of GZIP."""
    if driver == "zarr1":
        return zlib.compress(raw)
    if driver == "n5":
        header = struct.pack(f">HH{len(shape)}I", 0, len(shape), *shape)
        return header + gzip.compress(raw)
    return gzip.compress(raw)


@pytest.fixture(params=list(METADATA))
def driver(request):
    return request.param


# -- documents ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b"5", b'"text"', b"\xff\xfe{", b"{}", b'{"shape": [1', b"[" * 100_000],
    ids=lambda raw: repr(raw[:10]),
)
def test_malformed_documents(driver, raw, tmp_path):
    _create(driver, tmp_path)
    (tmp_path / "a" / METADATA[driver]).write_bytes(raw)
    with pytest.raises(ValueError, match=rf"FAILED_PRECONDITION: .*a/{METADATA[driver]}") as e:
        ts.open(_spec(driver, tmp_path)).result()
    assert len(str(e.value)) < 2000


def _changed(driver, path, **members):
    file = path / "a" / METADATA[driver]
    document = {**json.loads(file.read_text()), **members}
    file.write_text(json.dumps({k: v for k, v in document.items() if v is not ...}))


SHAPE = {"n5": "dimensions"}
CHUNKS = {"n5": "blockSize", "zarr3": "chunk_grid"}
TYPE = {"n5": "dataType", "zarr3": "data_type"}


@pytest.mark.parametrize("value", [-1, 1.5, "4", None, [[1]], {}, ..., True], ids=str)
def test_bad_shapes(driver, value, tmp_path):
    _create(driver, tmp_path)
    name = SHAPE.get(driver, "shape")
    _changed(driver, tmp_path, **{name: value if value is ... else [value, 6]})
    with pytest.raises(ValueError, match=f"a/{METADATA[driver]}.*{name}"):
        ts.open(_spec(driver, tmp_path)).result()


@pytest.mark.parametrize(
    "value", ["uint17", "", 5, None, ["a"], {"name": "uint16", "configuration": {"x": 1}}], ids=str
)
def test_bad_types(driver, value, tmp_path):
    _create(driver, tmp_path)
    name = TYPE.get(driver, "dtype")
    _changed(driver, tmp_path, **{name: value})
    with pytest.raises(ValueError, match=f"a/{METADATA[driver]}.*{name}"):
        ts.open(_spec(driver, tmp_path)).result()


@pytest.mark.parametrize(
    ("driver", "member", "found", "expected"),
    [
        ("zarr1", {"zarr_format": 3}, "3", "1"),
        ("zarr", {"zarr_format": 3}, "3", "2"),
        ("zarr3", {"zarr_format": 2}, "2", "3"),
        ("zarr3", {"zarr_format": 4}, "4", "3"),
        ("zarr3", {"node_type": "group"}, "group", "array"),
    ],
)
def test_other_versions(driver, member, found, expected, tmp_path):
    _create(driver, tmp_path)
    _changed(driver, tmp_path, **member)
    with pytest.raises(ValueError, match=f"{next(iter(member))}.*{expected}.*{found}"):
        ts.open(_spec(driver, tmp_path)).result()


def test_unknown_codec(driver, tmp_path):
    _create(driver, tmp_path)
    members = {
        "zarr1": {"compression": "lz77"},
        "zarr": {"compressor": {"id": "lz77"}},
        "zarr3": {"codecs": [*GZIP["zarr3"]["codecs"], {"name": "lz77"}]},
        "n5": {"compression": {"type": "lz77"}},
    }[driver]
    _changed(driver, tmp_path, **members)
    with pytest.raises(ValueError, match=rf'a/{METADATA[driver]}.*"lz77" is not registered'):
        ts.open(_spec(driver, tmp_path)).result()


# -- chunks ---------------------------------------------------------------------------------------------


def _refused(driver, path, error=ValueError):
    """Reading and partial writing fail and name the chunk; a write of all of it mends it."""
    file = path / "a" / CHUNK[driver]
    before = file.read_bytes()
    store = ts.open(_spec(driver, path)).result()
    for act in (store.read, lambda: store[1].write(5)):
        with pytest.raises(error, match=rf"a/{CHUNK[driver]}") as e:
            act().result()
        assert file.read_bytes() == before
    store[...] = values = np.full(store.shape, 3, store.dtype.numpy_dtype)
    np.testing.assert_array_equal(store.read().result(), values)
    return str(e.value)


@pytest.mark.parametrize("keep", [0, 1, 5, 12, -1, -9])
def test_truncated_chunks(driver, keep, tmp_path):
    _create(driver, tmp_path)
    file = tmp_path / "a" / CHUNK[driver]
    file.write_bytes(file.read_bytes()[:keep])
    assert "DATA_LOSS" in _refused(driver, tmp_path)


@pytest.mark.parametrize("nbytes", [0, 1, 46, 47, 49, 4800])
def test_wrong_size_after_decompression(driver, nbytes, tmp_path):
    _create(driver, tmp_path)
    (tmp_path / "a" / CHUNK[driver]).write_bytes(_encode(driver, b"\1" * nbytes))
    if driver == "n5" and nbytes > 48:
        # other writers pad blocks: what is too much is ignored or refused
        try:
            ts.open(_spec(driver, tmp_path)).result().read().result()
        except ValueError as e:
            assert "48" in str(e)
        return
    message = _refused(driver, tmp_path)
    assert "48" in message  # what was expected


@pytest.mark.parametrize(
    "garbage", [b"\0" * 64, b"\xff" * 64, bytes(range(64))], ids=["zeros", "ones", "count"]
)
def test_garbage(driver, garbage, tmp_path):
    _create(driver, tmp_path)
    (tmp_path / "a" / CHUNK[driver]).write_bytes(garbage)
    _refused(driver, tmp_path)


def _peak(act):
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_bombs(driver, tmp_path):
    """A small chunk that inflates to 50 MB takes no such memory."""
    _create(driver, tmp_path)
    (tmp_path / "a" / CHUNK[driver]).write_bytes(_encode(driver, b"\0" * 50_000_000))
    store = ts.open(_spec(driver, tmp_path)).result()

    def read():
        try:
            store.read().result()
        except ValueError as e:
            assert "48" in str(e)
        else:
            assert driver == "n5"  # the rest of a block may be padding

    assert _peak(read) < 10_000_000


@pytest.mark.parametrize("cname", ["lz4", "zstd", "blosclz"])
def test_blosc_headers_that_lie(cname, tmp_path):
    """A 100-byte chunk that claims 2 GiB is refused before anything is allocated."""
    _create(
        "zarr", tmp_path, metadata={"compressor": {"id": "blosc", "cname": cname, "clevel": 1, "shuffle": 1}}
    )
    file = tmp_path / "a" / "0.0"
    raw = bytearray(numcodecs.Blosc(cname, 1, 1).encode(bytes(48)))
    raw[4:8] = struct.pack("<I", 2**31 - 1)
    file.write_bytes(bytes(raw))
    message = []
    assert _peak(lambda: message.append(_refused("zarr", tmp_path))) < 5_000_000
    assert "2147483647" in message[0] and "48" in message[0]


def test_zstd_headers_that_lie(tmp_path):
    _create("zarr", tmp_path, metadata={"compressor": {"id": "zstd", "level": 1}})
    frame = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 2**40) + b"\x01\0\0"
    (tmp_path / "a" / "0.0").write_bytes(frame)
    assert _peak(lambda: _refused("zarr", tmp_path)) < 5_000_000


@pytest.mark.parametrize("dims", [(2**31 - 1, 1), (2**32 - 1, 2**32 - 1), (0, 0), (5, 6), (4, 7)])
def test_n5_headers_that_lie(dims, tmp_path):
    """A 2 GiB block claimed by a file of 100 bytes."""
    _create("n5", tmp_path)
    header = struct.pack(">HH2I", 0, 2, *dims)
    (tmp_path / "a" / "0/0").write_bytes((header + gzip.compress(b"\1\0" * 24)).ljust(100, b"\0"))
    store = ts.open(_spec("n5", tmp_path)).result()

    def read():
        with pytest.raises(ValueError, match="a/0/0"):
            store.read().result()

    if dims != (0, 0):
        assert _peak(read) < 5_000_000


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize(
    "entry", [(2**63, 10), (10, 2**63), (2**64 - 2, 2**64 - 2), (0, 2**40), (10**6, 4)], ids=str
)
def test_shard_entries_that_lie(location, entry, tmp_path):
    """An index with a good checksum and impossible entries."""
    from google_crc32c import value as crc32c

    inner = {
        "chunk_shape": [2, 3],
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "index_location": location,
    }
    _create("zarr3", tmp_path, metadata={"codecs": [{"name": "sharding_indexed", "configuration": inner}]})
    file = tmp_path / "a" / "c/0/0"
    raw = bytearray(file.read_bytes())
    at = 0 if location == "start" else len(raw) - 68
    raw[at : at + 16] = struct.pack("<QQ", *entry)
    raw[at + 64 : at + 68] = struct.pack("<I", crc32c(bytes(raw[at : at + 64])))
    file.write_bytes(bytes(raw))
    store = ts.open(_spec("zarr3", tmp_path)).result()

    def read():
        with pytest.raises(ValueError, match=r"DATA_LOSS.*a/c/0/0"):
            store.read().result()
        with pytest.raises(ValueError, match=r"DATA_LOSS.*a/c/0/0"):
            store[0, 0].read().result()

    assert _peak(read) < 5_000_000
    if max(entry) < 2**63:  # an index that no shard can have is refused as a whole
        assert (store[2:, 3:].read().result() == [[16, 17, 18], [22, 23, 24]]).all()


def test_shard_with_a_damaged_index(tmp_path):
    inner = {"chunk_shape": [2, 3], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
    _create("zarr3", tmp_path, metadata={"codecs": [{"name": "sharding_indexed", "configuration": inner}]})
    file = tmp_path / "a" / "c/0/0"
    raw = bytearray(file.read_bytes())
    raw[-20] ^= 1
    file.write_bytes(bytes(raw))
    _refused("zarr3", tmp_path)
    file.write_bytes(b"abc")
    assert "3 bytes" in _refused("zarr3", tmp_path)


# -- requests -------------------------------------------------------------------------------------------


def test_indices_outside(driver, tmp_path):
    store = _create(driver, tmp_path)
    for index in (4, -1, (0, 6), slice(0, 5), (slice(None), slice(3, 9)), [0, 4], ([1], [6])):
        with pytest.raises((IndexError, ValueError), match=r"\d"):
            store[index].read().result()
        with pytest.raises((IndexError, ValueError), match=r"\d"):
            store[index] = 1
    np.testing.assert_array_equal(store.read().result(), np.arange(1, 25).reshape(4, 6))


def test_wrong_values(driver, tmp_path):
    store = _create(driver, tmp_path)
    before = store.read().result()
    for values, error in (
        (np.zeros((4, 5), np.uint16), "5.*6"),
        (np.zeros((2, 4, 6), np.uint16), "rank 3"),
        (np.zeros((4, 6), np.float64), "float64.*uint16"),
        (np.zeros((4, 6), "U3"), "U3.*uint16"),
        ([[1, 2], [3]], "uint16|shape|sequence"),
    ):
        with pytest.raises((TypeError, ValueError), match=error):
            store.write(values).result()
    np.testing.assert_array_equal(store.read().result(), before)


# -- storage --------------------------------------------------------------------------------------------


def test_below_a_file(driver, tmp_path):
    """A place where no directory can be made: a path below a regular file."""
    (tmp_path / "a").write_text("I am a file")
    with pytest.raises(ValueError, match=rf"{tmp_path}/a") as e:
        ts.open(_spec(driver, tmp_path), create=True, dtype="uint8", shape=[3]).result()
    assert METADATA[driver] in str(e.value)
    assert (tmp_path / "a").read_text() == "I am a file"


@pytest.mark.parametrize(("name", "number"), [("ENOSPC", 28), ("EACCES", 13), ("EROFS", 30), ("EDQUOT", 122)])
def test_disks_that_refuse(driver, name, number, tmp_path, monkeypatch):
    """A full disk or a forbidden write names the chunk, and leaves what was there, and nothing beside it."""
    import os

    store = _create(driver, tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        patch.setattr(os, "writev", refuse)
        with pytest.raises(ValueError, match=rf"a/{CHUNK[driver]}.*{os.strerror(number)}") as e:
            store[...] = 7
        assert isinstance(e.value, OSError) and e.value.errno == number
        with pytest.raises(ValueError, match=rf"a/{METADATA[driver]}.*{os.strerror(number)}"):
            store.resize(exclusive_max=[9, 9]).result()
    after = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert {p: v for p, v in after.items() if "lock" not in p.name} == before
    assert store.shape == (4, 6)
    store[...] = 7
    assert (store.read().result() == 7).all()


def test_text_that_is_no_unicode_survives_a_resize(tmp_path):
    """Half a surrogate pair is valid in JSON, escaped; documents that have one are changed like others."""
    store = _create("zarr3", tmp_path)
    path = tmp_path / "a" / "zarr.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "attributes": {"a": "\ud800", "é": 1}}))
    store = ts.open(store.spec()).result().resize(exclusive_max=[5, 6]).result()
    document = json.loads(path.read_text())
    assert document["shape"] == [5, 6] and document["attributes"] == {"a": "\ud800", "é": 1}
