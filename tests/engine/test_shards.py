"""Shards: what is read and written of them, and what happens to bad ones."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import tensorstore

import chunkwise
from chunkwise.core.codec import sharding
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.gzip import Gzip
from chunkwise.core.engine import shard_write
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.read import read_into
from chunkwise.core.engine.write import write_from
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.files.read import OpenFile
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS
from chunkwise.errors import AbortedError, DataCorruptionError, NotFoundError

MISSING = (2**64 - 1, 2**64 - 1)


class Recorder(MemoryStore):
    """Says which bytes were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Any] = []

    def read(self, key: str, **options: Any) -> Any:
        byte_range = options.get("byte_range")
        self.requests.append(None if byte_range is None else tuple(byte_range))
        return super().read(key, **options)

    def open_reader(self) -> Any:
        read = super().open_reader()

        def recorded(*args: Any) -> Any:
            self.requests.append(args[1:] or None)
            return read(*args)

        return recorded

    def read_ranges(self, key: str, starts: Any, stops: Any) -> Any:
        self.requests.append(list(zip(starts, stops, strict=True)))
        return super().read_ranges(key, starts, stops)


def index_of(*entries: tuple[int, int]) -> bytes:
    encoded = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    return encoded + struct.pack("<I", google_crc32c.value(encoded))


def entries_of(shard: bytes, n: int) -> list[tuple[int, int]]:
    return [struct.unpack_from("<QQ", shard, len(shard) - 4 - 16 * (n - i)) for i in range(n)]


@pytest.fixture
def small(stored_array: Any) -> Any:
    """Shards of four inner chunks of four bytes: 16 bytes and an index of 68."""
    return stored_array((8, 8), (4, 4), np.uint8, inner=(2, 2))


def read(array: Any, store: Any, request: Any, **options: Any) -> np.ndarray:
    out = np.empty(request.input_shape, array.numpy_dtype)
    return read_into(array, store, request, out, pool=Pool(2), **options).result(20)


def write(array: Any, store: Any, request: Any, values: Any) -> None:
    values = np.broadcast_to(np.asarray(values, array.numpy_dtype), request.input_shape)
    write_from(array, store, request, values, pool=Pool(2)).result(20)


def test_much_of_a_shard_is_one_request_and_little_is_an_index_and_a_range(
    small: Any, request_of: Any
) -> None:
    store = Recorder()
    data = np.arange(64, dtype=np.uint8).reshape(8, 8) + 1
    write(small, store, request_of((8, 8)), data)
    assert store.requests == []  # every element was overwritten
    np.testing.assert_array_equal(read(small, store, request_of((8, 8))), data)
    assert store.requests == [None] * 4
    store.requests.clear()
    assert read(small, store, request_of((8, 8), (2, 2))) == data[2, 2]
    assert store.requests == [(-68, None), (12, 16)]
    store.requests.clear()
    read(small, store, request_of((8, 8), (slice(0, 2), slice(0, 4))))
    assert store.requests == [(-68, None), (0, 8)]  # two neighbours share a request


def test_far_apart_ranges_are_requested_together(stored_array: Any, request_of: Any) -> None:
    shape, inner = (1, 512 * 1024), (1, 64 * 1024)
    array, store = stored_array(shape, shape, np.uint8, inner=inner), Recorder()
    data = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)
    write(array, store, request_of(shape), data)
    where = (0, slice(0, None, 200_000))
    np.testing.assert_array_equal(read(array, store, request_of(shape, where)), data[where])
    k = 64 * 1024
    assert store.requests[-2] == [(0, k), (3 * k, 4 * k), (6 * k, 7 * k)]
    assert store.requests[-1] == (0, 0)  # still the same shard


