"""Targets of decoding chunks: the result itself, or staging memory that is copied to it.

A single chunk has a few elements in each of many rows of the result, so copying it keeps waiting for memory.
The rows of several neighbours are longer: with 16³ to 64³ chunks of 512³ uint16, copying them together takes
a third to two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.codec.copying import copy_rows
from chunkwise.core.codec.protocol import PreparedChain
from chunkwise.core.driver.stored_array import StoredField
from chunkwise.core.engine.chunk_codec import CodecLimit, StagingBuffer, chain_for, under
from chunkwise.core.engine.strategy import STAGING_NBYTES
from chunkwise.core.plan.partition import PlanAxis, is_indexed
from chunkwise.core.plan.plan import chunk_order, extents, selections, wholes

__all__ = ["Batch", "Target", "lies_in_one_piece", "selected_runs"]

Array: TypeAlias = "npt.NDArray[Any]"
Selector: TypeAlias = "slice | npt.NDArray[np.int64]"
Run: TypeAlias = "tuple[int, Callable[[Array], None]]"  # a number of neighbours, and their copy function

# Number of chunks in a batch that are decoded directly to their places: one at a time takes a sixth longer
# for 4096 elements of uint16 (11.9 us instead of 10.2), more than 16 make no difference.
_MANY = 64

# Bytes of chunks to decode before copying them to a result that fits into a cache.
_AT_ONCE = 1 << 17

_ALL = slice(None)
# If taking along the first array copies more elements than this for each one wanted, NumPy's indexing is
# faster.  In 256³ chunks of uint16, both take the same time at 64; at 4 NumPy takes two to four times as
# long, at 1024 a fifth (benchmarks/partial.py has the requests).
_MOST_COPIED = 64


class Batch(NamedTuple):
    """Chunks of one shape that are read and put in place together.

    Attributes
    ----------
    names : sequence
        The source's name of each: a key, or a position in the shard.
    memory : StagingBuffer
        Decodes them.
    slots : sequence of ndarray or None
        Destination of each, if that is the result itself; otherwise each has a slot of the memory.
    copy_out : callable or None
        ``copy_out(elements)`` copies the selection of the chunks, which are along the first axis, to the
        result; None if they already are there.
    """

    names: Sequence[Any]
    memory: StagingBuffer
    slots: Sequence[Array] | None
    copy_out: Callable[[Array], None] | None


class Target:
    """The result of a read, for one worker."""

    # `view` is the result in plan order.  Chunks are staged only if the grid is regular and all have one
    # shape.  With `together`, a batch is as many chunks as are staged, otherwise one row of neighbours.
    # Memory in `memories` is reused, and new memory is added there.

    def __init__(
        self,
        chain: PreparedChain,
        view: Array,
        *,
        staged: bool,
        regular: bool,
        field: StoredField | None = None,
        limit: CodecLimit = None,
        together: bool = False,
        memories: dict[tuple[int, ...], StagingBuffer] | None = None,
    ) -> None:
        self._chain = chain
        self._view = view
        self._field = field
        self._limit = limit
        self._regular = regular
        self._together = together
        self._capacity = max(1, STAGING_NBYTES // max(1, chain.item.nbytes)) if staged and regular else 1
        self._in_cache = regular and staged and view.nbytes <= STAGING_NBYTES
        self._n_inner = 0 if field is None else len(field.shape)
        self._memories = {} if memories is None else memories

    def batches(self, axes: tuple[PlanAxis, ...], names: Iterable[Any]) -> Iterator[Batch]:
        """Yield the chunks of a product of connected sets; `names` are in plan order."""
        # A batch must be read and copied out before the next one is taken.
        rest, view = iter(names), self._view
        indexed = is_indexed(axes)
        in_place = self._field is None and not indexed
        single = None if indexed or not self._regular else _single_chunk(axes)
        if single is not None:  # as in many shards of a small request
            at, inside, whole = single
            memory = self._memory(self._chain.item.shape, 1)
            if in_place and whole:
                yield Batch(tuple(rest), memory, (view[at],), None)
            else:
                part = partial(_copy_part, view[at], inside)
                yield Batch(tuple(rest), memory, None, under(self._limit, part))
        elif self._in_cache and not indexed and not self._together and axes:
            yield from self._some_parts(axes, rest)
        elif self._capacity > 1:
            most = min(self._capacity, axes[-1].n_entries) if axes else 1
            n_staged = most
            if self._together:
                n_staged = min(self._capacity, prod(axis.n_entries for axis in axes))
            memory = self._memory(self._chain.item.shape, n_staged)
            for runs in _some_runs(selected_runs(axes, view, most), n_staged):
                copy = runs[0][1] if len(runs) == 1 else partial(_copy_runs, runs)
                names = list(islice(rest, sum(n for n, _ in runs)))
                yield Batch(names, memory, None, under(self._limit, copy))
        elif in_place and self._regular and False not in [False not in axis.whole for axis in axes]:
            memory, (_, places) = self._memory(self._chain.item.shape, 1), selections(axes)
            while some := list(islice(rest, _MANY)):
                yield Batch(some, memory, [view[at] for at in islice(places, len(some))], None)
        else:
            places = selections(axes)[1]
            for name, extent, at, whole, (_, copy) in zip(
                rest, extents(axes), places, wholes(axes), selected_runs(axes, view), strict=True
            ):
                memory = self._memory(extent[: len(extent) - self._n_inner], 1)
                if whole and in_place:
                    yield Batch((name,), memory, (view[at],), None)
                else:
                    yield Batch((name,), memory, None, under(self._limit, copy))

    def _some_parts(self, axes: tuple[PlanAxis, ...], names: Iterator[Any]) -> Iterator[Batch]:
        """Yield the chunks of a product of slices, each copied separately."""
        view = self._view
        insides, places = selections(axes)
        n = min(self._capacity, _AT_ONCE // max(1, self._chain.item.nbytes), prod(a.n_entries for a in axes))
        n = max(1, n)
        memory = self._memory(self._chain.item.shape, n)
        while some := list(islice(names, n)):
            parts = list(islice(zip(insides, places, strict=True), len(some)))
            yield Batch(some, memory, None, under(self._limit, partial(_copy_parts, view, parts)))

    def _memory(self, shape: tuple[int, ...], n_chunks: int) -> StagingBuffer:
        memory = self._memories.get(shape)
        if memory is None or memory.n_chunks < n_chunks:
            chain = chain_for(self._chain, shape)
            memory = self._memories[shape] = StagingBuffer(chain, n_chunks, self._field, self._limit)
        return memory


def _single_chunk(axes: tuple[PlanAxis, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], bool] | None:
    """Return position, selection and wholeness if slices select from one chunk; otherwise None."""
    at, inside, whole = [], [], True
    for axis in axes:
        if len(axis.whole) != 1:
            return None
        at.append(axis.out[0])
        inside.append(axis.chunk[0])
        whole = whole and axis.whole[0]
    return ((*at, ...), (*inside, ...), whole) if axes else None


def lies_in_one_piece(axes: tuple[PlanAxis, ...], shape: tuple[int, ...], view: Array) -> bool:
    """Return True if each whole chunk of the plan is contiguous in the result's memory."""
    if any(axis.indexed or not all(axis.whole) for axis in axes) or view.ndim != len(shape):
        return False
    stride = view.itemsize
    for size, n, step in zip(reversed(shape), reversed(view.shape), reversed(view.strides), strict=True):
        if size > 1 and step != stride:
            return False
        stride *= size
        if n != size:
            stride = -1
    return True


