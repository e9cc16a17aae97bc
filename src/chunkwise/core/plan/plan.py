"""A read or a write as a value: chunks, the selection in each, and its position in the caller's array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, product
from math import prod
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from chunkwise.core.chunk_key.key_encoding import KeyEncoding
from chunkwise.core.grid.regular import ChunkGrid
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.plan.axis import PlanAxis, is_indexed
from chunkwise.core.plan.partition import Layout, Transform, in_storage_order, partition

__all__ = [
    "Plan",
    "cells",
    "extents",
    "keys",
    "place_in_chunk",
    "plan_read",
    "plan_write",
    "selections",
    "split",
    "wholes",
]


class Plan(NamedTuple):
    """A read or a write that is yet to be done."""

    # the connected sets; their product, last fastest, gives each touched chunk once
    axes: tuple[PlanAxis, ...]
    layout: Layout

    @property
    def n_chunks(self) -> int:
        """Number of touched chunks."""
        return prod([len(axis.whole) for axis in self.axes])

    def keys(self, encoding: KeyEncoding) -> Iterator[str]:
        """Yield the keys of the touched chunks."""
        return keys(self.axes, encoding)

    def cells(self) -> Iterator[tuple[int, ...]]:
        """Yield the cells of the touched chunks, in the order of `keys`."""
        return cells(self.axes)


def plan_read(transform: Transform, grid: ChunkGrid) -> Plan:
    """Plan a read; a chunk is whole if it can be decoded straight into the result."""
    # Sets of one dimension each are in storage order, so that adjacent data is read together.
    return Plan(*in_storage_order(*partition(transform, grid, check_cover=False)))


def plan_write(transform: Transform, grid: ChunkGrid) -> Plan:
    """Plan a write; a chunk is whole if all its elements are overwritten, even those beyond the array."""
    return Plan(*partition(transform, grid, check_cover=True))


class _Cells(Protocol):
    """A grid of chunks or of shards, as far as keys need it."""

    @property
    def dims(self) -> tuple[int, ...]: ...
    @property
    def cells(self) -> tuple[tuple[int, ...], ...]: ...


def keys(axes: Sequence[_Cells], encoding: KeyEncoding) -> Iterator[str]:
    """Yield the key of each cell in the product of `axes`."""
    if _in_storage_order(axes):
        return encoding.keys([axis.cells[0] for axis in axes])
    if encoding.inner:
        return map(encoding.key, cells(axes))
    numbers = [tuple(map(str, along)) for axis in axes for along in axis.cells]
    join, prefix = encoding.separator.join, encoding.prefix
    return (prefix + join(cell) for cell in _reordered(axes, numbers))


def cells(axes: Sequence[_Cells]) -> Iterator[tuple[int, ...]]:
    """Yield each cell in the product of `axes`, in the order of `keys`."""
    if _in_storage_order(axes):
        return product(*[axis.cells[0] for axis in axes])
    return _reordered(axes, [along for axis in axes for along in axis.cells])


def extents(axes: Sequence[PlanAxis]) -> Iterator[tuple[int, ...]]:
    """Yield the shape of each cell in the product of `axes`, in the order of `keys`."""
    if _in_storage_order(axes):
        return product(*[axis.extents[0] for axis in axes])
    return _reordered(axes, [along for axis in axes for along in axis.extents])


def wholes(axes: Sequence[PlanAxis]) -> Iterator[bool]:
    """Yield whether each chunk is whole, in the order of `keys`."""
    return map(all, product(*[axis.whole for axis in axes]))


def selections(axes: Sequence[PlanAxis]) -> tuple[Iterator[tuple[Any, ...]], Iterator[tuple[Any, ...]]]:
    """Return iterators over the selections inside the chunks and inside the result."""
    # Each selection is a tuple that indexes an array, with index arrays and slices at equal positions in
    # both.  A trailing Ellipsis makes slices give a view even at rank 0.  With index arrays, the axes of the
    # chunk must first be put in the order of the sets: ``chunk.transpose(chunk_order(axes))``.
    if not is_indexed(axes):
        end = (...,)
        return product(*[axis.chunk for axis in axes], end), product(*[axis.out for axis in axes], end)
    return _flat([_tuples(axis, axis.chunk) for axis in axes]), _flat(
        [_tuples(axis, axis.out) for axis in axes]
    )


def chunk_order(axes: Sequence[_Cells]) -> tuple[int, ...]:
    """Return the storage dimensions in the order in which the selections of a plan name them."""
    return tuple([dim for axis in axes for dim in axis.dims])


def _tuples(axis: PlanAxis, selectors: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return list(selectors) if axis.indexed else [(selector,) for selector in selectors]


def _flat(parts: list[list[tuple[Any, ...]]]) -> Iterator[tuple[Any, ...]]:
    if len(parts) == 1:
        return iter(parts[0])
    return map(tuple, map(chain.from_iterable, product(*parts)))


def _in_storage_order(axes: Sequence[_Cells]) -> bool:
    return chunk_order(axes) == tuple(range(len(axes)))


def _reordered(axes: Sequence[_Cells], along: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield tuples of the product of sets in storage order; `along` has one entry for each dimension."""
    dims = chunk_order(axes)
    if not dims:  # an empty plan
        return iter(())
    if len(axes) == 1:
        return zip(*along, strict=True)
    rest = iter(along)
    grouped = [list(zip(*[next(rest) for _ in axis.dims], strict=True)) for axis in axes]
    pick = itemgetter(*sorted(range(len(dims)), key=dims.__getitem__))
    flat = map(tuple, map(chain.from_iterable, product(*grouped)))
    return map(pick, flat) if len(dims) > 1 else flat


def place_in_chunk(
    transform: IndexTransform, shape: tuple[int, ...], chunk_shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[Any, ...]] | None:
    """Return the one chunk of a request, and the selection inside it; None for any other request."""
    # The request must touch one chunk, with integers and slices without a step in the order of the
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


class _Axis(Protocol):
    @property
    def n_entries(self) -> int: ...
    def take(self, entries: slice) -> Self: ...


A = TypeVar("A", bound=_Axis)


def split(axes: tuple[A, ...], n_parts: int) -> list[tuple[A, ...]]:
    """Cut a product of sets into about `n_parts` products of similar size."""
    # The slowest set is cut first, so that a part is contiguous in the order of the plan.
    if 0 in [axis.n_entries for axis in axes]:
        return []
    if n_parts <= 1 or not axes:
        return [axes]
    head, tail = axes[0], axes[1:]
    n = head.n_entries
    if n == 1:
        return [(head, *rest) for rest in split(tail, n_parts)]
    if n >= n_parts:
        n_parts = -(-n // (n // n_parts))  # better too many parts than some of twice the size
        cuts = [n * i // n_parts for i in range(n_parts + 1)]
        return [(head.take(slice(a, b)), *tail) for a, b in pairwise(cuts)]
    inner: list[Any] = split(tail, -(-n_parts // n))
    return [(head.take(slice(i, i + 1)), *rest) for i in range(n) for rest in inner]
