"""Updates of a part of what is stored, in stores that may not be able to promise that nobody else writes."""

from __future__ import annotations

from typing import Any

from chunkwise.errors import UnsafeWriteError
from chunkwise.kvstore.traits import traits_of

__all__ = ["aligned", "can_delete", "check_promise"]


def can_delete(kv: Any) -> bool:
    """Return True if `kv` deletes a key only if its value is the expected one, whatever other writers do."""
    return traits_of(kv).conditional_deletes


def check_promise(kv: Any, key: str) -> None:
    """Raise unless a part of the value of `key`, or of one that is to be, can be changed safely."""
    if not traits_of(kv).conditional_writes(key):
        raise UnsafeWriteError(
            "the storage can't promise that what others write to the same chunk meanwhile is not lost; "
            'write whole chunks, or set "single_writer" in the kvstore if nobody else writes'
        )


def aligned(error: UnsafeWriteError, shape: tuple[int, ...] | None) -> UnsafeWriteError:
    """Add to the refusal of a partial write which writes would be safe: those of whole cells of `shape`."""
    cells = "the cells of the grid" if shape is None else f"shape {shape}"
    error.message += f". Writes of whole chunks are safe: align them to {cells}"
    error.args = (error.message, *error.args[1:])
    return error
