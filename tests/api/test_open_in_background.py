"""Opening an array of a store that is not known to be quick does not keep an event loop waiting."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import chunkwise
from chunkwise.core.engine.unasked import in_background
from chunkwise.core.kvstore.memory import MemoryStore

SPEC = {"driver": "zarr3", "metadata": {"chunk_key_encoding": {"name": "v2"}}}


class SlowStore:
    """A memory store of which nothing can be read before `open` is set."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.open = threading.Event()
        self.readers: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def read(self, key: str, **options: Any) -> Any:
        self.readers.append(threading.current_thread().name)
        assert self.open.wait(60)
        return self.store.read(key, **options)


def kvstore(store: SlowStore) -> Any:
    return chunkwise.KvStore.Spec({"driver": "object", "object": store})


@pytest.fixture
def slow() -> SlowStore:
    return SlowStore()


def create(store: SlowStore) -> chunkwise.Future[chunkwise.TensorStore]:
    return chunkwise.open(SPEC, kvstore=kvstore(store), open=True, create=True, dtype="uint8", shape=[4, 5])


def test_the_loop_goes_on_while_an_array_is_opened(slow: SlowStore) -> None:
    async def main() -> chunkwise.TensorStore:
        opening = create(slow)
        for _ in range(3):
            await asyncio.sleep(0)  # with an open that waits here, nobody would ever get to the next line
        assert not opening.done()
        slow.open.set()
        return await opening

    store = asyncio.run(main())
    store[1:3] = 7
    assert np.asarray(store).sum() == 7 * 2 * 5
    assert threading.current_thread().name not in slow.readers[:1]


def test_many_are_opened_at_the_same_time() -> None:
    stores = [SlowStore() for _ in range(5)]
    futures = [create(store) for store in stores]
    for store in reversed(stores):  # each waits for its own store only
        store.open.set()
    assert [future.result(timeout=60).shape for future in futures] == [(4, 5)] * 5


def test_resolve_and_resize_are_done_in_the_background(slow: SlowStore) -> None:
    slow.open.set()
    store = create(slow).result()
    slow.open.clear()
    resizing = store.resize(exclusive_max=[6, 5])
    assert not resizing.done()
    slow.open.set()
    assert resizing.result(timeout=60).shape == (6, 5)
    assert store.resolve().result().shape == (6, 5)


def test_what_is_wrong_is_an_error_of_the_future(slow: SlowStore) -> None:
    slow.open.set()
    future = chunkwise.open({"driver": "zarr3"}, kvstore=kvstore(slow))
    assert "NOT_FOUND" in str(future.exception(timeout=60))


def test_work_in_the_background_runs_side_by_side() -> None:
    n = 8
    barrier = threading.Barrier(n, timeout=60)
    futures = [in_background(barrier.wait) for _ in range(n)]
    assert sorted(future.result(timeout=60) for future in futures) == list(range(n))
    failed = in_background(lambda: 1 // 0)
    assert isinstance(failed.exception(timeout=60), ZeroDivisionError)
