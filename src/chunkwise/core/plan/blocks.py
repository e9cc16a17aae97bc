"""Dividing an array into blocks that begin and end at chunk boundaries.

1. Along each dimension the unit is the write chunk.
2. The block grows by whole units, one dimension after the other, up to the desired size; first until it holds
   whole chunks of the source, so that none is decoded more often than necessary.
3. The blocks cover the domain in C order, the last dimension fastest.

`boxes` divides a box that is processed piece by piece in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from chunkwise.core.index_space import IndexDomain

__all__ = ["Blocks", "block_shape", "boxes"]


def block_shape(
    shape: Sequence[int],
    unit: Sequence[int],
    source_chunk: Sequence[int],
    itemsize: int,
    largest_nbytes: int,
) -> tuple[int, ...]:
    """Choose the shape of blocks, in elements.

    Parameters
    ----------
    shape : sequence of int
        Shape of the whole.
    unit : sequence of int
        Write chunk of the target; block shapes are multiples of it.
    source_chunk : sequence of int
        Chunk of the source; block shapes are multiples of it too, if possible.
    itemsize : int
        Size of an element, in bytes.
    largest_nbytes : int
        Largest size of a block, unless a single unit is larger.

    Examples
    --------
    >>> block_shape((1000, 1000), (10, 10), (100, 1), 1, 1000)
    (100, 10)
    >>> block_shape((1000, 1000), (64, 64), (1, 1), 1, 1)
    (64, 64)
    """
    limits = [max(1, size) for size in shape]
    block = [min(u, limit) for u, limit in zip(unit, limits, strict=True)]

    def fits(candidate: list[int]) -> bool:
        return prod(candidate) * itemsize <= largest_nbytes

    def grow(dim: int, size: int) -> bool:
        size = min(-(-size // unit[dim]) * unit[dim], limits[dim])
        candidate = [*block[:dim], size, *block[dim + 1 :]]
        if size > block[dim] and fits(candidate):
            block[:] = candidate
            return True
        return False

    # Otherwise source chunks larger than the unit would each be read several times.
    for dim in sorted(range(len(block)), key=lambda d: -(source_chunk[d] / block[d])):
        if source_chunk[dim] > block[dim] and not grow(dim, source_chunk[dim]):
            room = largest_nbytes // max(1, prod(block) * itemsize // block[dim])
            grow(dim, room // unit[dim] * unit[dim])
    growing = True
    while growing:
        growing = False
        for dim in reversed(range(len(block))):
            growing = grow(dim, 2 * block[dim]) or growing
    return tuple(block)


class Blocks(NamedTuple):
    """A division of a domain.

    Attributes
    ----------
    domain : IndexDomain
        Finite.
    origin : tuple of int
        An index at which a block begins, inside the domain or not.
    shape : tuple of int
        Shape of a block, in elements; blocks at the edges are smaller.
    """

    domain: IndexDomain
    origin: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return prod(n for _, n in self._along())

    def block(self, number: int) -> IndexDomain:
        """Return the domain of a block; the last dimension varies fastest."""
        low, high = [], []
        domain = self.domain
        along = self._along()
        for dim in reversed(range(len(along))):
            first, n = along[dim]
            number, cell = divmod(number, n)
            start = self.origin[dim] + (first + cell) * self.shape[dim]
            low.append(max(domain.inclusive_min[dim], start))
            high.append(min(domain.exclusive_max[dim], start + self.shape[dim]))
        # Without labels, it selects the same elements of every array that is divided this way.
        return IndexDomain(inclusive_min=low[::-1], exclusive_max=high[::-1])

    def domains(self) -> Iterator[IndexDomain]:
        """Yield the domain of each block, in the order of their numbers."""
        return map(self.block, range(self.n_blocks))

    def _along(self) -> list[tuple[int, int]]:
        """Return the first block along each dimension, counted from the origin, and the number of blocks."""
        return [
            ((lo - at) // size, -(-(hi - at) // size) - (lo - at) // size if hi > lo else 0)
            for lo, hi, at, size in zip(
                self.domain.inclusive_min, self.domain.exclusive_max, self.origin, self.shape, strict=True
            )
        ]


def boxes(
    lower: Sequence[int], upper: Sequence[int], unit: Sequence[int], n_elements: int
) -> Iterator[tuple[slice, ...]]:
    """Yield slices that make up ``[lower, upper)``, in C order, cut at multiples of `unit`."""
    # A dimension is cut only if all before it are cut into single units, so with units of 1 the boxes are
    # runs in C order.  A box has at most `n_elements` elements, unless a unit has more.
    sizes = [hi - lo for lo, hi in zip(lower, upper, strict=True)]
    if 0 in sizes:
        return iter(())
    lengths = [min(u, max(1, n)) for u, n in zip(unit, sizes, strict=True)]
    total = 1
    for n in lengths:
        total *= n
    for d in reversed(range(len(sizes))):
        n = min(max(1, n_elements // total), -(-sizes[d] // lengths[d]))
        lengths[d] *= n
        total *= n
    return product(*[_cuts(lo, hi, n) for lo, hi, n in zip(lower, upper, lengths, strict=True)])


def _cuts(lower: int, upper: int, length: int) -> Iterator[slice]:
    if lower < upper <= lower + length:  # even between multiples: a dimension before it may be cut
        yield slice(lower, upper)
        return
    while lower < upper:
        stop = min((lower // length + 1) * length, upper)
        yield slice(lower, stop)
        lower = stop
