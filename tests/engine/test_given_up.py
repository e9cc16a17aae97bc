"""What is written at once after a write that was interrupted, cancelled, timed out or dropped stays.

The stores here hold their writers back until the test lets them go on, so that the order of events is that
of the test; random moments are tried by the slow one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.core.engine import completion
from chunkwise.core.engine.abandoned_changes import abandoned
from chunkwise.core.engine.pool import Pool, is_idle
from chunkwise.core.engine.read import read_into
from chunkwise.core.engine.write import write_from
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import CancelledError

CHUNK = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [64, 64]}}}
N = 512


class Gate:
    """A write function of an array that holds writers until they are let go on; it counts chunks."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.data = np.zeros(64, np.int32)
        self.n_chunks = 0

    def read(self, domain: Any, chunk: Any, parameters: Any) -> None:
        chunk[...] = self.data[domain.index_exp]

    def write(self, domain: Any, chunk: Any, parameters: Any) -> None:
        values = chunk.copy()
        self.entered.set()
        assert self.open.wait(60)
        self.n_chunks += 1
        self.data[domain.index_exp] = values


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()
    while not is_idle():
        time.sleep(0.001)
    assert not abandoned


def _array(gate: Gate) -> ts.TensorStore:
    return ts.virtual_chunked(
        gate.read,
        gate.write,
        dtype="int32",
        domain=ts.IndexDomain(shape=[64]),
        chunk_layout=ts.ChunkLayout(chunk_shape=[1]),
    )


class Stopped(BaseException):
    """What a signal handler raises."""


