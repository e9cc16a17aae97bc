"""Chunks that a cache pool keeps decoded: values as if they were not kept, decoded once, counted, dropped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.core.engine.sources import CacheSource
from chunkwise.core.kvstore.adapter.cache import CacheStore
from chunkwise.core.kvstore.caches import ENTRY_OVERHEAD, CacheEntry, ValueCache
from chunkwise.core.kvstore.memory import MemoryStore

SHAPE, CHUNK = (9, 10), (4, 3)
RAW = [{"name": "bytes", "configuration": {"endian": "big"}}]
LITTLE = [{"name": "bytes", "configuration": {"endian": "little"}}]
TURNED = [{"name": "transpose", "configuration": {"order": [1, 0]}}, *LITTLE, {"name": "zstd"}]
FORMATS: dict[str, dict[str, Any]] = {
    "raw": {"driver": "zarr3", "metadata": {"codecs": RAW}},
    "blosc": {"driver": "zarr3", "metadata": {"codecs": [*LITTLE, {"name": "blosc"}]}},
    "turned": {"driver": "zarr3", "metadata": {"codecs": TURNED}},
    "n5": {"driver": "n5", "metadata": {"compression": {"type": "gzip"}}},
    "zarr2": {"driver": "zarr", "metadata": {"compressor": {"id": "zlib", "level": 1}}},
}


def context(limit: int = 1_000_000) -> ts.Context:
    return ts.Context({"cache_pool": {"total_bytes_limit": limit}})


def opened(spec: dict[str, Any], within: ts.Context, recheck: Any) -> ts.TensorStore:
    return ts.open(
        {**spec, "kvstore": "memory://a/", "recheck_cached_data": recheck},
        context=within,
        create=True,
        open=True,
        dtype="int16",
        shape=SHAPE,
        chunk_layout=ts.ChunkLayout(chunk_shape=CHUNK),
    ).result()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The keys of the chunks that are decoded from now on."""
    seen: list[str] = []
    decode = CacheSource._decoded

    def seeing(self: Any, key: str, kept: CacheEntry, chunk: Any, memory: Any) -> Any:
        if chunk is None and kept.value is not None:
            seen.append(key)
        return decode(self, key, kept, chunk, memory)

    monkeypatch.setattr(CacheSource, "_decoded", seeing)
    yield seen


def boxes() -> st.SearchStrategy[tuple[Any, ...]]:
    def along(size: int) -> st.SearchStrategy[Any]:
        ends = st.tuples(st.integers(0, size), st.integers(0, size)).map(sorted)
        return st.one_of(st.integers(0, size - 1), ends.map(lambda pair: slice(*pair)))

    return st.tuples(*map(along, SHAPE))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["read", "read", "read", "reversed", "points", "write", "others write", "others delete"]
        ),
        boxes(),
        st.integers(0, 99),
    ),
    max_size=14,
)


class Model:
    """Stored chunks, and those of them that the pool has."""

    def __init__(self) -> None:
        self.stored = np.zeros(SHAPE, np.int16)
        self.kept: dict[tuple[int, int], Any] = {}

    def chunks(self, box: tuple[Any, ...]) -> Iterator[tuple[tuple[int, int], tuple[slice, slice]]]:
        touched = np.zeros(SHAPE, bool)
        touched[box] = True
        for cell in product(range(3), range(4)):
            at = tuple(slice(n * size, (n + 1) * size) for n, size in zip(cell, CHUNK, strict=True))
            if touched[at].any():
                yield cell, at  # type: ignore[misc]

    def read(self, box: tuple[Any, ...]) -> Any:
        seen = self.stored.copy()
        for cell, at in self.chunks(box):
            seen[at] = self.kept.setdefault(cell, self.stored[at].copy())
        return seen[box]

    def write(self, box: tuple[Any, ...], value: int) -> None:
        self.stored[box] = value
        for cell, at in self.chunks(box):
            self.kept[cell] = self.stored[at].copy()


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(25), deadline=None)
@given(steps=STEPS, limit=st.sampled_from([300, 1500, 1_000_000]), recheck=st.booleans())
def test_reads_see_what_the_rule_says(name: str, steps: Any, limit: int, recheck: bool) -> None:
    if not recheck:
        limit = 1_000_000  # or what was dropped would be seen as it is now
    pool = context(limit)
    own = [opened(FORMATS[name], pool, recheck) for _ in range(2)]
    others = opened(FORMATS[name], ts.Context(parent=pool, json={"cache_pool": {}}), True)
    model = Model()
    everything = (slice(None), slice(None))
    for number, (step, box, value) in enumerate(steps):
        store = own[number % 2]
        if recheck:
            model.kept.clear()
        if step == "read":
            np.testing.assert_array_equal(store[box].read().result(), model.read(box))
        elif step == "reversed":
            np.testing.assert_array_equal(
                store[::-1, ::-1].read().result(), model.read(everything)[::-1, ::-1]
            )
        elif step == "points":
            rows, columns = [value % 9, 0, 8], [0, value % 10, 9]
            want = [model.read((row, column)) for row, column in zip(rows, columns, strict=True)]
            assert store.vindex[rows, columns].read().result().tolist() == want
        elif step == "write":
            store[box] = value
            model.write(box, value)
        elif step == "others write":
            others[box] = value
            model.stored[box] = value
        else:
            others[...] = 0  # so that nothing is stored
            model.stored[...] = 0
        cache = store._array.store._cache  # type: ignore[attr-defined]
        assert cache.nbytes <= limit
        assert cache.nbytes == sum(entry.size for entry in cache._entries.values())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("recheck", [True, False, "open"])