def selected_runs(axes: tuple[PlanAxis, ...], view: Array, most: int = 1) -> Iterator[Run]:
    """Yield numbers of neighbouring chunks, each with ``copy(chunks)`` for their selection."""
    # A run has at most `most` chunks, all of one shape if there are several.  Neighbours along the last set
    # are copied together, since their selections along the other sets are equal.  Elements are taken along
    # one index array after the other, in memory order: NumPy would process all index arrays at once, with
    # some 10 ns for each element.
    indexed = [axis for axis in axes if axis.indexed]
    if not axes or len(axes) != view.ndim or any(len(x.dims) != 1 or len(x.out[0]) != 1 for x in indexed):
        yield from _one_by_one(axes, view, most)
        return
    if any(map(_repeats, indexed)):
        most = 1  # otherwise elements along one set times chunks along the next could be too many
    target = view.transpose(np.argsort(chunk_order(axes)))
    along = [[_Part(axis.dims[0], *pair) for pair in _parts(axis)] for axis in axes[:-1]]
    dim = axes[-1].dims[0]
    runs = [_run(axes[-1], slice(i, i + most)) for i in range(0, axes[-1].n_entries, most)]
    for others in product(*along):
        for n, pieces in runs:
            yield n, partial(_copy, target, others, dim, pieces)


