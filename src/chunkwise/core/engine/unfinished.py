"""Changes of what is stored that go on although nobody waits for them any more.

A cancelled future is done at once, but its threads may still be storing a chunk each; a future that was
dropped is not even cancelled.  What is written next at the same place begins after them, or they would
overwrite it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Any

from chunkwise.core.base.fork import in_child
from chunkwise.core.engine.future import Future, Promise
from chunkwise.core.engine.waiting import go_on_until

__all__ = ["EVERYWHERE", "Change", "after", "be_part_of_change", "before", "let_go_on", "unfinished"]

EVERYWHERE: Hashable = object()
"""The place of changes that may be anywhere."""

unfinished: dict[Future[None], Hashable] = {}
"""The ends of changes that nobody waits for, with the identities of the stores that they are made in."""

_is_part: ContextVar[bool] = ContextVar("is_part", default=False)


def be_part_of_change() -> None:
    """Have what this thread, and coroutines for it, write from now on be a part of changes under way."""
    # It must not wait for the end of what it is a part of.
    _is_part.set(True)


class Change:
    """Work that changes what is stored, from before its first change until after its last one."""

    # `future` is that of the work's result, which is done before the end of the work if it is cancelled.

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
        """Say that nothing is changed any more."""
        self._promise.set_result(None)


def let_go_on(ended: Future[None], where: Hashable) -> None:
    """Have what is written later at the same place begin after `ended`, for which nobody waits."""
    unfinished[ended] = where
    ended._on_done(lambda done: unfinished.pop(done, None))


def before(where: Hashable) -> list[Future[None]]:
    """Return the ends of the changes that come before the next one at a place."""
    if not unfinished or where is None or _is_part.get():
        return []
    return [
        ended
        for ended, place in list(unfinished.items())
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
    unfinished.clear()
