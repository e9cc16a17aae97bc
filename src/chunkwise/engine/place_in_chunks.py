"""Where a small request lies on a regular grid, without a plan: for the short ways to read and write."""

from __future__ import annotations

from chunkwise.plan.partition import Transform

__all__ = ["place_in_chunks"]


def place_in_chunks(
    transform: Transform, shape: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[list[int], list[int | slice], int] | None:
    """Return the first chunk of a request, what is wanted counted from its corner, and the number of chunks.

    Parameters
    ----------
    transform : Transform
        From the domain of the request to storage coordinates.
    shape : tuple of int
        Of that domain.
    sizes : tuple of int
        Shape of the chunks of a regular grid.

    Returns
    -------
    (cell, inside, n_chunks) or None
        `inside` goes beyond the first chunk if there are several.  None if there are none, or the request is
        not one of integers and slices without a step, in the order of the array's dimensions.
    """
    origin = transform.input_inclusive_min
    cell: list[int] = []
    inside: list[int | slice] = []
    n_used, n_chunks = 0, 1
    for m, size in zip(transform.output, sizes, strict=True):
        dim = m.input_dimension
        if dim is None:
            if m.index_array is not None:
                return None
            number, first = divmod(m.offset, size)
            inside.append(first)
        else:
            if dim != n_used or m.stride != 1:
                return None
            number, first = divmod(m.offset + origin[dim], size)
            stop = first + shape[dim]
            if stop <= first:
                return None
            if stop > size:
                n_chunks *= -(-stop // size)
            inside.append(slice(first, stop))
            n_used += 1
        cell.append(number)
    return (cell, inside, n_chunks) if n_used == len(shape) else None