def _some_runs(runs: Iterable[Run], n_chunks: int) -> Iterator[list[Run]]:
    """Yield groups of runs with at most `n_chunks` chunks together."""
    some: list[Run] = []
    n = 0
    for run in runs:
        if some and n + run[0] > n_chunks:
            yield some
            some, n = [], 0
        some.append(run)
        n += run[0]
    if some:
        yield some


def _copy_part(place: Array, inside: tuple[Any, ...], chunks: Array) -> None:
    """Copy the selection of one chunk."""
    copy_rows(place, chunks[(0, *inside)])


def _copy_parts(view: Array, parts: list[tuple[Any, Any]], chunks: Array) -> None:
    """Copy the selection of each chunk."""
    for chunk, (inside, at) in zip(chunks, parts, strict=True):
        copy_rows(view[at], chunk[inside])


def _copy_runs(runs: list[Run], chunks: Array) -> None:
    """Copy the selection of each run; the runs follow each other along the first axis."""
    first = 0
    for n, copy in runs:
        copy(chunks[first : first + n])
        first += n


class _Part(NamedTuple):
    """The selection of one entry of a set in its chunk along `dim`, and its position in the result."""

    dim: int
    inside: Selector
    place: Selector


class _Piece(NamedTuple):
    """The selection in some chunks of a run along its set."""

    first: int
    stop: int
    inside: Selector  # a slice of each chunk, or indices into their concatenation
    place: Selector


def _repeats(axis: PlanAxis) -> bool:
    """Return True if more elements are selected than the chunk has, since indices repeat."""
    return any(inside.size > extent for (inside,), extent in zip(axis.chunk, axis.extents[0], strict=True))


def _parts(axis: PlanAxis) -> Iterator[tuple[Selector, Selector]]:
    """Yield the selection of each entry of a set and its position; arrays have one dimension."""
    if not axis.indexed:
        yield from zip(axis.chunk, axis.out, strict=True)
        return
    for (inside,), (place,) in zip(axis.chunk, axis.out, strict=True):
        yield inside.reshape(-1), _as_slice(place.reshape(-1))


def _as_slice(places: npt.NDArray[np.int64]) -> Selector:
    """Return ascending positions as a slice if they are consecutive."""
    first, n = int(places[0]), len(places)
    return slice(first, first + n) if int(places[-1]) - first == n - 1 else places


def _run(axis: PlanAxis, entries: slice) -> tuple[int, list[_Piece]]:
    """Return the number of chunks in a run along `axis`, and their selection."""
    chunk, out = axis.chunk[entries], axis.out[entries]
    n = len(chunk)
    if axis.indexed:
        starts = range(0, n * axis.extents[0][0], axis.extents[0][0])
        inside = np.concatenate(
            [start + each.reshape(-1) for start, (each,) in zip(starts, chunk, strict=True)]
        )
        places = np.concatenate([place.reshape(-1) for (place,) in out])
        order = np.argsort(places)
        return n, [_Piece(0, n, inside[order], _as_slice(places[order]))]
    pieces: list[_Piece] = []
    for number, (inside, place) in enumerate(zip(chunk, out, strict=True)):
        before: Any = pieces[-1] if pieces else None
        if before is not None and before.inside == inside and before.place.stop == place.start:
            pieces[-1] = before._replace(stop=number + 1, place=slice(before.place.start, place.stop))
        else:
            pieces.append(_Piece(number, number + 1, inside, place))
    return n, pieces


