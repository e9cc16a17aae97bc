"""Small chunks are fetched, decoded and encoded some at a time; which one failed is told all the same."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise
from chunkwise.errors import ChunkwiseError, DataCorruptionError, NotFoundError

SHAPE = (4, 40, 640)
DATA = np.arange(np.prod(SHAPE), dtype=np.uint32).astype(np.uint16).reshape(SHAPE) % 1000


GZIP, ZSTD = ({"name": name, "configuration": {"level": 1}} for name in ("gzip", "zstd"))


def _store(path: Path, compressor: Any = GZIP, *filters: Any, **options: Any) -> chunkwise.TensorStore:
    return chunkwise.open(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": str(path)},
            "metadata": {"codecs": [*filters, "bytes", compressor]},
            "context": {"file_io_sync": False},
            **options,
        },
        open=True,
        create=True,
        dtype="uint16",
        shape=SHAPE,
        chunk_layout=chunkwise.ChunkLayout(chunk_shape=[4, 8, 8]),
    ).result()


ORDERS = [[], [[0, 1, 2]], [[1, 2, 0], [2, 0, 1]], [[2, 1, 0]], [[0, 2, 1], [1, 0, 2]]]


@pytest.mark.parametrize("orders", ORDERS, ids=str)
@pytest.mark.parametrize("compressor", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_what_is_written_is_read(compressor: Any, orders: list[list[int]], tmp_path: Path) -> None:
    """Also with transpositions, even some that together change nothing."""
    filters = [{"name": "transpose", "configuration": {"order": order}} for order in orders]
    store = _store(tmp_path, compressor, *filters)
    holes = DATA.copy()
    holes[:, 8:16, 200:264] = 0
    holes[:, :8, :8] = 0
    store.write(holes).result()
    assert not (tmp_path / "c/0/1/25").exists() and (tmp_path / "c/0/1/24").exists()
    np.testing.assert_array_equal(store.read().result(), holes)
    np.testing.assert_array_equal(store[::-1, ::-1, ::-1].read().result(), holes[::-1, ::-1, ::-1])


def _cut(encoded: bytes) -> bytes:
    return encoded[:-6]


def _blot(encoded: bytes) -> bytes:
    return encoded[:20] + b"\xff" * 40 + encoded[60:]


@pytest.mark.each_once
@pytest.mark.parametrize("key", ["c/0/0/0", "c/0/2/5", "c/0/2/79", "c/0/4/79"])
@pytest.mark.parametrize("damage", [_cut, _blot])
@pytest.mark.parametrize("compressor", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_a_damaged_chunk_is_named(compressor: Any, damage: Any, key: str, tmp_path: Path) -> None:
    store = _store(tmp_path, compressor)
    store.write(DATA).result()
    raw = (tmp_path / key).read_bytes()
    (tmp_path / key).write_bytes(damage(raw))
    with pytest.raises(DataCorruptionError, match=f'{key}"'):
        store.read().result()


@pytest.mark.parametrize("key", ["c/0/0/0", "c/0/2/5", "c/0/4/79"])
def test_a_missing_chunk_is_named(key: str, tmp_path: Path) -> None:
    store = _store(tmp_path, fill_missing_data_reads=False)
    store.write(DATA + 1).result()
    (tmp_path / key).unlink()
    with pytest.raises(NotFoundError, match=f'{key}"'):
        store.read().result()


@pytest.mark.parametrize("key", ["c/0/0/1", "c/0/2/5", "c/0/4/79"])
def test_a_chunk_that_can_not_be_written_is_named(key: str, tmp_path: Path) -> None:
    store = _store(tmp_path)
    (tmp_path / key / "in the way").mkdir(parents=True)
    with pytest.raises(ChunkwiseError, match=f'{key}"'):
        store.write(DATA + 1).result()


def _frames(chunk: bytes, like: str) -> bytes:
    """A chunk in frames of zstd that another program might write."""
    compress = zstandard.ZstdCompressor(write_content_size=like != "no size").compress
    if like == "two frames":
        return compress(chunk[:100]) + compress(chunk[100:])
    if like == "an empty frame":
        return compress(chunk) + compress(b"")
    if like == "a skippable frame":
        return (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc" + compress(chunk)
    if like == "a checksum":
        return zstandard.ZstdCompressor(write_checksum=True).compress(chunk)
    assert like in ("no size", "one frame")
    return compress(chunk)


def _members(chunk: bytes, like: str) -> bytes:
    """A chunk in members of gzip that another program might write."""
    if like == "two frames":
        return gzip.compress(chunk[:100]) + gzip.compress(chunk[100:])
    if like == "an empty frame":
        return gzip.compress(chunk) + gzip.compress(b"")
    if like == "a skippable frame":
        return gzip.compress(b"") + gzip.compress(chunk)
    return zlib.compress(chunk) if like == "no size" else gzip.compress(chunk)


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    likes=st.dictionaries(
        st.tuples(st.integers(0, 4), st.integers(0, 79)),
        st.sampled_from(["two frames", "an empty frame", "a skippable frame", "a checksum", "no size", None]),
        max_size=12,
    )
)
@pytest.mark.parametrize("compressor", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_frames_by_others_among_our_own(compressor: Any, likes: Any, tmp_path: Path) -> None:
    """What can't be decoded together with its neighbours is decoded alone; None is a missing chunk."""
    encode = _members if compressor is GZIP else _frames
    store = _store(tmp_path, compressor)
    store.write(DATA + 1).result()
    expected = DATA + 1
    for (j, k), like in likes.items():
        at = (slice(None), slice(8 * j, 8 * j + 8), slice(8 * k, 8 * k + 8))
        file = tmp_path / f"c/0/{j}/{k}"
        if like is None:
            file.unlink()
            expected[at] = 0
        else:
            file.write_bytes(encode(expected[at].tobytes(), like))
    assert "decoded together" in str(store.explain())
    np.testing.assert_array_equal(store.read().result(), expected)


def _unaligned(path: Path, key: str, next_key: str) -> None:
    """Cut a frame in two, at any place: two files that are one sound row of frames only end to end."""
    first, second = (path / key).read_bytes(), (path / next_key).read_bytes()
    (path / key).write_bytes(first[:-9])
    (path / next_key).write_bytes(first[-9:] + second)


@pytest.mark.parametrize("compressor", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_frames_are_not_joined_across_chunks(compressor: Any, tmp_path: Path) -> None:
    """What is sound only together with the next chunk is an error, which names the first of them."""
    store = _store(tmp_path, compressor)
    store.write(DATA + 1).result()
    _unaligned(tmp_path, "c/0/2/5", "c/0/2/6")
    assert "decoded together" in str(store.explain())
    with pytest.raises(DataCorruptionError, match='c/0/2/5"'):
        store.read().result()


@pytest.mark.parametrize("compressor", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_larger_and_smaller_contents(compressor: Any, tmp_path: Path) -> None:
    """A chunk of another size is an error even if its neighbour makes up for it."""
    store = _store(tmp_path, compressor)
    store.write(DATA + 1).result()
    encode = gzip.compress if compressor is GZIP else zstandard.ZstdCompressor().compress
    (tmp_path / "c/0/2/5").write_bytes(encode(bytes(500)))
    (tmp_path / "c/0/2/6").write_bytes(encode(bytes(524)))
    with pytest.raises(DataCorruptionError, match='c/0/2/5"'):
        store.read().result()
