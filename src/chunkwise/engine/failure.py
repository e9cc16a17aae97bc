"""The text of errors of chunks: the operation, the key, the cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkwise.driver.stored_array import StoredArray
from chunkwise.errors import NotFoundError, TooLargeError, prefix

__all__ = ["braced", "describe", "failed", "missing_chunk"]


def braced(numbers: Sequence[int]) -> str:
    """Return ``{1, 2}``."""
    return "{" + ", ".join(map(str, numbers)) + "}"


def describe(store: Any, key: str) -> str:
    """Return what `store` calls `key`, or the quoted key if it has no name of its own for it."""
    own = getattr(store, "describe", None)
    return own(key) if own is not None else f'"{key}"'


def failed(error: Exception, operation: str, store: Any, array: StoredArray, key: str) -> Exception:
    """Add to `error` what was being done: ``Error reading "a/0/1": ...``; a note names the cell."""
    if isinstance(error, MemoryError) and not isinstance(error, TooLargeError):
        error = TooLargeError(str(error) or "out of memory")
    prefix(error, f"Error {operation} {describe(store, key)}")
    cell = array.keys.cell(key, array.grid.rank)
    if cell is not None:
        error.add_note(f"while {operation} chunk {braced(cell)}")
    return error


def missing_chunk(cell: Sequence[int], where: str) -> NotFoundError:
    """Return the error of a read that must not fill in for missing chunks."""
    return NotFoundError(f"chunk {braced(cell)} stored at {where} is missing")
