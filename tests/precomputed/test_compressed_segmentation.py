"""The encoding ``compressed_segmentation``: bytes are those of its peers; bad bytes are refused."""

import compressed_segmentation
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from chunkwise.core.codec.compressed_segmentation import CompressedSegmentation
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.errors import CodecError, DataCorruptionError, TooLargeError


def coders(shape, dtype, block_size):
    item = ChunkSpec(shape, np.dtype(dtype), np.zeros((), dtype))
    codec = CompressedSegmentation(block_size).bind(item)
    return codec.open_encoder(item), codec.open_decoder(item)


def decoded(decode, raw, like):
    out = np.empty_like(like)
    decode(raw, out)
    return out


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("largest", [1, 2, 5, 300, 70_000])
def test_bytes_are_those_of_the_other_library_and_are_read_by_it(dtype, largest):
    rng = np.random.default_rng(largest)
    values = rng.integers(0, largest, (40, 19, 23)).astype(dtype)
    values[:20] = values[0, 0, 0]
    encode, decode = coders((1, 23, 19, 40), dtype, (8, 8, 8))
    raw = bytes(encode(values.T[None]))
    peer = compressed_segmentation.compress(np.asfortranarray(values), block_size=(8, 8, 8), order="F")
    assert raw == peer
    back = compressed_segmentation.decompress(raw, values.shape, values.dtype, (8, 8, 8), order="F")
    np.testing.assert_array_equal(back.reshape(values.shape), values)
    np.testing.assert_array_equal(decoded(decode, peer, values.T[None]), values.T[None])


@settings(max_examples=examples(60), deadline=None)
@given(
    data=st.data(),
    shape=st.tuples(*[st.integers(1, n) for n in (3, 9, 9, 9)]),
    dtype=st.sampled_from(["uint32", "uint64"]),
    block_size=st.tuples(*[st.integers(1, 10)] * 3),
)
def test_what_was_encoded_is_decoded(data, shape, dtype, block_size):
    values = data.draw(arrays(dtype, shape, elements=st.integers(0, 2 ** (8 * np.dtype(dtype).itemsize) - 1)))
    encode, decode = coders(shape, dtype, block_size)
    np.testing.assert_array_equal(decoded(decode, bytes(encode(values)), values), values)


def test_changed_bytes_are_an_error_or_other_values():
    rng = np.random.default_rng(3)
    values = rng.integers(0, 9, (2, 8, 9, 10)).astype("u4")
    encode, decode = coders(values.shape, "u4", (4, 4, 4))
    raw = bytearray(encode(values))
    outcomes = set()
    for _ in range(400):
        changed = bytearray(raw)
        changed[rng.integers(0, 400)] = rng.integers(0, 256)
        if rng.integers(0, 2):
            del changed[int(rng.integers(0, len(raw))) :]
        try:
            decoded(decode, changed, values)
            outcomes.add("values")
        except DataCorruptionError as e:
            assert "compressed_segmentation: " in str(e)
            outcomes.add("error")
    assert outcomes == {"values", "error"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "0 bytes for 1 channels"),
        ([9], "channel 0 begins at word 9 of 1"),
        ([1, 0], "1 words can't have the headers of 1 blocks"),
        ([1, 3 << 24, 2], "indices have 3 bits"),
        ([1, 1 << 24, 2], "indices of a block end at word 4 of 2"),
        ([1, 2, 0], "a table ends beyond the 2 words"),
    ],
)
def test_messages(words, message):
    _, decode = coders((1, 4, 4, 4), "u4", (4, 4, 4))
    with pytest.raises(DataCorruptionError, match=message):
        decode(np.array(words, "<u4").tobytes(), np.empty((1, 4, 4, 4), "u4"))


def test_block_sizes_that_need_much_more_memory_than_the_chunk_are_refused():
    with pytest.raises(TooLargeError, match="compressed_segmentation_block_size"):
        coders((1, 4, 4, 4), "u4", (1 << 20, 1 << 20, 1))[1]


def test_tables_that_begin_where_24_bits_end_are_refused():
    shape = (1, 1, 1 << 11, 1 << 12)  # blocks of one element, whose headers take 2**24 words
    encode, _ = coders(shape, "u4", (1, 1, 1))
    with pytest.raises(TooLargeError, match="too many different values"):
        encode(np.zeros(shape, "u4"))


def test_other_data_types_are_refused():
    with pytest.raises(CodecError, match="uint32 and uint64, not for uint16"):
        coders((1, 4, 4, 4), "u2", (4, 4, 4))


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("last", [0, 3])
def test_indices_beyond_the_chunk_may_lead_anywhere(dtype, last):
    """Writers leave any bits behind the last element of a block that the chunk cuts off; not before."""
    _, decode = coders((1, 1, 1, 3), dtype, (4, 1, 1))
    table = np.array([5, 7], dtype).view("<u4").tolist()
    indices = 0 | 1 << 2 | 0 << 4 | 3 << 6  # of two bits; the fourth element lies outside the chunk
    words = [1, 2 << 24 | 2 + 1, 2, indices, *table]
    values = np.zeros((1, 1, 1, 3), dtype)
    decode(np.array(words, "<u4").tobytes(), values)
    assert values.reshape(-1).tolist() == [5, 7, 5]
    words[3] = 3 << 4 | last << 6
    with pytest.raises(DataCorruptionError, match="a table ends beyond"):
        decode(np.array(words, "<u4").tobytes(), values)
