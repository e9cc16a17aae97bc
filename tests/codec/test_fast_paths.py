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
from chunkwise.core.codec.protocol import ArrayToArray
from chunkwise.core.codec.sharding import equals_fill_value
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


@pytest.mark.parametrize("dtype", [*DTYPES, "c16", "M8[ns]", "f2", ml_dtypes.float8_e4m3fn], ids=str)
def test_a_chunk_equals_its_fill_value_if_all_elements_do(dtype):
    """By bits: NaN does, and zeros of the other sign don't."""
    values = numbers(np.dtype(dtype), (3, 4)).reshape(-1)
    fill, other = (value for value in values[:6] if value.tobytes() != values[0].tobytes()), values[0]
    fill = next(fill)
    for layout in ("C", "F", "strided", "reversed"):
        chunk = place(np.full((3, 4), fill, values.dtype), layout)
        chunk[...] = fill
        assert equals_fill_value(chunk, np.array(fill, values.dtype))
        for at in np.ndindex(3, 4):
            changed = place(chunk, layout)
            changed[...] = fill
            changed[at] = other
            assert not equals_fill_value(changed, np.array(fill, values.dtype)), at


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_a_fill_value_is_compared_by_its_bits(dtype):
    for fill, other in ((np.nan, 0), (-0.0, 0.0), (0.0, -0.0)):
        chunk = np.full((2, 2), fill, dtype)
        assert equals_fill_value(chunk, np.array(fill, dtype))
        assert not equals_fill_value(chunk, np.array(other, dtype))


@pytest.mark.parametrize(("name", "n_bits"), [("int2", 2), ("uint2", 2), ("int4", 4), ("uint4", 4)])
def test_bits_that_an_element_does_not_use_are_no_part_of_it(name, n_bits):
    dtype = np.dtype(getattr(ml_dtypes, name))
    for fill, stored in np.ndindex(1 << n_bits, 256):
        chunk = np.full(3, stored, "u1").view(dtype)
        same = stored % (1 << n_bits) == fill
        assert equals_fill_value(chunk, np.array(fill, "u1").view(dtype)) == same, (fill, stored)


@pytest.mark.parametrize(
    ("fill", "others"),
    [
        ("", ["a", b"", 0, None]),
        (b"a", ["a", b"b", b""]),
        (0, [0.0, False, "", None]),
        (None, [0, "", False]),
    ],
)
def test_objects_equal_a_fill_value_of_their_type(fill, others):
    chunk, given = np.full((2, 2), fill, object), np.array(fill, object)
    assert equals_fill_value(chunk, given)
    for other in [*others, np.array([1, 2])]:
        chunk[1, 0] = other
        assert not equals_fill_value(chunk, given)
    assert not equals_fill_value(np.full((2, 2), None, object), np.array("", object))


@pytest.mark.parametrize("n_words", [15, 16, 17])
def test_buffers_of_wider_elements_are_counted_in_bytes(n_words):
    """As a compressor of a plug-in may return them."""
    values = np.arange(16, dtype="u2").reshape(4, 4)
    chain = prepare_chain(parse_codecs(["bytes"]), chunk_of(values))
    encoded = np.arange(n_words, dtype="u2").data
    out = np.zeros_like(values)
    if n_words == 16:
        chain.open_decoder()(encoded, out)
        np.testing.assert_array_equal(out, values)
        np.testing.assert_array_equal(chain.open_view()(encoded), values)
        return
    for read in (lambda: chain.open_decoder()(encoded, out), lambda: chain.open_view()(encoded)):
        with pytest.raises(DataCorruptionError, match=f"decodes to {2 * n_words} bytes, but expected 32"):
            read()


def test_a_filter_that_gives_another_shape_is_noticed():
    """Filters of plug-ins are not trusted to give what they promise."""

    class Cut(ArrayToArray):
        name = "cut"

        @classmethod
        def parse(cls, format, name, configuration):
            return cls()

        def to_json(self, format):
            return {}

        def output(self, item):
            return item

        def open_encoder(self, item):
            return lambda array: array

        def open_decoder(self, item):
            return lambda array: array[:1]

    values = np.arange(6, dtype="u1").reshape(3, 2)
    chain = prepare_chain((Cut(), Bytes("little")), chunk_of(values))
    with pytest.raises(DataCorruptionError, match=r"to shape \[1, 2\], but expected \[3, 2\]"):
        chain.open_decoder()(chain.open_encoder()(values), np.zeros_like(values))
