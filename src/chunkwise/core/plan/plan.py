"""A read or a write as a value: chunks or shards, the selection in each, its position in the caller's array.

A plan on the grid of inner chunks is cut along each connected set into groups that share an outer cell.
The product of the groups is the touched shards, and each holds the product of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain, pairwise, product
from math import prod
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from chunkwise.core.chunk_key import KeyEncoding
from chunkwise.core.grid import ChunkGrid
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.plan.partition import Layout, PlanAxis, Transform, in_storage_order, is_indexed, partition

__all__ = [
    "Plan",
    "ShardAxis",
    "ShardRequest",
    "cells",
    "extents",
    "keys",
    "place_in_chunk",
    "plan_read",
    "plan_shards",
    "plan_write",
    "selections",
    "shard_requests",
    "split",
    "split_shards",
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


class ShardAxis(NamedTuple):
    """A connected set cut into groups of entries that share an outer cell: parallel tuples."""

    dims: tuple[int, ...]  # storage dimensions of the set
    cells: tuple[tuple[int, ...], ...]  # for each of `dims`, the outer cell of each group
    parts: tuple[PlanAxis, ...]  # the entries of each group
    # for each group, the amount that each entry adds to the inner chunk's position in the index
    offsets: tuple[npt.NDArray[np.int64], ...]

    @property
    def n_entries(self) -> int:
        """Number of groups."""
        return len(self.parts)

    def take(self, entries: slice) -> ShardAxis:
        """Return the set with some of its groups only."""
        return ShardAxis(
            self.dims,
            tuple(along[entries] for along in self.cells),
            self.parts[entries],
            self.offsets[entries],
        )


class ShardRequest(NamedTuple):
    """The inner chunks of one shard that a request touches."""

    key: str  # of the shard
    axes: tuple[PlanAxis, ...]  # the connected sets; their product is the touched inner chunks
    offsets: tuple[npt.NDArray[np.int64], ...]  # parallel to `axes`; see `ShardAxis`

    def positions(self) -> npt.NDArray[np.int64]:
        """Position of each touched inner chunk in the shard's index, in the order of the plan."""
        added: Any = reduce(np.add.outer, self.offsets, np.zeros((), np.int64))
        return np.asarray(added, np.int64).reshape(-1)


def plan_shards(axes: tuple[PlanAxis, ...], chunks_per_shard: tuple[int, ...]) -> tuple[ShardAxis, ...]:
    """Group the inner chunks of a plan on their grid by shard."""
    strides = [1] * len(chunks_per_shard)
    for dim in range(len(strides) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * chunks_per_shard[dim + 1]
    return tuple(_group(axis, chunks_per_shard, strides) for axis in axes)


def shard_requests(axes: tuple[ShardAxis, ...], encoding: KeyEncoding) -> Iterator[ShardRequest]:
    """Yield each touched shard once."""
    parts = product(*[axis.parts for axis in axes])
    offsets = product(*[axis.offsets for axis in axes])
    return map(ShardRequest, keys(axes, encoding), parts, offsets)


class _Inside(NamedTuple):
    """A connected set of one shard, to be cut between its inner chunks."""

    axis: ShardAxis

    @property
    def n_entries(self) -> int:
        return self.axis.parts[0].n_entries

    def take(self, entries: slice) -> _Inside:
        part, offsets = self.axis.parts[0], self.axis.offsets[0]
        return _Inside(self.axis._replace(parts=(part.take(entries),), offsets=(offsets[entries],)))


def split_shards(axes: tuple[ShardAxis, ...], n_parts: int) -> list[tuple[ShardAxis, ...]]:
    """Cut a product of sets into about `n_parts`, between shards or, if those are too few, inside them."""
    parts = split(axes, n_parts)
    n_inside = -(-n_parts // len(parts)) if parts else 1
    if n_inside == 1 or any(axis.n_entries > 1 for part in parts for axis in part):
        return parts
    return [
        tuple(inside.axis for inside in piece)
        for part in parts
        for piece in split(tuple(map(_Inside, part)), n_inside)
    ]


def _group(axis: PlanAxis, counts: tuple[int, ...], strides: list[int]) -> ShardAxis:
    dims = axis.dims
    if len(dims) == 1:
        count, stride, (cells,) = counts[dims[0]], strides[dims[0]], axis.cells
        along = [cell // count for cell in cells]
        added = np.array([cell % count * stride for cell in cells], np.int64)
        if along and along[0] == along[-1]:  # ascending, so that all are in one shard
            return ShardAxis(dims, ((along[0],),), (axis,), (added,))
        outer = [along]
    else:
        added, outer = np.zeros(axis.n_entries, np.int64), []
        for dim, cells in zip(dims, axis.cells, strict=True):
            inner_cells = np.array(cells, np.int64)
            added += inner_cells % counts[dim] * strides[dim]
            outer.append((inner_cells // counts[dim]).tolist())
    groups: dict[tuple[int, ...], list[int]] = {}
    for entry, cell in enumerate(zip(*outer, strict=True)):
        groups.setdefault(cell, []).append(entry)
    parts, offsets = [], []
    for entries in groups.values():
        if entries[-1] - entries[0] == len(entries) - 1:
            together = slice(entries[0], entries[-1] + 1)
            parts.append(axis.take(together))
            offsets.append(added[together])
        else:
            parts.append(_pick(axis, entries))
            offsets.append(added[entries])
    shards: tuple[tuple[int, ...], ...] = tuple(zip(*groups, strict=True)) if groups else ((),) * len(dims)
    return ShardAxis(dims, shards, tuple(parts), tuple(offsets))


def _pick(axis: PlanAxis, entries: list[int]) -> PlanAxis:
    pick = [axis.take(slice(entry, entry + 1)) for entry in entries]
    return PlanAxis(
        axis.dims,
        tuple(tuple(p.cells[d][0] for p in pick) for d in range(len(axis.dims))),
        tuple(tuple(p.extents[d][0] for p in pick) for d in range(len(axis.dims))),
        tuple(p.chunk[0] for p in pick),
        tuple(p.out[0] for p in pick),
        tuple(p.whole[0] for p in pick),
        axis.indexed,
    )
