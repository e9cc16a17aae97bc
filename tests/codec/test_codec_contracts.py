"""Every codec of the catalogue keeps the contract."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import chunkwise.core.codec
from chunkwise.core.base import catalogue
from chunkwise.testing.codec_contract import CodecContract, numbers

LE = {"name": "bytes", "configuration": {"endian": "little"}}
BE = {"name": "bytes", "configuration": {"endian": "big"}}
CRC = {"name": "crc32c"}
STRUCT = np.dtype([("a", "u1"), ("b", ">i4", (2,)), ("c", [("d", "<f8"), ("e", "S3")])])
FIXED = (
    "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "S5", "U3", "V6",
    "M8[ns]", "m8[10us]", STRUCT, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4,
    ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn,
)  # fmt: skip


def native(dtype):
    """Return a data type in native byte order and without padding, as chunks have it."""
    dtype = np.dtype(dtype)
    return dtype if dtype.isbuiltin == 2 else dtype.newbyteorder("=")


class TestBytes(CodecContract):
    stored_name = "bytes"
    configurations = ({"endian": "little"}, {"endian": "big"}, {})
    dtypes = tuple(native(d) for d in FIXED)
    shapes = ((), (7,), (2, 3, 4))


class TestTranspose(CodecContract):
    stored_name = "transpose"
    configurations = ({"order": "F"}, {"order": "C"})


class TestTransposeList(CodecContract):
    stored_name = "transpose"
    configurations = ({"order": [2, 0, 1]},)
    shapes = ((2, 3, 4), (1, 1, 5))


class TestReshape(CodecContract):
    stored_name = "reshape"
    configurations = ({"shape": [-1]}, {"shape": [1, -1, 1]}, {"shape": [-1, [2]]}, {"shape": [[0, 1], 4]})
    shapes = ((2, 3, 4), (1, 1, 4))


class TestBitRound(CodecContract):
    stored_name = "bitround"
    configurations = ({"keepbits": 3},)
    dtypes = ("f2", "f4", "f8", "c8", "i1", "u2", "i4", "u8", "M8[ns]", ml_dtypes.bfloat16)
    lossy = True


class TestScaleOffset(CodecContract):
    stored_name = "scale_offset"
    configurations = ({"offset": 3, "scale": 2}, {"offset": -2}, {"scale": 4}, {})

    def arrays(self):
        for dtype in ("i2", "i8", "f4", "f8"):
            for shape in self.shapes:
                yield numbers("i1", shape).astype(dtype)


class TestCastValue(CodecContract):
    stored_name = "cast_value"
    configurations = (
        {"data_type": "int16"},
        {"data_type": "float64", "rounding": "nearest-even"},
        {"data_type": "int8", "out_of_range": "clamp", "scalar_map": {"encode": [], "decode": []}},
    )

    def arrays(self):
        for dtype in ("i1", "i4", "f4", "f8", "f2"):
            for shape in self.shapes:
                yield numbers("i1", shape).astype(dtype)


class TestPackBits(CodecContract):
    stored_name = "packbits"
    configurations = ({}, {"padding_encoding": "first_byte"}, {"padding_encoding": "last_byte"})
    dtypes = (
        "?",
        "i1",
        "u2",
        "i4",
        "f8",
        "c8",
        "M8[s]",
        "m8[10us]",
        ml_dtypes.int4,
        ml_dtypes.uint2,
        ml_dtypes.bfloat16,
    )


class TestPackBitsRange(CodecContract):
    stored_name = "packbits"
    configurations = ({"first_bit": 2, "last_bit": 6}, {"padding_encoding": "none", "last_bit": 7})
    dtypes = ("u1", "i2", "u8")
    lossy = True


class TestShardingIndexed(CodecContract):
    stored_name = "sharding_indexed"
    configurations = (
        {"chunk_shape": [1, 2], "codecs": [BE, {"name": "zstd", "configuration": {"level": 1}}],
         "index_codecs": [LE, CRC]},
        {"chunk_shape": [3, 4], "codecs": [LE], "index_codecs": [BE], "index_location": "start"},
        {"chunk_shape": [3, 2], "index_codecs": [LE, CRC], "index_location": "end", "codecs": [
            {"name": "transpose", "configuration": {"order": [1, 0]}},
            {"name": "sharding_indexed", "configuration": {
                "chunk_shape": [1, 3], "codecs": [LE, CRC], "index_codecs": [LE, CRC]}},
        ]},
    )  # fmt: skip
    dtypes = ("u1", "f4")

    def arrays(self):
        for dtype in self.dtypes:
            array = numbers(dtype, (6, 8))
            array[:3, :4] = 0
            yield array


class TestVlenUtf8(CodecContract):
    stored_name = "vlen-utf8"

    def arrays(self):
        words = np.array(["", "a", "bcd", "é\U0001f600", "\0x", "日本" * 40], object)
        yield words
        yield words.reshape(2, 3)


class TestVlenBytes(CodecContract):
    stored_name = "vlen-bytes"

    def arrays(self):
        words = np.array([b"", b"a", b"bcd", b"\xff\0", b"\0x", b"q" * 300], object)
        yield words
        yield words.reshape(3, 2)


class TestVlenArray(CodecContract):
    format, stored_name = "zarr2", "vlen-array"
    configurations = ({"dtype": "<i4"}, {"dtype": ">i4"})

    def arrays(self):
        values = np.empty(4, object)
        for i in range(4):
            values[i] = np.arange(i, dtype="i4")
        yield values
        yield values.reshape(2, 2)


class _Objects(CodecContract):
    def arrays(self):
        values = np.empty(6, object)
        for i, value in enumerate([{"a": 1}, "b", None, [1, [2]], 1.5, []]):
            values[i] = value
        yield values
        yield values.reshape(2, 3)
        yield values[:0]


class TestJson2(_Objects):
    format, stored_name = "zarr2", "json2"
    configurations = ({},)
    canonical = (
        {"encoding": "utf-8", "skipkeys": False, "ensure_ascii": True, "check_circular": True,
         "allow_nan": True, "sort_keys": True, "indent": None, "separators": [",", ":"], "strict": True},
    )  # fmt: skip


class TestMsgPack2(_Objects):
    format, stored_name = "zarr2", "msgpack2"
    configurations = ({}, {"use_single_float": True})
    canonical = tuple(
        {"use_single_float": single, "use_bin_type": True, "raw": False} for single in (False, True)
    )


class TestCategorize(CodecContract):
    format, stored_name = "zarr2", "categorize"
    configurations = (
        {"dtype": "|O", "labels": ["x", "yy"], "astype": "u2"},
        {"dtype": "|O", "labels": ["x", "yy"]},
    )

    def arrays(self):
        yield np.array(["x", "yy", "", "x"], object)
        yield np.array([["x", "yy"], ["", "x"]], object)


class TestDelta(CodecContract):
    format, stored_name = "zarr2", "delta"
    configurations = ({"dtype": "<i4"}, {"dtype": ">i4", "astype": ">i8"})
    dtypes = ("i4",)
    shapes = ((1,), (7,), (3, 5))


class TestDeltaZarr3(TestDelta):
    format, stored_name = "zarr3", "numcodecs.delta"
    configurations = ({"dtype": "<i4"}, {"dtype": "<i4", "astype": ">i8"})


class TestFixedScaleOffset(CodecContract):
    format, stored_name = "zarr2", "fixedscaleoffset"
    configurations = ({"offset": 2, "scale": 10, "dtype": "<f8", "astype": "<i4"},)
    dtypes = ("f8",)
    lossy = True


class TestQuantize(CodecContract):
    format, stored_name = "zarr2", "quantize"
    configurations = ({"digits": 2, "dtype": "<f8"}, {"digits": 1, "dtype": "<f8", "astype": "<f4"})
    dtypes = ("f8",)
    lossy = True


class TestAsType(CodecContract):
    format, stored_name = "zarr2", "astype"
    configurations = ({"encode_dtype": ">f8", "decode_dtype": "<i4"},)
    dtypes = ("i4",)


class TestPackBitsFilter(CodecContract):
    format, stored_name = "zarr2", "packbits"
    dtypes = ("?",)


COMPRESSED = ("u1", "i2", "f8")


class TestBlosc(CodecContract):
    stored_name = "blosc"
    configurations = (
        {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0},
        {"cname": "zstd", "clevel": 1, "shuffle": "bitshuffle", "typesize": 4, "blocksize": 0},
        {"cname": "zstd", "clevel": 1, "shuffle": "bitshuffle", "typesize": 400, "blocksize": 0},
        {"cname": "zlib", "clevel": 9, "shuffle": "noshuffle", "blocksize": 64},
        {"cname": "blosclz"},
        {"clevel": 0},
    )
    dtypes = COMPRESSED


class TestBloscZarr2(CodecContract):
    format, stored_name = "zarr2", "blosc"
    configurations = (
        {"cname": "lz4hc", "clevel": 5, "shuffle": -1, "blocksize": 0},
        {"cname": "lz4", "clevel": 5, "shuffle": 2, "blocksize": 0},
    )
    dtypes = COMPRESSED


class TestBloscN5(CodecContract):
    format, stored_name = "n5", "blosc"
    configurations = (
        {"cname": "blosclz", "clevel": 6, "shuffle": 0, "blocksize": 0, "typesize": 1, "nthreads": 1},
        {},
    )
    canonical = ({"cname": "blosclz", "clevel": 6, "shuffle": 0, "blocksize": 0},) * 2
    dtypes = COMPRESSED


class TestGzip(CodecContract):
    stored_name = "gzip"
    configurations = ({"level": 0}, {"level": 1}, {"level": 9}, {})
    dtypes = COMPRESSED


class TestGzipN5(CodecContract):
    format, stored_name = "n5", "gzip"
    configurations = ({"level": -1, "useZlib": True}, {}, {"useZlib": False, "level": 2})
    canonical = (
        {"level": -1, "useZlib": True},
        {"level": 6, "useZlib": False},
        {"useZlib": False, "level": 2},
    )
    dtypes = COMPRESSED


class TestZlib(CodecContract):
    format, stored_name = "zarr2", "zlib"
    configurations = ({"level": 1}, {"level": 9})
    dtypes = COMPRESSED


class TestZstd(CodecContract):
    stored_name = "zstd"
    configurations = ({"level": -7}, {"level": 0, "checksum": True}, {"level": 22, "checksum": False}, {})
    dtypes = COMPRESSED
    shapes = ((), (7,), (2, 3, 4))


class TestZstdN5(CodecContract):
    format, stored_name = "n5", "zstd"
    configurations = ({"level": 0}, {"id": "zstd"})
    canonical = ({"level": 0}, {"level": 3})
    dtypes = COMPRESSED


class TestCrc32c(CodecContract):
    stored_name = "crc32c"


class TestCrc32cZarr2(CodecContract):
    format, stored_name = "zarr2", "crc32c"
    configurations = ({"location": "start"}, {"location": "end"}, {})


class TestLz4(CodecContract):
    format, stored_name = "zarr2", "lz4"
    configurations = ({"acceleration": 1}, {"acceleration": 10})
    dtypes = COMPRESSED


class TestBz2(CodecContract):
    format, stored_name = "zarr2", "bz2"
    configurations = ({"level": 1}, {"level": 9})
    dtypes = COMPRESSED
    shapes = ((7,), (2, 3, 4))


class TestLzma(CodecContract):
    format, stored_name = "zarr2", "lzma"
    configurations = (
        {"format": 1, "check": -1, "preset": None, "filters": None},
        {"format": 2, "check": -1, "preset": 0, "filters": None},
        {
            "format": 3,
            "check": -1,
            "preset": None,
            "filters": [{"id": 3, "dist": 2}, {"id": 33, "preset": 1}],
        },
    )
    dtypes = ("i2",)
    shapes = ((7,), (2, 3, 4))


class TestAdler32(CodecContract):
    format, stored_name = "zarr2", "adler32"
    configurations = ({}, {"location": "end"})


class TestCrc32(CodecContract):
    format, stored_name = "zarr2", "crc32"
    configurations = ({}, {"location": "end"})


class TestFletcher32(CodecContract):
    format, stored_name = "zarr2", "fletcher32"


class TestJenkinsLookup3(CodecContract):
    format, stored_name = "zarr2", "jenkins_lookup3"
    configurations = ({"initval": 3}, {})


class TestShuffle(CodecContract):
    format, stored_name = "zarr2", "shuffle"
    configurations = ({"elementsize": 4}, {})
    dtypes = ("i4", "f8")


class TestBase64(CodecContract):
    format, stored_name = "zarr2", "base64"


# Codecs of N5 keep the contract in tests/n5.
ELSEWHERE = {"bzip2", "xz", "lz4_java", "n5_block", "n5_default", "n5_string_block"}
# JPEG only reads and loses detail: nothing comes back as it was, which the contract asks for (tests/n5).
ELSEWHERE.add("jpeg")
# These refuse, or need packages that are not installed here.
REFUSED = {"pickle", "numcodecs.pcodec", "numcodecs.zfpy"}


def test_every_codec_of_the_catalogue_is_under_contract():
    """A codec without a contract class in this module fails."""
    tested = {
        catalogue.codecs.find(suite.stored_name, suite.format).name
        for suite in globals().values()
        if isinstance(suite, type) and issubclass(suite, CodecContract) and suite.stored_name
    }
    assert tested == set(catalogue.CODECS) - ELSEWHERE - REFUSED


# Modules that are parts of codecs, not codecs.
PARTS = {
    "chain", "copying", "decode", "n5_parts", "notation", "protocol", "zarr2",
    # of precomputed volumes, whose encodings have no other names
    "compressed_segmentation",
}  # fmt: skip


def test_every_module_is_in_the_catalogue():
    """A codec module that no row of the catalogue points to fails."""
    folder = str(Path(chunkwise.core.codec.__file__).parent)
    modules = {m.name for m in pkgutil.iter_modules([folder])}
    targets = {e.target.partition(":")[0].rpartition(".")[2] for e in catalogue.CODECS.values()}
    assert modules - PARTS == targets


@pytest.mark.parametrize("name", sorted(catalogue.CODECS))
def test_names_lead_to_the_row(name):
    """The class is registered under its own name, and each format's names find it."""
    cls = catalogue.codecs[name]
    assert cls.name == name
    for format, names in catalogue.CODECS[name].names.items():
        for alias in names:
            assert catalogue.codecs.find(alias, format) is cls
