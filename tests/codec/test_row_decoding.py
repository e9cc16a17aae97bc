"""Several chunks decoded with one call are what they are one by one, or are left to that."""

from __future__ import annotations

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.codec.protocol import RowDecoding
from chunkwise.codec.zstd import Zstd
from chunkwise.errors import DataCorruptionError

NBYTES = 600
SKIPPABLE = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"


def frame(data: bytes, *, size: bool = True, checksum: bool = False) -> bytes:
    return zstandard.ZstdCompressor(level=1, write_content_size=size, write_checksum=checksum).compress(data)


def content(seed: int, n: int = NBYTES) -> bytes:
    return np.random.default_rng(seed).integers(0, 4, n, dtype=np.uint8).tobytes()


@st.composite
def encodings(draw):
    """Draw what may stand where one encoded chunk is expected, sound or not."""
    data = content(draw(st.integers(0, 5)))
    kind = draw(
        st.sampled_from(["frame"] * 6 + ["unsized", "two", "skippable", "long", "short", "cut", "bad"])
    )
    whole = frame(data, checksum=draw(st.booleans()))
    match kind:
        case "frame":
            return whole
        case "unsized":
            return frame(data, size=False)
        case "two":
            return frame(data[:100]) + frame(data[100:])
        case "skippable":
            return SKIPPABLE + whole if draw(st.booleans()) else whole + SKIPPABLE
        case "long":
            return frame(data + data[:200])
        case "short":
            return frame(data[:400])
        case "cut":
            return whole[: draw(st.integers(1, len(whole) - 1))]
    at = draw(st.integers(0, len(whole) - 1))
    return whole[:at] + bytes([whole[at] ^ draw(st.integers(1, 255))]) + whole[at + 1 :]


@settings(max_examples=500, deadline=None)
@given(st.lists(encodings(), min_size=2, max_size=5), st.data())
def test_a_row_is_what_its_chunks_are(encoded, data):
    lengths = [len(one) for one in encoded]
    if data.draw(st.booleans()):  # as a damaged index would have it
        i = data.draw(st.integers(0, len(lengths) - 2))
        shift = data.draw(st.integers(-lengths[i] + 1, lengths[i + 1] - 1))
        lengths[i] += shift
        lengths[i + 1] -= shift
    joined = b"".join(encoded)
    decode_row, decode = Zstd(1).open_row_decoder(NBYTES), Zstd(1).open_decoder(NBYTES)
    out = bytearray(NBYTES * len(lengths))
    if not decode_row(memoryview(joined), lengths, memoryview(out)):
        return
    start = 0
    for number, length in enumerate(lengths):
        alone = decode(joined[start : start + length])
        assert out[number * NBYTES : (number + 1) * NBYTES] == alone
        start += length


@pytest.mark.parametrize("n", [1, 2, 7])
def test_sound_frames_are_decoded_together(n):
    parts = [content(i) for i in range(n)]
    encode = Zstd(3).open_encoder()
    encoded = [bytes(encode(part)) for part in parts]
    codec: RowDecoding = Zstd(3)
    decode = codec.open_row_decoder(NBYTES)
    out = bytearray(NBYTES * n)
    assert decode(memoryview(b"".join(encoded)), [len(one) for one in encoded], memoryview(out))
    assert out == b"".join(parts)


def test_unsound_ones_are_not():
    whole = frame(content(1))
    decode = Zstd(1).open_row_decoder(NBYTES)
    out = memoryview(bytearray(2 * NBYTES))
    assert decode(memoryview(whole * 2), [len(whole)] * 2, out)
    assert decode(memoryview(whole + SKIPPABLE + whole), [len(whole) + len(SKIPPABLE), len(whole)], out)
    assert out == content(1) * 2
    unsized = frame(content(1), size=False)
    for bad in (whole[:-1], whole + b"x", SKIPPABLE + whole, whole * 2, frame(content(1, 500)), unsized, b""):
        assert not decode(memoryview(bad + whole), [len(bad), len(whole)], out)
        assert not decode(memoryview(whole + bad), [len(whole), len(bad)], out)
    assert not decode(memoryview(whole * 2), [len(whole)], out[:NBYTES])
    assert not decode(memoryview(whole * 2), [len(whole)] * 2, out[:NBYTES])
    # sizes that are wrong one by one and right in sum
    uneven = [frame(content(1, 500)), frame(content(2, 700))]
    assert not decode(memoryview(b"".join(uneven)), [len(one) for one in uneven], out)
    with pytest.raises(DataCorruptionError):
        Zstd(1).open_decoder(NBYTES)(uneven[0])
