"""The Zarr v3 codec that reads N5 blocks in place."""

import numpy as np
import pytest

from chunkwise.core.codec.n5_block import N5Block, N5Default
from chunkwise.core.codec.n5_parts import write_header
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.errors import CodecError, DataCorruptionError, SpecError

REVERSE = {"name": "transpose", "configuration": {"order": [1, 0]}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
GZIP = {"name": "gzip", "configuration": {"level": 6}}


def item(shape=(3, 2), dtype="int16", fill_value=0):
    return ChunkSpec(shape, np.dtype(dtype), np.array(fill_value, dtype))


def codec(*codecs):
    return N5Default.parse("zarr3", "n5_default", {"codecs": list(codecs)})


@pytest.mark.parametrize("inner", [(REVERSE, BIG), (REVERSE, BIG, GZIP)], ids=["raw", "gzip"])
def test_blocks_are_those_of_n5(inner):
    array = np.arange(6, dtype="i2").reshape(3, 2)
    bound = codec(*inner).bind(item())
    raw = bytes(bound.open_encoder(item())(array))
    compression = {"type": "gzip", "level": 6} if len(inner) == 3 else {"type": "raw"}
    n5 = N5Block.parse("n5", "n5_block", {"compression": compression}).bind(item())
    assert raw == bytes(n5.open_encoder(item())(array))
    out = np.zeros((3, 2), "i2")
    bound.open_decoder(item())(raw, out)
    np.testing.assert_array_equal(out, array)


def test_a_cropped_block_is_padded():
    out = np.full((3, 2), 9, "i2")
    raw = bytes.fromhex("00000002 00000002 00000001 0017 0018")
    codec(REVERSE, BIG).bind(item()).open_decoder(item())(raw, out)
    np.testing.assert_array_equal(out, [[23, 0], [24, 0], [0, 0]])


@pytest.mark.parametrize("inner", [(REVERSE, BIG), (REVERSE, BIG, GZIP), (BIG,)])
def test_json_round_trips(inner):
    assert codec(*inner).to_json("zarr3") == {"codecs": list(inner)}


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        ((), 'requires the inner codecs "transpose", "bytes"'),
        ((REVERSE,), 'requires the inner codecs "transpose", "bytes"'),
        ((REVERSE, {"name": "bytes", "configuration": {"endian": "little"}}), '"endian" of "big"'),
        ((REVERSE, BIG, GZIP, GZIP), "at most one compressor"),
        ((REVERSE, BIG, REVERSE), "at most one compressor"),
    ],
)
def test_other_inner_codecs_are_refused(inner, message):
    with pytest.raises(SpecError, match=message):
        codec(*inner)


@pytest.mark.parametrize(
    ("inner", "chunk", "message"),
    [
        ((BIG,), item(), 'requires the inner codec "transpose"'),
        (
            ({"name": "transpose", "configuration": {"order": [0, 1]}}, BIG),
            item(),
            r'"order" of \[1, 0\]',
        ),
        ((REVERSE, {"name": "bytes"}), item(), '"endian"'),
    ],
)
def test_an_array_that_n5_can_not_hold_is_refused(inner, chunk, message):
    with pytest.raises((CodecError, ValueError), match=message):
        codec(*inner).bind(chunk)


def test_one_byte_types_need_no_byte_order():
    chunk = item((4,), "uint8")
    bound = codec({"name": "bytes"}).bind(chunk)
    raw = bytes(bound.open_encoder(chunk)(np.arange(4, dtype="u1")))
    assert raw == bytes.fromhex("00000001 00000004 00010203")


def test_cropped_blocks_are_padded_with_the_fill_value():
    chunk = item(fill_value=7)
    decode = codec(REVERSE, BIG).bind(chunk).open_decoder(chunk)
    out = np.empty((3, 2), np.int16)
    decode(write_header(0, (2, 1)) + np.array([1, 2], ">i2").tobytes(), out)
    assert out.tolist() == [[1, 7], [2, 7], [7, 7]]


@pytest.mark.parametrize("mode", [1, 2])
def test_blocks_of_other_modes_are_refused(mode):
    """Those of a varying length have no place in the codec, even where they have as many elements."""
    chunk = item()
    decode = codec(REVERSE, BIG).bind(chunk).open_decoder(chunk)
    block = write_header(mode, (3, 2) if mode == 1 else (), 6) + bytes(12)
    with pytest.raises(DataCorruptionError, match=f"Unexpected N5 chunk mode: {mode}"):
        decode(block, np.empty((3, 2), np.int16))
