"""An array that has just been made, and that others may delete or replace before all of it is written."""

from __future__ import annotations

from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.arrays.chunked import ChunkedArray
from chunkwise.core.engine.concurrent_requests import is_slow
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.trees.location import Location
from chunkwise.errors import AbortedError

__all__ = ["check_in_place", "generation_of"]


def generation_of(store: TensorStore) -> bytes:
    """Return the generation of the document of an array that has just been made; empty if unknown."""
    return store._array._opened.generation if isinstance(store._array, ChunkedArray) else b""


def check_in_place(store: TensorStore, location: Location, made: bytes) -> None:
    """Raise FailedPreconditionError or AbortedError if others have deleted or replaced an array.

    Stores that answer slowly are not asked: it would be a request more for each new array.
    """
    if not isinstance(store._array, ChunkedArray) or is_slow(location.store):
        return
    store._array.refresh()
    if made and generation_of(store) != made and traits_of(location.store).own_generations:
        raise AbortedError(f"another process has replaced or changed {location.text} while it was written")
