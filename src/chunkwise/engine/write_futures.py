"""The two futures of one write: when its source may change, and when it is stored."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NoReturn

from chunkwise.engine.future import Future

__all__ = ["WriteFutures"]


class WriteFutures:
    """Handle of a write; its own methods are those of :attr:`commit`."""

    __slots__ = ("__weakref__", "_commit", "_copy")

    _copy: Future[None]
    _commit: Future[None]

    def __new__(cls, *_: Any) -> WriteFutures:
        raise TypeError(f"cannot create '{cls.__name__}' instances")

    @classmethod
    def of(cls, copy: Future[None], commit: Future[None]) -> WriteFutures:
        """Return the pair of `copy` and `commit`."""
        self = object.__new__(cls)
        self._copy = copy
        self._commit = commit
        return self

    @classmethod
    def failed(cls, error: BaseException) -> WriteFutures:
        """Return the futures of a write that failed before it began."""
        future: Future[None] = Future.failed(error)
        return cls.of(future, future)

    @property
    def copy(self) -> Future[None]:
        """Done when the source has been copied, so that the caller may modify it."""
        return self._copy

    @property
    def commit(self) -> Future[None]:
        """Done when the write is durable in the storage."""
        return self._commit

    def result(self, timeout: float | None = None, deadline: float | None = None) -> None:
        """Wait until the write is durable; as :meth:`Future.result`."""
        return self._commit.result(timeout, deadline)

    def exception(self, timeout: float | None = None, deadline: float | None = None) -> BaseException | None:
        """Wait for the end of the write and return its failure; as :meth:`Future.exception`."""
        return self._commit.exception(timeout, deadline)

    def done(self) -> bool:
        """Return whether the write has ended."""
        return self._commit.done()

    def cancelled(self) -> bool:
        """Return whether the write was cancelled."""
        return self._commit.cancelled()

    def cancel(self) -> bool:
        """Give the write up as far as it is not stored yet; return whether it was pending."""
        return self._commit.cancel()

    def force(self) -> None:
        """Start the write if it waits to be asked for."""
        self._commit.force()

    def add_done_callback(self, callback: Callable[[Future[None]], Any]) -> None:
        """Call `callback` with the commit future when the write has ended."""
        self._commit.add_done_callback(callback)

    def remove_done_callback(self, callback: Callable[[Future[None]], Any]) -> int:
        """Forget `callback`; return how often it was registered."""
        return self._commit.remove_done_callback(callback)

    def __await__(self) -> Generator[Any, None, None]:
        return self._commit.__await__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")
