"""Batches on threads: order, errors, cancelling, nesting, forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from child_process import forked_exit_code

from chunkwise.core.engine.pool import Pool
from chunkwise.errors import CancelledError


def opening(work: Callable[[Any], None]) -> Callable[[Any], Callable[[Any], None]]:
    return lambda stop: work


def test_every_batch_is_done_once_and_the_end_comes_last() -> None:
    pool, seen = Pool(3), []
    future = pool.run(range(100), opening(seen.append), lambda: sorted(seen), n_workers=3)
    assert future.result(10) == list(range(100))


def test_a_worker_is_opened_once_for_each_thread() -> None:
    pool, opened, barrier = Pool(3), [], threading.Barrier(3)

    def open_worker(stop: Any) -> Any:
        opened.append(threading.get_ident())
        barrier.wait(10)
        return lambda batch: None

    pool.run(range(30), open_worker, lambda: None, n_workers=3).result(10)
    assert len(set(opened)) == len(opened) == 3
    assert threading.get_ident() not in opened


def test_the_first_error_stops_the_rest_and_is_raised() -> None:
    pool, seen = Pool(1), []

    def work(batch: int) -> None:
        seen.append(batch)
        if batch == 3:
            raise KeyError("three")

    with pytest.raises(KeyError, match="three"):
        pool.run(range(100), opening(work), lambda: None, n_workers=1).result(10)
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize("inline", [True, False])
def test_an_error_of_opening_or_of_the_end_is_raised(inline: bool) -> None:
    pool = Pool(2)

    def fail(*_: Any) -> Any:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        pool.run([1, 2], fail, lambda: None, n_workers=2, inline=inline).result(10)
    with pytest.raises(OSError, match="no"):
        pool.run([1, 2], opening(lambda b: None), fail, n_workers=2, inline=inline).result(10)


def test_nothing_to_do_is_done_at_once() -> None:
    future = Pool(2).run([], opening(lambda b: None), lambda: 7, n_workers=2)
    assert future.done()
    assert future.result() == 7


def test_cancelling_stops_the_work() -> None:
    pool, seen, started = Pool(1), [], threading.Event()

    def open_worker(stop: Any) -> Any:
        def work(batch: int) -> None:
            started.set()
            while not stop:
                time.sleep(0.001)
            seen.append(batch)

        return work

    future = pool.run(range(100), open_worker, lambda: None, n_workers=1)
    assert started.wait(10)
    assert future.cancel()
    pool.run([0], opening(lambda b: None), lambda: None, n_workers=1).result(10)  # the thread is free again
    assert seen == [0]


def test_work_from_inside_a_worker_ends_with_it() -> None:
    pool, seen, ends = Pool(1), [], []
    started, go_on = threading.Event(), threading.Event()

    def inner(batch: int) -> None:
        seen.append(batch)
        started.set()
        assert go_on.wait(60)

    def work(batch: int) -> None:
        try:
            pool.run([1, 2, 3], opening(inner), lambda: None, n_workers=1).result()
        except BaseException as e:
            ends.append(e)
            raise

    future = pool.run([0], opening(work), lambda: None, n_workers=1)
    assert started.wait(60)
    future.cancel()
    go_on.set()
    pool.run([0], opening(lambda b: None), lambda: None, n_workers=1).result(60)  # the thread is free again
    assert seen == [1], "what has not begun is not done any more"
    assert [type(e) for e in ends] == [CancelledError]


def test_work_from_inside_a_worker_does_not_wait_for_itself() -> None:
    pool, out = Pool(1), []

    def work(batch: int) -> None:
        inner = pool.run([batch, batch], opening(out.append), lambda: None, n_workers=1)
        assert inner.done()

    pool.run([1, 2], opening(work), lambda: None, n_workers=1).result(10)
    assert out == [1, 1, 2, 2]


def test_a_small_job_does_not_wait_for_all_of_a_large_one() -> None:
    pool, order, go = Pool(1), [], threading.Event()

    def large(batch: int) -> None:
        go.wait(10)
        order.append("large")

    first = pool.run(range(50), opening(large), lambda: None, n_workers=1)
    second = pool.run([0], opening(lambda b: order.append("small")), lambda: None, n_workers=1)
    go.set()
    second.result(10)
    first.result(10)
    assert order.index("small") <= 2


def test_no_thread_before_there_is_work() -> None:
    before = threading.active_count()
    pool = Pool(4)
    assert threading.active_count() == before
    pool.run([1], opening(lambda b: None), lambda: None, n_workers=4, inline=True).result(1)
    assert threading.active_count() == before


def test_the_threads_end_with_the_pool() -> None:
    pool = Pool(2)
    pool.run(range(10), opening(lambda b: None), lambda: None, n_workers=2).result(10)
    queue = pool._queue
    del pool
    for _ in range(1000):
        if queue.empty():
            break
        time.sleep(0.01)
    assert queue.empty()


def test_a_pool_that_nobody_holds_ends_after_its_jobs() -> None:
    go, seen = threading.Event(), []

    def work(batch: int) -> None:
        go.wait(10)
        seen.append(batch)

    future = Pool(2).run(range(20), opening(work), lambda: None, n_workers=2)
    go.set()
    future.result(10)
    assert len(seen) == 20


def test_importing_starts_no_thread() -> None:
    modules = "threading, chunkwise.core.engine.read, chunkwise.core.engine.write"
    code = f"import {modules}; print(threading.active_count())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["1"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child_has_threads_of_its_own() -> None:
    pool = Pool(2)
    pool.run(range(10), opening(lambda b: None), lambda: None, n_workers=2).result(10)

    def work() -> int:
        return pool.run(range(10), opening(lambda b: None), lambda: 5, n_workers=2).result(20) - 5

    assert forked_exit_code(work) == 0
