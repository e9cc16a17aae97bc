"""LZ4 frames of the reference library are read by blocks, whatever their options."""

from __future__ import annotations

import lz4.block
import lz4.frame
import numpy as np
import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chunkwise.core.codec.lz4 import compress_block, decompress_block, decompress_frame
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
