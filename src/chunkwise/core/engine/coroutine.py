"""Futures and event loops: the future of a coroutine, and a coroutine that waits for a future."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, get_running_loop, run_coroutine_threadsafe
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any

from chunkwise.errors import InvalidArgumentError

__all__ = ["future_of_coroutine", "wait_in_loop"]


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


def wait_in_loop(future: Any) -> Generator[Any, None, None]:
    """Wait for a future in the running loop; cancel it if the wait is cancelled."""
    loop = get_running_loop()
    waiter = loop.create_future()

    def settle() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the loop was closed; nothing waits any more
            loop.call_soon_threadsafe(settle)

    future.add_done_callback(wake)
    try:
        yield from waiter
    except CancelledError:
        future.cancel()
        raise
    finally:
        future.remove_done_callback(wake)
