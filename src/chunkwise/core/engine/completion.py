"""How a future is completed, once, whichever thread comes first."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NoReturn

__all__ = ["CANCELLED", "ERROR", "PENDING", "VALUE", "complete", "raise_cancelled", "run_callbacks"]

PENDING, VALUE, ERROR, CANCELLED = range(4)


def complete(future: Any, state: int, value: Any) -> bool:
    """Complete a pending future; return False if it is already complete, or about to be."""
    if future._state != PENDING:
        return False
    claim = state, value
    try:
        if future._claims.setdefault("end", claim) is not claim:
            return False
        _settle(future, state, value)
    except BaseException:  # Ctrl-C; waiters must be notified even so
        if future._claims.get("end") is claim:
            _settle(future, state, value)
        raise
    return True


def _settle(future: Any, state: int, value: Any) -> None:
    if future._failure is not None:
        future._failure = future._failure(value) if state == ERROR else None
    future._value = value
    future._state = state
    future._start.clear()
    run_callbacks(future)


def run_callbacks(future: Any) -> None:
    """Call what waits for a future that is complete, each callback once."""
    callbacks = future._callbacks
    while True:
        try:
            callback = callbacks.popleft()
        except IndexError:
            return
        try:
            callback(future)
        except BaseException:  # the completing code must not fail, nor other callbacks be skipped
            with suppress(MemoryError):
                from traceback import print_exc

                print_exc()


def raise_cancelled() -> NoReturn:
    """Raise the exception of a future that was cancelled."""
    from asyncio import CancelledError  # the package is slow to load, and most programs never cancel

    raise CancelledError