def test_untouched_inner_chunks_are_copied_undecoded(stored_array: Any, request_of: Any) -> None:
    array = stored_array((4,), (4,), np.uint8, inner=(1,), codecs=(Bytes(), Gzip(level=1)))
    store = MemoryStore()
    broken = b"not gzip at all"
    store.write("a/c/0", broken + index_of((0, 15), MISSING, MISSING, MISSING))
    write(array, store, request_of((4,), slice(2, 3)), [7])
    shard = bytes(store.read("a/c/0").value)
    (first, second, third, fourth) = entries_of(shard, 4)
    assert shard[: first[1]] == broken
    assert second == fourth == MISSING
    assert third[0] == first[1]
    write(array, store, request_of((4,), slice(0, 1)), [5])  # overwritten entirely, so not decoded
    assert read(array, store, request_of((4,))).tolist() == [5, 0, 7, 0]


def test_inner_chunks_of_the_fill_value_are_left_out(small: Any, request_of: Any) -> None:
    store = MemoryStore()
    write(small, store, request_of((8, 8), (slice(2, 4), slice(2, 4))), 9)
    shard = bytes(store.read("a/c/0/0").value)
    assert len(shard) == 4 + 68
    assert entries_of(shard, 4) == [MISSING, MISSING, MISSING, (0, 4)]
    write(small, store, request_of((8, 8), (slice(2, 4), slice(2, 4))), 0)
    assert list(store.list()) == []