def test_a_chunk_is_decoded_once_for_all_handles(name: str, recheck: Any, decoded: list[str]) -> None:
    pool = context()
    a, b = (opened(FORMATS[name], pool, recheck) for _ in range(2))
    a[...] = 7
    for store in (a, b):
        assert store[1, 2].read().result() == 7
        assert store[:2, :5].read().result().tolist() == [[7] * 5] * 2
        assert store[::-1].read().result().min() == 7
    assert len(decoded) == len(set(decoded)) == 12
    b[0, 0] = 5
    assert a[0, :2].read().result().tolist() == [5, 7]
    assert len(decoded) == 13


def test_handles_that_decode_in_different_ways_share_nothing() -> None:
    pool = context()
    a = opened(FORMATS["blosc"], pool, False)
    a[...] = 258
    assert a[0, 0].read().result() == 258
    metadata = dict(a._array.document)  # type: ignore[attr-defined]
    metadata["codecs"] = [*RAW, {"name": "blosc"}]
    spec = {"driver": "zarr3", "kvstore": "memory://a/", "recheck_cached_data": False, "metadata": metadata}
    turned = ts.open({**spec, "assume_metadata": True}, context=pool, open=True).result()
    assert turned[0, 0].read().result() == 513
    assert a[0, 0].read().result() == 258


def test_what_is_kept_is_not_what_was_read() -> None:
    store = opened(FORMATS["blosc"], context(), False)
    store[...] = 1
    first = store[:4, :3].read().result()
    first[...] = 9
    assert store[:4, :3].read().result().max() == 1


def test_a_missing_chunk_stays_known_as_missing() -> None:
    pool = context()
    store = opened(FORMATS["n5"], pool, False)
    others = opened(FORMATS["n5"], ts.Context(parent=pool, json={"cache_pool": {}}), True)
    assert store[0, 0].read().result() == 0
    others[...] = 3
    assert store[:5, 0].read().result().tolist() == [0, 0, 0, 0, 3]


def test_fields_share_decoded_records(decoded: list[str]) -> None:
    metadata = {"dtype": [["x", "<i2"], ["y", "|u1", [2]]], "shape": [6], "chunks": [4], "compressor": None}
    spec = {"driver": "zarr", "kvstore": "memory://r/", "metadata": metadata, "recheck_cached_data": False}
    pool = context()
    x = ts.open({**spec, "field": "x"}, context=pool, create=True).result()
    y = ts.open({**spec, "field": "y"}, context=pool).result()
    x[...] = np.arange(6, dtype=np.int16)
    y[1] = [4, 5]
    assert x[1:3].read().result().tolist() == [1, 2]
    assert y[1:3].read().result().tolist() == [[4, 5], [0, 0]]
    assert x[5].read().result() == 5
    assert len(decoded) == 2


def test_a_chunk_that_does_not_decode_is_an_error_each_time() -> None:
    store = opened(FORMATS["blosc"], context(), False)
    kvstore = store.kvstore
    assert kvstore is not None
    kvstore["c/0/0"] = b"no blosc"
    for view in (store[0, 0], store[:5, :5], store[::-1]):
        for _ in range(2):
            with pytest.raises(ValueError, match=r"Error reading .*c/0/0"):
                view.read().result()


def test_decoded_chunks_count_and_go_with_their_value() -> None:
    cache = ValueCache(2000)
    store = CacheStore(MemoryStore(), cache, lambda: 0.0)
    store.write("a", b"x" * 100)
    kept, chunk = store.find_chunk("a", "form") or (None, None)
    assert kept is not None
    assert chunk is None
    assert cache.nbytes == 100 + ENTRY_OVERHEAD
    store.put_chunk("a", kept, "form", "decoded", 500)
    assert store.find_chunk("a", "form") == (kept, "decoded")
    assert 500 < cache.nbytes - 100 - ENTRY_OVERHEAD < 1000
    store.read("a")  # another object, but the same value
    found = store.find_chunk("a", "form")
    assert found is not None
    assert found[1] == "decoded"
    store.write("a", b"y" * 100)
    found = store.find_chunk("a", "form")
    assert found is not None
    assert found[0].value == b"y" * 100
    assert found[1] is None
    store.put_chunk("a", kept, "form", "decoded from x", 500)  # by one who was slow
    store.put_chunk("a", found[0], "large", "decoded from y", 5000)
    assert cache.nbytes == 100 + ENTRY_OVERHEAD
    store.put_chunk("a", found[0], "form", "decoded from y", 500)
    store.write("b", bytes(1000))
    assert [cache.get(store.identity, key) is not None for key in "ab"] == [False, True]
    store.delete("b")
    assert cache.nbytes == ENTRY_OVERHEAD
