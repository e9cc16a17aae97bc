"""Chunks that claim or hold other sizes than promised are refused before memory is spent on them."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import struct
import sys
import tracemalloc
import zlib

import ml_dtypes
import msgpack
import numcodecs.blosc
import numpy as np
import pytest
import zstandard

from chunkwise.core.base.limits import SizeBound, bounded
from chunkwise.core.codec.blosc import Blosc
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.bz2_lzma import Lzma, Xz
from chunkwise.core.codec.chain import parse_codec, parse_codecs, prepare_chain
from chunkwise.core.codec.gzip import Gzip
from chunkwise.core.codec.lz4 import Lz4
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.codec.vlen import VlenUtf8
from chunkwise.core.codec.zarr2 import parse_zarr2
from chunkwise.core.codec.zstd import Zstd
from chunkwise.core.libraries import crc32c
from chunkwise.errors import CodecError, DataCorruptionError, UnsupportedError
from chunkwise.testing.codec_contract import chunk_of, numbers

LE = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}
CHUNK = numbers("u2", (64, 64))
RAW = CHUNK.tobytes()
BOMB = bytes(200_000_000)


def decode(name, encoded, array=CHUNK, **configuration):
    chain = prepare_chain(parse_codecs([LE, {"name": name, "configuration": configuration}]), chunk_of(array))
    out = np.zeros_like(array)
    chain.open_decoder()(encoded, out)
    return out


BOMBS = {
    "gzip": lambda: gzip.compress(BOMB, 1),
    "numcodecs.zlib": lambda: zlib.compress(BOMB, 1),
    "numcodecs.bz2": lambda: bz2.compress(BOMB, 1),
    "numcodecs.lzma": lambda: lzma.compress(BOMB, preset=0),
    "zstd": lambda: zstandard.ZstdCompressor(write_content_size=False).compress(BOMB),
    "blosc": lambda: numcodecs.blosc.compress(BOMB, b"lz4", 1),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_noticed_early(name):
    """A chunk of 200 MB where 8 KiB are promised: an error, after memory of at most a fifth of it."""
    encoded = bytes(BOMBS[name]())
    tracemalloc.start()
    try:
        with pytest.raises(DataCorruptionError):
            decode(name, encoded)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


ENCODERS = {
    "gzip": gzip.compress,
    "numcodecs.zlib": zlib.compress,
    "numcodecs.bz2": bz2.compress,
    "numcodecs.lzma": lzma.compress,
    "numcodecs.lz4": numcodecs.LZ4().encode,
    "zstd": zstandard.ZstdCompressor(write_content_size=False).compress,
    "zstd of known size": zstandard.ZstdCompressor().compress,
    "blosc": lambda raw: numcodecs.blosc.compress(raw, b"lz4", 5),
}


@pytest.mark.parametrize("n", [1, 100, 70_000])
@pytest.mark.parametrize("name", ENCODERS)
def test_one_byte_more_or_less_than_expected_is_an_error(name, n):
    """Whether the size is known or limited."""
    codec = parse_codec({"name": name.partition(" ")[0]}).bind(chunk_of(CHUNK))
    raw = bytes(range(1, 101)) * 701
    encoded = {size: bytes(ENCODERS[name](raw[:size])) for size in (n - 1, n, n + 1)}
    assert bytes(codec.open_decoder(n)(encoded[n])) == raw[:n]
    for size in (n - 1, n + 1):
        with pytest.raises(DataCorruptionError):
            codec.open_decoder(n)(encoded[size])
    with bounded(SizeBound(n, "it may have", DataCorruptionError)):
        for size in (n - 1, n):
            assert bytes(codec.open_decoder(None)(encoded[size])) == raw[:size]
        with pytest.raises(DataCorruptionError):
            codec.open_decoder(None)(encoded[n + 1])


@pytest.mark.parametrize("name", ["gzip", "numcodecs.bz2", "numcodecs.lzma", "zstd"])
def test_several_streams_hold_what_is_expected_together(name):
    codec = parse_codec({"name": name}).bind(chunk_of(CHUNK))
    for sizes in ((30, 70), (100, 0), (0, 100), (99, 1), (1, 98, 1)):
        ends = np.cumsum([0, *sizes])
        raw = bytes(range(100))
        parts = [ENCODERS[name](raw[a:b]) for a, b in itertools.pairwise(ends)]
        assert bytes(codec.open_decoder(100)(b"".join(parts))) == raw
        for more in (ENCODERS[name](b"x"), parts[0] if sizes[0] else ENCODERS[name](b"xy")):
            with pytest.raises(DataCorruptionError):
                codec.open_decoder(100)(b"".join([*parts, more]))


@pytest.mark.parametrize("n", range(10))
def test_zeros_between_and_behind_xz_streams_come_in_fours(n):
    codec = Xz.parse("n5", "xz", {"preset": 0})
    streams = [lzma.compress(part, preset=0) for part in (RAW[:50], RAW[50:])]
    padding = bytes(n)
    for encoded in (streams[0] + padding + streams[1], streams[0] + streams[1] + padding):
        if n % 4:
            with pytest.raises(DataCorruptionError, match="stream padding is not a multiple of 4 bytes"):
                codec.open_decoder(len(RAW))(encoded)
        else:
            assert bytes(codec.open_decoder(len(RAW))(encoded)) == RAW


XZ_CHECKS = {
    lzma.CHECK_NONE: False,
    lzma.CHECK_CRC32: True,
    lzma.CHECK_CRC64: True,
    lzma.CHECK_SHA256: True,
}


@pytest.mark.parametrize("codec", [Xz(), Lzma()])
def test_xz_streams_say_whether_they_have_a_checksum(codec):
    for check, has in XZ_CHECKS.items():
        encoded = memoryview(lzma.compress(RAW, lzma.FORMAT_XZ, check, 0))
        assert codec.has_checksum(encoded) == has
        assert [codec.has_checksum(encoded[:n]) for n in range(10)] == [False] * 8 + [has] * 2
    assert not codec.has_checksum(memoryview(lzma.compress(RAW, lzma.FORMAT_ALONE, preset=0)))


def test_zstd_frames_say_whether_they_have_a_checksum():
    skipped = b"\x50\x2a\x4d\x18\5\0\0\0hello"
    for has in (False, True):
        frame = zstandard.ZstdCompressor(write_checksum=has).compress(RAW)
        for encoded in (frame, skipped + frame, skipped * 2 + frame):
            assert Zstd().has_checksum(memoryview(encoded)) == has
    assert not any(Zstd().has_checksum(memoryview((skipped + frame)[:n])) for n in range(len(skipped) + 5))


def test_claimed_sizes_are_checked_first():
    """A header that claims 2 GiB and more is compared with the promise, not believed."""
    blosc = bytearray(numcodecs.blosc.compress(RAW, b"lz4", 5))
    blosc[4:8] = struct.pack("<I", 2**31 - 17)
    zstd = zstandard.ZstdCompressor().compress(RAW)
    claim = zstd[:4] + bytes([0xC0 | 0x20]) + struct.pack("<Q", 2**40) + zstd[7:]
    lz4 = struct.pack("<I", 2**31 - 1) + b"\0" * 50
    tracemalloc.start()
    try:
        for name, encoded, text in (
            ("blosc", bytes(blosc), "decodes to 2147483631 bytes, but expected 8192 bytes"),
            ("zstd", claim, '"zstd" codec: '),
            ("numcodecs.lz4", lz4, "decodes to 2147483647 bytes, but expected 8192 bytes"),
        ):
            with pytest.raises(DataCorruptionError, match=text):
                decode(name, encoded)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_gzip_members_and_framings():
    """Several members, padding and either framing are read; anything else after a stream is an error."""
    for encoded in (
        gzip.compress(RAW), gzip.compress(RAW[:9]) + gzip.compress(RAW[9:]), gzip.compress(RAW) + b"\0" * 5,
        zlib.compress(RAW), gzip.compress(b"") + gzip.compress(RAW), gzip.compress(RAW) + gzip.compress(b""),
    ):  # fmt: skip
        assert (decode("gzip", encoded) == CHUNK).all()
    for encoded in (
        gzip.compress(RAW) + b"\1", gzip.compress(RAW)[:-1], gzip.compress(RAW)[:-8],
         gzip.compress(RAW + b"x"),
        gzip.compress(RAW[:-1]), b"", b"\x1f", gzip.compress(RAW) + gzip.compress(b"x"), RAW,
         gzip.compress(RAW)[:5],
    ):  # fmt: skip
        with pytest.raises(DataCorruptionError):
            decode("gzip", encoded)


BEHIND = [b"\1", b"\0" * 16, RAW]
IGNORED = {"blosc": True, "bz2": True, "gzip": b"\0", "zlib": b"\0"}
"""Codecs that ignore all bytes behind a stream, or those of one kind."""


@pytest.mark.parametrize("name", ["blosc", "bz2", "gzip", "zlib", "zstd", "lz4", "lzma"])
def test_bytes_behind_a_stream(name):
    """What NumCodecs ignores is ignored; missing bytes, and a second stream that is cut off, are errors."""
    codec = numcodecs.get_codec({"id": name})
    encoded, full = (
        bytes(codec.encode(RAW)),
        name if name in ("blosc", "gzip", "zstd") else f"numcodecs.{name}",
    )
    for behind in BEHIND:
        ignored = IGNORED.get(name, b"")
        if ignored is True or (ignored and not behind.strip(ignored)):
            np.testing.assert_array_equal(
                np.frombuffer(codec.decode(encoded + behind), np.uint8), bytearray(RAW)
            )
            assert (decode(full, encoded + behind) == CHUNK).all()
            continue
        with pytest.raises(DataCorruptionError):
            decode(full, encoded + behind)
    for wrong in (
        encoded[:-1],
        encoded[: len(encoded) // 2],
        b"",
        *([encoded + encoded[:-1]] * (name == "bz2")),
    ):
        with pytest.raises(DataCorruptionError):
            decode(full, wrong)


def test_gzip_is_reproducible_and_keeps_its_level():
    """About what zlib needs at that level, no time in the header; ISA-L only where it is asked for."""
    data = np.random.default_rng(0).poisson(20, 40_000).astype("<u2").tobytes()
    for level in range(10):
        peer = zlib.compressobj(level, zlib.DEFLATED, 31)
        size = len(peer.compress(data) + peer.flush())
        encoded = bytes(Gzip(level).open_encoder()(data))
        assert encoded == bytes(Gzip(level).open_encoder()(data))
        assert encoded[4:8] == b"\0\0\0\0" and gzip.decompress(encoded) == data
        assert len(encoded) <= 1.03 * size
    fast = bytes(Gzip(1, library="isal").open_encoder()(RAW))
    assert gzip.decompress(fast) == RAW and fast[4:8] == b"\0\0\0\0"
    assert fast != bytes(Gzip(1).open_encoder()(RAW))
    with pytest.raises(CodecError, match="level 0 to 3, but the level is 9"):
        Gzip(9, library="isal").open_encoder()


def test_wrong_checksums():
    """Each checksum notices a changed byte; CRC-32C in TensorStore's words."""
    with pytest.raises(DataCorruptionError) as e:
        decode("crc32c", bytes(52), np.zeros((4, 6), "u2"))
    assert (
        str(e.value)
        == "DATA_LOSS: Digest mismatch, stored digest is 0x00000000 but computed digest is 0x288c3ab9"
    )
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(RAW)
    with pytest.raises(DataCorruptionError, match="checksum"):
        decode("zstd", checked[:-1] + bytes([checked[-1] ^ 1]))
    for name in ("numcodecs.crc32", "numcodecs.adler32", "numcodecs.fletcher32", "numcodecs.jenkins_lookup3"):
        chain = prepare_chain(parse_codecs([LE, name]), chunk_of(CHUNK))
        encoded = bytearray(bytes(chain.open_encoder()(CHUNK)))
        encoded[100] ^= 1
        with pytest.raises(DataCorruptionError, match=name.partition(".")[2]):
            chain.open_decoder()(bytes(encoded), np.zeros_like(CHUNK))


