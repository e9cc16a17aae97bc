"""Every fast path decodes to what the general chain decodes to."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.chain import parse_codecs, prepare_chain
from chunkwise.core.codec.decode import open_decoder, open_general_decoder
from chunkwise.errors import DataCorruptionError
from chunkwise.testing.codec_contract import chunk_of, numbers

DTYPES = ["?", "u1", "i2", "u4", "f4", "f8", "c8", "S3", "U2", "M8[s]", ml_dtypes.bfloat16, ml_dtypes.int4,
          np.dtype([("a", "u1"), ("b", "i4")])]  # fmt: skip
COMPRESSORS = ["zstd", "gzip", "blosc", "crc32c", "numcodecs.zlib", "numcodecs.lz4", "numcodecs.shuffle"]


@st.composite
def chains(draw):
    """Draw an array and a chain for it whose compressors keep every byte."""
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))
    array = numbers(np.dtype(draw(st.sampled_from(DTYPES))), shape, draw(st.integers(0, 5)))
    codecs = []
    for _ in range(draw(st.integers(0, 2))):
        codecs.append(
            {"name": "transpose", "configuration": {"order": draw(st.permutations(range(len(shape))))}}
        )
    if draw(st.booleans()):
        codecs.append({"name": "reshape", "configuration": {"shape": [-1]}})
    codecs.append({"name": "bytes", "configuration": {"endian": draw(st.sampled_from(["little", "big"]))}})
    for name in draw(st.lists(st.sampled_from(COMPRESSORS), max_size=3)):
        configuration = {"elementsize": 1} if name == "numcodecs.shuffle" else {}
        codecs.append({"name": name, "configuration": configuration})
    return array, prepare_chain(parse_codecs(codecs), chunk_of(array))


def place(array, layout):
    """Return memory for `array` in one of several layouts, filled with something else."""
    if layout == "strided" and array.ndim:
        out = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)[..., ::2]
    else:
        out = np.zeros(array.shape, array.dtype, order="F" if layout == "F" else "C")
    return out[::-1] if layout == "reversed" and array.ndim else out


@settings(max_examples=examples(300), deadline=None)
@given(
    chains(),
    st.sampled_from(["C", "F", "strided", "reversed"]),
    st.sampled_from([bytes, memoryview, bytearray]),
)
def test_fast_path_equals_general_path(case, layout, buffer):
    """Decoding twice with the opened decoder gives the general chain's elements, bit by bit."""
    array, chain = case
    encoded = bytes(chain.open_encoder()(array))
    fast, general = open_decoder(chain.stages), open_general_decoder(chain.stages)
    expected = np.zeros_like(array)
    general(encoded, expected)
    assert expected.tobytes() == array.tobytes()
    for _ in range(2):
        out = place(array, layout)
        fast(buffer(encoded), out)
        assert np.ascontiguousarray(out).tobytes() == expected.tobytes()


@settings(max_examples=examples(200), deadline=None)
@given(chains(), st.integers(0, 2**30), st.sampled_from(["cut", "flip", "extend"]))
def test_fast_path_fails_as_the_general_path(case, at, damage):
    """Damaged chunks are an error on both paths or on neither, and then give the same elements."""
    array, chain = case
    encoded = bytearray(bytes(chain.open_encoder()(array)))
    if damage == "cut":
        del encoded[at % len(encoded) :]
    elif damage == "flip":
        encoded[at % len(encoded)] ^= 1 << (at % 8)
    else:
        encoded += b"\x07"
    results = []
    for decode in (open_decoder(chain.stages), open_general_decoder(chain.stages)):
        out = np.zeros_like(array)
        try:
            decode(bytes(encoded), out)
            results.append(out.tobytes())
        except DataCorruptionError:
            results.append(None)
    assert results[0] == results[1]


def test_large_chunks_take_the_other_zstd():
    """From 256 KiB on zstd writes into the output; frames of any form decode alike."""
    import zstandard

    array = numbers("u2", (64, 64, 48))
    chain = prepare_chain(
        parse_codecs([{"name": "bytes", "configuration": {"endian": "little"}}, "zstd"]), chunk_of(array)
    )
    raw = array.tobytes()
    known, unknown = zstandard.ZstdCompressor(), zstandard.ZstdCompressor(write_content_size=False)
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    decode = chain.open_decoder()
    for encoded in (
        bytes(chain.open_encoder()(array)),
        unknown.compress(raw),
        known.compress(raw[:99]) + unknown.compress(raw[99:]),
        skippable + known.compress(raw),
        known.compress(raw) + skippable,
    ):
        for layout in ("C", "strided"):
            out = place(array, layout)
            decode(encoded, out)
            assert np.array_equal(out, array)
    for bad in (
        known.compress(raw[:-2]),
        known.compress(raw + b"xx"),
        unknown.compress(raw + b"xx"),
        unknown.compress(raw[:-2]),
        known.compress(raw)[:-9],
        unknown.compress(raw)[:-9],
        known.compress(raw) + b"x",
        b"",
    ):
        with pytest.raises(DataCorruptionError):
            decode(bad, place(array, "C"))


def test_native_uncompressed_chunk_is_a_view_of_the_source():
    """Encoding a contiguous array in its own byte order copies nothing."""
    array = numbers("u2", (4, 4))
    encoded = prepare_chain([Bytes("little")], chunk_of(array)).open_encoder()(array)
    array[0, 0] = 0x0102
    assert bytes(encoded)[:2] == b"\x02\x01"
