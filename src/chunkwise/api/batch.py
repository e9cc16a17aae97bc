"""``Batch``: reads that start together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from chunkwise.engine.future import Future, Promise
from chunkwise.engine.join import link
from chunkwise.errors import InvalidArgumentError
from chunkwise.fork import new_lock

__all__ = ["Batch", "check_batch"]

T = TypeVar("T")


class Batch:
    """Collects reads; nothing runs before :meth:`submit` or the end of the ``with`` block.

    A batch of which nobody has a reference any more is submitted.

    Examples
    --------
    >>> with Batch() as batch:
    ...     futures = [store[i].read(batch=batch) for i in range(3)]  # doctest: +SKIP
    """

    __slots__ = ("__weakref__", "_lock", "_starts")

    def __init__(self) -> None:
        self._lock = new_lock()
        self._starts: list[Callable[[], None]] | None = []

    def defer(self, start: Callable[[], Future[T]]) -> Future[T]:
        """Return the future of what `start` will start when the batch is submitted.

        Raises
        ------
        InvalidArgumentError
            If that has happened already.
        """
        promise, future = Promise[T].new()

        def run() -> None:
            if promise.done():  # cancelled meanwhile
                return
            try:
                link(start(), promise)
            except Exception as e:
                promise.set_exception(e)

        with self._lock:
            if self._starts is None:
                raise InvalidArgumentError("batch was already submitted")
            self._starts.append(run)
        return future

    def submit(self) -> None:
        """Start everything that was collected; doing it again does nothing."""
        with self._lock:
            starts, self._starts = self._starts, None
        for start in starts or ():
            start()

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
    """Raise TypeError for an argument ``batch`` that is none."""
    if batch is not None and not isinstance(batch, Batch):
        raise TypeError("Invalid batch")
