"""DEFLATE: the standard library reads what is written, and the other way."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.core.codec.gzip import Gzip, Zlib
from chunkwise.core.libraries import deflate
from chunkwise.errors import DataCorruptionError

RAW = (np.arange(20_000, dtype="<u2") // 3).tobytes()


@pytest.mark.parametrize("level", range(10))
def test_every_level_is_read_by_the_standard_library(level):
    encode_gzip, encode_zlib = Gzip(level).open_encoder(), Zlib(level).open_encoder()
    for data in (RAW, RAW[:1], b"", bytes(100_000)):
        assert gzip.decompress(bytes(encode_gzip(data))) == data
        assert zlib.decompress(bytes(encode_zlib(data))) == data


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(min_size=1, max_size=3000), st.integers(0, 9), st.sampled_from(["gzip", "zlib"]))
def test_either_framing_is_decoded_to_the_promised_size(data, level, framing):
    stream = zlib.compressobj(level, zlib.DEFLATED, 31 if framing == "gzip" else 15)
    encoded = stream.compress(data) + stream.flush()
    out = bytearray(len(data))
    into = Gzip(1).open_decoder_into(len(data))
    if into is not None:
        into(memoryview(encoded), memoryview(out))
        assert bytes(out) == data
    for size in (len(data), None):
        assert bytes(Gzip(1).open_decoder(size)(encoded)) == data
    for size in (len(data) - 1, len(data) + 1):
        with pytest.raises(DataCorruptionError):
            Gzip(1).open_decoder(size)(encoded)


def test_several_streams_and_padding():
    """What the gzip tool reads is read, by whatever library."""
    parts = gzip.compress(RAW[:1000]) + gzip.compress(b"") + gzip.compress(RAW[1000:]) + bytes(7)
    assert bytes(Gzip(1).open_decoder(len(RAW))(parts)) == RAW
    into = Gzip(1).open_decoder_into(len(RAW))
    assert (into is None) == (deflate() is None)
    if into is not None:
        out = bytearray(len(RAW))
        into(parts, memoryview(out))
        assert bytes(out) == RAW


@pytest.mark.parametrize(
    "damage",
    [
        lambda e: e[:-1],
        lambda e: e[: len(e) // 2],
        lambda e: e[:5],
        lambda e: b"",
        lambda e: e + e,
        lambda e: e + b"behind",
        lambda e: e[:-8] + bytes([e[-8] ^ 1]) + e[-7:],
        lambda e: e[:40] + bytes([e[40] ^ 255]) + e[41:],
    ],
    ids=["a byte less", "half", "header", "nothing", "twice", "something behind", "checksum", "content"],
)
def test_damage_is_found(damage):
    encoded = damage(gzip.compress(RAW, 1))
    with pytest.raises(DataCorruptionError, match="gzip"):
        Gzip(1).open_decoder(len(RAW))(encoded)
    into = Gzip(1).open_decoder_into(len(RAW))
    if into is not None:
        with pytest.raises(DataCorruptionError, match="gzip"):
            into(encoded, memoryview(bytearray(len(RAW))))


def test_a_small_chunk_that_claims_much_makes_no_memory():
    """No stream of 40 bytes holds 1 GiB, whatever the metadata says."""
    with pytest.raises(DataCorruptionError):
        Gzip(1).open_decoder(1 << 30)(gzip.compress(bytes(1000)))


def test_an_encoder_keeps_its_context():
    """One encoder gives the same bytes again, whatever it encoded between."""
    encode = Gzip(6).open_encoder()
    first = bytes(encode(RAW))
    encode(RAW[::-1])
    encode(b"")
    assert bytes(encode(RAW)) == first
