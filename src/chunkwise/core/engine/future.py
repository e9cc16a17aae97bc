"""The result of work that may still be under way, usable from threads and from asyncio.

A future needs no lock: the thread that enters the first claim in ``_claims`` may start or complete it.  Each
waiter and callback is an entry of a deque, popped exactly once, by the completing thread or by a late one.
Both operations are atomic in CPython, with and without the GIL, so a fork can't leave anything locked.  A
future that is complete from the start has neither.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from numbers import Number
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from chunkwise.core.base.public_names import explains_foreign_names, explains_operators
from chunkwise.core.engine.completion import (
    CANCELLED,
    ERROR,
    PENDING,
    VALUE,
    Process,
    complete,
    raise_cancelled,
    run_callbacks,
    seconds_left,
    wait,
)
from chunkwise.errors import ChunkwiseError

if TYPE_CHECKING:
    import asyncio

__all__ = ["BrokenPromiseError", "Future", "Promise", "promise_of", "waiting_future"]

T = TypeVar("T")


class BrokenPromiseError(ChunkwiseError, ValueError):
    """The work ended without a result: its promise was dropped."""

    status = "UNKNOWN"


@explains_operators
@explains_foreign_names("Future")
class Future(Generic[T]):
    """Handle of a result, perhaps of one that is still being computed.

    Parameters
    ----------
    future : Future, coroutine or any other value
        A Future is returned unchanged; a coroutine is scheduled on an event loop; any other value gives a
        completed future.
    loop : asyncio.AbstractEventLoop, optional
        Event loop for a coroutine; by default the running loop.

    Raises
    ------
    InvalidArgumentError
        For a coroutine, if there is neither `loop` nor a running loop.

    Examples
    --------
    >>> import chunkwise
    >>> promise, future = chunkwise.Promise.new()
    >>> future.done()
    False
    >>> promise.set_result(5)
    >>> future.result()
    5
    """

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)  # as in TensorStore, and faster than typing's

    __slots__ = ("__weakref__", "_callbacks", "_claims", "_failure", "_forks", "_start", "_state", "_value")

    _state: int
    _value: Any
    _claims: dict[str, object]
    _callbacks: deque[Callable[[Any], Any]]
    _start: list[Callable[[Any], Any]]
    _forks: int
    _failure: Any  # what notes that the failure was asked for; a function that makes it while pending

    def __new__(cls, future: Any, *, loop: asyncio.AbstractEventLoop | None = None) -> Future[T]:
        if isinstance(future, Future):
            return future
        if isinstance(future, Coroutine):
            from chunkwise.core.engine.coroutine import future_of_coroutine  # only event loops use it

            return cast(Future[T], future_of_coroutine(future, loop, Promise.new))
        return cls.ready(future)

    @classmethod
    def ready(cls, value: T) -> Future[T]:
        """Return a future that is complete with `value`.

        Parameters
        ----------
        value : object
            The result.
        """
        self = _new(cls)
        self._value = value
        self._state = VALUE
        return self

    @classmethod
    def failed(cls, error: BaseException) -> Future[T]:
        """Return a future that is complete with `error`.

        Parameters
        ----------
        error : BaseException
            Raised where the result is asked for.
        """
        self = _new(cls)
        self._value = error
        self._state = ERROR
        self._failure = None
        return self

    @classmethod
    def deferred(cls, start: Callable[[Promise[T]], object]) -> Future[T]:
        """Return a future whose work, ``start(promise)``, begins when the result is first requested.

        Parameters
        ----------
        start : callable
            Called once with the promise, which it completes, now or later.
        """
        self = _pending()
        self._start.append(lambda future: start(promise_of(future)))
        return self

    def _compute(self, *_: object, **__: object) -> Any:
        raise TypeError("this is a Future, whose result() is the array or the values: write future.result()")

    if not TYPE_CHECKING:  # NumPy would take a future for a scalar
        __array__ = __getitem__ = __setitem__ = __iter__ = __len__ = __contains__ = _compute
        __int__ = __float__ = __complex__ = __index__ = __lt__ = __le__ = __gt__ = __ge__ = _compute
        __enter__ = __exit__ = _compute
        __bool__ = True.__bool__  # in C, since futures are often asked whether they are there

        def __eq__(self, other: object) -> bool:
            if isinstance(other, Future):
                return self is other
            if isinstance(other, Number | Sequence) or hasattr(type(other), "__array__"):
                self._compute()
            return NotImplemented

        __hash__ = object.__hash__

    def result(self, timeout: float | None = None, deadline: float | None = None) -> T:
        """Wait for the result and return it.

        Parameters
        ----------
        timeout : float, optional
            Longest time to wait, in seconds.
        deadline : float, optional
            Time until which to wait, in seconds since the epoch.

        Raises
        ------
        TimeoutError
            If there is no result by then.
        TypeError
            If `timeout` or `deadline` is not a number.
        asyncio.CancelledError
            If the future was cancelled.
        Exception
            The failure of the work.
        """
        left = None if timeout is None and deadline is None else seconds_left(timeout, deadline)
        if self._state != VALUE:
            if self._state == PENDING:
                wait(self, left)
            if self._state == ERROR:
                self._take_failure()
                try:
                    raise self._value
                finally:
                    self = None  # type: ignore[assignment]  # else error, traceback, frame and self are a cycle
            if self._state == CANCELLED:
                raise_cancelled()
        return cast(T, self._value)

    def exception(self, timeout: float | None = None, deadline: float | None = None) -> BaseException | None:
        """Wait for the end and return the failure, or None.

        Parameters and errors are as for `result`, except that the failure is returned.

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
            If it isn't done by then.
        CancelledError
            If it was cancelled.
        """
        left = None if timeout is None and deadline is None else seconds_left(timeout, deadline)
        if self._state == PENDING:
            wait(self, left)
        if self._state == CANCELLED:
            raise_cancelled()
        if self._state != ERROR:
            return None
        self._take_failure()
        return cast(BaseException, self._value)

    def done(self) -> bool:
        """Return whether the work has ended: with a result, a failure or cancellation."""
        return self._state != PENDING

    def _has_value(self) -> bool:
        return self._state == VALUE

    def _watch(self, failed: Callable[[BaseException], Any]) -> None:
        """Keep ``failed(error)`` if the work fails, and call its method `take` when that is asked for."""
        if self._state == PENDING:
            self._failure = failed
            if self._state == PENDING or self._failure is not failed:
                return
        self._failure = failed(self._value) if self._state == ERROR else None

    def _take_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None and self._state == ERROR:
            failure.take()

    def cancelled(self) -> bool:
        """Return whether the future was cancelled."""
        return self._state == CANCELLED

    def cancel(self) -> bool:
        """Give up the result; return whether it was still pending.

        Work that is under way stops as soon as it notices.
        """
        return complete(self, CANCELLED, None)

    def force(self) -> None:
        """Start work that would otherwise start when the result is first requested."""
        if self._state != PENDING or not self._start:
            return
        claim = object()
        try:
            if self._claims.setdefault("start", claim) is not claim:
                return
            self._forks = Process.n_forks
            starts = [*self._start]  # None if the future was cancelled meanwhile
            self._start.clear()
            for start in starts:
                start(self)
        except BaseException:  # Ctrl-C; no other thread will start the work
            if self._claims.get("start") is claim:
                complete(self, ERROR, BrokenPromiseError())
            raise

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call `callback` with this future when it is done, at once if it already is.

        Deferred work is started.  An exception from a later call is printed to stderr.

        Parameters
        ----------
        callback : callable
            Takes the future.
        """
        self._on_done(callback)
        if self._state == PENDING:
            self.force()

    def _on_done(self, callback: Callable[[Future[T]], Any]) -> None:
        if self._state != PENDING:
            callback(self)
            return
        self._callbacks.append(callback)
        if self._state != PENDING:
            run_callbacks(self)

    def remove_done_callback(self, callback: Callable[[Future[T]], Any]) -> int:
        """Forget `callback`; return how often it was registered.

        Parameters
        ----------
        callback : callable
            As it was given to `add_done_callback`.

        Returns
        -------
        int
        """
        n_removed = 0
        while self._state == PENDING:
            try:
                self._callbacks.remove(callback)
            except ValueError:
                break
            except IndexError:  # another thread changed the deque during the search
                continue
            n_removed += 1
        return n_removed

    def __await__(self) -> Generator[Any, None, T]:
        if self._state == PENDING:
            from chunkwise.core.engine.coroutine import wait_in_loop  # only event loops use it

            yield from wait_in_loop(self)
        return self.result()

    def __repr__(self) -> str:
        state = ("pending", "done", "failed", "cancelled")[self._state]
        if self._state == PENDING and self._start:
            state = "not begun"
        elif self._state in (VALUE, ERROR):
            from chunkwise.core.base.html import brief

            state += f": {brief(self._value) if self._state == VALUE else type(self._value).__name__}"
        return f"<{type(self).__module__}.{type(self).__qualname__} at {id(self):#x} {state}>"

    def _repr_html_(self) -> str:
        from chunkwise.core.base.html import panel, table  # only notebooks ask

        state = repr(self).partition(" at ")[2].partition(" ")[2].removesuffix(">")
        return panel(type(self).__name__, table([("state", state), ("value", "result() waits for it")]))

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")


