"""LZ4 frames of the reference library are read by blocks, whatever their options."""

from __future__ import annotations

import struct

import lz4.block
import lz4.frame
import numpy as np
import pytest
import xxhash
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chunkwise.core.base.limits import SizeBound, bounded
from chunkwise.core.codec.lz4 import (
    Lz4Java,
    compress_block,
    decode_lz4_hdf5,
    decompress_block,
    decompress_frame,
)
from chunkwise.errors import DataCorruptionError

NOISE = np.random.default_rng(0)
RAW = b"".join(bytes(NOISE.integers(0, 4, 3000, "u1")) * 3 + bytes(NOISE.bytes(500)) for _ in range(60))


def frame(data, *, flush_every=None, store_size=False, **options):
    """Return a frame; `flush_every` bytes end a block before it is full."""
    context = lz4.frame.LZ4FrameCompressor(**options)
    parts = [context.begin(len(data) if store_size else 0)]
    step = flush_every or max(1, len(data))
    for at in range(0, len(data), step):
        parts.append(context.compress(data[at : at + step]))
        if flush_every:
            parts.append(context.flush_block() if hasattr(context, "flush_block") else b"")
    return b"".join((*parts, context.flush()))


@settings(max_examples=examples(60), deadline=None)
@example(len(RAW), True, 4, False, False, False, False, True)
@example(len(RAW), True, 4, True, True, True, True, False)
@given(
    st.integers(0, len(RAW)),
    st.booleans(),
    st.sampled_from([4, 5, 6, 7]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_frames_of_any_options(
    size, linked, block_size, content_checksum, block_checksum, store_size, short, known
):
    data = RAW[:size]
    encoded = frame(
        data,
        block_linked=linked,
        block_size=block_size,
        content_checksum=content_checksum,
        block_checksum=block_checksum,
        store_size=store_size,
        auto_flush=short,
        flush_every=7001 if short else None,
    )
    assert lz4.frame.decompress(encoded) == data
    assert bytes(decompress_frame(memoryview(encoded), size if known else None)) == data
    for wrong in (size + 1, size - 1):
        if wrong >= 0:
            with pytest.raises(DataCorruptionError, match="lz4"):
                decompress_frame(memoryview(encoded), wrong)


@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("nbytes", [None, 40])
def test_a_frame_that_is_cut_anywhere_is_called_truncated(checksums, nbytes):
    """Also in the middle of one of its numbers."""
    encoded = frame(RAW[:40], content_checksum=checksums, block_checksum=checksums)
    assert bytes(decompress_frame(memoryview(encoded), nbytes)) == RAW[:40]
    for n in range(7, len(encoded)):
        with pytest.raises(DataCorruptionError, match="truncated frame"):
            decompress_frame(memoryview(encoded[:n]), nbytes)


@settings(max_examples=examples(150), deadline=None)
@example(True, 328544, "flip")
@given(st.sampled_from([True, False]), st.integers(0, 2**30), st.sampled_from(["cut", "flip", "extend"]))
def test_damaged_frames_are_found(linked, at, damage):
    data = RAW[:150_000]
    encoded = bytearray(
        frame(data, block_linked=linked, content_checksum=True, block_size=4, block_checksum=False)
    )
    if damage == "cut":
        del encoded[at % len(encoded) :]
    elif damage == "flip":
        encoded[at % len(encoded)] ^= 1 << at % 8
    else:
        encoded += b"\0"
    if bytes(encoded[:4]) == b"\x04\x22\x4d\x18":
        try:
            decoded = decompress_frame(memoryview(encoded), len(data))
        except DataCorruptionError as e:
            assert "lz4" in str(e)
        else:
            # a match may be copied from another place where the same bytes are
            assert damage == "flip"
            assert bytes(decoded) == data == lz4.frame.decompress(bytes(encoded))


@given(st.binary(max_size=300), st.integers(1, 40))
def test_blocks_both_ways(data, times):
    data *= times
    assert lz4.block.decompress(compress_block(data), uncompressed_size=len(data)) == data
    block = lz4.block.compress(data, store_size=False)
    assert bytes(decompress_block(memoryview(block), len(data))) == data
    for wrong in (len(data) + 1, len(data) - 1):
        if wrong >= 0:
            with pytest.raises(DataCorruptionError, match="lz4"):
                decompress_block(memoryview(block), wrong)


def _header(flags, *, content=b"", block_size=4):
    head = bytes([flags, block_size << 4]) + content
    return b"\x04\x22\x4d\x18" + head + bytes([xxhash.xxh32_intdigest(head) >> 8 & 0xFF])


WHOLE = frame(RAW[:40], store_size=True, block_checksum=True)
WRONG_FRAMES = {
    "version": (_header(0x20), "bad frame header"),
    "reserved bit": (_header(0x62), "bad frame header"),
    "block size": (_header(0x60, block_size=3), "bad frame header"),
    "dictionary": (_header(0x61, content=bytes(4)), "frame needs a dictionary"),
    "header": (_header(0x60)[:-1] + b"\0", "checksum mismatch in the header"),
    "size": (_header(0x68, content=(41).to_bytes(8, "little")), "holds 41 bytes, expected 40"),
    "huge size": (_header(0x68, content=(2**50).to_bytes(8, "little")), "holds 1125899906842624 bytes"),
    "block": (WHOLE[:25] + bytes([WHOLE[25] ^ 1]) + WHOLE[26:], "checksum mismatch in the block that ends"),
    "long block": (_header(0x60) + b"\1\0\1\x80" + bytes(65537 + 4), "a block of 65537 bytes"),
    "more": (_header(0x60) + b"\x29\0\0\x80" + bytes(41 + 4), "holds more than the expected"),
    "less": (_header(0x60) + b"\x27\0\0\x80" + bytes(39 + 4), "holds 39 bytes, expected 40"),
    "behind": (frame(RAW[:40]) + b"xy", "2 bytes after the end of the frame"),
}


@pytest.mark.parametrize("case", WRONG_FRAMES)
@pytest.mark.parametrize("known", [True, False])
def test_wrong_frames(case, known):
    """Whether the size is known or limited."""
    encoded, message = WRONG_FRAMES[case]
    with bounded(SizeBound(40, "it may have", DataCorruptionError)):
        if case == "less" and not known:
            assert bytes(decompress_frame(memoryview(encoded), None)) == bytes(39)
            return
        with pytest.raises(DataCorruptionError, match=message):
            decompress_frame(memoryview(encoded), 40 if known else None)


def test_short_blocks_that_refer_to_short_ones():
    """The content so far may be shorter than the first length of a sequence can say."""
    for n in (1, 5, 14, 15, 16, 300):
        data = RAW[:n] * 3 + b"end of it"
        encoded = frame(data, block_linked=True, flush_every=n, auto_flush=True)
        assert bytes(decompress_frame(memoryview(encoded), len(data))) == data


def test_a_block_of_nothing():
    assert bytes(decompress_block(memoryview(b"\0"), 0)) == b""
    with pytest.raises(DataCorruptionError, match="block is not empty"):
        decompress_block(memoryview(b"\0\0"), 0)


def _hdf5(data, block):
    parts = [struct.pack(">QI", len(data), block)]
    for at in range(0, len(data), block):
        piece = data[at : at + block]
        packed = min(bytes(compress_block(piece)), piece, key=len)
        parts.append(struct.pack(">I", len(packed)) + packed)
    return b"".join(parts)


HDF5 = _hdf5(RAW[:5000], 1024)
WRONG_HDF5 = {
    "header": (HDF5[:11], "the header is cut off"),
    "size": (_hdf5(RAW[:4999], 1024), "the header claims 4999 bytes, but expected 5000"),
    "no blocks": (struct.pack(">QI", 5000, 0) + bytes(100), "the header claims blocks of 0 bytes"),
    "no size of a block": (HDF5[: 18 + int.from_bytes(HDF5[12:16])], "3976 bytes are missing"),
    "half a block": (HDF5[:100], "5000 bytes are missing"),
    "block": (struct.pack(">QII", 5000, 5000, 30) + b"\xff" * 30, "lz4: .*a block of 5000 bytes"),
    "small block": (struct.pack(">QII", 5000, 5000, 8) + b"\xff" * 20, "lz4: block of 8 bytes can't hold"),
    "huge block": (struct.pack(">QII", 5000, 2**32 - 1, 30) + b"\xff" * 30, "lz4: .*a block of 5000 bytes"),
}


def test_chunks_of_the_filter_of_hdf5():
    for n, block in ((0, 1024), (1, 1024), (5000, 1024), (5120, 1024), (5000, 2**30), (50, 7)):
        encoded = _hdf5(RAW[:n], block)
        for nbytes in (n, None):
            assert decode_lz4_hdf5(encoded, nbytes) == RAW[:n]
    with (
        bounded(SizeBound(4999, "it may have", DataCorruptionError)),
        pytest.raises(DataCorruptionError, match="claims 5000 bytes"),
    ):
        decode_lz4_hdf5(HDF5, None)


@pytest.mark.parametrize("case", WRONG_HDF5)
def test_wrong_chunks_of_the_filter_of_hdf5(case):
    encoded, message = WRONG_HDF5[case]
    with pytest.raises(DataCorruptionError, match=f'"imagecodecs_lz4h5" codec: {message}'):
        decode_lz4_hdf5(encoded, 5000)


def test_a_block_of_hdf5_that_is_larger_than_any_of_lz4():
    """Its size has no place in 31 bits; the chunk must be large enough for the header to be believed."""
    n = 2**31
    encoded = struct.pack(">QII", n, n, 8_500_000) + bytes(8_500_000)
    with pytest.raises(DataCorruptionError, match='"imagecodecs_lz4h5" codec: lz4: '):
        decode_lz4_hdf5(encoded, n)


def _alike():
    """Return a bare block that begins with its decoded size, and its content.

    A token for one literal, which is 0, and a match of offset 1, whose length goes on; then five literals.
    """
    n = 0x0001001F
    length = n - 1 - 4 - 15 - 5
    block = n.to_bytes(4, "little") + b"\xff" * (length // 255) + bytes([length % 255]) + b"\x50hello"
    return block, bytes(n - 5) + b"hello"


def test_n5_chunks_in_the_framings_of_others():
    """LZ4 frames, a size before a block, and a bare block, which may begin like a size."""
    decode = Lz4Java.parse("n5", "lz4", {}).open_decoder
    data = RAW[:300]
    block = bytes(compress_block(data))
    sized = len(data).to_bytes(4, "little") + block
    for encoded in (frame(data), block, sized):
        assert bytes(decode(300)(encoded)) == data
    assert bytes(decode(None)(frame(data))) == data
    alike, content = _alike()
    assert bytes(decode(len(content))(alike)) == content
    with pytest.raises(DataCorruptionError, match="not an LZ4Block stream"):
        decode(None)(block)
    with pytest.raises(DataCorruptionError, match="lz4"):
        decode(301)(sized)


@pytest.mark.parametrize(("nbytes", "message"), [(301, "holds 300 bytes, expected 301"), (299, "more than")])
def test_n5_streams_of_another_size(nbytes, message):
    codec = Lz4Java.parse("n5", "lz4", {})
    encoded = codec.open_encoder()(RAW[:300])
    assert bytes(codec.open_decoder(300)(encoded)) == RAW[:300]
    with pytest.raises(DataCorruptionError, match=message):
        codec.open_decoder(nbytes)(encoded)