def test_crc32c_values():
    """RFC 3720 B.4, from a view at any place."""
    crc = crc32c()
    assert crc(memoryview(bytes(32))) == 0x8A9136AA
    assert crc(memoryview(b"x" + b"\xff" * 32)[1:]) == 0x62A8AB43
    assert crc(memoryview(bytearray(range(32)))) == 0x46DD794E
    assert crc(memoryview(b"")) == 0


def test_bool_other_than_0_and_1():
    """TensorStore's words."""
    array = np.zeros(4, bool)
    for codecs in (["bytes"], ["bytes", "numcodecs.zlib"], ["bytes", "blosc"]):
        chain = prepare_chain(parse_codecs(codecs), chunk_of(array))
        source = np.array([0, 1, 2, 255], "u1")
        encoded = bytes(prepare_chain(chain.codecs, chunk_of(source)).open_encoder()(source))
        with pytest.raises(DataCorruptionError, match="Invalid bool value: 2; at byte 2"):
            chain.open_decoder()(encoded, array)


SHARD = [
    {
        "name": "sharding_indexed",
        "configuration": {"chunk_shape": [1, 2], "codecs": [LE], "index_codecs": [LE]},
    }
]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ((0, 9), '"bytes" codec: chunk decodes to 9 bytes, but expected 4 bytes'),
        ((1000, 4), "Invalid shard index entry: 4 bytes at 1000 are outside the shard of 24 bytes"),
        ((21, 4), "outside the shard"),
        ((2**64 - 2, 4), "outside the shard"),
        ((2**64 - 1, 4), "outside the shard"),
        ((4, 2**64 - 1), "outside the shard"),
    ],
)
def test_shard_index_entries_out_of_bounds(entry, message):
    """An inner chunk must lie in the shard; sums don't wrap around."""
    array = numbers("u2", (1, 2))
    chain = prepare_chain(parse_codecs(SHARD), chunk_of(array))
    encoded = bytes(8) + struct.pack("<QQ", *entry)
    with pytest.raises(DataCorruptionError) as e:
        chain.open_decoder()(encoded, array)
    assert message in str(e.value)