def _poll(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def _main_waits() -> bool:
    """Return True if the main thread waits for a future."""
    main = threading.main_thread().ident
    assert main is not None
    return sys._current_frames()[main].f_code is completion._wait_until.__code__


def _interrupt_when(entered: threading.Event, then: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        assert entered.wait(60)
        _poll(_main_waits)
        os.kill(os.getpid(), signal.SIGUSR1)
        then()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    yield
    signal.signal(signal.SIGUSR1, before)


WAYS: dict[str, Callable[[ts.TensorStore], object]] = {
    "write": lambda array: array.write(np.int32(1)).result(),
    "commit": lambda array: array.write(np.int32(1)).commit.result(),
    "exception": lambda array: array.write(np.int32(1)).exception(),
    "assignment": lambda array: array.__setitem__(..., 1),
    "copy": lambda array: array.write(ts.array(np.full(64, 1, np.int32))).result(),
    "cast": lambda array: array.astype("int64").write(1).result(),
    "stack": lambda array: ts.stack([array, array])[0].write(np.int32(1)).result(),
    "timeout": lambda array: array.write(np.int32(1)).result(timeout=60),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_interrupted_wait_ends_with_the_work(gate: Gate, way: str) -> None:
    array = _array(gate)

    def let_go() -> None:
        _poll(lambda: abandoned)
        time.sleep(0.05)  # a caller that does not wait is ahead by now
        gate.open.set()

    thread = _interrupt_when(gate.entered, let_go)
    with pytest.raises(Stopped):
        WAYS[way](array)
    stored, n = gate.data.copy(), gate.n_chunks
    assert n < 64, "what has not begun is not done any more"
    array.write(np.int32(2)).result()
    thread.join()
    assert (stored == 1).sum() == n, "what has begun is stored when the caller hears of the interruption"
    assert array.read().result().tolist() == [2] * 64


def test_a_second_interruption_ends_the_wait_for_what_has_begun(gate: Gate) -> None:
    array = _array(gate)

    def again() -> None:
        _poll(lambda: abandoned)
        _poll(_main_waits)
        os.kill(os.getpid(), signal.SIGUSR1)

    thread = _interrupt_when(gate.entered, again)
    with pytest.raises(Stopped):
        array.write(np.int32(1)).result()
    thread.join()
    assert not gate.data.any()
    later = array.write(np.int32(2))
    with pytest.raises(TimeoutError):
        later.result(timeout=0.05)
    gate.open.set()
    later.result()
    assert array.read().result().tolist() == [2] * 64


def _cancel(array: ts.TensorStore, gate: Gate) -> None:
    future = array.write(np.int32(1))
    assert gate.entered.wait(60)
    assert future.cancel()


def _time_out_in_a_loop(array: ts.TensorStore, gate: Gate) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(array.write(np.int32(1)), 0.05)

    asyncio.run(main())
    assert gate.entered.wait(60)


@pytest.mark.parametrize("give_up", [_cancel, _time_out_in_a_loop])
def test_what_is_written_after_a_cancelled_write_stays(
    gate: Gate, give_up: Callable[[ts.TensorStore, Gate], None]
) -> None:
    array = _array(gate)
    give_up(array, gate)
    other = ts.open({"driver": "zarr3", "kvstore": "memory://o/"}, create=True, dtype="int8", shape=[3])
    other.result()[...] = 1  # another place need not wait
    later = array.write(np.int32(2))
    with pytest.raises(TimeoutError):
        later.result(timeout=0.05)
    gate.open.set()
    later.result()
    assert array.read().result().tolist() == [2] * 64
    assert gate.n_chunks < 128, "the first write was given up"


def _stores(tmp_path: Any) -> dict[str, dict[str, Any]]:
    return {
        "file": {"kvstore": f"file://{tmp_path}/a/", "context": {"file_io_sync": False}},
        "memory": {"kvstore": "memory://a/"},
        "shards": {
            "kvstore": f"file://{tmp_path}/s/",
            "context": {"file_io_sync": False},
            "metadata": {
                **CHUNK,
                "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [16, 16]}}],
            },
        },
    }


@pytest.mark.each_once
@pytest.mark.parametrize("store", ["file", "memory", "shards"])
@pytest.mark.parametrize("first", ["dropped", "timeout", "cancelled"])
@pytest.mark.parametrize("part", [0, 3], ids=["whole", "part"])
def test_the_next_write_is_the_last_one(tmp_path: Any, store: str, first: str, part: int) -> None:
    spec = {"driver": "zarr3", "metadata": CHUNK, **_stores(tmp_path)[store]}
    array = ts.open(spec, create=True, dtype="uint16", shape=[N, N]).result()
    noise = np.random.default_rng(0).integers(0, 1000, (N, N)).astype("uint16")
    region = array[part : N - part, part : N - part]
    for value in range(2000, 2003):
        if first == "dropped":
            array.write(noise)
        elif first == "timeout":
            with suppress(TimeoutError):
                array.write(noise).result(timeout=0.001)
        else:
            array.write(noise).cancel()
        region.write(np.uint16(value)).result()
        while not is_idle():
            time.sleep(0.001)
        assert np.unique(region.read().result()).tolist() == [value]


def test_a_dropped_write_is_finished(gate: Gate) -> None:
    array = _array(gate)
    array.write(np.int32(1))
    gate.open.set()
    while not is_idle():
        time.sleep(0.001)
    assert array.read().result().tolist() == [1] * 64


def test_an_interrupted_commit_is_finished(tmp_path: Any) -> None:
    """Half of a transaction is worth less than all of it, or none."""
    store = ts.KvStore.open(f"file://{tmp_path}/", context=ts.Context({"file_io_sync": False})).result()
    transaction = ts.Transaction()
    inside = store.with_transaction(transaction)
    keys = [f"k{i}" for i in range(300)]
    for key in keys:
        inside[key] = b"1"
    future = transaction.commit_async()

    def interrupt() -> None:
        _poll(lambda: future.done() or _main_waits())
        os.kill(os.getpid(), signal.SIGUSR1)

    # An interruption before the wait would say nothing about a commit that still runs.
    thread = threading.Thread(target=interrupt)
    with pytest.raises(Stopped):
        try:
            thread.start()
            future.result()
        finally:
            thread.join()
            time.sleep(0)
    for key in keys:
        assert store[key] == b"1"
        store[key] = b"2"
    assert {store[key] for key in keys} == {b"2"}


def test_an_interrupted_read_does_not_wait() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def read(domain: Any, chunk: Any, parameters: Any) -> None:
        entered.set()
        assert go_on.wait(60)
        chunk[...] = 1

    array = ts.virtual_chunked(
        read,
        dtype="int32",
        domain=ts.IndexDomain(shape=[4]),
        chunk_layout=ts.ChunkLayout(chunk_shape=[1]),
    )
    thread = _interrupt_when(entered, lambda: None)
    reading = array.read()
    with pytest.raises(Stopped):
        reading.result()
    assert reading.cancelled()
    go_on.set()
    thread.join()
    assert array.read().result().tolist() == [1] * 4


def test_interrupts_raised_as_timeouts_give_up_too(gate: Gate) -> None:
    """A handler of an alarm often raises TimeoutError, which a limit of our own raises as well."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError("alarm")

    signal.signal(signal.SIGUSR1, stop)
    array = _array(gate)
    thread = _interrupt_when(gate.entered, lambda: (_poll(lambda: abandoned), gate.open.set()))
    with pytest.raises(TimeoutError, match="alarm"):
        array.write(np.int32(1)).result()
    n = gate.n_chunks
    thread.join()
    assert n < 64
    array.write(np.int32(2)).result()
    assert array.read().result().tolist() == [2] * 64


@pytest.mark.slow
@pytest.mark.parametrize("store", ["file", "memory"])
@pytest.mark.parametrize("part", [0, 3], ids=["whole", "part"])
def test_interrupts_at_random_moments(tmp_path: Any, store: str, part: int) -> None:
    spec = {"driver": "zarr3", "metadata": CHUNK, **_stores(tmp_path)[store]}
    array = ts.open(spec, create=True, dtype="uint16", shape=[N, N]).result()
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 1000, (N, N)).astype("uint16")
    begun = time.perf_counter()
    array[...] = noise
    duration = time.perf_counter() - begun
    region = array[part : N - part, part : N - part]
    for value in range(2000, 2040):
        timer = threading.Timer(rng.random() * duration, os.kill, [os.getpid(), signal.SIGUSR1])
        try:
            timer.start()
            array.write(noise).result()
            timer.join()
            time.sleep(1)
        except Stopped:
            pass
        region.write(np.uint16(value)).result()
        while not is_idle():
            time.sleep(0.001)
        assert np.unique(region.read().result()).tolist() == [value]


class _Held(MemoryStore):
    """Holds the first request after `hold` was called, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.open = threading.Event(), threading.Event()
        self.open.set()
        self.n_requests = 0

    def hold(self) -> None:
        self.open.clear()
        self.entered.clear()
        self.n_requests = 0

    def _enter(self) -> None:
        self.n_requests += 1
        self.entered.set()
        assert self.open.wait(60)

    def read(self, key: str, **options: Any) -> Any:
        self._enter()
        return super().read(key, **options)

    def open_reader(self) -> Any:
        read = super().open_reader()

        def held(*args: Any) -> Any:
            self._enter()
            return read(*args)

        return held

    def write(self, key: str, value: Any, **options: Any) -> Any:
        self._enter()
        return super().write(key, value, **options)


@pytest.mark.timeout(100)
@pytest.mark.parametrize("inner", [None, (2,)], ids=["chunks", "shards"])
@pytest.mark.parametrize("way", ["read", "write", "downsample"])
def test_what_a_worker_has_not_begun_is_not_done_after_its_job_was_cancelled(
    inner: Any, way: str, stored_array: Any, request_of: Any
) -> None:
    array, store, pool = stored_array((64,), (4,), np.uint8, inner=inner), _Held(), Pool(1)
    data = np.arange(1, 65, dtype=np.uint8)
    write_from(array, store, request_of((64,)), data, pool=pool).result(60)
    out = np.zeros(64, np.uint8)
    ends: list[BaseException | None] = []

    def work(_: int) -> None:
        future: Any
        if way == "read":
            future = read_into(array, store, request_of((64,)), out, pool=pool)
        elif way == "write":
            future = write_from(array, store, request_of((64,)), np.full(64, 200, np.uint8), pool=pool)
        else:
            base = ts.virtual_chunked(
                lambda domain, chunk, _: store.read("a/c/0") and chunk.fill(1),
                dtype="uint8",
                domain=ts.IndexDomain(shape=[64]),
                chunk_layout=ts.ChunkLayout(chunk_shape=[4]),
            )
            future = ts.downsample(base, [2], "mean").read()
        ends.append(future.exception())

    store.hold()
    job = pool.run([0], lambda stop: work, lambda: None, n_workers=1)
    assert store.entered.wait(60)
    job.cancel()
    store.open.set()
    pool.run([0], lambda stop: lambda _: None, lambda: None, n_workers=1).result(60)  # the thread is free
    assert [type(e) for e in ends] == [CancelledError]
    assert store.n_requests < 16
    if way == "write":
        read_into(array, store, request_of((64,)), out, pool=pool).result(60)
        assert np.count_nonzero(out == 200) in range(1, 64)
        np.testing.assert_array_equal(np.where(out == 200, data, out), data)
