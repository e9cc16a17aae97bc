"""Chunks that zarr-python and TensorStore write are decoded here, and the reverse."""

from __future__ import annotations

import itertools
import json
import tracemalloc
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numcodecs
import numpy as np
import pytest
import tensorstore as ts
import zarr
import zarr.codecs
from zarr.codecs import numcodecs as zn
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from chunkwise.core.codec.chain import codecs_to_json, parse_codecs, prepare_chain
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.codec.zarr2 import parse_zarr2, parse_zarr2_codecs
from chunkwise.core.dtypes import zarr2 as dtype2
from chunkwise.core.dtypes import zarr3 as dtype3
from chunkwise.errors import CodecError, DataCorruptionError, InvalidArgumentError, UnsupportedError
from chunkwise.testing.codec_contract import numbers

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

SHAPE, CHUNKS = (8, 12), (4, 6)


def chain3(document):
    """Return the chain of a Zarr v3 document."""
    dtype = dtype3.parse_zarr3(document["data_type"])
    chunks = tuple(document["chunk_grid"]["configuration"]["chunk_shape"])
    fill = dtype3.parse_fill_value_zarr3(document["fill_value"], dtype)
    return prepare_chain(parse_codecs(document["codecs"]), ChunkSpec(chunks, dtype.memory_dtype, fill))


def chain2(document):
    """Return the chain of a Zarr v2 document."""
    object_codec = next(
        (f["id"] for f in document["filters"] or () if f["id"].startswith(("vlen", "json"))), None
    )
    dtype, stored = dtype2.parse_zarr2(document["dtype"], object_codec)
    fill = dtype2.parse_fill_value_zarr2(document["fill_value"], dtype)
    item = ChunkSpec(tuple(document["chunks"]), dtype.memory_dtype, dtype.zero() if fill is None else fill)
    codecs = parse_zarr2_codecs(document["compressor"], document["filters"], stored, document["order"], item)
    return prepare_chain(codecs, item)