def test_shard_index_is_checked():
    """Too short for an index, and an index with a wrong checksum, in TensorStore's words."""
    codecs = [{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [2, 3], "codecs": [LE], "index_codecs": [LE, CRC]}}]  # fmt: skip
    array = np.zeros((4, 6), "u2")
    decode_shard = prepare_chain(parse_codecs(codecs), chunk_of(array)).open_decoder()
    with pytest.raises(DataCorruptionError) as e:
        decode_shard(b"\xff" * 68, array)
    assert str(e.value) == (
        "DATA_LOSS: Error decoding shard index: Digest mismatch, stored digest is 0xffffffff "
        "but computed digest is 0x2fcd4e66"
    )
    with pytest.raises(DataCorruptionError, match="shard has 67 bytes, but its index alone has 68"):
        decode_shard(b"\xff" * 67, array)


def test_shard_gaps_order_and_overlap_are_allowed():
    """Inner chunks may lie anywhere, also on the same bytes, as the specification says."""
    array = np.zeros((1, 6), "u2")
    chain = prepare_chain(parse_codecs(SHARD), chunk_of(array))
    data = np.array([9, 8, 7, 6], "<u2").tobytes()
    index = struct.pack("<6Q", 4, 4, 2**64 - 1, 2**64 - 1, 4, 4)
    chain.open_decoder()(data + b"gap" + index, array)
    assert array.tolist() == [[7, 6, 0, 0, 7, 6]]


