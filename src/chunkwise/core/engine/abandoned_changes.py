"""Changes to stored data that continue although nothing waits for them any more.

A cancelled future is done at once, but each of its threads may still be storing a chunk; a dropped future is
not even cancelled.  Later writes to the same store begin after them, so as not to be overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Any

from chunkwise.core.base.threads import in_child
from chunkwise.core.engine.completion import go_on_until
from chunkwise.core.engine.future import Future, Promise

__all__ = ["EVERYWHERE", "Change", "abandoned", "after", "be_part_of_change", "before", "let_go_on"]

EVERYWHERE: Hashable = object()
"""Stands for changes in unknown stores."""

abandoned: dict[Future[None], Hashable] = {}
"""Futures of the ends of abandoned changes, with the identities of the changed stores."""

_is_part: ContextVar[bool] = ContextVar("is_part", default=False)


def be_part_of_change() -> None:
    """Make later writes of this thread, and of coroutines for it, a part of changes under way."""
    # They must not wait for the end of those changes.
    _is_part.set(True)


class Change:
    """Work that changes stored data, from before its first change until after its last."""

    # `future` is the future of the work's result; if cancelled, it is done before the work ends.

    __slots__ = ("_ended", "_promise", "_where")

    def __init__(self, where: Hashable, future: Future[Any]) -> None:
        self._where = where
        self._promise, self._ended = Promise[None].new()
        future._on_done(self._cancelled)

    def _cancelled(self, future: Future[Any]) -> None:
        if future.cancelled() and not self._ended.done():
            go_on_until(self._ended)
            let_go_on(self._ended, self._where)

    def end(self) -> None:
        """Record that no more changes follow."""
        self._promise.set_result(None)


def let_go_on(ended: Future[None], where: Hashable) -> None:
    """Make later writes to the same store begin after `ended`, which is abandoned."""
    abandoned[ended] = where
    ended._on_done(lambda done: abandoned.pop(done, None))


def before(where: Hashable) -> list[Future[None]]:
    """Return the ends of the changes that precede the next one in a store."""
    if not abandoned or where is None or _is_part.get():
        return []
    return [
        ended
        for ended, place in list(abandoned.items())
        if place == where or place is EVERYWHERE or where is EVERYWHERE
    ]


def after(ends: list[Future[None]], begin: Callable[[], object]) -> None:
    """Call `begin` when all of `ends` are done."""
    left = iter(ends)

    def next_one(_: object = None) -> None:
        for ended in left:
            if not ended.done():
                ended._on_done(next_one)
                return
        begin()

    next_one()


@in_child
def _forget() -> None:
    abandoned.clear()