def selections(shape, chunks):
    """Yield (cell, selection) for every chunk of a grid that divides the shape."""
    for cell in itertools.product(*[range(n // c) for n, c in zip(shape, chunks, strict=True)]):
        yield cell, tuple(slice(i * c, (i + 1) * c) for i, c in zip(cell, chunks, strict=True))


def decode_all(values, chain, key, shape):
    """Decode every chunk in the mapping `values` and return the array."""
    decode, chunks = chain.open_decoder(), chain.item.shape
    out = np.full(shape, chain.item.fill_value, chain.item.dtype)
    for cell, selection in selections(shape, chunks):
        if (encoded := values.get(key(cell))) is not None:
            decode(encoded, out[selection])
    return out


def encode_all(array, chain, key):
    """Encode every chunk of `array` and return the mapping of keys to bytes."""
    encode = chain.open_encoder()
    return {key(cell): bytes(encode(array[s])) for cell, s in selections(array.shape, chain.item.shape)}


def key3(cell):
    return "c/" + "/".join(map(str, cell))


def key2(cell):
    return ".".join(map(str, cell))


def same(a, b):
    return a.dtype == b.dtype and (
        (a == b).all()
        if a.dtype.hasobject
        else np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
    )


# ---- zarr-python ----------------------------------------------------------------------------------------


def in_memory(store):
    return {k: v.to_bytes() for k, v in store._store_dict.items()}


def replace_chunks(store, values):
    """Put encoded chunks into a zarr-python store."""
    prototype = default_buffer_prototype()
    for key, value in values.items():
        assert key in store._store_dict
        store._store_dict[key] = prototype.buffer.from_bytes(value)


def check_zarr_python(array, other, *, format, lossy=False, **options):
    """Write `array` with zarr-python and read it here; write `other` here and read it with zarr-python."""
    store = MemoryStore()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        z = zarr.create_array(store, shape=array.shape, dtype=array.dtype, zarr_format=format, **options)
        z[...] = array
        values = in_memory(store)
        document = json.loads(values["zarr.json" if format == 3 else ".zarray"])
        chain, key = (chain3(document), key3) if format == 3 else (chain2(document), key2)
        found = decode_all(values, chain, key, array.shape)
        native = array.astype(array.dtype.newbyteorder("=")) if array.dtype.kind != "T" else array
        expected = np.asarray(z[...]).astype(native.dtype) if lossy else native
        if native.dtype.hasobject or chain.item.dtype.hasobject:
            assert (found == expected.astype(object)).all()
        else:
            assert same(found, expected)
        replace_chunks(store, encode_all(other.astype(chain.item.dtype), chain, key))
        z = zarr.open_array(store, mode="r")
        back = np.asarray(z[...])
    if lossy:
        fresh = decode_all(in_memory(store), chain, key, array.shape)
        assert same(back.astype(fresh.dtype), fresh)
    elif chain.item.dtype.hasobject:
        assert (back.astype(object) == other.astype(object)).all()
    else:
        assert same(back.astype(chain.item.dtype), other.astype(chain.item.dtype))
    return chain


V3_COMPRESSORS = {
    "none": None,
    "zstd": zarr.codecs.ZstdCodec(level=1, checksum=True),
    "zstd-fast": zarr.codecs.ZstdCodec(level=-5),
    "gzip": zarr.codecs.GzipCodec(level=2),
    "blosc-lz4-bits": zarr.codecs.BloscCodec(typesize=4, cname="lz4", clevel=5, shuffle="bitshuffle"),
    "blosc-zstd-bytes": zarr.codecs.BloscCodec(typesize=2, cname="zstd", clevel=3, shuffle="shuffle"),
    "crc32c": zarr.codecs.Crc32cCodec(),
    "zstd-crc32c": [zarr.codecs.ZstdCodec(level=1), zarr.codecs.Crc32cCodec()],
    "numcodecs.zlib": zn.Zlib(level=4),
    "numcodecs.bz2": zn.BZ2(level=3),
    "numcodecs.lz4": zn.LZ4(acceleration=2),
    "numcodecs.lzma": zn.LZMA(preset=1),
    "numcodecs.gzip": zn.GZip(level=3),
    "numcodecs.zstd": zn.Zstd(level=2),
    "numcodecs.blosc": zn.Blosc(cname="lz4", clevel=4, shuffle=1),
    "numcodecs.shuffle": zn.Shuffle(elementsize=4),
    "numcodecs.crc32": zn.CRC32(),
    "numcodecs.crc32c": zn.CRC32C(),
    "numcodecs.adler32": zn.Adler32(),
    "numcodecs.fletcher32": zn.Fletcher32(),
    "numcodecs.jenkins_lookup3": zn.JenkinsLookup3(),
}


@pytest.mark.parametrize("name", V3_COMPRESSORS)
def test_zarr_python_v3_compressors(name):
    """Every bytes to bytes codec of zarr-python, after big-endian bytes."""
    a, b = numbers("f4", SHAPE), numbers("f4", SHAPE, 1)
    check_zarr_python(
        a,
        b,
        format=3,
        chunks=CHUNKS,
        compressors=V3_COMPRESSORS[name],
        serializer=zarr.codecs.BytesCodec(endian="big"),
    )


V3_FILTERS = {
    "transpose": (zarr.codecs.TransposeCodec(order=(1, 0)), "i2", False),
    "delta": (zn.Delta(dtype="<i4"), "i4", False),
    "fixedscaleoffset": (zn.FixedScaleOffset(offset=2, scale=8, dtype="<f8", astype="<i4"), "f8", True),
    "quantize": (zn.Quantize(digits=2, dtype="<f8"), "f8", True),
    "bitround": (zn.BitRound(keepbits=5), "f4", True),
    "astype": (zn.AsType(encode_dtype="<f8", decode_dtype="<i2"), "i2", False),
    "packbits": (zn.PackBits(), "?", False),
}


@pytest.mark.parametrize("name", V3_FILTERS)
def test_zarr_python_v3_filters(name):
    """Every array to array codec of zarr-python."""
    codec, dtype, lossy = V3_FILTERS[name]
    check_zarr_python(
        numbers(dtype, SHAPE),
        numbers(dtype, SHAPE, 1),
        format=3,
        chunks=CHUNKS,
        filters=[codec],
        compressors=None,
        lossy=lossy,
    )


V3_DTYPES = (
    "?", "i1", "u2", "i8", "f2", "f8", "c8", "S5", "U4", "M8[ns]", "m8[s]",
    np.dtype([("a", "u1"), ("b", "<f4"), ("c", "<i8")]),
)  # fmt: skip


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", V3_DTYPES, ids=str)
@pytest.mark.parametrize("format", [2, 3])
def test_zarr_python_data_types(dtype, format):
    """The bytes of every data type of fixed size."""
    a, b = numbers(dtype, SHAPE), numbers(dtype, SHAPE, 1)
    if np.dtype(dtype).kind == "S":
        a, b = (np.where(x == b"", b"x", x).astype("S5") for x in (a, b))
    check_zarr_python(a, b, format=format, chunks=CHUNKS, compressors=None)


def test_zarr_python_strings():
    """Strings of any length in both formats."""
    words = np.array([f"{i}é" * (i % 5) for i in range(96)], object).reshape(SHAPE)
    for format in (2, 3):
        check_zarr_python(words.astype(np.dtypes.StringDType()), words[::-1], format=format, chunks=CHUNKS)


@pytest.mark.parametrize("index_location", ["start", "end"])
def test_zarr_python_shards(index_location):
    """Shards, with inner chunks that are not stored."""
    a, b = numbers("u2", (12, 12)), numbers("u2", (12, 12), 1)
    a[:3, :4] = 0
    check_zarr_python(
        a,
        b,
        format=3,
        chunks=(3, 2),
        shards={"shape": (6, 12), "index_location": index_location},
        compressors=zarr.codecs.GzipCodec(level=1),
    )


V2_COMPRESSORS = {
    "zlib": numcodecs.Zlib(4), "gzip": numcodecs.GZip(2), "bz2": numcodecs.BZ2(3), "lz4": numcodecs.LZ4(3),
    "zstd": numcodecs.Zstd(3), "lzma": numcodecs.LZMA(preset=1), "none": None,
    "lzma-raw": numcodecs.LZMA(format=3, filters=[{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]),
    "blosc-auto": numcodecs.Blosc("lz4", 5, -1), "blosc-snug": numcodecs.Blosc("blosclz", 9, 2, 256),
    "blosc-zstd": numcodecs.Blosc("zstd", 1, 1), "blosc-zlib": numcodecs.Blosc("zlib", 1, 0),
}  # fmt: skip


@pytest.mark.each_once
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", V2_COMPRESSORS)
def test_zarr_python_v2_compressors(name, order):
    """Every compressor of NumCodecs, with both orders and big-endian elements."""
    a, b = numbers("i4", SHAPE), numbers("i4", SHAPE, 1)
    check_zarr_python(
        a.astype(">i4"),
        b,
        format=2,
        chunks=CHUNKS,
        order=order,
        compressors=V2_COMPRESSORS[name],
        filters=None,
    )


V2_FILTERS = {
    "delta": ([numcodecs.Delta(">i4", "<i8")], ">i4", False),
    "scale": ([numcodecs.FixedScaleOffset(2, 8, "<f8", ">i4")], "f8", True),
    "quantize": ([numcodecs.Quantize(1, "<f8", "<f4")], "f8", True),
    "astype": ([numcodecs.AsType(">f8", "<i2")], "i2", False),
    "packbits": ([numcodecs.PackBits()], "?", False),
    "bitround": ([numcodecs.BitRound(4)], "f4", True),
    "no bits": ([numcodecs.BitRound(0)], "f4", True),
    "shuffle": ([numcodecs.Shuffle(4)], "f4", False),
    "checksums": ([numcodecs.CRC32(), numcodecs.Adler32(), numcodecs.Fletcher32()], "i4", False),
    "delta-shuffle": ([numcodecs.Delta("<u2"), numcodecs.Shuffle(2)], "u2", False),
}


@pytest.mark.each_once
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", V2_FILTERS)
def test_zarr_python_v2_filters(name, order):
    """Filters of NumCodecs on arrays and on bytes, with both orders."""
    filters, dtype, lossy = V2_FILTERS[name]
    options = {"filters": filters, "compressors": numcodecs.Zlib(1), "order": order, "chunks": CHUNKS}
    native = np.dtype(dtype).newbyteorder("=")
    a, b = numbers(native, SHAPE).astype(dtype), numbers(native, SHAPE, 1)
    check_zarr_python(a, b, format=2, lossy=lossy, **options)


@pytest.mark.parametrize(
    ("dtype", "elementsize"),
    [*itertools.product(["u1", "<u2", ">i4", "<f8"], [0, 1, 2, 4]), ("O", 0), ("O", 1)],
)
def test_shuffled_elements_of_size_0_have_that_of_the_data_type(elementsize, dtype):
    """NetCDF-C writes 0; text is shuffled as bytes."""
    values = np.arange(12).astype(dtype if dtype != "O" else str).astype(dtype)
    text = [{"id": "vlen-utf8"}] if dtype == "O" else []
    document = {"id": "shuffle", "elementsize": elementsize}
    spec = ChunkSpec((12,), values.dtype.newbyteorder("="), np.array("" if text else 0, values.dtype))
    chain = prepare_chain(parse_zarr2(document, text, values.dtype, "C"), spec)
    raw = bytes(numcodecs.VLenUTF8().encode(values)) if text else values.tobytes()
    size = elementsize or (1 if text else values.dtype.itemsize)
    theirs = bytes(numcodecs.Shuffle(size).encode(raw))
    assert bytes(chain.open_encoder()(values.astype(spec.dtype))) == theirs
    out = np.empty(12, spec.dtype)
    chain.open_decoder()(theirs, out)
    assert (out == values).all()


def test_zarr2_filter_of_the_other_byte_order():
    """A filter for another byte order than that of the array is refused: its values would be others."""
    with pytest.raises(InvalidArgumentError, match='"delta" codec is for data type >i4, but receives <i4'):
        parse_zarr2(None, [{"id": "delta", "dtype": ">i4"}], np.dtype("<i4"), "C")


def test_numcodecs_objects():
    """Object codecs of NumCodecs, byte for byte, both ways."""
    words = np.array(["a", "", "日本", "x"], object)
    raw = np.array([b"a", b"", b"\xff\0", b"x"], object)
    values = np.empty(4, object)
    values[:] = [{"k": [1, 2]}, None, "s", 1.5]
    for config, array in (
        ({"id": "vlen-utf8"}, words), ({"id": "vlen-bytes"}, raw), ({"id": "json2"}, values),
        ({"id": "categorize", "dtype": "|O", "labels": ["a", "x", "日本"], "astype": "|u1"}, words),
    ):  # fmt: skip
        item = ChunkSpec(array.shape, array.dtype, np.array(None, object))
        chain = prepare_chain(parse_zarr2_codecs(None, [config], np.dtype("O"), "C", item), item)
        peer = numcodecs.get_codec(config)
        encoded = bytes(chain.open_encoder()(array))
        assert encoded == bytes(peer.encode(array))
        out = np.empty(4, object)
        chain.open_decoder()(encoded, out)
        assert (out == array).all()


def test_object_codecs_follow_the_order():
    """Of object codecs only those of JSON ignore ``order``, as in zarr-python 2."""
    item = ChunkSpec((2, 3), np.dtype(object), np.array(None, object))
    words = np.array([["a", "b", "c"], ["d", "e", "f"]], object)
    for id, transposed in (("vlen-utf8", True), ("json2", False)):
        chain = prepare_chain(parse_zarr2_codecs(None, [{"id": id}], np.dtype("O"), "F", item), item)
        encoded = bytes(chain.open_encoder()(words))
        assert encoded == bytes(numcodecs.get_codec({"id": id}).encode(np.asfortranarray(words)))
        assert [c.name for c in chain.codecs] == (["transpose"] if transposed else []) + [id]


# ---- TensorStore ----------------------------------------------------------------------------------------


def check_tensorstore(array, other, driver, metadata):
    """Write `array` with TensorStore and read it here; write `other` here and read it with TensorStore."""
    context = ts.Context()
    spec = {"driver": driver, "kvstore": "memory://", "metadata": metadata}
    store = ts.open(spec, create=True, context=context, fill_value=None).result()
    store.write(array).result()
    kv = store.kvstore
    values = {k.decode(): kv.read(k).result().value for k in kv.list().result()}
    document = json.loads(values["zarr.json" if driver == "zarr3" else ".zarray"])
    chain, key = (chain3(document), key3) if driver == "zarr3" else (chain2(document), key2)
    found = decode_all(values, chain, key, array.shape)
    assert same(found, array)
    for name, value in encode_all(other, chain, key).items():
        kv.write(name, value).result()
    back = ts.open({"driver": driver, "kvstore": "memory://"}, context=context).result().read().result()
    assert same(back, other)
    if driver == "zarr3":
        written = codecs_to_json(chain.codecs)
        assert written == document["codecs"]
    return values, chain


LE = {"name": "bytes", "configuration": {"endian": "little"}}
BE = {"name": "bytes", "configuration": {"endian": "big"}}


def _blosc(**options):
    return {
        "name": "blosc",
        "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0, **options},
    }


TS3_CHAINS = {
    "little": [LE],
    "big": [BE],
    "transpose": [{"name": "transpose", "configuration": {"order": [1, 0]}}, BE],
    "gzip": [LE, {"name": "gzip", "configuration": {"level": 6}}],
    "zstd": [BE, {"name": "zstd", "configuration": {"level": 5, "checksum": True}}],
    "zstd-fast": [BE, {"name": "zstd", "configuration": {"level": -50, "checksum": False}}],
    "crc32c": [LE, {"name": "crc32c"}],
    "gzip-crc32c": [LE, {"name": "gzip", "configuration": {"level": 1}}, {"name": "crc32c"}],
    "blosc-bytes": [LE, _blosc(typesize=4)],
    "blosc-bits": [BE, _blosc(typesize=4, shuffle="bitshuffle", cname="zstd")],
    "blosc-none": [LE, _blosc(shuffle="noshuffle", cname="lz4hc", clevel=9)],
    "blosc-blosclz": [LE, _blosc(typesize=1, cname="blosclz")],
    "blosc-zlib": [LE, _blosc(typesize=2, cname="zlib", blocksize=64)],
}


@pytest.mark.parametrize("name", TS3_CHAINS)
def test_tensorstore_zarr3_codecs(name):
    """Every codec of TensorStore's zarr3 driver; the JSON is written as TensorStore writes it."""
    metadata = {
        "data_type": "float32", "shape": SHAPE, "codecs": TS3_CHAINS[name],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNKS}},
    }  # fmt: skip
    check_tensorstore(numbers("f4", SHAPE), numbers("f4", SHAPE, 1), "zarr3", metadata)


@pytest.mark.each_once
@pytest.mark.parametrize("location", [None, "start", "end"])
@pytest.mark.parametrize("inner", ["little", "blosc-bits", "transpose"])
def test_tensorstore_zarr3_shards(inner, location):
    """Shards with any inner chain; without the compressor's freedom the very same bytes."""
    configuration = {
        "chunk_shape": [2, 3], "codecs": TS3_CHAINS[inner],
        "index_codecs": [LE, {"name": "crc32c"}],
        **({} if location is None else {"index_location": location}),
    }  # fmt: skip
    metadata = {
        "data_type": "float32", "shape": SHAPE,
        "codecs": [{"name": "sharding_indexed", "configuration": configuration}],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNKS}},
    }  # fmt: skip
    array = numbers("f4", SHAPE)
    array[:2, :3] = 0
    array[4:, 6:] = 0
    context = ts.Context()
    spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}
    store = ts.open(spec, create=True, context=context).result()
    store.write(array).result()
    values = {k.decode(): store.kvstore.read(k).result().value for k in store.kvstore.list().result()}
    chain = chain3(json.loads(values["zarr.json"]))
    assert same(decode_all(values, chain, key3, SHAPE), array)
    for key, encoded in encode_all(array, chain, key3).items():
        if key in values and inner != "blosc-bits":
            assert encoded == values[key]
        store.kvstore.write(key, encoded).result()
    assert same(
        ts.open({"driver": "zarr3", "kvstore": "memory://"}, context=context).result().read().result(), array
    )


