"""Values that N5 has no type for: groups that hold them as columns of numbers."""

# A group with ``_ENCODED`` in its HDMF attributes is a dataset.  Text, bytes and references lie in ``data``,
# all items one after the other, and ``offsets``, where each begins and the last ends; a compound has one
# child for each member, named by its position, which may be encoded itself.

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.errors import DataCorruptionError
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.logical import to_logical

__all__ = ["decode_items", "encode_items", "encoded_shape", "restore_number", "store_number"]

MAX_BYTES = 1 << 31
"""Limit on the text of one dataset that is read at once."""


def encoded_shape(value: Any) -> tuple[int, ...]:
    """Return the shape in ``_ENCODED`` or ``_EMPTY``."""
    shape = value.get("shape") if isinstance(value, dict) else None
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise DataCorruptionError(f"Expected a shape, but received: {shape!r:.100}")
    return tuple(shape)


def decode_items(
    read: Callable[[str, int, int], npt.NDArray[Any]], n_items: int, element: Element
) -> npt.NDArray[Any]:
    """Return encoded items as a 1-D object array."""
    if n_items == 0:
        return np.empty(0, object)
    offsets = read("offsets", 0, n_items + 1).astype(np.int64)
    if (
        len(offsets) != n_items + 1
        or offsets[0] < 0
        or (np.diff(offsets) < 0).any()
        or offsets[-1] > MAX_BYTES
    ):
        raise DataCorruptionError("offsets of encoded values are malformed")
    first, last = int(offsets[0]), int(offsets[-1])
    raw = read("data", first, last).tobytes() if last > first else b""
    if len(raw) != last - first:
        raise DataCorruptionError(f"encoded values end at {last}, but there are {first + len(raw)} bytes")
    bounds = (offsets - first).tolist()
    parts: list[Any] = [raw[start:stop] for start, stop in itertools.pairwise(bounds)]
    if element.kind != "bytes":
        try:
            parts = list(map(bytes.decode, parts))
        except UnicodeDecodeError as e:
            raise DataCorruptionError(f"item {parts.index(e.object)}: {e}") from None
    items = np.empty(n_items, object)
    items[:] = parts
    return to_logical(items, element)


def encode_items(items: list[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """Return ``data`` and ``offsets`` of items."""
    offsets = np.zeros(len(items) + 1, np.uint64)
    np.cumsum(list(map(len, items)), out=offsets[1:])
    return np.frombuffer(b"".join(items), np.uint8), offsets


def restore_number(values: npt.NDArray[Any], element: Element) -> npt.NDArray[Any]:
    """Return numbers of types that N5 lacks from those that they are stored as."""
    dtype = element.memory_dtype
    if values.dtype == dtype:
        return values
    if dtype == np.dtype(bool):
        return values.astype(bool)
    return values.view(dtype) if dtype == np.dtype(np.float16) else values.astype(dtype)


def store_number(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the stored form of numbers of types that N5 lacks."""
    if values.dtype.kind == "b":
        return values.astype(np.uint8)
    return np.ascontiguousarray(values).view(np.uint16) if values.dtype == np.float16 else values