BAD = {
    "short": (b"abc", r"\[-68, \?\) is not valid for value of size 3|Existing shard has size of 3 bytes"),
    "checksum": (
        bytes(16) + index_of((0, 4), (4, 4), (8, 4), (12, 4))[:-1] + b"z",
        "(?i)digest|checksum|crc",
    ),
    "beyond": (bytes(16) + index_of((0, 4), (4, 4), (8, 4), (1000, 4)), r"\[1000, 1004\)"),
    "wraps around": (
        bytes(16) + index_of((0, 4), (4, 4), (8, 4), (2**64 - 2, 4)),
        "Invalid shard index entry 3 with offset=18446744073709551614, length=4",
    ),
    "half missing": (
        bytes(16) + index_of((0, 4), (4, 4), (8, 4), (2**64 - 1, 4)),
        "Invalid shard index entry 3 with offset=18446744073709551615, length=4",
    ),
    "huge": (bytes(16) + index_of((0, 4), (4, 4), (8, 4), (0, 2**62)), "4611686018427387904"),
    "size": (bytes(16) + index_of((0, 4), (4, 4), (8, 4), (12, 3)), "has 3 bytes, expected 4"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("selection", [(3, 3), (slice(0, 4), slice(0, 4))], ids=["one", "whole"])
def test_a_bad_shard_is_an_error_that_names_the_entry(
    kind: str, selection: Any, small: Any, request_of: Any, tmp_path: Path
) -> None:
    value, message = BAD[kind]
    store = FileStore(tmp_path, sync=False)
    store.write("a/c/0/0", value)
    with pytest.raises(DataCorruptionError, match=message) as caught:
        read(small, store, request_of((8, 8), selection))
    assert str(caught.value).startswith("DATA_LOSS: Error reading shard entry {")
    assert f'/{{2, 2}} in local file "{tmp_path}/a/c/0/0": ' in str(caught.value)
    if kind != "size":  # a writer has no reason to decode the others
        with pytest.raises(DataCorruptionError, match='Error reading local file "'):
            write(small, store, request_of((8, 8), (0, 0)), 1)
    write(small, store, request_of((8, 8), (slice(0, 4), slice(0, 4))), 5)
    assert (read(small, store, request_of((8, 8), (slice(0, 4), slice(0, 4)))) == 5).all()


@pytest.mark.parametrize("codecs", [None, (Bytes(), Gzip(level=1))], ids=["raw", "gzip"])
def test_a_huge_length_takes_no_memory(
    codecs: Any, stored_array: Any, request_of: Any, tmp_path: Path
) -> None:
    array = stored_array((4,), (4,), np.uint8, inner=(1,), codecs=codecs)
    store = FileStore(tmp_path, sync=False)
    store.write("a/c/0", bytes(16) + index_of((0, 2**50), MISSING, MISSING, MISSING))
    for n in (1, 4):
        with pytest.raises(DataCorruptionError, match="1125899906842624"):
            read(array, store, request_of((4,), slice(0, n)))


def test_missing_inner_chunks_are_an_error_if_asked(small: Any, request_of: Any) -> None:
    store = MemoryStore()
    write(small, store, request_of((8, 8), (slice(0, 2), slice(4, 6))), 9)
    where = r'^NOT_FOUND: chunk \{1, 3\} stored at shard entry \{1, 1\}/\{2, 2\} in .*"a/c/0/1" is missing$'
    for selection in [(2, 6), (slice(2, 4), slice(6, 8))]:
        with pytest.raises(NotFoundError, match=where):
            read(small, store, request_of((8, 8), selection), fill_missing=False)
    with pytest.raises(NotFoundError, match=r"^NOT_FOUND: chunk \{0, 0\} stored at shard entry"):
        read(small, store, request_of((8, 8)), fill_missing=False)


class Replacing(MemoryStore):
    """Replaces the shard after its index was read."""

    def __init__(self, values: list[bytes]) -> None:
        super().__init__()
        self.values = values

    def read(self, key: str, **options: Any) -> Any:
        found = super().read(key, **options)
        if options.get("byte_range") == (-68, None) and self.values:
            self.write(key, self.values.pop())
        return found


def test_a_shard_that_is_replaced_between_requests_is_read_again(small: Any, request_of: Any) -> None:
    whole = bytes(range(16)) + index_of((0, 4), (4, 4), (8, 4), (12, 4))
    shifted = bytes(4) + bytes(range(100, 116)) + index_of((4, 4), (8, 4), (12, 4), (16, 4))
    short = bytes([77] * 4) + index_of(MISSING, MISSING, MISSING, (0, 4))
    store = Replacing([short, shifted])
    store.write("a/c/0/0", whole)
    assert read(small, store, request_of((8, 8), (3, 3))) == 77
    assert store.values == []


def test_parts_of_one_large_shard_are_shared_among_workers(stored_array: Any, request_of: Any) -> None:
    shape = (96, 96, 96)
    array = stored_array(shape, shape, np.float64, inner=(16, 16, 16), codecs=(Bytes(), Gzip(level=1)))
    store = Recorder()
    data = np.random.default_rng(3).random(shape).round(1)
    write(array, store, request_of(shape), data)
    for where in [(), (slice(5, 90), slice(3, 70), slice(None, None, -2))]:
        store.requests.clear()
        np.testing.assert_array_equal(read(array, store, request_of(shape, where)), data[where])
        assert len(store.requests) > 3


SINGLE = (64, 64, 128)


def single_shard(stored_array: Any) -> tuple[Any, np.ndarray]:
    """Return an array of one shard that two threads encode, and data with inner chunks of the fill value."""
    codecs = (Bytes(), Gzip(level=1))
    array = stored_array(SINGLE, SINGLE, np.uint16, inner=(16, 16, 32), codecs=codecs)
    data = np.random.default_rng(5).integers(0, 50, SINGLE, dtype=np.uint16)
    data[16:48, :20] = 0
    return array, data


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_single_shard_is_encoded_by_two_threads_to_the_same_bytes(
    stored_array: Any, request_of: Any, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    array, data = single_shard(stored_array)
    data, stores = np.asarray(data, order=order), (MemoryStore(), MemoryStore())
    threads: set[int] = set()
    encode = shard_write._ShardWriter.encode_whole

    def noted(self: Any, *args: Any) -> None:
        threads.add(threading.get_ident())
        encode(self, *args)

    monkeypatch.setattr(shard_write._ShardWriter, "encode_whole", noted)
    write_from(array, stores[0], request_of(SINGLE), data, pool=Pool(1)).result(20)
    threads.clear()
    write(array, stores[1], request_of(SINGLE), data)
    assert 1 <= len(threads - {threading.get_ident()}) <= 2
    (key,) = stores[1].list()
    assert bytes(stores[1].read(key).value) == bytes(stores[0].read(key).value)
    np.testing.assert_array_equal(read(array, stores[1], request_of(SINGLE)), data)
    write(array, stores[1], request_of(SINGLE), 0)
    assert list(stores[1].list()) == []


@pytest.mark.parametrize("failing", [0, 37, 63])
def test_a_shard_stays_as_it_is_if_a_piece_fails(
    stored_array: Any, request_of: Any, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    array, data = single_shard(stored_array)
    store = MemoryStore()
    write(array, store, request_of(SINGLE), data)
    (key,) = store.list()
    before, append = bytes(store.read(key).value), sharding.ShardBody.append

    def broken(self: Any, position: int, encoded: Any) -> None:
        if position == failing:
            raise DataCorruptionError("no room")
        append(self, position, encoded)

    monkeypatch.setattr(sharding.ShardBody, "append", broken)
    entry = ", ".join(map(str, np.unravel_index(failing, (4, 4, 4))))
    with pytest.raises(DataCorruptionError, match=rf"shard entry {{{entry}}}/.* no room"):
        write(array, store, request_of(SINGLE), data + 1)
    assert bytes(store.read(key).value) == before


def test_a_small_part_of_a_shard_is_read_at_once(stored_array: Any, request_of: Any) -> None:
    """What takes less than handing it over is the caller's: one index, one request for the ranges."""
    shape = (64, 64, 64)
    array = stored_array(shape, shape, np.float64, inner=(16, 16, 16), codecs=(Bytes(), Gzip(level=1)))
    store = Recorder()
    data = np.random.default_rng(3).random(shape).round(1)
    write(array, store, request_of(shape), data)
    where = (slice(5, 60), 3, slice(None, None, -2))
    np.testing.assert_array_equal(read(array, store, request_of(shape, where)), data[where])
    assert [r for r in store.requests if isinstance(r, tuple) and r[0] < 0] == [(-1028, None)]
    assert len(store.requests) <= 3


class IndexBarrier(MemoryStore):
    """Answers a request for the index of a shard when those of two shards are under way."""

    traits = DEFAULT_TRAITS._replace(request_concurrency=8)

    def __init__(self) -> None:
        super().__init__()
        self.barrier = threading.Barrier(2)
        self.indexes: list[str] = []

    def read(self, key: str, **options: Any) -> Any:
        byte_range = options.get("byte_range")
        if byte_range is not None and byte_range[0] < 0:
            self.indexes.append(key)
            self.barrier.wait(20)
        return super().read(key, **options)


def test_indexes_of_split_shards_are_read_at_the_same_time_and_once_each(
    stored_array: Any, request_of: Any
) -> None:
    shape, shards, inner = (2, 4096, 4096), (1, 4096, 4096), (1, 512, 512)
    array, store = stored_array(shape, shards, np.float64, inner=inner), IndexBarrier()
    layers = np.arange(1, 3)[:, None, None] + np.zeros((1, 4096, 8))
    write(array, store, request_of(shape, (slice(None), slice(None), slice(0, 8))), layers)
    half = request_of(shape, (slice(None), slice(0, 4096), slice(0, 2048)))
    out = read(array, store, half)
    assert (out[:, :, :8] == layers).all() and not out[:, :, 8:].any()
    assert sorted(store.indexes) == ["a/c/0/0/0", "a/c/1/0/0"]


@pytest.mark.parametrize("index_location", ["end", "start"])
def test_tensorstore_reads_and_writes_the_same_shards(
    index_location: Any, stored_array: Any, request_of: Any, tmp_path: Path
) -> None:
    shape, chunks, inner = (20, 30), (8, 12), (4, 3)
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": f"{tmp_path}/a/"},
        "metadata": {
            "shape": shape, "data_type": "int32", "fill_value": -1,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
            "codecs": [{"name": "sharding_indexed", "configuration": {
                "chunk_shape": inner, "codecs": [little, {"name": "gzip", "configuration": {"level": 1}}],
                "index_codecs": [little, {"name": "crc32c"}], "index_location": index_location,
            }}],
        },
    }  # fmt: skip
    theirs = tensorstore.open(spec, create=True).result()
    array = stored_array(
        shape, chunks, np.int32, -1, inner=inner, codecs=(Bytes("little"), Gzip(level=1)),
        index_location=index_location,
    )  # fmt: skip
    store = FileStore(tmp_path, sync=False)
    data = np.arange(600, dtype=np.int32).reshape(shape)
    data[3:9, 5:20] = -1
    theirs[...] = data
    np.testing.assert_array_equal(read(array, store, request_of(shape)), data)
    where = (slice(2, 19, 3), slice(1, 28))
    data[where] += 1000
    write(array, store, request_of(shape, where), data[where])
    np.testing.assert_array_equal(theirs.read().result(), data)
    theirs[5:6, 7:9] = np.int32(4)
    data[5:6, 7:9] = 4
    np.testing.assert_array_equal(read(array, store, request_of(shape, (slice(4, 7),))), data[4:7])


@pytest.mark.parametrize("n_points", [7, 500])
def test_scattered_points_lie_in_many_shards(n_points: int, tmp_path: Path) -> None:
    """Those of one shard aren't neighbours in the order of inner chunks."""
    rng = np.random.default_rng(0)
    values = rng.integers(1, 1000, (40, 40, 8), "u2")
    array = chunkwise.create_array(tmp_path / "a.zarr", values, chunks=(2, 2, 4), shards=(8, 8, 8))
    points = tuple(rng.integers(0, size, n_points) for size in values.shape)
    np.testing.assert_array_equal(array.vindex[points].read().result(), values[points])
    np.testing.assert_array_equal(array.vindex[points[:2]].read().result(), values[points[:2]])
    values[points] = np.arange(n_points)
    array.vindex[points].write(values[points]).result()
    np.testing.assert_array_equal(array, values)


class AlwaysReplacing(MemoryStore):
    """Replaces the shard with itself after each read of its index."""

    def read(self, key: str, **options: Any) -> Any:
        found = super().read(key, **options)
        if options.get("byte_range") == (-68, None):
            self.write(key, bytes(super().read(key).value))
        return found


@pytest.mark.parametrize("kind", ["file", "memory"])
@pytest.mark.parametrize("selection", [(3, 3), (slice(0, 2), slice(0, 4))], ids=["one", "two"])
def test_a_shard_that_is_replaced_again_and_again(
    kind: str, selection: Any, small: Any, request_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reader goes on forever."""
    monkeypatch.setattr(OpenFile, "changed", lambda file: True)
    store: Any = FileStore(tmp_path, sync=False) if kind == "file" else AlwaysReplacing()
    store.write("a/c/0/0", bytes(range(16)) + index_of((0, 4), (4, 4), (8, 4), (12, 4)))
    with pytest.raises(AbortedError, match=r'a/c/0/0" was replaced 100 times while it was read'):
        read(small, store, request_of((8, 8), selection))


@pytest.mark.parametrize("last", [(12, 4), (100, 4)], ids=["whole", "damaged"])
def test_a_file_that_is_replaced_after_it_was_opened(
    last: tuple[int, int], small: Any, request_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new shard is read, even if the old one is damaged."""
    store = FileStore(tmp_path, sync=False)
    store.write("a/c/0/0", bytes(range(16)) + index_of((0, 4), (4, 4), (8, 4), last))
    changed = OpenFile.changed

    def replace(file: OpenFile) -> bool:
        monkeypatch.setattr(OpenFile, "changed", changed)
        path = tmp_path / "a" / "c" / "0" / "0"
        path.write_bytes(bytes(range(50, 66)) + index_of((0, 4), (4, 4), (8, 4), (12, 4)))
        return True

    monkeypatch.setattr(OpenFile, "changed", replace)
    assert read(small, store, request_of((8, 8), (3, 3))) == 65


def test_a_large_range_is_asked_for_by_its_last_byte_first(stored_array: Any, request_of: Any) -> None:
    """A store may provide memory for a range before it knows that the value is shorter."""
    n = 2**25
    array, store = stored_array((4 * n,), (4 * n,), np.uint8, inner=(n,)), Recorder()
    store.write("a/c/0", bytes(16) + index_of((0, n), MISSING, MISSING, MISSING))
    with pytest.raises(DataCorruptionError, match=f"{n}"):
        read(array, store, request_of((4 * n,), slice(0, 1)))
    assert (n - 1, n) in store.requests
    assert (0, n) not in store.requests
