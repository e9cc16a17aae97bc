"""Futures made from others: a function of a result, all results of several, a count of parts, writes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from chunkwise.core.base.threads import new_lock
from chunkwise.core.engine.abandoned_changes import let_go_on
from chunkwise.core.engine.future import Future, Promise

__all__ = ["Countdown", "WriteFutures", "gather", "link", "map_future"]

T = TypeVar("T")
U = TypeVar("U")


def link(future: Future[T], promise: Promise[T]) -> None:
    """Pass the outcome of `future` to `promise`; cancelling the promise's future cancels `future`."""

    def pass_on(done: Future[T]) -> None:
        if done.cancelled():
            promise.set_cancelled()
        elif (error := done.exception()) is not None:
            promise.set_exception(error)
        else:
            promise.set_result(done.result())

    if not future.done():
        promise.future._on_done(_cancel_with(future))
    future._on_done(pass_on)


def map_future(function: Callable[[T], U | Future[U]], future: Future[T]) -> Future[U]:
    """Return a future of ``function(result of future)``, or of its result if that is a Future."""
    # `function` runs at once if `future` is done, otherwise in the thread that completes it.  The returned
    # future fails if `function` raises or `future` fails.  Requesting its result starts deferred work of
    # `future`, and cancelling it cancels `future`.

    def apply(done: Future[T]) -> Future[U]:
        if (
            failure := done.exception()
        ) is not None:  # raising it would bind it to this frame, and so to `done`
            return Future.failed(failure)
        try:
            value = function(done.result())
        except Exception as error:
            return Future.failed(error)
        return value if isinstance(value, Future) else Future.ready(value)

    if future.done() and not future.cancelled():
        return apply(future)
    promise: Promise[U]
    promise, mapped = Promise.new()
    mapped._start.append(lambda _: future.force())
    mapped._on_done(_cancel_with(future))

    def pass_on(done: Future[T]) -> None:
        if done.cancelled():
            promise.set_cancelled()
        elif not promise.done():
            link(apply(done), promise)

    future._on_done(pass_on)
    return mapped


def gather(futures: Sequence[Future[T]]) -> Future[list[T]]:
    """Return a future of all results in order; it is done when all are, and fails with the first failure."""
    if all(f.done() for f in futures):
        try:
            return Future.ready([f.result() for f in futures])
        except Exception as error:
            return Future.failed(error)
    promise, gathered = Promise[list[T]].new()
    countdown = Countdown(len(futures), promise, lambda: [f.result() for f in futures])

    def start(_: object) -> None:
        for future in futures:
            future.force()

    def pass_on(done: Future[T]) -> None:
        if done.cancelled():
            promise.set_cancelled()
        countdown.part_done(None if done.cancelled() else done.exception())

    gathered._start.append(start)
    for future in futures:
        gathered._on_done(_cancel_with(future))
        future._on_done(pass_on)
    return gathered


def _cancel_with(future: Future[Any]) -> Callable[[Future[Any]], None]:
    def cancel(done: Future[Any]) -> None:
        if done.cancelled():
            future.cancel()

    return cancel


class Countdown(Generic[T]):
    """Completes a promise when all `n` parts of its work have ended, with the first error, if any."""

    # After an error the promise still waits, so that no part writes to the caller's memory once the caller
    # sees the error; parts check `stopped` to end soon.

    __slots__ = ("_error", "_left", "_lock", "_promise", "_result")

    def __init__(self, n: int, promise: Promise[T], result: Callable[[], T]) -> None:
        self._left = n
        self._lock = new_lock()
        self._promise = promise
        self._result = result
        self._error: BaseException | None = None
        if n == 0:
            self._complete()

    @property
    def stopped(self) -> bool:
        """True if the remaining parts are pointless: one has failed, or the result is no longer wanted."""
        return self._error is not None or self._promise.done()

    def part_done(self, error: BaseException | None = None) -> None:
        """Count an ended part, with `error` if it failed."""
        with self._lock:
            if self._error is None:
                self._error = error
            self._left -= 1
            if self._left:
                return
        self._complete()

    def _complete(self) -> None:
        if self._error is None:
            try:
                value = self._result()
            except BaseException as error:
                self._error = error
            else:
                self._promise.set_result(value)
                return
        self._promise.set_exception(self._error)


