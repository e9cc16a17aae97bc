"""Coroutines run for a `chunkwise.engine.future.Future`, perhaps on another thread's loop."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from chunkwise.errors import InvalidArgumentError

if TYPE_CHECKING:
    import asyncio

    from chunkwise.engine.future import Future, Promise

__all__ = ["in_event_loop", "run_coroutine"]


def in_event_loop() -> bool:
    """Return True if this thread runs an event loop, which must not wait for what it runs itself."""
    if "asyncio" not in sys.modules:  # nobody can have started a loop
        return False
    from asyncio import _get_running_loop

    return _get_running_loop() is not None


def run_coroutine(
    coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop | None, promise: Promise[Any]
) -> None:
    """Schedule `coroutine` on `loop`, or on the running loop, and put its outcome into `promise`."""
    # Cancelling the future of `promise` cancels the task.
    from asyncio import Task, get_running_loop  # slow to load; only programs with a loop have use for it

    try:
        running = get_running_loop()
    except RuntimeError:
        running = None
    target = loop or running
    if target is None:
        raise InvalidArgumentError("no event loop specified and thread does not have a default event loop")

    def finish(task: Task[Any]) -> None:
        if task.cancelled():
            promise.set_cancelled()
        elif (error := task.exception()) is not None:
            promise.set_exception(error)
        else:
            promise.set_result(task.result())

    def start() -> None:
        if promise.done():  # cancelled before the loop came to it
            coroutine.close()
            return
        task = target.create_task(coroutine)
        task.add_done_callback(finish)

        def cancel_task(done: Future[Any]) -> None:
            if done.cancelled():
                with suppress(RuntimeError):  # the loop was closed, and the task with it
                    target.call_soon_threadsafe(task.cancel)

        promise.future.add_done_callback(cancel_task)

    if target is running:
        start()
    else:
        target.call_soon_threadsafe(start)
