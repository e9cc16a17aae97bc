"""``Batch``: reads that start together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, ParamSpec, Self, TypeVar

from chunkwise.core.base.threads import Lock, new_lock
from chunkwise.core.engine.derived_futures import link
from chunkwise.core.engine.future import Future, Promise
from chunkwise.core.engine.shared_reads import SharedReads
from chunkwise.errors import InvalidArgumentError

__all__ = ["Batch", "as_batched", "batch_of_thread", "batched", "check_batch"]

P = ParamSpec("P")
T = TypeVar("T")

_thread = threading.local()


class Batch:
    """Collects requests; none is made before `submit` or the end of the ``with`` block.

    Reads that use no store, such as of an array in memory, are done at once.  A batch is submitted when its
    last reference is dropped.

    Examples
    --------
    >>> with Batch() as batch:
    ...     futures = [store[i].read(batch=batch) for i in range(3)]  # doctest: +SKIP
    """

    __slots__ = ("__weakref__", "_lock", "_starts")

    _lock: Lock
    _starts: list[Callable[[], None]] | None

    def __new__(cls) -> Self:
        self = super().__new__(cls)
        self._lock = new_lock()
        self._starts = []
        return self

    def defer(self, start: Callable[[], Future[T]], *, at_once: bool = False) -> Future[T]:
        """Return the future of work that `start` begins when the batch is submitted.

        Parameters
        ----------
        start : function
        at_once : bool
            Start now, because waiting for other requests gains nothing without a store.

        Raises
        ------
        InvalidArgumentError
            If the batch was already submitted.
        """
        if at_once:
            self._check()
            return start()
        promise, future = Promise[T].new()

        def run() -> None:
            if promise.done():  # it was cancelled meanwhile
                return
            try:
                link(start(), promise)
            except Exception as e:
                promise.set_exception(e)

        with self._lock:
            self._check().append(run)
        return future

    def _check(self) -> list[Callable[[], None]]:
        if self._starts is None:
            raise InvalidArgumentError("batch was already submitted")
        return self._starts

    def submit(self) -> None:
        """Start all collected requests; calling it again does nothing."""
        with self._lock:
            starts, self._starts = self._starts, None
        shared = SharedReads()
        with batched(shared):
            for start in starts or ():
                start()
        shared.complete()

    def __del__(self) -> None:
        if self._starts:
            self.submit()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.submit()


def check_batch(batch: object) -> None:
    """Raise TypeError if an argument ``batch`` is not a batch."""
    if batch is not None and not isinstance(batch, Batch):
        raise TypeError("Invalid batch")


def batch_of_thread() -> SharedReads | None:
    """Return the shared state of the batch whose reads this thread is starting; None without one."""
    shared: SharedReads | None = getattr(_thread, "shared", None)
    return shared


def as_batched(function: Callable[P, T]) -> Callable[P, T]:
    """Return `function` for another thread, where its reads belong to this thread's batch, if any."""
    shared = batch_of_thread()
    if shared is None:
        return function

    def run(*arguments: P.args, **keywords: P.kwargs) -> T:
        with batched(shared):
            return function(*arguments, **keywords)

    return run


@contextmanager
def batched(shared: SharedReads | None) -> Iterator[None]:
    """Make reads that this thread starts in the block belong to a batch, or to none."""
    before = batch_of_thread()
    _thread.shared = shared
    try:
        yield
    finally:
        _thread.shared = before