class WriteFutures:
    """Handle of a write; its own methods are those of `commit`.

    Examples
    --------
    >>> import chunkwise
    >>> spec = {"driver": "zarr3", "kvstore": "memory://a/"}
    >>> array = chunkwise.open(spec, create=True, dtype="int32", shape=[4]).result()
    >>> written = array.write([1, 2, 3, 4])
    >>> written.copy.result()  # the values may be changed from here on
    >>> written.commit.result()  # they are stored
    """

    # If nothing refers to the write any more, later writes to the same store, `_where`, begin after its end;
    # None if something may still wait for it, or the store isn't known.

    __slots__ = ("__weakref__", "_commit", "_copy", "_where")

    _copy: Future[None]
    _commit: Future[None]
    _where: Hashable

    def __new__(cls, *_: Any) -> WriteFutures:
        raise TypeError(f"cannot create '{cls.__name__}' instances")

    @classmethod
    def of(cls, copy: Future[None], commit: Future[None], where: Hashable = None) -> WriteFutures:
        """Return the pair of `copy` and `commit`; `where` is the identity of the written store.

        Parameters
        ----------
        copy, commit : Future
            Done when the source may change, and when the write is durable.
        where : hashable, optional
            Identity of the written store.
        """
        self = object.__new__(cls)
        self._copy = copy
        self._commit = commit
        self._where = where
        return self

    def __del__(self) -> None:
        where = getattr(self, "_where", None)  # set last; an interrupt may come before
        if where is not None and not self._commit.done():
            let_go_on(self._commit, where)

    @classmethod
    def failed(cls, error: BaseException) -> WriteFutures:
        """Return the futures of a write that failed before it began.

        Parameters
        ----------
        error : BaseException
            Raised by both futures.
        """
        future: Future[None] = Future.failed(error)
        return cls.of(future, future)

    @property
    def copy(self) -> Future[None]:
        """Done when the source has been copied, so that the caller may modify it."""
        self._where = None
        self._copy._on_done(self._take_failure)  # a caller that asks for one failure knows of the other
        return self._copy

    @property
    def commit(self) -> Future[None]:
        """Done when the write is durable in the storage."""
        self._where = None
        return self._commit

    def _take_failure(self, copy: Future[None]) -> None:
        if not (copy._has_value() or copy.cancelled()):
            self._commit._take_failure()

    def __repr__(self) -> str:
        states = [repr(one).partition(" at ")[2].split(" ", 1)[1][:-1] for one in (self._copy, self._commit)]
        return f"<chunkwise.WriteFutures copy {states[0]}, commit {states[1]}>"

    def result(self, timeout: float | None = None, deadline: float | None = None) -> None:
        """Wait until the write is durable; as `Future.result`.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.
        deadline : float, optional
            Seconds since the epoch at which waiting ends.

        Raises
        ------
        TimeoutError
            If it isn't durable by then; the write goes on.
        """
        return self._commit.result(timeout, deadline)

    def exception(self, timeout: float | None = None, deadline: float | None = None) -> BaseException | None:
        """Wait for the end of the write and return its failure; as `Future.exception`.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.
        deadline : float, optional
            Seconds since the epoch at which waiting ends.

        Returns
        -------
        BaseException or None

        Raises
        ------
        TimeoutError
            If the write hasn't ended by then; it goes on.
        """
        return self._commit.exception(timeout, deadline)

    def done(self) -> bool:
        """Return whether the write has ended."""
        return self._commit.done()

    def cancelled(self) -> bool:
        """Return whether the write was cancelled."""
        return self._commit.cancelled()

    def cancel(self) -> bool:
        """Give up the part of the write that is not stored yet; return whether it was pending."""
        return self._commit.cancel()

    def force(self) -> None:
        """Start a deferred write."""
        self._commit.force()

    def add_done_callback(self, callback: Callable[[Future[None]], Any]) -> None:
        """Call `callback` with the commit future when the write has ended.

        Parameters
        ----------
        callback : callable
            Takes the future `commit`.
        """
        self._where = None
        self._commit.add_done_callback(callback)

    def remove_done_callback(self, callback: Callable[[Future[None]], Any]) -> int:
        """Forget `callback`; return how often it was registered.

        Parameters
        ----------
        callback : callable
            As it was given to `add_done_callback`.

        Returns
        -------
        int
        """
        return self._commit.remove_done_callback(callback)

    def __await__(self) -> Generator[Any, None, None]:
        self._where = None
        return self._commit.__await__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")
