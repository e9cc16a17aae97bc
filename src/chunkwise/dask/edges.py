"""Chunk boundaries in a view of an array, one dimension at a time.

A block that begins and ends at these boundaries is read without decoding a chunk twice, and written without
reading stored chunks.  A shard counts as one chunk, since it is written as one.
"""

from __future__ import annotations

from typing import Any

from chunkwise import TensorStore
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import ChunkGrid, DimensionLink, one_to_one

__all__ = ["LARGEST_N_BLOCKS", "aligned_sizes"]

LARGEST_N_BLOCKS = 10_000_000
"""Number of blocks along one dimension that are listed; an array may have far more."""


def aligned_sizes(view: TensorStore) -> tuple[tuple[int, ...] | None, ...]:
    """Return the sizes that the chunks cut each dimension of `view` into, None for one without boundaries."""
    array: Any = view._array
    transform = array.bounded(view._transform).mark_bounds_implicit[False]
    domain = transform.domain
    if not all(dim.finite for dim in domain):
        raise InvalidArgumentError(f"Blocks require a finite domain, got {domain}")
    stored = getattr(array, "stored", None)
    links = one_to_one(transform if stored is None else array.in_grid(transform))
    layout = view.chunk_layout
    sizes = layout.write_chunk.shape or (None,) * view.rank
    origin = layout.grid_origin or (None,) * view.rank
    out: list[tuple[int, ...] | None] = []
    for dim, (lo, hi) in enumerate(zip(domain.inclusive_min, domain.exclusive_max, strict=True)):
        link = links[dim]
        if lo == hi:
            out.append((0,))
        elif link is not None and stored is not None and link.dim < stored.grid.rank:
            out.append(_cut_by_grid(stored.grid, link, lo, hi))
        elif size := sizes[dim]:
            out.append(_cut_regularly(size, origin[dim] or 0, lo, hi))
        else:
            out.append(None)
    return tuple(out)


def _cut_by_grid(grid: ChunkGrid, link: DimensionLink, lo: int, hi: int) -> tuple[int, ...]:
    if grid.chunk_shape is not None:
        _check_count((hi - lo) * abs(link.stride) // grid.chunk_shape[link.dim])
    out = []
    at = lo
    while at < hi:
        _, start, stop = grid.cell(link.dim, link.offset + link.stride * at)
        # The first index of the view whose element is in another cell.
        if link.stride > 0:
            following = -((link.offset - stop) // link.stride)
        else:
            following = (link.offset - start) // -link.stride + 1
        following = min(max(following, at + 1), hi)
        out.append(following - at)
        at = following
        _check_count(len(out))
    return tuple(out)


def _cut_regularly(size: int, origin: int, lo: int, hi: int) -> tuple[int, ...]:
    first = min(hi, origin + ((lo - origin) // size + 1) * size) - lo
    n, rest = divmod(hi - lo - first, size)
    _check_count(n)
    return (first, *(size,) * n, *((rest,) if rest else ()))


def _check_count(n: int) -> None:
    if n > LARGEST_N_BLOCKS:
        raise InvalidArgumentError(
            f"The chunks make more than {LARGEST_N_BLOCKS:,} blocks along one dimension; "
            "choose their size with `chunks`"
        )