class Promise(Generic[T]):
    """The producer's end of a `Future`, which sets the result; made by `new`.

    The first result, failure or cancellation counts, later ones are ignored.  Dropping a promise without any
    of them fails its future.

    Examples
    --------
    >>> import chunkwise
    >>> promise, future = chunkwise.Promise.new()
    >>> future.done()
    False
    >>> promise.set_result(5)
    >>> future.result()
    5
    """

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)

    __slots__ = ("__weakref__", "_future")

    _future: Future[T]

    def __new__(cls) -> Promise[T]:
        raise TypeError(f"cannot create '{cls.__name__}' instances; use Promise.new()")

    @staticmethod
    def new() -> tuple[Promise[T], Future[T]]:
        """Return a promise and its future."""
        future: Future[T] = _pending()
        return promise_of(future), future

    def set_result(self, result: T) -> None:
        """Complete the future with `result`.

        Parameters
        ----------
        result : object
            Result of the future.
        """
        complete(self._future, VALUE, result)

    def set_exception(self, exception: BaseException) -> None:
        """Complete the future with a failure.

        Parameters
        ----------
        exception : BaseException
            Raised where the result is asked for.
        """
        if not isinstance(exception, BaseException):
            raise TypeError(f"Expected an exception, but received: {exception!r}")
        complete(self._future, ERROR, exception)

    def set_cancelled(self) -> None:
        """Cancel the future, if the work itself was cancelled."""
        complete(self._future, CANCELLED, None)

    def done(self) -> bool:
        """Return whether a result is no longer wanted: already set, or cancelled."""
        return self._future._state != PENDING

    @property
    def future(self) -> Future[T]:
        """The future of this promise."""
        return self._future

    def __del__(self) -> None:
        future = getattr(self, "_future", None)  # None after an interrupt while it was being made
        if future is not None and future._state == PENDING:
            complete(future, ERROR, BrokenPromiseError())


_new = object.__new__


def _pending() -> Future[Any]:
    future = _new(Future)
    future._state = PENDING
    future._value = None
    future._claims = {}
    future._callbacks = deque()
    future._start = []
    future._forks = Process.n_forks
    future._failure = None
    return future


def waiting_future(start: Callable[[Future[Any]], object]) -> Future[Any]:
    """Return a pending future that calls ``start(future)`` when its result is first requested."""
    # `promise_of` sets the result later; no promise need be kept until then.
    future = _pending()
    future._start.append(start)
    return future


def promise_of(future: Future[T]) -> Promise[T]:
    """Return a promise for `future`; dropping it while the future is pending fails the future."""
    promise = _new(Promise)
    promise._future = future
    return promise