def test_shard_keeps_negative_zero_and_nan():
    """Only an inner chunk with the very bits of the fill value is left out."""
    array = np.array([[0.0, 0.0, -0.0, 0.0, np.nan, np.nan]], "f4")
    chain = prepare_chain(parse_codecs(SHARD), chunk_of(array))
    encoded = bytes(chain.open_encoder()(array))
    assert len(encoded) == 2 * 8 + 3 * 16
    out = np.ones_like(array)
    chain.open_decoder()(encoded, out)
    assert out.tobytes() == array.tobytes()


def test_vlen_counts_and_sizes():
    """Counts and sizes that the chunk does not hold are errors, whatever they claim."""
    item = chunk_of(np.array(["a", "b"], object))
    decode_vlen = VlenUtf8().open_decoder(item)
    u4 = lambda *n: struct.pack(f"<{len(n)}I", *n)  # noqa: E731
    for bad in (
        b"", u4(2), u4(3, 0, 0, 0), u4(2**31 + 2, 0, 0), u4(2, 0, 1), u4(2, 2**32 - 1, 0),
        u4(2, 1) + b"\xff" + u4(0), u4(2**32 - 1, 0, 0),
    ):  # fmt: skip
        with pytest.raises(DataCorruptionError, match="vlen-utf8"):
            decode_vlen(bad, np.empty(2, object))
    with pytest.raises(CodecError, match="encodes strings, but received: 5"):
        VlenUtf8().open_encoder(item)(np.array(["a", 5], object))
    with pytest.raises(CodecError, match="surrogates not allowed"):
        VlenUtf8().open_encoder(item)(np.array(["a", "\udcff"], object))


def test_snappy_is_named(monkeypatch):
    """A chunk or a codec that needs a compressor that c-blosc lacks says so, and which package has it."""
    assert "snappy" not in numcodecs.blosc.list_compressors()
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    expected = r"\"blosc\" codec with 'snappy' needs imagecodecs: pip install \"chunkwise\[codecs\]\""
    with pytest.raises(UnsupportedError, match=expected):
        Blosc("snappy").open_encoder()
    encoded = bytearray(numcodecs.blosc.compress(bytes(8192), b"lz4", 5))
    encoded[2] = (encoded[2] & 0x1F) | 2 << 5
    with pytest.raises(UnsupportedError, match=expected):
        decode("blosc", bytes(encoded))


