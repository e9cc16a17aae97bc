"""The block codec: the format's own examples, peers in both directions, hostile bytes."""

import contextlib
import struct
import tracemalloc

import numpy as np
import pytest
import tensorstore
import z5py
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chunkwise.core.codec.bz2_lzma import Bzip2
from chunkwise.core.codec.lz4 import Lz4Java
from chunkwise.core.codec.n5_block import N5Block
from chunkwise.core.codec.n5_parts import compression_to_json, parse_compression
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.errors import CodecError, DataCorruptionError

DTYPES = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"]
COMPRESSIONS = [
    {"type": "raw"},
    {"type": "gzip", "level": 5, "useZlib": False},
    {"type": "gzip", "level": 1, "useZlib": True},
    {"type": "bzip2", "blockSize": 9},
    {"type": "xz", "preset": 3},
    {"type": "lz4", "blockSize": 64},
    {"type": "zstd", "level": 3},
    {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
]


def item_of(shape, dtype):
    return ChunkSpec(tuple(shape), np.dtype(dtype), np.zeros((), dtype))


def codec_of(compression, item):
    return N5Block.parse("n5", "n5_block", {"compression": compression}).bind(item)


def encode(array, compression):
    item = item_of(array.shape, array.dtype)
    return bytes(codec_of(compression, item).open_encoder(item)(array))


def decode(raw, shape, dtype, compression, order="C"):
    item = item_of(shape, dtype)
    out = np.full(shape, 7, dtype, order=order)
    codec_of(compression, item).open_decoder(item)(raw, out)
    return out


def header(mode, *dims):
    return struct.pack(f">HH{len(dims)}I", mode, len(dims), *dims)


# Dataset of 5 by 3 in blocks of 3 by 2, int16, value 10*y + x: n5-java crops, TensorStore pads.
EXAMPLES = {
    (0, 0): "00000002 00000003 00000002 0000 0001 0002 000a 000b 000c",
    (1, 0): "00000002 00000002 00000002 0003 0004 000d 000e",
    (0, 1): "00000002 00000003 00000001 0014 0015 0016",
    (1, 1): "00000002 00000002 00000001 0017 0018",
}
PADDED = "00000002 00000003 00000002 0017 0018 0000 0000 0000 0000"
# README of n5-java: uint16 of 1 by 2 by 3 holding 1 to 6
README = {
    "raw": "0001 0002 0003 0004 0005 0006",
    "bzip2": "425a6839 31415926 5359023e 0dd20000 0040007f 00200031 "
    "0c010d31 a8739433 7c5dc914 e1424008 f83748",
    "gzip": "1f8b0800 00000000 00006360 64606260 66606160 65600300 aaea6d bf 0c000000",
    "xz": "fd377a58 5a000004 e6d6b446 02002101 16000000 742fe5a3 01000b00 01000200 03000400 05000600 "
    "0d0309ca 34ec15a7 0001240c a618d8d8 1fb6f37d 01000000 0004595a",
}


@pytest.mark.parametrize("cell", EXAMPLES)
def test_examples_of_cropped_blocks(cell):
    x, y = np.meshgrid(3 * cell[0] + np.arange(3), 2 * cell[1] + np.arange(2), indexing="ij")
    expected = np.where((x < 5) & (y < 3), 10 * y + x, 0)
    for order in "CF":
        out = decode(bytes.fromhex(EXAMPLES[cell]), (3, 2), "int16", {"type": "raw"}, order)
        np.testing.assert_array_equal(out, expected)


def test_blocks_are_written_in_full_size():
    block = np.zeros((3, 2), "int16")
    block[:2, 0] = 23, 24
    assert encode(block, {"type": "raw"}) == bytes.fromhex(PADDED)


@pytest.mark.parametrize("type", README)
def test_examples_of_the_readme(type):
    raw = bytes.fromhex("00000003 00000001 00000002 00000003" + README[type])
    expected = np.arange(1, 7, dtype="u2").reshape((1, 2, 3), order="F")
    np.testing.assert_array_equal(decode(raw, (1, 2, 3), "uint16", {"type": type}), expected)


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
@given(data=st.data())
def test_what_is_encoded_is_decoded(compression, data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    n = int(np.prod(shape)) * dtype.itemsize
    bits = np.frombuffer(data.draw(st.binary(min_size=n, max_size=n)), "u1")
    array = bits.view(dtype).reshape(shape) if n else np.zeros(shape, dtype)
    raw = encode(array[::-1] if array.ndim else array, compression)
    out = decode(raw, shape, dtype, compression, data.draw(st.sampled_from("CF")))
    expected = array[::-1] if array.ndim else array
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
def test_a_decoder_and_an_encoder_serve_many_blocks(compression):
    rng = np.random.default_rng(1)
    item = item_of((6, 5), "uint16")
    codec = codec_of(compression, item)
    encoder, decoder = codec.open_encoder(item), codec.open_decoder(item)
    blocks = [rng.integers(0, 9, (6, 5)).astype("u2") for _ in range(5)]
    encoded = [bytes(encoder(block)) for block in blocks]
    out = np.zeros((6, 5), "u2")
    for raw, block in zip(encoded, blocks, strict=True):
        decoder(raw, out)
        np.testing.assert_array_equal(out, block)


@pytest.mark.parametrize("dims", [(3, 2), (5, 1), (2, 9), (4, 4), (8, 8), (0, 4), (1, 0)])
@pytest.mark.parametrize("compression", [{"type": "raw"}, {"type": "gzip"}], ids=str)
def test_a_block_of_another_size_is_cut_to_the_cell(dims, compression):
    block = np.arange(1, 1 + dims[0] * dims[1], dtype="u4").reshape(dims)
    out = decode(encode(block, compression), (4, 4), "uint32", compression)
    expected = np.zeros((4, 4), "u4")
    part = block[:4, :4]
    expected[: part.shape[0], : part.shape[1]] = part
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float64"])
def test_large_blocks_are_transposed_right(dtype):
    rng = np.random.default_rng(2)
    block = rng.integers(0, 250, (64, 65, 64)).astype(dtype)
    np.testing.assert_array_equal(
        decode(encode(block, {"type": "raw"}), block.shape, dtype, {"type": "raw"}), block
    )
    inside = np.zeros((70, 70, 70), dtype)
    item = item_of(block.shape, dtype)
    N5Block().open_decoder(item)(encode(block, {"type": "raw"}), inside[3:67, :65, 5:69])
    np.testing.assert_array_equal(inside[3:67, :65, 5:69], block)
    assert inside[:3].max() == inside[:, :, :5].max() == inside[:, 65:].max() == 0


# --- peers


@pytest.fixture
def context():
    return tensorstore.Context()


def ts_dataset(context, metadata, **options):
    kvstore = tensorstore.KvStore.open({"driver": "memory"}, context=context).result()
    spec = {"driver": "n5", "kvstore": {"driver": "memory"}, "metadata": metadata}
    return kvstore, tensorstore.open(spec, context=context, **options).result()


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compression", [c for c in COMPRESSIONS if c["type"] != "lz4"], ids=str)
def test_tensorstore_reads_and_is_read(compression, dtype, context):
    values = np.random.default_rng(3).integers(1, 100, (7, 5)).astype(dtype)
    metadata = {"dimensions": [7, 5], "blockSize": [4, 5], "dataType": dtype, "compression": compression}
    kvstore, theirs = ts_dataset(context, metadata, create=True)
    theirs.write(values).result()
    block = np.zeros((4, 5), dtype)
    block[:3] = values[4:]
    np.testing.assert_array_equal(decode(kvstore["1/0"], (4, 5), dtype, compression), block)
    kvstore["0/0"] = encode(values[3:7], compression)
    np.testing.assert_array_equal(theirs[:4].read().result(), values[3:7])
    if compression["type"] == "raw":
        assert kvstore["1/0"] == encode(block, compression)


@pytest.mark.each_once
@pytest.mark.parametrize(
    "compression",
    [
        {"type": "raw"},
        {"type": "gzip", "level": 5},
        {"type": "bzip2", "blockSize": 5},
        {"type": "xz", "preset": 6},
        {"type": "zstd", "level": 3},
        {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float64"])
def test_z5py_reads_and_is_read(compression, dtype, tmp_path):
    values = np.random.default_rng(4).integers(1, 100, (7, 5)).astype(dtype)
    name = compression["type"]
    with z5py.File(str(tmp_path / "a.n5"), mode="w", use_zarr_format=False) as root:
        dataset = root.create_dataset("x", shape=(5, 7), chunks=(5, 4), dtype=dtype, compression=name)
        dataset[:] = values.T
    theirs = (tmp_path / "a.n5" / "x" / "1" / "0").read_bytes()
    block = np.zeros((4, 5), dtype)
    block[:3] = values[4:]
    np.testing.assert_array_equal(decode(theirs, (4, 5), dtype, compression), block)
    (tmp_path / "a.n5" / "x" / "0" / "0").write_bytes(encode(values[3:7], compression))
    with z5py.File(str(tmp_path / "a.n5"), mode="r", use_zarr_format=False) as root:
        np.testing.assert_array_equal(root["x"][:, :4], values[3:7].T)


# --- hostile bytes


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
def test_every_truncation_is_found(compression):
    block = np.arange(30, dtype="u2").reshape(6, 5)
    raw = encode(block, compression)
    for n in range(len(raw)):
        with pytest.raises(CodecError):
            decode(raw[:n], (6, 5), "uint16", compression)


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
def test_trailing_bytes_are_found(compression):
    """But for those that old versions of z5py leave behind what says itself where it ends."""
    block = np.arange(30, dtype="u2").reshape(6, 5)
    raw = encode(block, compression)
    if compression["type"] in ("blosc", "bzip2"):
        for behind in (b"\x01", b"\0" * 16):
            np.testing.assert_array_equal(decode(raw + behind, (6, 5), "uint16", compression), block)
        return
    with pytest.raises(CodecError):
        decode(raw + b"\x01", (6, 5), "uint16", compression)


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
@pytest.mark.parametrize("dims", [(2**31 - 1, 1), (2**32 - 1, 2**32 - 1), (2**16, 2**15), (1 << 12, 1 << 12)])
def test_a_header_that_promises_the_moon_gets_no_memory(compression, dims):
    payload = encode(np.zeros((6, 5), "u2"), compression)[12:]
    tracemalloc.start()
    try:
        with pytest.raises(CodecError):
            decode(header(0, *dims) + payload, (6, 5), "uint16", compression)
        assert tracemalloc.get_traced_memory()[1] < 9 << 20  # the window of xz
    finally:
        tracemalloc.stop()


def test_a_raw_block_allocates_nothing_whatever_its_header_says():
    tracemalloc.start()
    try:
        with pytest.raises(DataCorruptionError, match="Not enough data"):
            decode(header(0, 1 << 11, 1 << 11) + bytes(88), (64, 64), "uint16", {"type": "raw"})
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=80) | st.binary(min_size=24, max_size=24), st.sampled_from(COMPRESSIONS))
def test_arbitrary_bytes_decode_or_raise_a_codec_error(raw, compression):
    for data in (raw, header(0, 2, 3) + raw, header(1, 2, 3) + raw):
        with contextlib.suppress(CodecError):
            out = decode(data, (2, 3), "int32", compression)
            np.testing.assert_array_equal(decode(encode(out, compression), (2, 3), "int32", compression), out)
            if data[:2] == b"\0\0" and len(data) == 12 + len(raw) and compression == {"type": "raw"}:
                np.testing.assert_array_equal(out.T.ravel(), np.frombuffer(raw, ">i4"))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "Expected header of length 12, but chunk has size 0"),
        (b"\0\0\0\2\0\0\0\1", "Expected header of length 12, but chunk has size 8"),
        (header(0, 3) + bytes(12), "Received chunk with 1 dimensions but expected 2"),
        (header(0, 3, 2, 1) + bytes(12), "Received chunk with 3 dimensions but expected 2"),
        (header(2, 3, 2) + bytes(12), "Unexpected N5 chunk mode: 2"),
        (header(7, 3, 2) + bytes(12), "Unexpected N5 chunk mode: 7"),
        (header(1, 3, 2) + bytes(2), "Expected header of length 16, but chunk has size 14"),
        (header(1, 3, 2) + b"\0\0\0\5" + bytes(10), "varlength chunks not supported"),
        (header(0, 3, 2) + bytes(11), "Not enough data"),
        (header(0, 3, 2) + bytes(13), "End of data expected; remaining length: 1"),
    ],
)
def test_messages_are_those_of_tensorstore(raw, message, context):
    with pytest.raises(DataCorruptionError, match=message):
        decode(raw, (3, 2), "int16", {"type": "raw"})
    metadata = {
        "dimensions": [3, 2],
        "blockSize": [3, 2],
        "dataType": "int16",
        "compression": {"type": "raw"},
    }
    kvstore, theirs = ts_dataset(context, metadata, create=True)
    kvstore["0/0"] = raw
    with pytest.raises(ValueError) as caught:
        theirs.read().result()
    said = str(caught.value)
    # The one difference: varlength blocks are read when they are full, so their header is looked at first
    assert message in said or "varlength" in said or "at byte" in said


