"""Faults of an executor: tasks done twice, late or in another order; a worker that dies."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any

__all__ = [
    "Around",
    "Dying",
    "Late",
    "Reversed",
    "call",
    "die_at_step",
    "slowly",
    "twice",
    "without_room",
]

_STEPS = ("open", "os.rename", "os.remove", "os.link", "os.mkdir", "fcntl.flock")


class Around(Executor):
    """Submits calls of a function that calls the task; the last of several calls gives the result."""

    def __init__(self, executor: Executor, around: Callable[..., Any], n_calls: int = 1) -> None:
        self._executor, self._around, self._n_calls = executor, around, n_calls

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit it."""
        others = [self._executor.submit(self._around, fn, *args) for _ in range(self._n_calls - 1)]
        future = self._executor.submit(self._around, fn, *args)
        for other in others:
            other.result()
        return future


class Reversed(Executor):
    """Holds results back and gives the last ones first."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._held: list[tuple[Future[Any], Future[Any]]] = []
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit it."""
        outer: Future[Any] = Future()
        outer.set_running_or_notify_cancel()
        with self._lock:
            self._held.append((self._executor.submit(fn, *args, **kwargs), outer))
            if len(self._held) == 1:
                threading.Timer(0.1, self._give).start()
        return outer

    def _give(self) -> None:
        with self._lock:
            held, self._held = self._held, []
        for inner, outer in reversed(held):
            try:
                outer.set_result(inner.result())
            except BaseException as e:
                outer.set_exception(e)


class Late(Executor):
    """Begins some time after the first task has come."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._open = threading.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit it."""
        if self._open.is_set():
            return self._executor.submit(fn, *args, **kwargs)
        outer: Future[Any] = Future()
        outer.set_running_or_notify_cancel()

        def start() -> None:
            self._open.set()
            try:
                outer.set_result(self._executor.submit(fn, *args, **kwargs).result())
            except BaseException as e:
                outer.set_exception(e)

        threading.Timer(0.5, start).start()
        return outer


def call(fn: Callable[..., Any], *args: Any) -> Any:
    """Call a task."""
    return fn(*args)


def twice(fn: Callable[..., Any], *args: Any) -> Any:
    """Call a task two times."""
    fn(*args)
    return fn(*args)


def slowly(fn: Callable[..., Any], *args: Any) -> Any:
    """Call a task, now and then after a while."""
    if args[-2] % 16 == 0:
        time.sleep(0.3)
    return fn(*args)


def without_room(fn: Callable[..., Any], *args: Any) -> Any:
    """Call a task that can't write more than a little."""
    import resource  # which Windows doesn't have

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        return fn(*args)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Dying:
    """Calls a task; the first worker that comes so far is killed at a step of its storage."""

    def __init__(self, step: int, where: str) -> None:
        self._step, self._where = step, where

    def __call__(self, fn: Callable[..., Any], *args: Any) -> Any:
        die_at_step(self._step, self._where)
        return fn(*args)


_counting: list[str] = []


def die_at_step(step: int, where: str) -> None:
    """Kill this process at its `step`-th file operation, unless `where`, which it makes first, is there."""
    if where in _counting:
        return
    _counting.append(where)
    left = [step]

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _STEPS or left[0] <= 0 or "lib/python" in str(arguments[0]):
            return
        left[0] -= 1
        if left[0] == 0:
            with suppress(FileExistsError):
                os.close(os.open(where, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