TS_DTYPES = {
    "bool": "?", "int4": ml_dtypes.int4, "int2": ml_dtypes.int2, "int8": "i1", "uint64": "u8",
    "float16": "f2", "bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2, "float64": "f8", "complex64": "c8", "complex128": "c16",
}  # fmt: skip


@pytest.mark.each_once
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("name", TS_DTYPES)
def test_tensorstore_zarr3_data_types(name, endian):
    """The bytes of every data type of TensorStore, in memory and stored the very same."""
    a, b = numbers(TS_DTYPES[name], SHAPE), numbers(TS_DTYPES[name], SHAPE, 1)
    metadata = {
        "data_type": name, "shape": SHAPE,
        "codecs": [{"name": "bytes", "configuration": {"endian": endian}}] if a.itemsize > 1 else ["bytes"],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNKS}},
    }  # fmt: skip
    values, chain = check_tensorstore(a, b, "zarr3", metadata)
    for key, encoded in encode_all(a, chain, key3).items():
        assert encoded == values[key]


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", ["<u2", ">u2", "|u1", ">f8", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "compressor",
    [
        None,
        {"id": "zlib", "level": 3},
        {"id": "gzip", "level": 3},
        {"id": "bz2", "level": 2},
        {"id": "zstd", "level": 4},
        {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0},
        {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 0},
    ],
    ids=lambda c: "raw" if c is None else c["id"] + str(c.get("shuffle", "")),
)
def test_tensorstore_zarr2(compressor, order, dtype):
    """Every compressor of TensorStore's zarr driver, byte order and chunk order."""
    metadata = {"dtype": dtype, "shape": SHAPE, "chunks": CHUNKS, "compressor": compressor, "order": order}
    native = np.dtype(dtype).newbyteorder("=")
    check_tensorstore(numbers(native, SHAPE), numbers(native, SHAPE, 1), "zarr", metadata)


