"""The future of a coroutine on an event loop."""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop, run_coroutine_threadsafe
from collections.abc import Callable, Coroutine
from typing import Any

from chunkwise.errors import InvalidArgumentError

__all__ = ["future_of_coroutine"]


def future_of_coroutine(
    coroutine: Coroutine[Any, Any, Any],
    loop: asyncio.AbstractEventLoop | None,
    new: Callable[[], tuple[Any, Any]],
) -> Any:
    """Return the future of a coroutine that is scheduled on `loop`, or on the running loop.

    ``new()`` makes the future and its promise.
    """
    try:
        target = loop or get_running_loop()
    except RuntimeError:
        raise InvalidArgumentError(
            "no event loop specified and thread does not have a default event loop"
        ) from None
    promise, future = new()
    task = run_coroutine_threadsafe(coroutine, target)

    def finish(_: object) -> None:
        if task.cancelled():
            promise.set_cancelled()
        elif (error := task.exception()) is not None:
            promise.set_exception(error)
        else:
            promise.set_result(task.result())

    def cancel(done: Any) -> None:
        if done.cancelled() and not target.is_closed():
            task.cancel()

    task.add_done_callback(finish)
    future._on_done(cancel)
    return future
