"""An open array that shows another one with a different data type.

A small request is read or written whole.  A large one is cut into blocks at chunks of the base; each worker
holds one block.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.arrays.base_array import AdapterArray, Base, open_base
from chunkwise.core.arrays.protocol import OpenArray, ResizeRequest, StorageStatistics, WrapStore
from chunkwise.core.arrays.resources import pool_under
from chunkwise.core.driver.adapters import CastSpec, cast_schema
from chunkwise.core.dtypes.conversion import Convert, cast_converters, convertible
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.abandoned_changes import EVERYWHERE
from chunkwise.core.engine.derived_futures import WriteFutures, map_future
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool, Stop
from chunkwise.core.index_space import IndexDomain, IndexTransform, marked_like, resolve_bounds
from chunkwise.core.plan.blocks import boxes
from chunkwise.core.specs.context import ContextSpec
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec
from chunkwise.errors import ChunkwiseError, InvalidArgumentError

__all__ = ["CastArray", "cast_view", "open_cast"]

# Bytes of the base that each worker holds.  The time hardly depends on it: 67 MB of float32 as float64 take
# 44 to 88 ms of processor time with 256 KiB to 256 MiB.
_BLOCK_NBYTES = 8 << 20

Array = npt.NDArray[Any]


class CastArray(AdapterArray):
    """An array viewed with another data type, in the directions in which its elements convert."""

    __slots__ = ("_base", "_context", "_dtype", "_read", "_schema", "_write", "pool", "readable", "writable")

    def __init__(
        self,
        base: Base,
        schema: Schema,
        pool: Pool,
        context: ContextSpec | None,
        *,
        readable: bool,
        writable: bool,
    ) -> None:
        dtype = schema.dtype
        assert dtype is not None
        self._base = base
        self._dtype = dtype
        self._schema = schema  # given in the opened spec
        self._context = context
        self.pool = pool
        self._read, self._write = cast_converters(base.array.dtype, dtype)
        self.readable = readable and base.array.readable and self._read is not None
        self.writable = writable and base.array.writable and self._write is not None

    def in_transaction(self, wrap: WrapStore | None) -> CastArray:
        """Return the array as a transaction sees it, or as it is outside any if None."""
        return CastArray(
            self._base.in_transaction(wrap),
            self._schema,
            self.pool,
            self._context,
            readable=self.readable,
            writable=self.writable,
        )

    @property
    def dtype(self) -> DataType:
        """Type to which elements are converted."""
        return self._dtype

    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements in memory."""
        return self._dtype.memory_dtype

    @property
    def domain(self) -> IndexDomain:
        """Domain of the view, as far as it is known."""
        return self._base.transform.domain

    def base(self, transform: IndexTransform) -> tuple[OpenArray, IndexTransform]:
        """Return the view of the base for a view of this array."""
        return self._base.array, self._base.transform.compose(transform)

    def bounded(self, transform: IndexTransform) -> IndexTransform:
        """Return `transform` with current implicit bounds; raise if it leads outside the array."""
        domain = self._base.bounded(transform).domain
        return resolve_bounds(transform, self.domain) if domain != transform.domain else transform

    def read_into(self, transform: IndexTransform, out: Array) -> Future[Array]:
        """Fill `out` with the selection of a bounded `transform`; return a future of `out`."""
        base, onto, convert = self._base.array, self._base.transform.compose(transform), self._read
        assert convert is not None
        if base.dtype is self._dtype:
            return base.read_into(onto, out)
        memory = base.numpy_dtype()

        def read(part: IndexTransform, target: Array) -> Future[Array]:
            def store(values: Array) -> Array:
                target[...] = convert(values)
                return target

            return map_future(store, base.read_into(part, np.empty(part.input_shape, memory)))

        if out.size * max(memory.itemsize, 1) <= _BLOCK_NBYTES:
            return read(onto, out)
        return self._in_blocks(transform, onto, lambda part, at: read(part, out[at]).result(), lambda: out)

    def write_from(self, transform: IndexTransform, source: Array) -> WriteFutures:
        """Write `source` to the selection of a bounded `transform`."""
        base, onto, convert = self._base.array, self._base.transform.compose(transform), self._write
        assert convert is not None
        if base.dtype is self._dtype:
            return base.write_from(onto, source)
        if source.size * max(base.numpy_dtype().itemsize, 1) <= _BLOCK_NBYTES:
            try:
                return base.write_from(onto, _native(convert, source))
            except (ChunkwiseError, ValueError, TypeError, OverflowError) as e:
                return WriteFutures.failed(e)

        def write(part: IndexTransform, at: tuple[Any, ...]) -> None:
            base.write_from(part, _native(convert, source[at])).result()

        in_order = not _injective(onto)
        done = self._in_blocks(transform, onto, write, lambda: None, in_order=in_order, writes=EVERYWHERE)
        return WriteFutures.of(done, done)

    def _in_blocks(
        self,
        transform: IndexTransform,
        onto: IndexTransform,
        work: Callable[[IndexTransform, tuple[Any, ...]], object],
        finish: Callable[[], Any],
        *,
        in_order: bool = False,
        writes: Hashable = None,
    ) -> Future[Any]:
        lower, upper = transform.input_inclusive_min, transform.input_exclusive_max
        layout = self.schema().transformed(transform).chunk_layout.read_chunk.shape
        unit = [1] * len(lower) if in_order or layout is None else [n or 1 for n in layout]
        n_elements = max(1, _BLOCK_NBYTES // max(1, self._base.array.numpy_dtype().itemsize))

        def open_worker(stop: Stop) -> Callable[[tuple[slice, ...]], None]:
            def do(box: tuple[slice, ...]) -> None:
                if not stop:
                    at = [slice(s.start - lo, s.stop - lo) for s, lo in zip(box, lower, strict=True)]
                    domain = IndexDomain(
                        inclusive_min=[s.start for s in box], exclusive_max=[s.stop for s in box]
                    )
                    work(onto[domain], (*at, ...))

            return do

        n_workers = 1 if in_order else self.pool.n_workers
        return self.pool.run(
            list(boxes(lower, upper, unit, n_elements)),
            open_worker,
            finish,
            n_workers=n_workers,
            writes=writes,
        )

    @property
    def resizable(self) -> bool:
        """True if the base is resizable."""
        return self._base.array.resizable

    def resize(self, request: ResizeRequest) -> Future[IndexDomain]:
        """Resize the base."""
        return map_future(lambda _: self.domain, self._base.array.resize(self._resize_request(request)))

    def _resize_request(self, request: ResizeRequest) -> ResizeRequest:
        transform = self._base.transform
        lower: list[int | None] = [None] * transform.output_rank
        upper: list[int | None] = [None] * transform.output_rank
        for o, m in enumerate(transform.output):
            if m.input_dimension is None:
                continue
            if m.stride != 1:
                raise InvalidArgumentError(
                    f"Output dimension {o} of the base depends on a resized dimension with stride {m.stride}"
                )
            lo, hi = request.inclusive_min[m.input_dimension], request.exclusive_max[m.input_dimension]
            lower[o] = None if lo is None else lo + m.offset
            upper[o] = None if hi is None else hi + m.offset
        return request._replace(inclusive_min=lower, exclusive_max=upper)

    def schema(self) -> Schema:
        """The schema of the base, with the new type."""
        return cast_schema(self._base.array.schema().transformed(self._base.transform), self._dtype)

    def spec(self) -> CastSpec:
        """Return a spec that opens this array again."""
        return CastSpec(schema=self._schema, context=self._context, base=self._base.spec())

    def view_spec(self, transform: IndexTransform) -> tuple[CastSpec, IndexTransform]:
        """Return a spec without a transform in its base, and the transform of a view to it."""
        onto = marked_like(self._base.transform.compose(transform), transform)
        inner = Base(self._base.array, onto).spec()
        assert inner.transform is not None
        whole = Spec._of(inner._driver, None)
        return CastSpec(schema=self._schema, context=self._context, base=whole), inner.transform

    def count_stored(self, transform: IndexTransform, most: int | None = None) -> Future[StorageStatistics]:
        """Count the chunks of the base."""
        return self._base.array.count_stored(self._base.transform.compose(transform), most)


def _native(convert: Convert, source: Array) -> Array:
    with np.errstate(all="ignore"):
        return convert(source)


def _injective(transform: IndexTransform) -> bool:
    """Return True if evidently no element is written twice."""
    used = {m.input_dimension for m in transform.output}
    plain = all(m.index_array is None for m in transform.output)
    return plain and all(n == 1 or d in used for d, n in enumerate(transform.input_shape))


def cast_view(array: OpenArray, dtype: DataType, *, readable: bool, writable: bool) -> CastArray:
    """Return an open array with another data type, in the same index space, or raise."""
    base = Base(array, IndexTransform.identity(array.domain))
    return CastArray(base, Schema(dtype=dtype), array.pool, None, readable=readable, writable=writable)


def open_cast(spec: CastSpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None) -> CastArray:
    """Open the array of a bound spec; raise without a conversion in the requested direction."""
    dtype = spec.schema.dtype
    if dtype is None:
        raise InvalidArgumentError("dtype must be specified")
    base = open_base(spec.base, readable=readable, writable=writable, wrap=wrap)
    array = CastArray(base, spec.schema, pool_under(spec), spec.context, readable=readable, writable=writable)
    if not (array.readable or array.writable):
        source, target = (base.array.dtype, dtype) if readable else (dtype, base.array.dtype)
        if convertible(source, target):
            raise InvalidArgumentError(f"only {'writing' if readable else 'reading'} is supported")
        raise InvalidArgumentError(
            f"{'Read' if readable else 'Write'} access requires unsupported "
            f"{source.name} -> {target.name} conversion"
        )
    return array
