"""An open array over a NumPy array, whose memory it shares.

Without index arrays, a read or write is one assignment between views.  With them it is done in blocks of
points, so that NumPy's temporary copies stay small.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.arrays.protocol import FixedArray, StorageStatistics, WrapStore
from chunkwise.core.arrays.resources import pool_under
from chunkwise.core.driver.in_memory import ArraySpec
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.derived_futures import WriteFutures
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool
from chunkwise.core.index_space import IndexTransform, OutputIndexMap, marked_like
from chunkwise.core.index_space.bounds import check_unread
from chunkwise.core.plan.ndarray_view import PointView, point_view, strided_view
from chunkwise.core.plan.partition import Transform, repeat_first
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import InvalidArgumentError, UnsupportedError

__all__ = ["MemoryArray", "open_memory_array", "read_ndarray", "write_ndarray"]

# Bytes of points to copy at a time: 3,000,000 points of int32 take 62 ms of processor time with 64 KiB, 43 ms
# with 1 MiB, 41 ms with 64 MiB.
_BLOCK_NBYTES = 2**20


class MemoryArray(FixedArray):
    """An array in memory, from a bound spec."""

    __slots__ = ("_array", "_spec")

    def __init__(self, spec: ArraySpec, *, writable: bool, readable: bool = True) -> None:
        self._spec = spec
        self._array = spec.array
        self._domain = spec.domain
        self.readable = readable
        self.writable = writable

    def bounded(self, transform: IndexTransform) -> IndexTransform:
        """Return `transform` with current implicit bounds; raise if it leads outside, even if it is empty."""
        out = super().bounded(transform)
        if 0 in out.input_shape:
            check_unread(out, self._domain)
        return out

    @property
    def in_memory(self) -> bool:
        """True: reading uses no store."""
        return True

    @property
    def dtype(self) -> DataType:
        """Type of the elements."""
        return self._spec.element_type

    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements."""
        return self._array.dtype

    @property
    def pool(self) -> Pool:
        """The threads of views that convert or reduce elements."""
        return pool_under(self._spec)

    @property
    def elements(self) -> npt.NDArray[Any]:
        """The elements, in place."""
        return self._array

    def read_into(self, transform: IndexTransform, out: npt.NDArray[Any]) -> Future[npt.NDArray[Any]]:
        """Fill `out` with the selection of a bounded `transform`; return a future of `out`."""
        read_ndarray(self._array, transform, out)
        return Future.ready(out)

    def write_from(self, transform: IndexTransform, source: npt.NDArray[Any]) -> WriteFutures:
        """Write `source` to the selection of a bounded `transform`."""
        if np.may_share_memory(source, self._array):
            source = source.copy()
        write_ndarray(self._array, transform, source)
        done: Future[None] = Future.ready(None)
        return WriteFutures.of(done, done)

    def schema(self) -> Schema:
        """Type, domain, units, and the order of the dimensions in memory."""
        rank = self._array.ndim
        order = sorted(range(rank), key=lambda d: -abs(self._array.strides[d]))
        layout = ChunkLayout(grid_origin=[0] * rank, inner_order=order)
        out = Schema(dtype=self.dtype, domain=self._domain, chunk_layout=layout)
        units = self._spec.effective_schema().dimension_units
        if units is not None and any(unit is not None for unit in units):
            out.update(dimension_units=units)
        return out

    def spec(self) -> ArraySpec:
        """Return the spec, with the array's own elements; `view_spec` copies them."""
        return self._spec

    def view_spec(self, transform: IndexTransform) -> tuple[ArraySpec, IndexTransform]:
        """Return a spec with the elements of a view, without repetitions, and the transform to them."""
        seen, transform = transform, self.bounded(transform)
        shape, origin = transform.input_shape, transform.input_inclusive_min
        domain = marked_like(transform, seen).domain
        if any(not dim.finite for dim in domain):
            raise InvalidArgumentError(f"A spec of an array requires a finite domain, got {domain}")
        view = None if 0 in shape else strided_view(self._array, transform)
        if view is None:
            view = np.empty(shape, self._array.dtype)
            read_ndarray(self._array, transform, view)
        kept = [d for d, n in enumerate(shape) if n == 0 or (n != 1 and view.strides[d] != 0)]
        if 0 in shape:
            # Nested lists express no more than this for an array without elements.
            kept = [d for d in kept if d <= shape.index(0)]
            once = np.empty([shape[d] for d in kept], view.dtype)
        else:
            once = view[(*(slice(None) if d in kept else 0 for d in range(view.ndim)), ...)]
        output = [OutputIndexMap(input_dimension=d, offset=-origin[d], stride=1) for d in kept]
        units = Schema.transformed(self._spec.effective_schema(), transform).dimension_units or ()
        schema = Schema(dtype=self.dtype, rank=len(kept))
        if any(units[d] is not None for d in kept):
            schema.update(dimension_units=[units[d] for d in kept])
        spec = ArraySpec(
            schema=schema,
            context=self._spec.context,
            resources=self._spec.resources,
            array=np.array(once),
        )
        return spec, IndexTransform(domain, output)

    def count_stored(self, transform: IndexTransform, most: int | None = None) -> Future[StorageStatistics]:
        """Count the array as one chunk, which is stored."""
        n = 0 if 0 in self.bounded(transform).input_shape else 1
        return Future.ready(StorageStatistics(n, n))