@pytest.mark.parametrize("shuffle", [0, 1, 2])
def test_blosc_with_snappy(shuffle):
    """TensorStore has Snappy; here imagecodecs brings it, and an error says so where that is missing."""
    compressor = {"id": "blosc", "cname": "snappy", "clevel": 5, "shuffle": shuffle, "blocksize": 0}
    metadata = {"shape": [4096], "chunks": [4096], "dtype": "<i4", "compressor": compressor, "order": "C"}
    metadata |= {"filters": None, "fill_value": 0, "zarr_format": 2}
    values = (np.arange(4096) // 7).astype("i4")
    store = ts.open({"driver": "zarr", "kvstore": "memory://", "metadata": metadata}, create=True).result()
    store[...] = values
    theirs = bytes(store.kvstore["0"])
    chain = chain2(metadata)
    if find_spec("imagecodecs") is None:
        for work in (chain.open_encoder, lambda: chain.open_decoder()(theirs, np.empty_like(values))):
            with pytest.raises(UnsupportedError, match="'snappy' needs imagecodecs"):
                work()
        return
    out = np.empty_like(values)
    chain.open_decoder()(theirs, out)
    assert (out == values).all()
    assert bytes(chain.open_encoder()(values)) == theirs
    damaged = theirs[:32] + b"\xff" * 16 + theirs[48:]
    with pytest.raises(DataCorruptionError, match="blosc"):
        chain.open_decoder()(damaged, out)


TAKE_ARRAYS = ("blosc", "brotli", "bz2", "lz4f", "packbits", "pglz", "snappy", "tiff", "zlibng", "zopfli")
"""Codecs of imagecodecs that NumCodecs gives the array, and that return its bytes or its elements."""


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<u2", ">u2", ">i4", ">f4", ">f8", ">c8"])
@pytest.mark.parametrize("name", TAKE_ARRAYS)
def test_codecs_of_arrays_keep_the_stored_byte_order(name: str, dtype: str, order: str) -> None:
    """NumCodecs hands them the elements as stored, and takes what they return for elements as stored."""
    document = {"id": f"imagecodecs_{name}"}
    values = (np.arange(48).reshape(6, 8) * 261).astype(dtype)
    if find_spec("imagecodecs") is None:
        with pytest.raises(UnsupportedError, match="imagecodecs"):
            parse_zarr2(document, None, values.dtype, order)
        return
    import_module("imagecodecs.numcodecs").register_codecs(verbose=False)
    theirs = numcodecs.get_codec(document)
    laid = values if order == "C" else np.ascontiguousarray(values.T)
    native = values.astype(values.dtype.newbyteorder("="))
    spec = ChunkSpec(values.shape, native.dtype, np.zeros((), native.dtype))
    chain = prepare_chain(parse_zarr2(document, None, values.dtype, order), spec)
    try:
        encoded = bytes(theirs.encode(laid))
    except NotImplementedError:  # an older release, which only decodes it
        assert name == "tiff"
        with pytest.raises(CodecError, match=r"imagecodecs_tiff.*NotImplementedError"):
            chain.open_encoder()(native)
        return
    out = np.empty_like(native)
    chain.open_decoder()(encoded, out)
    np.testing.assert_array_equal(out, values)
    again = np.asarray(theirs.decode(bytes(chain.open_encoder()(native))))
    np.testing.assert_array_equal(np.frombuffer(again.tobytes(), dtype).reshape(laid.shape), laid)
    other = prepare_chain(parse_zarr2(document, None, values.dtype.newbyteorder(), order), spec)
    assert chain.codecs != other.codecs  # so that chunks are never copied as they are


SZIP = {"options_mask": 141, "pixels_per_block": 8, "bits_per_pixel": 16, "pixels_per_scanline": 96}
TAKE_BYTES: dict[str, dict[str, Any]] = {
    "bitorder": {}, "delta": {"shape": [8, 96], "dtype": "<u2"}, "deflate": {}, "lz4": {}, "lz4h5": {},
    "lzf": {}, "lzma": {}, "lzw": {}, "szip": SZIP, "zlib": {}, "zstd": {},
}  # fmt: skip
"""Codecs of imagecodecs that work on bytes, with their options."""


@pytest.mark.parametrize("name", TAKE_BYTES)
def test_codecs_of_bytes_return_as_many_as_are_expected(name: str) -> None:
    """What decodes to more or fewer bytes is an error, and takes no more memory."""
    document = {"id": f"imagecodecs_{name}", **TAKE_BYTES[name]}
    values = np.arange(8 * 96, dtype="<u2").reshape(8, 96) * 3
    if find_spec("imagecodecs") is None:
        with pytest.raises(UnsupportedError, match="imagecodecs"):
            parse_zarr2(document, None, values.dtype, "C")
        return
    import_module("imagecodecs.numcodecs").register_codecs(verbose=False)
    theirs = numcodecs.get_codec(document)
    *_, codec = parse_zarr2(document, None, values.dtype, "C")
    decode, whole = codec.open_decoder(values.nbytes), bytes(theirs.encode(values))
    assert bytes(decode(whole)) == bytes(codec.open_decoder(None)(whole)) == values.tobytes()
    if name == "delta":  # it is given its shape, and only reads TIFF files
        with pytest.raises(CodecError, match="imagecodecs_delta"):
            codec.open_encoder()(values.data)
        return
    assert bytes(codec.open_encoder()(values.data)) == whole
    others = np.zeros((9, 96), "<u2"), values[:7], np.zeros((8_000, 96), "<u2")
    wrong = [bytes(theirs.encode(other)) for other in others]
    if name == "szip":  # it doesn't notice that half is missing
        assert not any(decode(whole[: len(whole) // 2])[-192:])
    else:
        wrong.append(whole[: len(whole) // 2])
    for encoded in wrong:
        tracemalloc.start()
        try:
            with pytest.raises(DataCorruptionError):
                decode(encoded)
            assert tracemalloc.get_traced_memory()[1] < 200_000 + 3 * len(encoded)
        finally:
            tracemalloc.stop()
