"""Keys of the chunks of a scale, from voxel bounds or as identifiers in shards, and the scale's grid.

Specification
-------------
neuroglancer, "Precomputed chunk/volume format", "Unsharded chunk storage" and "Sharded chunk storage".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.core.kvstore.adapter.uint64_shards import chunk_key
from chunkwise.core.kvstore.key_range import encode_key
from chunkwise.errors import OutOfRangeError

__all__ = ["ClippedGrid", "MortonKeys", "VoxelBoundKeys", "chunk_name", "parse_chunk_name"]

_NAME = re.compile(r"(-?\d{1,19})-(-?\d{1,19})_(-?\d{1,19})-(-?\d{1,19})_(-?\d{1,19})-(-?\d{1,19})")


def chunk_name(starts: Sequence[int], stops: Sequence[int]) -> str:
    """Return the name of the chunk of the voxels between two corners: ``0-64_64-100_-8-8``."""
    return "_".join(f"{start}-{stop}" for start, stop in zip(starts, stops, strict=True))


def parse_chunk_name(name: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the corners of the chunk with that name; None if `chunk_name` doesn't return such names."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    numbers = tuple(map(int, found.groups()))
    starts, stops = numbers[::2], numbers[1::2]
    return (starts, stops) if chunk_name(starts, stops) == name else None


class ClippedGrid(NamedTuple):
    """A regular grid from the origin, whose last cells end with the array."""

    cell_shape: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        """Shape of all cells; None if those at the edges are smaller."""
        whole = not any(n % size for n, size in zip(self.shape, self.cell_shape, strict=True))
        return self.cell_shape if whole else None

    def cell(self, dim: int, index: int) -> tuple[int, int, int]:
        """Return ``(cell, start, stop)`` along `dim` for the cell that holds element `index`."""
        if not 0 <= index < self.shape[dim]:  # a cell that begins beyond the array would end before it begins
            raise OutOfRangeError(f"Index {index} is outside [0, {self.shape[dim]}) in dimension {dim}")
        number = index // self.cell_shape[dim]
        return (number, *self.bounds(dim, number))

    def cells(self, dim: int, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the cell along `dim` of each of `indices`."""
        return indices // self.cell_shape[dim]

    def bounds(self, dim: int, cell: int) -> tuple[int, int]:
        """Return ``(start, stop)`` of cell number `cell` along `dim`."""
        start = cell * self.cell_shape[dim]
        return start, min(start + self.cell_shape[dim], self.shape[dim])

    def n_cells(self, dim: int, size: int) -> int:
        """Return the number of cells along `dim` that meet ``[0, size)``."""
        return -(-size // self.cell_shape[dim])


class VoxelBoundKeys(NamedTuple):
    """``8_8_40/0-64_0-64_0-64``; keys leave out the grid's last dimension, channels, which has one cell."""

    prefix: str
    grid: ClippedGrid
    origin: tuple[int, ...]

    @property
    def inner(self) -> int:
        """1: keys don't name channels."""
        return 1

    @property
    def scalar(self) -> str:
        """The prefix; no array has rank 0."""
        return self.prefix

    def under(self, path: str) -> VoxelBoundKeys:
        """Return the keys of a volume at `path`."""
        return self._replace(prefix=path + self.prefix)

    def key(self, cell: Sequence[int]) -> str:
        """Return the key of one cell."""
        bounds = [self.grid.bounds(dim, cell[dim]) for dim in range(3)]
        starts, stops = (
            [b + o for b, o in zip(c, self.origin, strict=True)] for c in zip(*bounds, strict=True)
        )
        return self.prefix + chunk_name(starts, stops)

    def keys(self, cells: Sequence[Sequence[int]]) -> Iterator[str]:
        """Yield the keys of all cells in the product of `cells`, last dimension fastest."""
        return map(self.key, product(*cells))

    def cell(self, key: str, rank: int) -> tuple[int, ...] | None:
        """Return the cell that is stored under `key`; None if `key` is not a chunk's key."""
        found = parse_chunk_name(key[len(self.prefix) :]) if key.startswith(self.prefix) else None
        if found is None:
            return None
        corner = [start - o for start, o in zip(found[0], self.origin, strict=True)]
        if min(corner) < 0 or any(x >= n for x, n in zip(corner, self.grid.shape, strict=False)):
            return None
        cell = (*(x // size for x, size in zip(corner, self.grid.cell_shape, strict=False)), 0)
        return cell if self.key(cell) == key else None


class MortonKeys(NamedTuple):
    """Identifiers of chunks in a sharded volume, as keys of a `ShardedStore`: compressed Morton codes."""

    n_cells: tuple[int, int, int]

    @property
    def prefix(self) -> str:
        """Empty: the store has only chunks."""
        return ""

    @property
    def inner(self) -> int:
        """1: keys don't name channels."""
        return 1

    @property
    def scalar(self) -> str:
        """Empty, like the prefix."""
        return ""

    def under(self, path: str) -> MortonKeys:
        """Return the keys unchanged: they belong to a separate store, wherever that is."""
        return self

    def _bits(self) -> Iterator[tuple[int, int]]:
        """Yield the dimension, and the bit of the cell's number in it, for each bit of the code."""
        widths = [(n - 1).bit_length() if n else 0 for n in self.n_cells]
        for bit in range(max(widths)):
            for dim in range(3):
                if bit < widths[dim]:
                    yield dim, bit

    def code(self, cell: Sequence[int]) -> int:
        """Return the compressed Morton code of a cell."""
        return sum((cell[dim] >> bit & 1) << at for at, (dim, bit) in enumerate(self._bits()))

    def shard_shape(self, n_bits: int) -> tuple[int, int, int]:
        """Return the extent, in cells, of a block whose codes differ only in the lowest `n_bits`."""
        sizes = [1, 1, 1]
        for _, (dim, _) in zip(range(n_bits), self._bits(), strict=False):
            sizes[dim] *= 2
        x, y, z = map(min, sizes, self.n_cells)
        return x, y, z

    @property
    def n_bits(self) -> int:
        """Length of the codes, in bits."""
        return sum(1 for _ in self._bits())

    def key(self, cell: Sequence[int]) -> str:
        """Return the key of one cell."""
        return chunk_key(self.code(cell))

    def keys(self, cells: Sequence[Sequence[int]]) -> Iterator[str]:
        """Yield the keys of all cells in the product of `cells`, last dimension fastest."""
        return map(self.key, product(*cells))

    def cell(self, key: str, rank: int) -> tuple[int, ...] | None:
        """Return the cell that is stored under `key`; None if it is outside the volume."""
        code = int.from_bytes(encode_key(key), "big")
        cell = [0, 0, 0]
        for at, (dim, bit) in enumerate(self._bits()):
            cell[dim] |= (code >> at & 1) << bit
        inside = all(number < n for number, n in zip(cell, self.n_cells, strict=True))
        return (*cell, 0) if inside and self.code(cell) == code else None