def open_memory_array(
    spec: ArraySpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None
) -> MemoryArray:
    """Open a copy of the elements of a bound spec, so that the spec stays unchanged."""
    if wrap is not None:
        raise UnsupportedError('"array" driver does not support transactions')
    spec.check()
    own = ArraySpec(
        schema=spec.schema, context=spec.context, resources=spec.resources, array=np.array(spec.array)
    )
    return MemoryArray(own, writable=writable, readable=readable)


def read_ndarray(source: npt.NDArray[Any], transform: Transform, out: npt.NDArray[Any]) -> None:
    """Fill `out` with the selection of `transform` in `source`."""
    # It takes at most 1 MiB besides the coordinates of points.  The first element of `source` has index 0.
    if 0 in transform.input_shape:
        return
    view = strided_view(source, transform)
    if view is not None:
        out[...] = view
        return
    selection = point_view(source, transform)
    target = _in_order(out, selection, first=True)
    for block in _blocks(selection):
        target[block] = selection.view[_at(selection, block)]
    repeat_first(out, selection.unused)


def write_ndarray(target: npt.NDArray[Any], transform: Transform, source: npt.NDArray[Any]) -> None:
    """Store `source` in the elements of `target` that `transform` selects."""
    # If there are several values for one element, the last, in C order of the domain, stays.  It takes at
    # most 1 MiB besides the coordinates of points.  The first element of `target` has index 0.
    if 0 in transform.input_shape:
        return
    view = strided_view(target, transform)
    if view is not None:
        # An input that nothing depends on has a stride of 0 in `view`: its last value stays.
        used = {m.input_dimension for m in transform.output}
        last = tuple(slice(None) if d in used else slice(-1, None) for d in range(source.ndim))
        view[last] = source[last]
        return
    selection = point_view(target, transform)
    values = _in_order(source, selection, first=False)
    n_points = len(selection.inputs)
    for block in _blocks(selection):
        part = values[(*block, ...)]
        # A single dimension of points, since NumPy's order of assignment is certain only there.
        at = tuple(
            np.broadcast_to(points[_broadcast(points, block)], part.shape[:n_points]).reshape(-1)
            for points in selection.points
        )
        selection.view[at] = part.reshape(-1, *part.shape[n_points:])


def _in_order(array: npt.NDArray[Any], selection: PointView, *, first: bool) -> npt.NDArray[Any]:
    """Return `array` with the dimensions of the points first, and one index of unused dimensions."""
    end = 0 if first else -1
    index = tuple(end if d in selection.unused else slice(None) for d in range(array.ndim))
    kept = [d for d in range(array.ndim) if d not in selection.unused]
    order = [kept.index(d) for d in (*selection.inputs, *selection.rest)]
    ordered: npt.NDArray[Any] = array[(*index, ...)].transpose(order)
    return ordered


def _blocks(selection: PointView) -> Iterator[tuple[Any, ...]]:
    """Yield slices that together cover the dimensions of the points, in C order."""
    shape = np.broadcast_shapes(*[p.shape for p in selection.points])
    view = selection.view
    point_nbytes = view.itemsize * prod(view.shape[len(selection.points) :]) + 8 * len(selection.points)
    yield from _cut(shape, max(1, _BLOCK_NBYTES // max(1, point_nbytes)))


def _cut(shape: tuple[int, ...], n: int) -> Iterator[tuple[slice, ...]]:
    if not shape:
        yield ()
        return
    rest = prod(shape[1:])
    step = n // rest if rest else shape[0]
    if step:
        for start in range(0, shape[0], step):
            yield (slice(start, min(start + step, shape[0])), *[slice(None)] * (len(shape) - 1))
        return
    for i in range(shape[0]):
        for inner in _cut(shape[1:], n):
            yield (slice(i, i + 1), *inner)


def _at(selection: PointView, block: tuple[slice, ...]) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(points[_broadcast(points, block)] for points in selection.points)


def _broadcast(points: npt.NDArray[np.int64], block: tuple[slice, ...]) -> tuple[slice, ...]:
    """Return `block` for an array with an extent of 1 in some of its dimensions."""
    return tuple(slice(None) if n == 1 else s for n, s in zip(points.shape, block, strict=True))