def test_a_varlength_block_that_is_full_is_read_each_time_on_its_own_count():
    item = item_of((3, 2), "uint8")
    decoder = N5Block().open_decoder(item)
    out = np.zeros((3, 2), "u1")
    decoder(header(1, 3, 2) + b"\0\0\0\6" + bytes(range(6)), out)
    np.testing.assert_array_equal(out.T.ravel(), range(6))
    with pytest.raises(DataCorruptionError, match="has 5 elements"):
        decoder(header(1, 3, 2) + b"\0\0\0\5" + bytes(5), out)


def test_object_elements_are_refused():
    with pytest.raises(CodecError, match="can't be read or written as an array"):
        N5Block().bind(ChunkSpec((2,), np.dtype(object), np.array("", object)))


# --- compressions


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
def test_compression_round_trips_through_json(compression):
    canonical, codecs = parse_compression(compression)
    assert canonical == compression
    assert compression_to_json(codecs) == compression


def test_lz4_writes_the_framing_of_java():
    encoder = Lz4Java().open_encoder()
    end = "4c5a34426c6f636b16" + "00" * 12
    stored = "4c5a34426c6f636b16 0c000000 0c000000 65d5d60a 000000010002000a000b000c"
    assert encoder(bytes.fromhex("000000010002000a000b000c")) == bytes.fromhex(stored + end)
    packed = "4c5a34426c6f636b26 0b000000 28000000 73a6d40f 1f0701000f500707070707"
    assert encoder(b"\7" * 40) == bytes.fromhex(packed + end)