@pytest.mark.parametrize("clevel", [0, 1, 5, 9])
def test_c_blosc_by_whatever_way(clevel):
    """The same bytes are written and read as through NumCodecs, at each level."""
    values = (np.arange(4096) // 3 % 500).astype("u2")  # which noise would not be: it is stored as it is
    raw = values.tobytes()
    for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for shuffle in (0, 1, 2):
            codec = Blosc(cname, clevel, shuffle, 2, 0)
            encoded = bytes(codec.open_encoder()(raw))
            assert encoded == numcodecs.blosc.compress(values, cname.encode(), clevel, shuffle)
            assert bytes(codec.open_decoder(len(raw))(encoded)) == raw
            assert bytes(codec.open_decoder(None)(memoryview(encoded))) == raw
            assert codec.open_decoder(0)(codec.open_encoder()(b"")) == b""
            bad = bytearray(encoded)
            bad[16:20] = b"\xff" * 4
            if not bad[2] & 2:
                with pytest.raises(DataCorruptionError, match="Invalid blosc-compressed data"):
                    codec.open_decoder(len(raw))(bytes(bad))


def test_blosc_leaves_the_settings_of_numcodecs_alone():
    """Nothing global is changed, for other users of NumCodecs in the process."""
    before = numcodecs.blosc.use_threads, numcodecs.blosc.get_nthreads()
    codec = Blosc("lz4", 5, 1, 2, 0)
    assert bytes(codec.open_decoder(len(RAW))(bytes(codec.open_encoder()(RAW)))) == RAW
    assert (numcodecs.blosc.use_threads, numcodecs.blosc.get_nthreads()) == before


def test_blosc_encoded_size_is_exact():
    """The header says how many bytes there are; one less is corrupt; those behind are ignored."""
    encoded = bytes(numcodecs.blosc.compress(RAW, b"lz4", 5))
    for bad in (encoded[:-1], encoded[:15], b""):
        with pytest.raises(DataCorruptionError, match="blosc"):
            decode("blosc", bad)


@pytest.mark.parametrize(
    ("dtype", "mask"), [(ml_dtypes.int4, 15), (ml_dtypes.uint2, 3), (ml_dtypes.float6_e2m3fn, 63)]
)
def test_unused_bits_are_cleared(dtype, mask):
    """Whatever the unused bits of a small type are, in memory or stored, they come out as zero."""
    raw = np.arange(256, dtype="u1").reshape(16, 16)
    clean = raw & mask
    for codecs in (["bytes"], ["bytes", "numcodecs.zlib"], ["bytes", "blosc"]):
        chain = prepare_chain(parse_codecs(codecs), chunk_of(raw.view(dtype)))
        plain = prepare_chain(chain.codecs, chunk_of(raw))
        encode, out = chain.open_encoder(), np.empty((16, 16), dtype)
        assert bytes(encode(raw.view(dtype))) == bytes(plain.open_encoder()(clean))
        chain.open_decoder()(bytes(plain.open_encoder()(raw)), out)
        assert (out.view("u1") == clean).all()


@pytest.mark.parametrize("fields", ["?,u2", "u1,?", "?,?", "f4,u1"])
def test_bytes_of_records_are_kept(fields):
    """Fields with unused bits beside others with none: all bits of these are kept."""
    dtype = np.dtype(fields)
    values = np.zeros(6, dtype)
    for name in dtype.names:
        values[name] = np.arange(6) * 40 if values[name].dtype.kind != "b" else np.arange(6) % 2
    chain = prepare_chain(parse_codecs(["bytes"]), chunk_of(values))
    out = np.empty(6, dtype)
    chain.open_decoder()(bytes(chain.open_encoder()(values)), out)
    assert out.tolist() == values.tolist()


@pytest.mark.parametrize("size", [None, 5])
def test_lz4_sizes(size):
    """The size in front is part of the chunk."""
    decode_lz4 = Lz4().open_decoder(size)
    assert bytes(decode_lz4(bytes(Lz4().open_encoder()(b"abcde")))) == b"abcde"
    for bad in (b"", b"\5\0\0", b"\5\0\0\0", b"\4\0\0\0\x40abcd\0"[:7], b"\xff\xff\xff\xff\0"):
        with pytest.raises(DataCorruptionError, match="lz4"):
            decode_lz4(bad)


def test_bytes_sizes():
    """One byte missing or left over is an error, with both sizes."""
    decode_bytes = prepare_chain([Bytes("little")], chunk_of(np.zeros((4, 6), "u2"))).open_decoder()
    for n in (47, 49, 0):
        with pytest.raises(DataCorruptionError, match=f"decodes to {n} bytes, but expected 48 bytes"):
            decode_bytes(bytes(n), np.zeros((4, 6), "u2"))


def test_zstd_of_any_size_takes_no_more_than_the_frames_claim():
    """A damaged frame of 249 bytes makes no memory for what as many encoded bytes could hold."""
    known, unknown = zstandard.ZstdCompressor(), zstandard.ZstdCompressor(write_content_size=False)
    decode_any = Zstd(3).open_decoder(None)
    noise = np.random.default_rng(0).integers(0, 3, 300_000, "u1").tobytes()
    for frames in ((known,), (unknown,), (known, unknown), (unknown, known, known)):
        for data in (noise, noise[:5], b""):
            encoded = b"".join(frame.compress(data) for frame in frames)
            assert bytes(decode_any(encoded)) == data * len(frames)
            for bad in (encoded[:-1], encoded + b"x", encoded[:3]):
                with pytest.raises(DataCorruptionError, match="zstd"):
                    decode_any(bad)
    lying = bytearray(known.compress(bytes(249)))
    lying[5] = 1
    tracemalloc.start()
    try:
        with pytest.raises(DataCorruptionError, match="zstd"):
            decode_any(bytes(lying))
        assert tracemalloc.get_traced_memory()[1] < 300_000  # a block of 128 KiB, and as much to copy it
    finally:
        tracemalloc.stop()


ITEMS = {
    "no list": ({"a": 1}, "not a list that ends in a data type and a shape"),
    "no shape": ([1, 2, 3], "not a list that ends in a data type and a shape"),
    "empty": ([], "not a list that ends in a data type and a shape"),
    "another shape": ([[1, 2, 3], [4, 5, 6], "|O", [3, 2]], r"has shape \[3, 2\], but expected \[2, 3\]"),
    "another size": ([1, 2, 3, 4, 5, "|O", [5]], r"has shape \[5\], but expected \[2, 3\]"),
    "flat": ([1, 2, 3, 4, 5, 6, "|O", [2, 3]], r"not nested as deep as its shape \[2, 3\]"),
    "a row less": ([[1, 2, 3], "|O", [2, 3]], "holds 3 values, but expected 6"),
    "a value more": ([1, 2, 3, 4, 5, 6, 7, "|O", [6]], "holds 7 values, but expected 6"),
}
PACKERS = {"json2": lambda value: json.dumps(value).encode(), "msgpack2": msgpack.packb}


def objects(name, encoded=None, shape=(2, 3), dtype="O", values=None):
    """Return a decoded chunk of objects, or encode `values`."""
    item = ChunkSpec(shape, np.dtype(dtype), np.zeros((), dtype))
    chain = prepare_chain(parse_zarr2(None, [{"id": name}], np.dtype(dtype), "C"), item)
    if values is not None:
        return bytes(chain.open_encoder()(values))
    out = np.empty(shape, dtype)
    chain.open_decoder()(encoded, out)
    return out


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("case", ITEMS)
def test_lists_of_objects_are_checked(name, case):
    value, message = ITEMS[case]
    with pytest.raises(DataCorruptionError, match=f'"{name}" codec: chunk .*{message}'):
        objects(name, PACKERS[name](value))


NOT_HELD = {
    "i1": [300, 1.5, "x", None, [1], float("inf")],
    "u8": [-1, 2**64, 0.5],
    "?": [2, "no", None, []],
    "<U2": ["abc", 300, None, True],
    "f4": ["x", [1], {}],
    "M8[s]": ["x", 1.5],
}


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("dtype", NOT_HELD)
def test_values_in_lists_that_the_data_type_can_not_hold(dtype, name):
    """None is cut off, rounded or turned into a text; those that it can hold are read."""
    for value in NOT_HELD[dtype]:
        if name == "msgpack2" and value == 2**64:  # which MessagePack has not
            continue
        with pytest.raises(DataCorruptionError, match=f'"{name}" codec: '):
            objects(name, PACKERS[name]([value, dtype, [1]]), (1,), dtype)
    held = ["ab", ""] if dtype == "<U2" else [1, 0]
    assert (objects(name, PACKERS[name]([*held, dtype, [2]]), (2,), dtype) == np.array(held, dtype)).all()


@pytest.mark.parametrize("name", PACKERS)
def test_lists_of_objects_may_be_flat(name):
    """As older releases of NumCodecs wrote them."""
    out = objects(name, PACKERS[name]([[1], "b", None, {}, 5, 6, "|O", [6]]))
    assert out.tolist() == [[[1], "b", None], [{}, 5, 6]]
    assert objects(name, PACKERS[name]([[7], "|O", []]), ()).item() == [7]


@pytest.mark.parametrize(
    "encoded",
    [
        b"", b"\xc1", b"\x98\x81\x90\x01\1\1\1\1\1\xa2|O\x91\6", b"\xdd\xff\xff\xff\xff", b"\x91" * 5000,
        msgpack.packb(["|O", [0]]) + b"\0", msgpack.packb([b"\xff"] * 6 + ["|O", [6]], use_bin_type=False),
    ],
    ids=["empty", "format", "key", "length", "depth", "behind", "text"],
)  # fmt: skip
def test_damaged_messages(encoded):
    """Also keys that no mapping of Python can have."""
    with pytest.raises(DataCorruptionError, match=r'"msgpack2" codec: \S'):
        objects("msgpack2", encoded)


def _circle():
    circle = []
    circle.append(circle)
    return circle


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("value", [object(), {1, 2}, _circle()], ids=["object", "set", "circle"])
def test_objects_without_a_form_are_refused(name, value):
    values = np.empty((1,), object)
    values[0] = value
    with pytest.raises(CodecError, match=f'"{name}" codec: '):
        objects(name, shape=(1,), values=values)


def test_integers_of_more_than_64_bits_are_refused_in_messages():
    with pytest.raises(CodecError, match='"msgpack2" codec: Integer value out of range'):
        objects("msgpack2", shape=(1,), values=np.array([2**70], object))


def test_zstd_frames_between_skippable_ones():
    """Which have any content, also one that is cut off."""
    frame, codec = zstandard.ZstdCompressor().compress(RAW), parse_codec({"name": "zstd"})
    codec = codec.bind(chunk_of(CHUNK))
    skipped = b"\x50\x2a\x4d\x18" + struct.pack("<I", 5) + b"hello"
    for encoded in (skipped + frame, frame + skipped, skipped * 2 + frame + skipped):
        for n in (len(RAW), None):
            assert bytes(codec.open_decoder(n)(encoded)) == RAW
    for n in (len(RAW), None):
        with pytest.raises(DataCorruptionError):
            codec.open_decoder(n)(skipped) if n else codec.open_decoder(n)(b"x" + skipped)


@pytest.mark.parametrize("name", ["blosc", "numcodecs.lz4"])
def test_chunks_that_a_compressor_can_not_hold_are_refused(name, monkeypatch):
    """More than 2 GiB, in fact."""
    for module in ("blosc", "lz4"):
        monkeypatch.setattr(f"chunkwise.core.codec.{module}._MAX_NBYTES", len(RAW) - 1)
    codec = parse_codec({"name": name}).bind(chunk_of(CHUNK))
    with pytest.raises(CodecError, match=f"a chunk of {len(RAW)} bytes is larger than the"):
        codec.open_encoder()(RAW)
    assert bytes(codec.open_decoder(100)(codec.open_encoder()(RAW[:100]))) == RAW[:100]


INF, NAN, F4 = float("inf"), float("nan"), float(np.float32(0.1))
MS = ["1970-01-01T00:00:01", "1970-01-01T00:00:01.500"]
SCALED = {"id": "fixedscaleoffset", "offset": 1000, "scale": 10, "dtype": "<f4"}
FAILING = {
    "initval below 0": ([{"id": "jenkins_lookup3", "initval": -1}], "u1", '"jenkins_lookup3" codec: '),
    "initval above": ([{"id": "jenkins_lookup3", "initval": 2**40}], "u1", '"jenkins_lookup3" codec: '),
    "elements cut": ([{"id": "shuffle", "elementsize": 3}], "u1", '"shuffle" codec: .*multiple'),
    "digits": ([{"id": "quantize", "digits": 400, "dtype": "<f4"}], "<f4", '"quantize" codec: '),
    "offset": (
        [{"id": "fixedscaleoffset", "offset": "x", "scale": 1, "dtype": "<f4"}],
        "<f4",
        '"fixedscaleoffset" codec: ',
    ),
    "booleans": ([{"id": "delta", "dtype": "|b1"}], "?", "encodes bool, but can't restore it"),
    "times": ([{"id": "delta", "dtype": "<M8[s]"}], "M8[s]", "encodes datetime64.*, but can't restore it"),
    # numbers that NumCodecs gives the code of another one
    "narrow": ([{"id": "astype", "encode_dtype": "|u1", "decode_dtype": "<i4"}], [0, 255, 256], "encode 256"),
    "sign": ([{"id": "astype", "encode_dtype": "|u1", "decode_dtype": "|i2"}], [0, -1], "encode -1"),
    "large": (
        [{"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f8"}],
        [INF, 1e300],
        "encode 1e.300",
    ),
    "imaginary": (
        [{"id": "astype", "encode_dtype": "<f8", "decode_dtype": "<c16"}],
        [1, 2 + 1j],
        "encode .2.1j",
    ),
    "cut": (
        [{"id": "astype", "encode_dtype": "<M8[s]", "decode_dtype": "<M8[ms]"}],
        MS,
        "encode 1970-01-01T00",
    ),
    "scaled": ([{**SCALED, "astype": "|u1"}], [1000, 1025.5, 1025.6], "encode 1025.5999"),
    "not a number": ([{**SCALED, "astype": "|u1"}], [1000, NAN], "encode nan"),
    "half": ([{**SCALED, "astype": "<f2"}], [1000, 1e6], "encode 1000000"),
    "differences": ([{"id": "delta", "dtype": "<i2", "astype": "|i1"}], [0, 100, 300, 0], "|encode 300"),
    "differences cut": (
        [{"id": "delta", "dtype": "<i4", "astype": "<f4"}],
        [0, 2**24 + 1],
        "encode 16777217",
    ),
    "float differences": ([{"id": "delta", "dtype": "<f8", "astype": "<f4"}], [0, 1e300], "encode 1e.300"),
    "quantized": (
        [{"id": "quantize", "digits": 1, "dtype": "<f8", "astype": "<f2"}],
        [1.1, 1e6],
        "encode 1000000",
    ),
    "no label": ([{"id": "categorize", "labels": ["a"], "dtype": "|O"}], ["a", "", "b"], "encode b"),
    "filters": ([{"id": "lzma", "format": 3, "filters": [{"id": 77}]}], "u1", "can't be used as configured"),
    "huge filters": (
        [{"id": "lzma", "format": 3, "filters": [{"id": 2**70}]}],
        "u1",
        "can't be used as configured",
    ),
}


def _decoded(filter, values):
    return np.array(values, filter.get("decode_dtype") or filter["dtype"])


ROUNDED = {
    "nearest": ([{**SCALED, "astype": "|u1"}], [999.96, 1000.04, 1025.5], [1000, 1000, 1025.5]),
    "sums that wrap around": ([{"id": "delta", "dtype": "|u1", "astype": "|i1"}], [0, 200, 3], [0, 200, 3]),
    "bits": ([{"id": "astype", "encode_dtype": "<u8", "decode_dtype": "<i8"}], [-1, 1], [-1, 1]),
    "below the offset": ([{"id": SCALED["id"], "offset": 9, "scale": 1, "dtype": "|u1"}], [5, 20], [5, 20]),
    "fractions": ([{"id": "astype", "encode_dtype": "<i2", "decode_dtype": "<f8"}], [1.5, -1.5], [1, -1]),
    "single": ([{"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f8"}], [0.1, INF], [F4, INF]),
    "complex": ([{"id": "astype", "encode_dtype": "<c8", "decode_dtype": "<f8"}], [0.1, 2], [F4, 2]),
    "missing": ([{"id": "astype", "encode_dtype": "<M8[s]", "decode_dtype": "<M8[ms]"}], ["NaT"], ["NaT"]),
    "labels": ([{"id": "categorize", "labels": ["a"], "dtype": "|O"}], ["a", ""], ["a", ""]),
}


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("case", ROUNDED)
def test_what_a_filter_rounds_is_encoded(case):
    filters, given, expected = ROUNDED[case]
    values = _decoded(filters[0], given)
    chain = prepare_chain(parse_zarr2(None, filters, values.dtype, "C"), chunk_of(values))
    out = np.empty_like(values)
    chain.open_decoder()(chain.open_encoder()(values), out)
    np.testing.assert_array_equal(out, np.array(expected, values.dtype))


def test_a_fill_value_is_encoded_as_it_can_be():
    """It fills up chunks at the end of an array, and may be one that no element has."""
    for fill, values in ((float("nan"), [1000, NAN, 1001]), (0, [1000, 0, 1001])):
        values = np.array(values, "f4")
        item = ChunkSpec(values.shape, values.dtype, np.array(fill, "f4"))
        chain = prepare_chain(parse_zarr2(None, [{**SCALED, "astype": "|u1"}], values.dtype, "C"), item)
        chain.open_encoder()(values)
        with pytest.raises(CodecError, match="encode 500"):
            chain.open_encoder()(np.array([1000, 500, 1001], "f4"))


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("case", FAILING)
def test_what_a_codec_can_not_encode_is_an_error_of_its_own(case):
    """Whatever its library raises; and nothing is encoded that it can't decode."""
    filters, given, message = FAILING[case]
    values = np.arange(8).astype(given) if isinstance(given, str) else _decoded(filters[0], given)
    chain = prepare_chain(parse_zarr2(None, filters, values.dtype, "C"), chunk_of(values))
    with pytest.raises(CodecError, match=message):
        chain.open_encoder()(values)
    if case.endswith("filters"):
        with pytest.raises(CodecError, match=message):
            chain.open_decoder()(b"123", values)


DAMAGED = {
    "no number": ([{"id": "astype", "encode_dtype": "<U1", "decode_dtype": "<i4"}], "<i4", b"a\0\0\0"),
    "too many unused bits": ([{"id": "packbits"}], "?", b"\x09\0"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_what_a_filter_can_not_decode_is_damaged(case):
    filters, dtype, encoded = DAMAGED[case]
    values = np.zeros(1, dtype)
    chain = prepare_chain(parse_zarr2(None, filters, np.dtype(dtype), "C"), chunk_of(values))
    with pytest.raises(DataCorruptionError, match=f'"{filters[0]["id"]}" codec'):
        chain.open_decoder()(encoded, values)
