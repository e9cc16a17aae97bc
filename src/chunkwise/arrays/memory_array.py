"""An open array over a NumPy array, whose memory it shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.arrays.protocol import ResizeRequest, StorageStatistics, WrapStore
from chunkwise.driver.array.spec import ArraySpec
from chunkwise.dtypes.data_type import DataType
from chunkwise.engine.combine import WriteFutures
from chunkwise.engine.future import Future
from chunkwise.engine.ndarray_copy import read_ndarray, write_ndarray
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.index_space import IndexDomain, IndexTransform, OutputIndexMap, resolve_bounds
from chunkwise.plan.ndarray_view import strided_view
from chunkwise.spec.chunk_layout import ChunkLayout
from chunkwise.spec.schema import Schema

__all__ = ["MemoryArray", "open_memory_array"]


class MemoryArray:
    """An array in memory, that of a bound spec."""

    __slots__ = ("_array", "_domain", "_spec", "readable", "writable")

    def __init__(self, spec: ArraySpec, *, writable: bool, readable: bool = True) -> None:
        self._spec = spec
        self._array = spec.array
        self._domain = spec.domain
        self.readable = readable
        self.writable = writable

    @property
    def dtype(self) -> DataType:
        """Type of the elements."""
        return self._spec.element_type

    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements."""
        return self._array.dtype

    @property
    def elements(self) -> npt.NDArray[Any]:
        """The elements, in the memory that they are in."""
        return self._array

    @property
    def domain(self) -> IndexDomain:
        """Domain, which does not change."""
        return self._domain

    def bounded(self, transform: IndexTransform) -> IndexTransform:
        """Return `transform` with implicit bounds resolved; raise if it leads out of the array."""
        return resolve_bounds(transform, self._domain)

    def read_into(self, transform: IndexTransform, out: npt.NDArray[Any]) -> Future[npt.NDArray[Any]]:
        """Fill `out` with what `transform`, which is bounded, selects; the future gives `out`."""
        read_ndarray(self._array, transform, out)
        return Future.ready(out)

    def write_from(self, transform: IndexTransform, source: npt.NDArray[Any]) -> WriteFutures:
        """Write `source` where `transform`, which is bounded, says."""
        if np.may_share_memory(source, self._array):
            source = source.copy()
        write_ndarray(self._array, transform, source)
        done: Future[None] = Future.ready(None)
        return WriteFutures.of(done, done)

    def resolve(self) -> Future[IndexDomain]:
        """Return the domain."""
        return Future.ready(self._domain)

    def resize(self, request: ResizeRequest) -> Future[IndexDomain]:
        """Fail: the memory is the caller's."""
        return Future.failed(UnsupportedError("Resize not supported"))

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
        """Return a spec with all elements."""
        return self.view_spec(IndexTransform.identity(self._domain))[0]

    def view_spec(self, transform: IndexTransform) -> tuple[ArraySpec, IndexTransform]:
        """Return a spec with the elements of a view, repeated ones once, and the transform to them."""
        transform = self.bounded(transform)
        shape, origin = transform.input_shape, transform.input_inclusive_min
        domain = transform.domain
        if any(not dim.finite for dim in domain):
            raise InvalidArgumentError(f"A spec of an array requires a finite domain, got {domain}")
        view = None if 0 in shape else strided_view(self._array, transform)
        if view is None:
            view = np.empty(shape, self._array.dtype)
            read_ndarray(self._array, transform, view)
        kept = [d for d, n in enumerate(shape) if n == 0 or (n != 1 and view.strides[d] != 0)]
        if 0 in shape:
            # Nested lists say no more than this of an array without elements.
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

    def count_stored(self, transform: IndexTransform) -> Future[StorageStatistics]:
        """Count the array as one chunk, which is stored."""
        n = 0 if 0 in self.bounded(transform).input_shape else 1
        return Future.ready(StorageStatistics(n, n))


def open_memory_array(
    spec: ArraySpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None
) -> MemoryArray:
    """Open a copy of the elements of a bound spec, so that the spec stays what it is."""
    if wrap is not None:
        raise UnsupportedError('"array" driver does not support transactions')
    spec.check()
    own = ArraySpec(
        schema=spec.schema, context=spec.context, resources=spec.resources, array=np.array(spec.array)
    )
    return MemoryArray(own, writable=writable, readable=readable)
