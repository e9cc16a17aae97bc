"""Chunks kept in a cache pool: when they are used unasked, when they make room, what writers see."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.trace_store import TraceStore

import chunkwise as ts
from chunkwise.core.base.catalogue import codecs
from chunkwise.core.codec.protocol import BytesToBytes
from chunkwise.core.kvstore.adapter.cache import CacheStore
from chunkwise.core.kvstore.caches import ENTRY_OVERHEAD, CacheEntry, ValueCache
from chunkwise.core.kvstore.memory import MemoryStore

N5 = {"driver": "n5", "kvstore": "memory://a"}


def pool(nbytes: int = 1_000_000) -> ts.Context:
    return ts.Context({"cache_pool": {"total_bytes_limit": nbytes}})


def create(context: ts.Context, spec: Any = N5, **options: Any) -> ts.TensorStore:
    defaults: dict[str, Any] = {"dtype": "uint8", "shape": [8], "context": context}
    return ts.open(spec, create=True, open=True, **{**defaults, **options}).result()


@pytest.mark.parametrize(("bound", "sees_it"), [(True, True), (False, False), ("open", False), (0.0, False)])
def test_a_change_behind_the_back_is_seen_as_the_bound_says(bound: Any, sees_it: bool) -> None:
    context = pool()
    create(context)[...] = 1
    store = ts.open({**N5, "recheck_cached_data": bound}, context=context).result()
    assert store.read().result().tolist() == [1] * 8
    del store.kvstore["0"]  # type: ignore[index]
    assert store.read().result().tolist() == [0 if sees_it else 1] * 8


def test_without_a_limit_nothing_is_kept() -> None:
    context = ts.Context()
    create(context)[...] = 1
    store = ts.open({**N5, "recheck_cached_data": False}, context=context).result()
    store.read().result()
    del store.kvstore["0"]  # type: ignore[index]
    assert store.read().result().tolist() == [0] * 8


def test_handles_of_one_context_share_what_is_kept() -> None:
    context = pool()
    a, b = (create(context, {**N5, "recheck_cached_data": False}) for _ in range(2))
    b.read().result()
    a[2:4] = 5
    assert b.read().result().tolist() == [0, 0, 5, 5, 0, 0, 0, 0]


def test_a_partial_write_changes_what_is_stored_not_what_is_kept() -> None:
    context = pool()
    stale = create(context, {**N5, "recheck_cached_data": False})
    stale[...] = 1
    fresh = create(ts.Context(parent=context, json={"cache_pool": {}}))
    fresh[...] = 2
    assert stale.read().result().tolist() == [1] * 8
    stale[0] = 9
    assert stale.read().result().tolist() == [9] + [2] * 7


def test_an_unchanged_value_is_not_sent_again() -> None:
    base = TraceStore(MemoryStore())
    base.write("k", b"value")
    store = CacheStore(base, ValueCache(1000), lambda: math.inf)
    read = store.open_reader()
    assert [read("k"), read("k")] == [b"value", b"value"]
    assert base.read("k", if_not_equal=store.read("k").generation).value is None


def test_what_was_not_used_for_longest_makes_room() -> None:
    cache = ValueCache(3 * (100 + ENTRY_OVERHEAD))
    for key in "abc":
        cache.put("s", key, CacheEntry(bytes(100), b"g", 0.0))
    assert cache.get("s", "a") is not None
    cache.put("s", "d", CacheEntry(bytes(100), b"g", 0.0))
    assert [key for key in "abcd" if cache.get("s", key)] == ["a", "c", "d"]
    assert cache.nbytes <= cache.total_bytes_limit


def test_a_value_beyond_the_limit_is_not_kept() -> None:
    cache = ValueCache(1000)
    cache.put("s", "a", CacheEntry(b"old", b"g", 0.0))
    cache.put("s", "a", CacheEntry(bytes(2000), b"h", 0.0))
    assert cache.get("s", "a") is None
    assert cache.nbytes == 0


def test_a_small_pool_reads_the_right_values() -> None:
    context = pool(3000)
    store = create(context, shape=[64, 64], chunk_layout=ts.ChunkLayout(chunk_shape=[8, 8]))
    values = np.random.default_rng(1).integers(0, 255, (64, 64), np.uint8)
    store.write(values).result()
    for _ in range(2):
        np.testing.assert_array_equal(store.read().result(), values)


def test_cells_of_different_sizes_are_kept() -> None:
    """Also those whose chunks differ in shape from the first."""
    grid = {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [[1, 2, 3, 4], [2, 4]]},
    }
    metadata = {"shape": [10, 6], "data_type": "uint8", "chunk_grid": grid}
    for chain in (["bytes"], ["bytes", {"name": "gzip"}]):
        spec = {"driver": "zarr3", "kvstore": "memory://a/", "recheck_cached_data": False}
        store = ts.open(
            {**spec, "metadata": {**metadata, "codecs": chain}}, create=True, context=pool()
        ).result()
        values = np.arange(60, dtype="u1").reshape(10, 6)
        store.write(values).result()
        np.testing.assert_array_equal(store.read().result(), values)
        assert store.kvstore is not None
        store.kvstore.delete_range(ts.KvStore.KeyRange("c/", "c0")).result()
        for where in (np.s_[:], np.s_[2:9, 1:3], np.s_[::3, ::-1]):
            np.testing.assert_array_equal(store[where].read().result(), values[where])


def test_a_codec_that_can_not_be_compared_is_read_as_any_other() -> None:
    """Two arrays may have equal chunks then, and nobody knows: each decodes its own."""

    @dataclass  # so it has no hash
    class Turned(BytesToBytes):
        name: ClassVar[str] = "turned"

        @classmethod
        def parse(cls, format: str, name: str, configuration: Any) -> Any:
            return cls()

        def to_json(self, format: str) -> dict[str, Any]:
            return {}

        def open_decoder(self, decoded_nbytes: int | None) -> Any:
            return lambda data: bytes(data)[::-1]

        def open_encoder(self) -> Any:
            return lambda data: bytes(data)[::-1]

    codecs.register("turned", Turned)
    spec = {"driver": "zarr3", "kvstore": "memory://a/", "recheck_cached_data": True}
    store = create(pool(), {**spec, "metadata": {"codecs": ["bytes", {"name": "turned"}]}})
    store.write(np.arange(8, dtype="u1")).result()
    for _ in range(2):
        assert store.read().result().tolist() == list(range(8))
        assert store[2:4].read().result().tolist() == [2, 3]


def test_threads_that_change_parts_of_a_chunk_lose_nothing() -> None:
    context = pool()
    store = create(context, {**N5, "recheck_cached_data": False}, shape=[64])

    def write(first: int) -> None:
        for i in range(first, 64, 4):
            store[i] = i
            assert store[i].read().result() == i

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read().result().tolist() == list(range(64))


def test_ranges_of_shards_are_cut_from_what_is_kept() -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://a", "recheck_cached_data": False}
    layout = ts.ChunkLayout(write_chunk_shape=[16, 16], read_chunk_shape=[4, 4])
    store = create(pool(), spec, shape=[16, 16], chunk_layout=layout)
    values = np.arange(256, dtype=np.uint8).reshape(16, 16)
    store.write(values).result()
    store.read().result()
    kv = store.kvstore
    assert kv is not None
    del kv["c/0/0"]
    np.testing.assert_array_equal(store[5:7, 3:9].read().result(), values[5:7, 3:9])


@pytest.mark.parametrize("bound", [False, "open", True])
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_own_writes_are_seen(kind: str, bound: Any, tmp_path: Path) -> None:
    """Whole chunks, parts of chunks, fill values, transactions; by the writer and by other handles."""
    where = f"file://{tmp_path}/" if kind == "file" else "memory://a/"
    spec = {"driver": "zarr3", "kvstore": where, "recheck_cached_data": bound}
    context = pool()
    layout = ts.ChunkLayout(chunk_shape=[4, 4])
    a, b = (create(context, spec, shape=[16, 16], chunk_layout=layout) for _ in range(2))
    expected = np.zeros((16, 16), "u1")

    def agree() -> None:
        for store in (a, b):
            np.testing.assert_array_equal(store.read().result(), expected)
            assert store[1, 1].read().result() == expected[1, 1]

    agree()
    for place in (np.s_[:], np.s_[1, 1], np.s_[1, :3], np.s_[2:11, 3:9], np.s_[4:8, 4:8]):
        for value in (3, 4, 0, 5):
            a[place] = expected[place] = value
            agree()
    with ts.Transaction() as transaction:
        a.with_transaction(transaction)[:6] = 7
        agree()
    expected[:6] = 7
    agree()
    transaction = ts.Transaction()
    a.with_transaction(transaction)[...] = 8
    transaction.abort()
    agree()


def test_a_failed_write_is_not_hidden_by_what_is_kept(tmp_path: Path) -> None:
    """What is stored then is not known, so it is looked at."""
    spec = {"driver": "n5", "kvstore": f"file://{tmp_path}/", "recheck_cached_data": False}
    store = create(pool(), spec)
    store[...] = 1
    assert store.read().result().tolist() == [1] * 8
    (tmp_path / "0").unlink()
    (tmp_path / "0").mkdir()
    with pytest.raises(ValueError, match="Error writing"):
        store.write(np.arange(8, dtype="u1")).result()
    (tmp_path / "0").rmdir()
    assert store.read().result().tolist() == [0] * 8


class _Late(MemoryStore):
    """A memory store whose answers arrive late."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()

    def read(self, key: str, **options: Any) -> Any:
        found = super().read(key, **options)
        self.asked.set()
        assert self.answer.wait(60)
        return found


def test_what_is_on_its_way_is_forgotten_too() -> None:
    """A value that was asked for before somebody wrote, and arrives after that was told, is not kept."""
    base = _Late()
    base.write("a/k", b"old")
    store = CacheStore(base, ValueCache(1000), lambda: -math.inf, "a/")
    reading = threading.Thread(target=lambda: store.open_reader()("a/k"))
    reading.start()
    assert base.asked.wait(60)
    base.write("a/k", b"new")
    forgetting = threading.Thread(target=store.evict_all)
    forgetting.start()
    forgetting.join(0.2)
    base.answer.set()
    reading.join()
    forgetting.join()
    assert store.open_reader()("a/k") == b"new"
