"""The batch that a read function is given for reads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chunkwise as ts

Wrap = Callable[[ts.TensorStore], ts.TensorStore]


def inner() -> ts.TensorStore:
    store = ts.open("memory://a|n5", create=True, dtype="uint8", shape=[8]).result()
    store[...] = np.arange(8, dtype="uint8")
    return store


def virtual(function: Any) -> ts.TensorStore:
    layout = ts.ChunkLayout(chunk_shape=[4])
    return ts.virtual_chunked(function, dtype="uint8", shape=[8], chunk_layout=layout)


def test_without_a_batch_there_is_none() -> None:
    seen: list[Any] = []
    virtual(lambda domain, array, params: seen.append(params.batch)).read().result()
    assert seen == [None, None]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda v: v,
        lambda v: v[1:7],
        lambda v: ts.cast(v, "int32"),
        lambda v: ts.concat([v, v], 0),
        lambda v: ts.stack([v] * 70, 0),  # more than a stack reads in the caller's thread
        lambda v: ts.downsample(v, [2], "mean"),
        lambda v: ts.virtual_chunked(
            lambda domain, array, params: v[domain].read(batch=params.batch).force(),
            dtype="uint8",
            domain=v.domain,
        ),
    ],
)
def test_reads_in_the_batch_start_when_the_function_returns(wrap: Wrap) -> None:
    store, done = inner(), []

    def read(domain: ts.IndexDomain, array: Any, params: Any) -> ts.Future[None]:
        assert isinstance(params.batch, ts.Batch)
        elements = store[domain].read(batch=params.batch)
        done.append(elements.done())
        promise, filled = ts.Promise[None].new()

        def fill(elements: ts.Future[Any]) -> None:
            array[...] = elements.result()
            promise.set_result(None)

        elements.add_done_callback(fill)
        return filled

    with ts.Batch() as batch:
        result = wrap(virtual(read)).read(batch=batch)
        assert done == []
    result.result(timeout=60)
    assert set(done) == {False}


def test_the_source_of_a_write_is_read_in_the_batch() -> None:
    seen: list[Any] = []
    target = ts.array(np.zeros(8, "uint8"))
    with ts.Batch() as batch:
        future = target.write(virtual(lambda domain, array, params: seen.append(params.batch)), batch=batch)
    future.result(timeout=60)
    assert all(isinstance(b, ts.Batch) for b in seen) and len(seen) == 2


def test_what_a_function_reads_without_the_batch_is_in_none() -> None:
    seen: list[Any] = []
    below = virtual(lambda domain, array, params: seen.append(params.batch))
    with ts.Batch() as batch:
        future = virtual(lambda domain, array, params: below[0].read().force()).read(batch=batch)
    future.result(timeout=60)
    assert seen and set(seen) == {None}


def test_a_coroutine_may_wait_for_a_read_in_the_batch() -> None:
    store = inner()

    async def main() -> Any:
        with ts.Batch() as batch:
            future = virtual(read).read(batch=batch)
        return await asyncio.wait_for(future, 60)

    async def read(domain: ts.IndexDomain, array: Any, params: Any) -> None:
        batch = params.batch
        array[...] = await store[domain].read(batch=batch)

    assert asyncio.run(main()).tolist() == list(range(8))
