"""The two futures of one write: when its source may change, and when it is stored."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NoReturn

from chunkwise.execute.future import Future

__all__ = ["WriteFutures"]


class WriteFutures:
    """Handle of a write; its own methods are those of :attr:`commit`.

    Attributes
    ----------
    copy : Future
        Done when the source has been copied, so that the caller may modify it.
    commit : Future
        Done when the write is durable in the storage.
    """

    __slots__ = ("__weakref__", "commit", "copy")

    copy: Future[None]
    commit: Future[None]

    def __new__(cls, *_: Any) -> WriteFutures:
        raise TypeError(f"cannot create '{cls.__name__}' instances")

    @classmethod
    def of(cls, copy: Future[None], commit: Future[None]) -> WriteFutures:
        """Return the pair of `copy` and `commit`."""
        self = object.__new__(cls)
        self.copy = copy
        self.commit = commit
        return self

    @classmethod
    def failed(cls, error: BaseException) -> WriteFutures:
        """Return the futures of a write that failed before it began."""
        future: Future[None] = Future.failed(error)
        return cls.of(future, future)

    def result(self, timeout: float | None = None, deadline: float | None = None) -> None:
        """Wait until the write is durable; as :meth:`Future.result`."""
        return self.commit.result(timeout, deadline)

    def exception(self, timeout: float | None = None, deadline: float | None = None) -> BaseException | None:
        """Wait for the end of the write and return its failure; as :meth:`Future.exception`."""
        return self.commit.exception(timeout, deadline)

    def done(self) -> bool:
        """Return whether the write has ended."""
        return self.commit.done()

    def cancelled(self) -> bool:
        """Return whether the write was cancelled."""
        return self.commit.cancelled()

    def cancel(self) -> bool:
        """Give the write up as far as it is not stored yet; return whether it was pending."""
        return self.commit.cancel()

    def force(self) -> None:
        """Start the write if it waits to be asked for."""
        self.commit.force()

    def add_done_callback(self, callback: Callable[[Future[None]], Any]) -> None:
        """Call `callback` with the commit future when the write has ended."""
        self.commit.add_done_callback(callback)

    def remove_done_callback(self, callback: Callable[[Future[None]], Any]) -> int:
        """Forget `callback`; return how often it was registered."""
        return self.commit.remove_done_callback(callback)

    def __await__(self) -> Generator[Any, None, None]:
        return self.commit.__await__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")
