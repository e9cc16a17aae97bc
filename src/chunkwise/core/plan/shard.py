"""Inner chunks grouped by the shard that holds them.

A plan on the grid of inner chunks is cut along each connected set into groups that share an outer cell.
The product of the groups is the touched shards, and each holds the product of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.core.chunk_key.key_encoding import KeyEncoding
from chunkwise.core.plan.axis import PlanAxis
from chunkwise.core.plan.plan import keys, split

__all__ = ["ShardAxis", "ShardRequest", "plan_shards", "shard_requests", "split_shards"]


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
