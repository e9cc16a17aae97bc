"""Failures of stores that other libraries implement, as exceptions of this one."""

from __future__ import annotations

from asyncio import CancelledError
from typing import NoReturn

from chunkwise.errors import ChunkwiseError, DeadlineExceededError, PermissionDeniedError, StorageError

__all__ = ["is_failure", "raise_failure"]


def is_failure(error: BaseException) -> bool:
    """Return True for a library's failure, which may be no `Exception`; False for an interrupt."""
    # Libraries in Rust panic, and coroutines are cancelled.
    return isinstance(error, Exception | CancelledError) or type(error).__name__ == "PanicException"


def raise_failure(error: BaseException, what: str, advice: str = "") -> NoReturn:
    """Raise the error for a failure of `what`; our own exceptions and interrupts are raised again."""
    if isinstance(error, ChunkwiseError) or not is_failure(error):
        raise error
    text = f"Failed to {what}: {str(error) or type(error).__name__}"
    if isinstance(error, PermissionError):
        raise PermissionDeniedError(text + advice) from error
    if isinstance(error, TimeoutError):
        raise DeadlineExceededError(text) from error
    raise StorageError(text, getattr(error, "errno", None)) from error
