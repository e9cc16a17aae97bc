"""Ctrl-C at any moment of a small write: no lock stays held, no file open, and the next write is done."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import child_process
import numpy as np
import pytest
from interrupts import interrupt
from lock_files import hold

import chunkwise as ts
from chunkwise.core.base import threads
from chunkwise.core.base.limits import held
from chunkwise.core.engine.pool import is_idle
from chunkwise.core.engine.update import change_alone
from chunkwise.core.kvstore.memory import MemoryStore

CHUNKS = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10, 10]}}}
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
SHARDS = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [5, 5],
        "codecs": [BYTES],
        "index_codecs": [BYTES, {"name": "crc32c"}],
    },
}
ARRAYS: dict[str, dict[str, Any]] = {
    "os": {"metadata": CHUNKS},
    "sync": {"metadata": CHUNKS, "context": {"file_io_sync": True}},
    "lockfile": {"metadata": CHUNKS, "context": {"file_io_locking": {"mode": "lockfile"}}},
    "none": {"metadata": CHUNKS, "context": {"file_io_locking": {"mode": "none"}}},
    "cache": {"metadata": CHUNKS, "context": {"cache_pool": {"total_bytes_limit": 1 << 20}}},
    "direct": {"metadata": CHUNKS, "context": {"file_io_mode": {"mode": "direct"}}},
    "shards": {"metadata": {**CHUNKS, "codecs": [SHARDS]}},
    "memory": {"metadata": CHUNKS, "kvstore": "memory://"},
}
ACTIONS: dict[str, Callable[[Any, int], object]] = {
    "part": lambda array, i: array[3, 4].write(i).result(),
    "chunk": lambda array, i: array[:10, :10].write(i).result(),
    "chunks": lambda array, i: array[:15, :15].write(i).result(),
    "read": lambda array, i: array[3, 4].read().result(),
}


def _descriptors(root: Path) -> int:
    """Return how many files and directories below `root` this process has open."""
    n = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            n += os.readlink(f"/proc/self/fd/{number}").startswith(str(root))
    return n


def _is_held(lock: Any) -> bool:
    return repr(lock).startswith("<locked")  # reentrant ones have no other way to tell, before Python 3.14


def _can_be_locked(lock: Path, name: str) -> bool:
    if name in ("lockfile", "none"):
        return False
    try:
        os.close(hold(str(lock).removesuffix(".__lock")))
    except BlockingIOError:
        return False
    return True


def _wait_until_idle() -> None:
    """Wait for the threads that are still working on what was interrupted, however long the disk takes."""
    while not is_idle():
        time.sleep(0.001)


@pytest.mark.each_once
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to count open files")
@pytest.mark.parametrize(
    ("name", "action"),
    [
        *[("os", action) for action in ACTIONS if action != "chunks"],
        *[(name, "part") for name in ARRAYS if name not in ("os", "shards")],
        pytest.param("os", "chunks", marks=pytest.mark.slow),
        pytest.param("shards", "part", marks=pytest.mark.slow),
        ("lockfile", "chunk"),
        ("direct", "read"),
        ("cache", "read"),
    ],
)
def test_an_interrupt_at_each_place(tmp_path: Path, name: str, action: str) -> None:
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/", **ARRAYS[name]}
    spec["context"] = {"file_io_sync": False, **spec.get("context", {})}
    array = ts.open(spec, create=True, dtype="int32", shape=[100, 100]).result()
    numbers = iter(range(1, 1_000_000))

    def act() -> None:
        ACTIONS[action](array, next(numbers))

    array.write(np.int32(0)).result()
    act()
    n, where = 0, ""
    while (found := interrupt(act, n)) is not None:
        where, n = found, n + 1
        _wait_until_idle()
        assert not any(map(_is_held, threads.locks())), where
        assert _descriptors(tmp_path) == 0, where
        assert held() is None, where
        for left in tmp_path.rglob("*.__lock"):  # harmless unless it is a lock
            assert _can_be_locked(left, name), where
    assert n > 20, "there is more to it than that; the test has shown nothing"
    act()
    if action != "read":
        last = array[3, 4].read().result()
        assert last == next(numbers) - 1


@pytest.mark.parametrize("place", ["memory", "file"])
def test_an_interrupted_commit(tmp_path: Path, place: str) -> None:
    """Nobody waits for it for ever; in memory all changes have been made, or none."""
    url = "memory://" if place == "memory" else f"file://{tmp_path}/"
    store = ts.KvStore.open(url, context=ts.Context({"file_io_sync": False})).result()
    n, where = 0, ""
    for key in "abc":
        store[key] = b"0"

    def begin() -> ts.Transaction:
        transaction = ts.Transaction()
        inside = store.with_transaction(transaction)
        inside["a"] = inside["b"] = b"1"
        del inside["c"]
        return transaction

    while True:
        transaction = begin()
        if (found := interrupt(transaction.commit_sync, n)) is None:
            break
        where, n = found, n + 1
        error = transaction.future.exception(timeout=60.0)
        _wait_until_idle()
        assert not any(map(_is_held, threads.locks())), where
        changed = [store["a"] == b"1", store["b"] == b"1", "c" not in store]
        assert all(changed) if error is None else place == "file" or len(set(changed)) == 1, where
        for key in "abc":
            store[key] = b"0"
    assert n > 20, "there is more to it than that; the test has shown nothing"
    begin().commit_sync()
    assert store["b"] == b"1"


LOOP = """
import os, random, signal, sys, threading, time
import chunkwise as ts
from chunkwise.core.engine.pool import is_idle
from chunkwise.core.engine.update import change_alone
from chunkwise.core.kvstore.memory import MemoryStore
spec = {
    "driver": "zarr3",
    "kvstore": "file://" + sys.argv[1] + "/",
    "context": {
        "file_io_sync": sys.argv[2] == "sync",
        "file_io_locking": {"mode": sys.argv[3], "acquire_timeout": "5s"},
    },
    "metadata": {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10, 10]}}},
}
array = ts.open(spec, create=True, dtype="int32", shape=[100, 100]).result()
array[3, 4].write(0).result()
descriptors = len(os.listdir("/proc/self/fd"))
choose, pid, listening, done = random.Random(0), os.getpid(), threading.Event(), threading.Event()

