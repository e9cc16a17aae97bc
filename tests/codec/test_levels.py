"""The level that is given is the one that is used, and buffers of any kind are bytes."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.core.codec.chain import parse_codecs
from chunkwise.core.codec.lz4 import decompress_frame
from chunkwise.core.codec.protocol import BytesToBytes, byte_view
from chunkwise.errors import DataCorruptionError

VALUES = (np.arange(40_000) // 7 % 900).astype("u2")
BLOSC = {"cname": "lz4", "shuffle": "shuffle", "typesize": 2, "blocksize": 0}
# Without compression, and with some.
LEVELS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "gzip": ([{"level": 0}], [{"level": 1}, {"level": 6}, {"level": 9}]),
    "numcodecs.zlib": ([{"level": 0}], [{"level": 1}, {"level": 9}]),
    "blosc": ([{**BLOSC, "clevel": 0}], [{**BLOSC, "clevel": 1}, {**BLOSC, "clevel": 9}]),
}


def stored(driver: str, metadata: dict[str, Any]) -> bytes:
    """Return the only chunk of an array."""
    context = cw.Context()
    spec = {"driver": driver, "kvstore": "memory://a/", "metadata": metadata}
    array = cw.open(spec, create=True, dtype="uint16", shape=[len(VALUES)], context=context).result()
    array.write(VALUES).result()
    assert np.array_equal(array.read().result(), VALUES)
    kvstore = cw.KvStore.open("memory://a/", context=context).result()
    (key,) = [key for key in kvstore.list().result() if not key.endswith((b".json", b".zarray"))]
    return bytes(kvstore[key])


@pytest.mark.parametrize("name", LEVELS)
def test_the_level_is_used(name: str) -> None:
    for is_small, configurations in zip((False, True), LEVELS[name], strict=True):
        for configuration in configurations:
            codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
            codecs.append({"name": name, "configuration": configuration})
            assert (len(stored("zarr3", {"codecs": codecs})) < VALUES.nbytes) == is_small, configuration


@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_gzip_and_zlib_are_decoded_by_python(level: int) -> None:
    found = stored("zarr", {"compressor": {"id": "gzip", "level": level}})
    assert gzip.decompress(found) == VALUES.tobytes()
    found = stored("zarr", {"compressor": {"id": "zlib", "level": level}})
    assert zlib.decompress(found) == VALUES.tobytes()


def raise_memory_error(*arguments: Any, **keywords: Any) -> None:
    raise MemoryError


@pytest.mark.parametrize("name", ["blosc", "gzip", "numcodecs.zlib", "zstd"])
@pytest.mark.parametrize("first", [0, 100, 5000])
def test_an_encoder_that_found_no_memory_encodes_the_next_chunk(
    name: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never takes its memory for larger than it is."""
    [codec] = parse_codecs([{"name": name, "configuration": {}}])
    assert isinstance(codec, BytesToBytes)
    noise = np.random.default_rng(1).bytes(50_000)
    encode = codec.open_encoder()
    encode(noise[:first])
    with monkeypatch.context() as without_memory, suppress(MemoryError):
        without_memory.setattr("numpy.empty", raise_memory_error)
        encode(noise)
    assert bytes(codec.open_decoder(20_000)(encode(noise[:20_000]))) == noise[:20_000]


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", ">i4", "f8", "c16", "?"])
@pytest.mark.parametrize("shape", [(), (0,), (6,), (2, 3)])
def test_a_buffer_of_any_kind_is_bytes(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, np.dtype(dtype).newbyteorder("="))
    view = byte_view(array)
    assert (view.ndim, view.format, len(view)) == (1, "B", array.nbytes)
    assert bytes(view) == array.tobytes()


@pytest.mark.parametrize(("at", "value"), [(4, 0x00), (4, 0x62), (5, 0x30), (5, 0x80), (5, 0x41)])
def test_a_header_of_lz4_that_cannot_be_is_shown(at: int, value: int) -> None:
    header = bytearray(b"\x04\x22\x4d\x18\x60\x40\x82\0\0\0\0")
    assert bytes(decompress_frame(memoryview(header), 0)) == b""
    header[at] = value
    shown = f"flags {header[4]:#04x} and {header[5]:#04x}"
    with pytest.raises(DataCorruptionError, match=shown):
        decompress_frame(memoryview(header), 0)
