"""All cells of an array, for statistics, verification and resizing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from chunkwise.chunk_key.key_encoding import KeyEncoding
from chunkwise.grid.protocol import ChunkGrid

__all__ = ["array_cells", "array_keys", "n_array_cells"]


def n_array_cells(grid: ChunkGrid, shape: tuple[int, ...]) -> int:
    """Return how many cells of `grid` meet an array of `shape`."""
    return prod(grid.n_cells(dim, size) for dim, size in enumerate(shape))


def array_cells(grid: ChunkGrid, shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the cells that meet an array of `shape`, last dimension fastest."""
    return product(*_ranges(grid, shape)) if 0 not in shape else iter(())


def array_keys(grid: ChunkGrid, shape: tuple[int, ...], encoding: KeyEncoding) -> Iterator[str]:
    """Yield the keys of the chunks of an array of `shape`, in the order of `array_cells`."""
    return encoding.keys(_ranges(grid, shape)) if 0 not in shape else iter(())


def _ranges(grid: ChunkGrid, shape: tuple[int, ...]) -> list[range]:
    return [range(grid.n_cells(dim, size)) for dim, size in enumerate(shape)]
