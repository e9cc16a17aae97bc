"""Futures that fail and that nobody asks are reported, with the line that made them; others are not."""

from __future__ import annotations

import ast
import asyncio
import gc
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_process import run

import chunkwise as ts

WRONG = np.zeros(3)
WORKS: dict[str, Callable[[ts.TensorStore], Any]] = {
    "shape": lambda a: a.write(WRONG),
    "view": lambda a: a[:2].write(WRONG),
    "array": lambda a: a.write(ts.array(WRONG)),
    "resize": lambda a: a.resize(exclusive_max=[9, 9]),
    "read-only": lambda a: ts.open(a.spec(), read=True).result().write(np.zeros(4)),
    "bounds": lambda a: a.resize(exclusive_max=[-1]),
    "open": lambda a: ts.open("file:///nowhere/at/all|zarr3"),
    "transaction": lambda a: _aborted(a),
}


def _aborted(array: ts.TensorStore) -> Any:
    transaction, store = ts.Transaction(), array.kvstore
    assert store is not None
    known = store.write("n", b"1").result().generation
    store.with_transaction(transaction).write("n", b"2", if_equal=known).result()
    store.write("n", b"3").result()
    return transaction.commit_async()


@pytest.fixture
def array(tmp_path: Path) -> ts.TensorStore:
    spec = f"file://{tmp_path}/a.zarr|zarr3"
    return ts.open(spec, create=True, dtype="float64", shape=[4]).result()


def _messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was reported of futures of this file, even if another test left a failure, or a task."""
    gc.collect()
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR and r.name == "chunkwise"]
    return [message for message in said if f"{__file__}:" in message]


@pytest.mark.parametrize("name", WORKS)
def test_a_dropped_failure_is_reported(
    name: str, array: ts.TensorStore, caplog: pytest.LogCaptureFixture
) -> None:
    """With this file and the line of the call."""
    future = WORKS[name](array)
    while not future.done():
        pass
    del future
    (message,) = _messages(caplog)
    assert "never retrieved" in message
    assert all(record.exc_info is not None for record in caplog.records if record.name == "chunkwise")


def test_a_failure_dropped_while_python_parses(
    array: ts.TensorStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A collection of garbage inside ast.parse drops it; parsing goes on, and the traceback is told."""
    text = "f(a, b)[1:2] + {x: y for x in range(3)}\n" * 300
    usual = gc.get_threshold()
    gc.set_threshold(700)
    try:
        for _ in range(20):
            for _ in range(3):
                cycle: list[Any] = [array.resize(exclusive_max=[-1])]
                cycle.append(cycle)
            del cycle
            ast.parse(text)
    finally:
        gc.set_threshold(*usual)
    assert len(_messages(caplog)) == 60
    assert "Traceback (most recent call last)" in caplog.text


def _ask_by_result(future: Any) -> None:
    with pytest.raises((ValueError, Exception)):
        future.result()


async def _ask_by_await(future: Any) -> None:
    with pytest.raises((ValueError, Exception)):
        await future


WAYS: dict[str, Callable[[Any], Any]] = {
    "result": _ask_by_result,
    "exception": lambda future: future.exception(),
    "await": lambda future: asyncio.run(_ask_by_await(future)),
    "callback": lambda future: future.add_done_callback(lambda done: done.exception()),
    "copy": lambda future: _ask_by_result(getattr(future, "copy", future)),
    "commit": lambda future: _ask_by_result(getattr(future, "commit", future)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", WORKS)
def test_a_failure_that_was_asked_for_is_not(
    name: str, way: str, array: ts.TensorStore, caplog: pytest.LogCaptureFixture
) -> None:
    """However it was asked for."""
    WAYS[way](WORKS[name](array))
    assert not _messages(caplog)


@pytest.mark.parametrize("asked", [False, True])
def test_a_later_failure(asked: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Work under way, which fails when its future may be gone."""
    store = ts.KvStore.open("http://127.0.0.1:9/").result()
    future: Any = store.read("k")
    if asked:
        assert future.exception(timeout=60) is not None
    while not future.done():
        time.sleep(0.01)
    del future
    # The thread that did the work may hold it for a moment.
    give_up = time.monotonic() + 60
    while not asked and not _messages(caplog) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert len(_messages(caplog)) == (not asked)


def test_success_and_cancellation_say_nothing(
    array: ts.TensorStore, caplog: pytest.LogCaptureFixture
) -> None:
    array.write(np.ones(4))
    array.read()
    array.resize(exclusive_max=[5])
    store = ts.KvStore.open("http://127.0.0.1:9/").result()
    store.read("k").cancel()
    assert not _messages(caplog)


def test_at_exit(tmp_path: Path) -> None:
    """What is still referred to, or under way, when the program ends."""
    program = f"""
import numpy as np, chunkwise as ts
a = ts.open("file://{tmp_path}/a.zarr|zarr3", create=True, dtype="float64", shape=[4]).result()
kept = a.write(np.zeros(3))
b = ts.open("file://{tmp_path}/b.zarr|zarr3", create=True, dtype="float64", shape=[2000, 2000],
            chunk_layout=ts.ChunkLayout(chunk_shape=[50, 50])).result()
b.write(np.random.rand(2000, 2000))
"""
    log = tmp_path / "log"
    assert run([sys.executable, "-c", program], log=log) == 0
    said = log.read_text()
    assert "<string>:4" in said and "Error aligning" in said
    assert "<string>:7" in said and "the program ended before the work was done" in said