@pytest.mark.parametrize(
    ("block_size", "low_nibble"),
    [(64, 0), (1000, 0), (1024, 0), (1025, 1), (4096, 2), (65536, 6), (1 << 20, 10), (1 << 25, 15)],
)
def test_lz4_token_holds_the_size_of_chunks(block_size, low_nibble):
    assert Lz4Java(block_size).open_encoder()(b"")[8] == 0x10 | low_nibble


def test_lz4_bit_flips_are_found_by_the_checksum():
    payload = np.random.default_rng(5).integers(0, 256, 300).astype("u1").tobytes()
    raw = bytearray(Lz4Java(64).open_encoder()(payload))
    decoder = Lz4Java().open_decoder(300)
    for at in range(21, 21 + 64):
        raw[at] ^= 1
        with pytest.raises(DataCorruptionError, match="checksum mismatch"):
            decoder(raw)
        raw[at] ^= 1
    assert bytes(decoder(raw)) == payload


def test_many_layouts_of_blocks_are_read_by_one_decoder(monkeypatch):
    """Also those that it doesn't keep."""
    monkeypatch.setattr("chunkwise.core.codec.n5_block._MAX_LAYOUTS", 3)
    values = np.arange(1, 49, dtype="i2").reshape(6, 8)
    item = item_of((6, 8), "i2")
    read = codec_of({"type": "raw"}, item).open_decoder(item)
    for _ in range(2):
        for n in range(1, 7):
            part = values[:, :n] if n > 3 else values[:n]
            out = np.full((6, 8), 7, "i2")
            read(encode(np.ascontiguousarray(part), {"type": "raw"}), out)
            np.testing.assert_array_equal(out[: part.shape[0], : part.shape[1]], part)


class _Shorter(Bzip2):
    """A compressor of a plug-in that loses a byte, and sees nothing wrong."""

    def open_decoder(self, decoded_nbytes):
        return lambda data: bytes(data)[:-1]

    def open_encoder(self):
        return bytes


def test_payloads_of_another_size_are_refused_whoever_decoded_them():
    item = item_of((4,), "u1")
    decode = N5Block((_Shorter(1),)).bind(item).open_decoder(item)
    out = np.zeros(4, "u1")
    decode(header(0, 4) + bytes([1, 2, 3, 4, 0]), out)
    assert out.tolist() == [1, 2, 3, 4]
    for payload, message in ((bytes(4), "Not enough data"), (bytes(6), "remaining length: 1")):
        with pytest.raises(DataCorruptionError, match=message):
            decode(header(0, 4) + payload, out)
