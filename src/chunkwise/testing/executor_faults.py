"""Faults of an executor: tasks done twice, late or in another order; a worker that dies or is stopped."""

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

from chunkwise.errors import AbortedError

__all__ = [
    "Around",
    "Dying",
    "Kept",
    "Late",
    "Reversed",
    "Stopping",
    "StoppingOne",
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


class Kept(Executor):
    """Keeps each task, and has those of a step done again when the next step begins."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.tasks: list[tuple[Any, ...]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit it."""
        if self.tasks and self.tasks[-1][1] != args[0]:
            self.again()
        self.tasks.append((fn, *args))
        return self._executor.submit(fn, *args)

    def again(self, order: int = 1) -> None:
        """Have all tasks done again; the only errors may be that they are late."""
        for task in self.tasks[::order]:
            error = self._executor.submit(*task).exception(60)
            assert error is None or isinstance(error, AbortedError), error


class Stopping:
    """Calls a task, and stops the worker before it opens a file: by a signal, or until `go` is called."""

    def __init__(self, name: str, n: int, where: str, *, by_signal: bool) -> None:
        # The n-th one with `name` in its path.
        self._name, self._n, self._where, self._by_signal = name, n, where, by_signal

    def __call__(self, fn: Callable[..., Any], *args: Any) -> Any:
        thread, left = threading.get_ident(), [self._n]

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            if event != "open" or threading.get_ident() != thread or self._name not in str(arguments[0]):
                return
            left[0] -= 1
            if left[0] == 0:
                self._stop()

        sys.addaudithook(count)
        try:
            return fn(*args)
        finally:
            left[0] = 0

    def _stop(self) -> None:
        with open(self._where, "w") as file:
            file.write(str(os.getpid()))
        if self._by_signal:
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            while not os.path.exists(self._where + ".go"):
                time.sleep(0.01)

    def wait(self, future: Future[Any]) -> None:
        """Wait until the worker is stopped, or has done the task."""
        while not (os.path.exists(self._where) and os.path.getsize(self._where)) and not future.done():
            time.sleep(0.01)

    def go(self) -> None:
        """Let the worker go on, if it was stopped."""
        if not self._by_signal:
            with open(self._where + ".go", "w"):
                pass
        elif os.path.exists(self._where):
            with open(self._where) as file:
                os.kill(int(file.read()), signal.SIGCONT)


class StoppingOne(Executor):
    """Has the first task of a step done twice, first by a worker of another executor, which stops."""

    def __init__(self, executor: Executor, step: int, other: Executor, stopping: Stopping) -> None:
        self._executor, self._step, self._other, self._stopping = executor, step, other, stopping
        self.late: Future[Any] | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit it."""
        if self.late is None and args[0] == self._step:
            self.late = self._other.submit(self._stopping, fn, *args)
            self._stopping.wait(self.late)
        return self._executor.submit(fn, *args)


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
