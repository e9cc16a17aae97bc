"""The plan of a small request inside one chunk of a regular grid, made by division."""

from __future__ import annotations

from typing import Any

from chunkwise.index_space import IndexTransform

__all__ = ["place_in_chunk"]


def place_in_chunk(
    transform: IndexTransform, shape: tuple[int, ...], chunk_shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[Any, ...]] | None:
    """Return the one chunk of a request, and the selection inside it; None for any other request."""
    # There has to be one chunk, and integers and slices without a step, in the order of the array's
    # dimensions.
    origin = transform._domain._lo
    cell: list[int] = []
    inside: list[Any] = []
    n_used = 0
    for m, size in zip(transform._output, chunk_shape, strict=True):
        dim = m._dim
        if dim is None:
            if m._array is not None:
                return None
            number, first = divmod(m._offset, size)
            inside.append(first)
        else:
            if dim != n_used or m._stride != 1:
                return None
            number, first = divmod(m._offset + origin[dim], size)
            stop = first + shape[dim]
            if not first < stop <= size:
                return None
            inside.append(slice(first, stop))
            n_used += 1
        cell.append(number)
    if n_used != len(shape):
        return None
    return tuple(cell), (*inside, ...)  # the ellipsis makes the part an array even at rank 0