def interrupt():
    while not done.is_set():
        listening.wait()
        time.sleep(choose.random() * 0.003)
        if listening.is_set():
            os.kill(pid, signal.SIGINT)

def write_for_ever():
    i = 0
    try:
        listening.set()
        while True:
            i += 1
            array[3, 4].write(i).result()
    finally:
        listening.clear()

interrupting = threading.Thread(target=interrupt, daemon=True)
interrupting.start()
n = 0
while n < 150:
    try:
        write_for_ever()
    except KeyboardInterrupt:
        n += 1
while True:
    try:
        done.set()
        listening.set()
        interrupting.join()
        time.sleep(0.1)
        break
    except KeyboardInterrupt:
        pass
while not is_idle():  # threads are still at what was interrupted, however long the disk takes
    time.sleep(0.001)
array[3, 4].write(7).result()
assert array[3, 4].read().result() == 7
left = [name for name in os.listdir(sys.argv[1] + "/c/0") if name.endswith("__lock")]
assert not left, left
assert len(os.listdir("/proc/self/fd")) <= descriptors + 1, os.listdir("/proc/self/fd")
"""


def test_a_change_in_a_handler_that_interrupted_one_of_the_same_chunk() -> None:
    """It waits for no lock that its own thread holds; the interrupted change is made again after it."""
    store, began = MemoryStore(), time.monotonic()
    made = []

    def attempt(name: str) -> bytes | None:
        found = store.read("c")
        if not made:  # a signal comes
            made.append("handler")
            change_alone(store, "here", "c", partial(attempt, "inner"))
        value = (found.value or b"") + name.encode()
        return found.generation if store.write("c", value, if_equal=found.generation) is None else None

    change_alone(store, "here", "c", partial(attempt, "outer"))
    assert store.read("c").value == b"innerouter"
    assert time.monotonic() - began < 4


@pytest.mark.each_once
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to count open files")
@pytest.mark.parametrize("locking", ["os", "lockfile"])
@pytest.mark.parametrize("sync", ["sync", "no-sync"])
def test_signals_at_random_moments(tmp_path: Path, sync: str, locking: str) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", LOOP, str(tmp_path / "a"), sync, locking]
    assert child_process.run(command, log=log) == 0, log.read_text()
    # The interpreter can't raise what interrupts a finalizer, and reports it.
    reported = (
        r"Exception ignored [^\n]*\n"
        r"Traceback(?:[^\n]*\n  )*[^\n]*\nKeyboardInterrupt:? ?\n"
    )
    assert re.sub(reported, "", log.read_text()) == ""


@pytest.mark.parametrize("action", ["set_result", "force"])
def test_whoever_waits_for_an_interrupted_future_is_told(action: str) -> None:
    n = 0
    while True:
        act: Callable[[], object]
        if action == "set_result":
            promise, future = ts.Promise[int].new()
            act = partial(promise.set_result, 5)
            del promise  # `act` has the only one
        else:
            future = ts.Future.deferred(lambda promise: promise.set_result(5))
            act = future.force
        if interrupt(act, n) is None:
            break
        del act
        n += 1
        assert future.exception(timeout=60.0) is not None or future.result() == 5
    assert n > 3, "there is more to it than that; the test has shown nothing"
    assert future.result(timeout=0) == 5
