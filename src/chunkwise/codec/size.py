"""Sizes of encoded and decoded chunks: what a mismatch is called, and how a buffer is measured."""

from __future__ import annotations

from chunkwise.codec.protocol import Buffer
from chunkwise.errors import DataCorruptionError

__all__ = ["byte_view", "size_error"]


def size_error(codec: str, got: int | str, expected: int) -> DataCorruptionError:
    """Return the error for a chunk that decodes to `got` bytes where the metadata promises `expected`."""
    return DataCorruptionError(
        f'"{codec}" codec: chunk decodes to {got} bytes, but expected {expected} bytes'
    )


def byte_view(buffer: Buffer) -> memoryview:
    """Return `buffer` as a one-dimensional view of unsigned bytes, so that ``len`` is its size in bytes."""
    view = memoryview(buffer)
    return view if view.ndim == 1 and view.format == "B" else view.cast("B")
