"""Futures of the public API: work in the background, and failures that go unnoticed, which are reported.

Otherwise ``array.write(values)`` without ``.result()`` would leave data unwritten silently.  Work that mostly
waits for a network is done by other threads, so that the caller need not wait.
"""

from __future__ import annotations

import atexit
import sys
import weakref
from collections.abc import Callable, Hashable
from functools import cache, wraps
from types import FrameType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from chunkwise.core.base.threads import in_child
from chunkwise.core.engine.completion import VALUE
from chunkwise.core.engine.derived_futures import WriteFutures
from chunkwise.core.engine.future import Future, Promise
from chunkwise.core.engine.pool import Pool
from chunkwise.core.kvstore.request_limits import DEFAULT_CONCURRENCY
from chunkwise.errors import AbortedError

if TYPE_CHECKING:
    import logging

__all__ = ["fail_at_exit", "in_background", "in_foreground", "watches"]


T = TypeVar("T")

_background: list[Pool] = []
_working: set[Future[object]] = set()


def _background_pool() -> Pool:
    if not _background:
        _background.append(Pool(DEFAULT_CONCURRENCY))
    return _background[0]


def in_background(work: Callable[[], T], *, writes: Hashable = None) -> Future[T]:
    """Return the future of `work`, called in another thread; `writes` is as for `Pool.run`."""
    # A thread of a pool, which may wait, does `work` itself, now.
    results: list[T] = []
    pool = _background_pool()
    pool.start_threads(min(DEFAULT_CONCURRENCY, len(_working) + 1))
    future = pool.run(
        [work], lambda _: lambda do: results.append(do()), results.pop, n_workers=1, writes=writes
    )
    if not future.done():
        _working.add(future)  # type: ignore[arg-type]
        future._on_done(_working.discard)
    return future


def in_foreground(work: Callable[[], T]) -> Future[T]:
    """Return the completed future of `work`, called now in this thread."""
    try:
        return Future.ready(work())
    except Exception as e:
        return Future.failed(e)


P = ParamSpec("P")
R = TypeVar("R")

_TEXT = "Future exception was never retrieved: nothing called result() of the future made at %s:%d"
_OWN = __name__.partition(".")[0]
_ERROR = 40  # logging.ERROR; logging is loaded with the first failure


class _Failure:
    """A failure with the place that made its future; reported when it is dropped before it was taken."""

    __slots__ = ("__weakref__", "_error", "_logger", "_place")

    def __init__(self, error: BaseException, place: tuple[str, int]) -> None:
        self._error: BaseException | None = error
        self._place = place
        self._logger = _logger()
        _failures.add(self)

    def take(self) -> None:
        """Record that the caller knows of the failure."""
        self._error = None

    def report(self) -> None:
        """Log the failure, once."""
        error, self._error = self._error, None
        logger = self._logger
        if error is not None and logger is not None and logger.isEnabledFor(_ERROR):
            file, line = self._place
            shown = type(error), error, error.__traceback__
            record = logger.makeRecord(logger.name, _ERROR, file, line, _TEXT, (file, line), shown)
            record.exc_text = _traceback(error)
            logger.handle(record)

    __del__ = report


def _traceback(error: BaseException) -> str:
    """Return the traceback of `error` without the marks below its lines."""
    # The marks are found by ast.parse.  A failure may be dropped by a collection of garbage inside ast.parse,
    # which then fails, since CPython 3.11 counts the depth of both together.
    from traceback import TracebackException

    shown = TracebackException(type(error), error, error.__traceback__)
    parts: list[TracebackException | None] = [shown]
    for part in parts:
        if part is not None:
            for frame in part.stack:
                frame.colno = None
            parts += [part.__cause__, part.__context__, *(part.exceptions or ())]
    return "".join(shown.format()).rstrip("\n")


@cache
def _logger() -> logging.Logger | None:
    """Return the logger, loaded with the first failure; None if Python is ending and loads nothing."""
    try:
        import logging
    except ImportError:
        return None
    atexit.register(_report_all)  # after logging's own, so that it runs before that
    return logging.getLogger("chunkwise")


_failures: weakref.WeakSet[_Failure] = weakref.WeakSet()


def _report_all() -> None:
    for failure in list(_failures):
        failure.report()


_under_way: dict[Promise[Any], str] = {}
"""Work in threads that Python does not wait for, and advice for its failure."""


def fail_at_exit(promise: Promise[Any], future: Future[Any], then: str) -> None:
    """Fail work in a thread that Python does not wait for, if the program ends first; `then` is advice."""
    _under_way[promise] = then
    future._on_done(lambda _: _under_way.pop(promise, None))


@atexit.register
def _fail_all() -> None:
    for promise, then in list(_under_way.items()):
        promise.set_exception(AbortedError(f"the program ended before the work was done; {then}"))
    _report_all()  # the threads keep the futures


@in_child
def _forget_all() -> None:
    _under_way.clear()


def watches(function: Callable[P, R]) -> Callable[P, R]:
    """Return a public function or method whose future is reported if it fails and isn't asked."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        future: Any = function(*args, **options)
        watched = future._commit if type(future) is WriteFutures else future
        if watched._state != VALUE:  # a future that is done needs no watching, and small requests are
            _watch(watched)
        return cast("R", future)

    return call


def _watch(future: Future[Any]) -> None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _OWN:
        frame = frame.f_back
    if frame is not None:
        place = frame.f_code.co_filename, frame.f_lineno
        future._watch(lambda error: _Failure(error, place))
