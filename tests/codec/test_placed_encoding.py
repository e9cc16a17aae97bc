"""What is encoded to its place is what is encoded anywhere, and nothing around it changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.codec.protocol import PlacedEncoding
from chunkwise.codec.zstd import Zstd


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=2000), min_size=1, max_size=4),
    st.sampled_from([-3, 1, 3, 9]),
    st.booleans(),
    st.integers(0, 2200),
)
def test_the_same_bytes_or_none(contents, level, checksum, room):
    codec = Zstd(level, checksum)
    encode, encode_into = codec.open_encoder(), codec.open_encoder_into()
    assert encode_into is not None, "this interpreter's library can't be called"
    for content in contents:
        expected = bytes(encode(content))
        memory = memoryview(bytearray(b"\xaa" * (room + 20)))
        n = encode_into(content, memory[10 : 10 + room])
        assert n in (0, len(expected))
        if room >= len(content) + (len(content) >> 6) + 128:
            assert n == len(expected)
        if n:
            assert memory[10 : 10 + n] == expected
        assert memory[:10] == memory[10 + room :] == b"\xaa" * 10


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_nothing_to_encode_or_no_room(content):
    encode_into = Zstd(1).open_encoder_into()
    assert encode_into is not None
    assert encode_into(content, memoryview(bytearray(0 if content else 100))) == 0


def test_who_can_do_it():
    codec: PlacedEncoding = Zstd()
    assert codec.open_encoder_into() is not None
