"""An open array whose chunks are computed or stored by functions."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from math import inf
from typing import Any, NamedTuple

import numpy.typing as npt

from chunkwise.core.arrays.chunk_functions import ChunkFunctions
from chunkwise.core.arrays.protocol import FixedArray, WrapStore
from chunkwise.core.arrays.resources import cache_of
from chunkwise.core.driver.in_memory import VirtualChunkedSpec
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.batch import as_batched
from chunkwise.core.engine.derived_futures import WriteFutures
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool, Stop, pool_of
from chunkwise.core.engine.update import change_alone
from chunkwise.core.grid import OffsetGrid
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.kvstore.request_limits import DEFAULT_CONCURRENCY
from chunkwise.core.plan.plan import Plan, chunk_order, plan_read, plan_write, selections, wholes
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import InvalidArgumentError

__all__ = ["VirtualChunkedArray", "open_virtual_chunked"]

Array = npt.NDArray[Any]


class _Piece(NamedTuple):
    """The part of a request inside one chunk."""

    cell: tuple[int, ...]
    inside: tuple[Any, ...]
    at: tuple[Any, ...]
    whole: bool


class VirtualChunkedArray(FixedArray):
    """An array behind a read function, a write function or both."""

    # Each worker holds one chunk.  The threads of the pool call functions, several at once.  `pending` are
    # the chunks as a transaction sees them, and `known` those computed for it.

    __slots__ = ("_computed", "_functions", "_pending", "_spec", "pool")

    def __init__(
        self,
        functions: ChunkFunctions,
        spec: VirtualChunkedSpec,
        pool: Pool,
        *,
        readable: bool,
        writable: bool,
        pending: Any = None,
    ) -> None:
        domain = spec.schema.domain
        assert domain is not None
        self._functions = functions
        self._domain = domain
        self._spec = spec
        self.pool = pool
        self._pending = pending
        self._computed: dict[tuple[int, ...], Array] = {}
        self.readable = readable and functions.read_function is not None
        self.writable = writable and functions.write_function is not None

    def in_transaction(self, wrap: WrapStore | None) -> VirtualChunkedArray:
        """Return the array as a transaction sees it, or as it is outside any if None."""
        return VirtualChunkedArray(
            self._functions,
            self._spec,
            self.pool,
            readable=self.readable,
            writable=self.writable,
            pending=None if wrap is None else wrap(self._functions, True),
        )

    @property
    def dtype(self) -> DataType:
        """Type of the elements."""
        return self._functions.dtype

    def read_into(self, transform: IndexTransform, out: Array) -> Future[Array]:
        """Fill `out` with the selection of a bounded `transform`; return a future of `out`."""
        functions, pending = self._functions, self._pending
        if out.size == 0:
            return Future.ready(out)
        plan = plan_read(transform, functions.grid)
        view, order = plan.layout.view(out), chunk_order(plan.axes)
        bound = time.time()

        def read(piece: _Piece) -> None:
            if pending is not None:
                array = functions.read_pending(pending, piece.cell, self._computed)
            else:
                array = functions.read_chunk(piece.cell, bound).array
            view[piece.at] = array.transpose(order)[piece.inside]

        def finish() -> Array:
            plan.layout.broadcast(out)
            return out

        return self._run(plan, as_batched(read), finish)

    def write_from(self, transform: IndexTransform, source: Array) -> WriteFutures:
        """Write `source` to the selection of a bounded `transform`."""
        functions, pending = self._functions, self._pending
        if source.size == 0:
            nothing: Future[None] = Future.ready(None)
            return WriteFutures.of(nothing, nothing)
        plan = plan_write(transform, functions.grid)
        view, order = plan.layout.view(source, last=True), chunk_order(plan.axes)

        def put(array: Array, piece: _Piece) -> None:
            array.transpose(order)[piece.inside] = view[piece.at]

        def write(piece: _Piece) -> None:
            if not piece.whole and functions.read_function is None:
                raise InvalidArgumentError("Write-only virtual chunked view requires chunk-aligned writes")
            if piece.whole:
                array = functions.empty(functions.domain(piece.cell).shape)
                put(array, piece)
                if pending is not None:
                    functions.write_pending(pending, piece.cell, array)
                else:
                    functions.write_chunk(piece.cell, array, b"")
            elif pending is not None:
                # The source may change before the commit.
                values = view[piece.at].copy()
                own = piece._replace(at=(...,))

                def change(array: Array) -> None:
                    array.transpose(order)[own.inside] = values

                functions.change_pending(pending, piece.cell, change)
            else:
                self._change(piece, put)

        done = self._run(plan, write, lambda: None, writes=self._functions.identity)
        return WriteFutures.of(done, done)

    def _change(self, piece: _Piece, put: Callable[[Array, _Piece], None]) -> None:
        functions, chunk = self._functions, None

        def attempt() -> bytes | None:
            nonlocal chunk
            chunk = functions.read_chunk(piece.cell, -inf, chunk)
            array = functions.empty(chunk.array.shape)
            array[...] = chunk.array
            put(array, piece)
            return None if functions.write_chunk(piece.cell, array, chunk.generation) else chunk.generation

        change_alone(functions, functions.identity, str(piece.cell), attempt)

    def _run(
        self,
        plan: Plan,
        work: Callable[[_Piece], None],
        finish: Callable[[], Any],
        *,
        writes: Hashable = None,
    ) -> Future[Any]:
        def open_worker(stop: Stop) -> Callable[[_Piece], None]:
            def do(piece: _Piece) -> None:
                if not stop:
                    work(piece)

            return do

        # waits for coroutines
        n_workers = self.pool.n_workers if self._functions.loop is None else DEFAULT_CONCURRENCY
        return self.pool.run(list(_pieces(plan)), open_worker, finish, n_workers=n_workers, writes=writes)

    def schema(self) -> Schema:
        """Type, domain, chunks and units."""
        return self._spec.schema.copy()

    def spec(self) -> VirtualChunkedSpec:
        """Return a spec with the functions, which has no JSON form."""
        return self._spec


def _pieces(plan: Plan) -> Iterator[_Piece]:
    inside, at = selections(plan.axes)
    return map(_Piece, plan.cells(), inside, at, wholes(plan.axes))


def open_virtual_chunked(
    spec: VirtualChunkedSpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None
) -> VirtualChunkedArray:
    """Open the array of a bound spec with a complete schema."""
    schema = spec.schema
    layout, domain = schema.chunk_layout, schema.domain
    assert schema.dtype is not None and domain is not None
    functions = ChunkFunctions(
        spec.read_function,
        spec.write_function,
        loop=spec.loop,
        dtype=schema.dtype,
        grid=OffsetGrid(
            tuple(n or 1 for n in layout.read_chunk.shape or ()),
            tuple(o or 0 for o in layout.grid_origin or ()),
            domain.inclusive_min,
            domain.exclusive_max,
        ),
        labels=domain.labels,
        inner_order=layout.inner_order or (),
        cache=cache_of(spec.resource("cache_pool")),
    )
    pool = pool_of(spec.resource("data_copy_concurrency"))
    array = VirtualChunkedArray(functions, spec, pool, readable=readable, writable=writable)
    return array if wrap is None else array.in_transaction(wrap)