def _copy(target: Array, others: tuple[_Part, ...], dim: int, pieces: list[_Piece], chunks: Array) -> None:
    """Copy the selection of a run; the axes of `target` are in storage order."""
    if not chunks.flags.c_contiguous and chunks[0].flags.f_contiguous:
        end = target.ndim - 1
        chunks = chunks.transpose(0, *range(end + 1, 0, -1))
        target, dim = target.T, end - dim
        others = tuple(part._replace(dim=end - part.dim) for part in others)
    along = [(1 + part.dim, part.inside) for part in others]
    places: list[Any] = [_ALL] * target.ndim
    for part in others:
        places[part.dim] = part.place
    if len(chunks) == 1:
        ((_, _, inside, places[dim]),) = pieces
        _put(target, places, _select(chunks, [*along, (1 + dim, inside)])[0], dim)
        return
    found = _select(chunks, along)
    for first, stop, inside, places[dim] in pieces:
        some = found[first:stop]
        if type(inside) is slice:
            some = np.moveaxis(some[(*[_ALL] * (1 + dim), inside)], 0, dim)
        else:
            ends = np.moveaxis(some, (0, 1 + dim), (-2, -1))
            joined = np.empty(ends.shape, ends.dtype)
            copy_rows(joined, ends)
            some = np.moveaxis(joined.reshape(*ends.shape[:-2], -1).take(inside, -1), -1, dim)
        _put(target, places, some, dim)


def _select(chunks: Array, along: Sequence[tuple[int, Selector]]) -> Array:
    """Return the selection of chunks along some axes."""
    arrays: list[tuple[int, npt.NDArray[np.int64]]] = []
    rest: list[Any] = [_ALL] * chunks.ndim
    for axis, inside in along:
        if isinstance(inside, slice):
            rest[axis] = inside
        else:
            arrays.append((axis, inside))
    found: Array = chunks[tuple(rest)]
    if not arrays:
        return found
    n_wanted = found.size
    for axis, inside in arrays:
        n_wanted = n_wanted // found.shape[axis] * len(inside)
    axis, inside = arrays[0]
    if found.size // found.shape[axis] * len(inside) > _MOST_COPIED * n_wanted:
        return _pick(found, arrays)
    is_small = found.size * 2 <= chunks.size
    if not is_small:
        found = chunks  # contiguous memory is indexed without a copy first
    for axis, inside in sorted(arrays, key=lambda array: len(array[1]) > chunks.shape[array[0]]):
        found = found.take(inside, axis)
    if not is_small:
        found = found[tuple(rest)]
    return found


def _pick(found: Array, arrays: list[tuple[int, npt.NDArray[np.int64]]]) -> Array:
    """Return the selection by several arrays, each along its axis, in one step."""
    front = [axis for axis, _ in arrays]
    order = front + [axis for axis in range(found.ndim) if axis not in front]
    picked: Array = found.transpose(order)[np.ix_(*[inside for _, inside in arrays])]
    return picked.transpose(np.argsort(order))


def _put(target: Array, places: list[Any], found: Array, dim: int) -> None:
    """Set a part of `target`; in `found`, the number of the chunk may precede the axis `dim`."""
    arrays = [axis for axis, place in enumerate(places) if type(place) is not slice]
    if not arrays:
        copy_rows(target[tuple(places)].reshape(found.shape), found)
        return
    if found.ndim > target.ndim:
        found = found.reshape(*found.shape[:dim], -1, *found.shape[dim + 2 :])
    order = arrays + [axis for axis in range(target.ndim) if axis not in arrays]
    at = (*np.ix_(*[places[axis] for axis in arrays]), *[places[axis] for axis in order[len(arrays) :]])
    target.transpose(order)[at] = found.transpose(order)


def _one_by_one(axes: tuple[PlanAxis, ...], view: Array, most: int) -> Iterator[Run]:
    """Yield runs of single chunks, as for points."""
    order = [1 + dim for dim in chunk_order(axes)]
    selected = zip(*selections(axes), strict=True)
    n_chunks = prod(axis.n_entries for axis in axes)
    for first in range(0, n_chunks, most):
        n = min(most, n_chunks - first)
        yield n, partial(_copy_each, view, order, list(islice(selected, n)))


def _copy_each(view: Array, order: list[int], selected: list[tuple[Any, Any]], chunks: Array) -> None:
    for chunk, (inside, at) in zip(chunks.transpose(0, *order), selected, strict=True):
        view[at] = chunk[inside]
