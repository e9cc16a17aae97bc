"""Reads of values in one batch give what each gives alone, in fewer requests."""

from __future__ import annotations

from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.request_limits import Coalescing
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS
from chunkwise.errors import ChunkwiseError

VALUE = bytes(range(200))


class Slow(MemoryStore):
    """A store that counts as slow, and says what it was asked for."""

    traits = DEFAULT_TRAITS._replace(request_concurrency=8, coalescing=Coalescing(gap=5, largest=60))

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    def read(self, key: str, **options: Any) -> Any:
        self.asked.append((key, options.get("byte_range")))
        return super().read(key, **options)


@pytest.fixture(scope="module")
def slow() -> tuple[Slow, Any]:
    driver = Slow()
    store = cw.KvStore.open({"driver": "object", "object": driver}).result()
    store.write("a", VALUE).result()
    store.write("b", b"").result()
    return driver, store


def in_batch(store: Any, asked: list[Any]) -> list[Any]:
    """Return the results of reads in one batch, or the types of their errors."""
    with cw.Batch() as batch:
        futures = [store.read(key, batch=batch, **options) for key, options in asked]
    return [_outcome(future) for future in futures]


def _outcome(future: Any) -> Any:
    try:
        found = future.result(20)
    except (ChunkwiseError, ValueError) as e:
        return type(e), str(e)
    return found.state, found.value, found.stamp.generation


edges = st.integers(0, 205)
slices = st.one_of(
    st.none(),
    st.tuples(edges, edges).map(lambda pair: slice(min(pair), max(pair))),
    edges.map(lambda start: slice(start, None)),
    st.integers(1, 205).map(lambda n: slice(-n, None)),
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("aabc"), slices, st.booleans()), max_size=8))
def test_each_gets_its_own(slow: tuple[Slow, Any], parts: list[Any]) -> None:
    """Whole values, parts, what counts from the end, what is missing, outside, or known already."""
    _, store = slow
    known = store.read("a").result().stamp.generation
    asked = []
    for key, part, is_known in parts:
        options = {} if part is None else {"byte_range": part}
        asked.append((key, {**options, **({"if_not_equal": known} if is_known else {})}))
    alone = [_outcome(store.read(key, **options)) for key, options in asked]
    assert in_batch(store, asked) == alone


TABLE: dict[str, tuple[list[Any], int]] = {
    "close": ([slice(i * 10, i * 10 + 6) for i in range(4)], 1),
    "the same": ([slice(0, 4)] * 6, 1),
    "overlapping": ([slice(0, 30), slice(10, 40)], 1),
    "far": ([slice(0, 4), slice(100, 104), slice(150, 154)], 3),
    "larger than one request": ([slice(i * 20, i * 20 + 20) for i in range(6)], 2),
    "all and parts": ([None, slice(3, 9), slice(-4, None)], 1),
    "to the end": ([slice(100, None), slice(120, 130), slice(-4, None)], 2),
}


@pytest.mark.parametrize("case", TABLE)
def test_requests(slow: tuple[Slow, Any], case: str) -> None:
    driver, store = slow
    parts, most = TABLE[case]
    driver.asked.clear()
    found = in_batch(store, [("a", {} if part is None else {"byte_range": part}) for part in parts])
    assert [value for _, value, _ in found] == [VALUE if part is None else VALUE[part] for part in parts]
    assert len(driver.asked) == most, driver.asked
