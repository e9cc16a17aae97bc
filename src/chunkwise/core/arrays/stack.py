"""An open stack: layers in one index space, each opened by operations that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.arrays.base_array import Base
from chunkwise.core.arrays.protocol import FixedArray, OpenArray, WrapStore
from chunkwise.core.arrays.resources import pool_under
from chunkwise.core.arrays.stack_layer import (
    Layer,
    LayerTable,
    LayerTables,
    StackLayers,
    layer_tables,
    naming,
)
from chunkwise.core.driver.stack import StackSpec
from chunkwise.core.driver.stack_layers import common_units
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.batch import as_batched
from chunkwise.core.engine.derived_futures import WriteFutures, gather, map_future
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool, Stop
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.plan.layers import LayerBoxes, LayerRequest, LayerRequests, Region
from chunkwise.core.plan.stack import divide_stack
from chunkwise.core.specs.schema import Schema

__all__ = ["StackArray", "open_stack"]

Array = npt.NDArray[Any]


class StackArray(FixedArray):
    """Layers over each other."""

    # A read or write keeps one layer open for each worker, or all layers if there are fewer.

    __slots__ = ("_boxes", "_last_plan", "_layers", "_spec", "pool")

    def __init__(
        self,
        layers: StackLayers,
        domain: IndexDomain,
        spec: StackSpec,
        pool: Pool,
        *,
        readable: bool,
        writable: bool,
    ) -> None:
        self._layers = layers
        self._domain = domain
        self._spec = spec
        self.pool = pool
        self.readable = readable
        self.writable = writable
        self._last_plan: tuple[IndexTransform, bool, LayerRequests] | None = None
        self._boxes = LayerBoxes(
            [layer.domain.inclusive_min for layer in layers.layers],
            [layer.domain.exclusive_max for layer in layers.layers],
            domain.rank,
        )

    def in_transaction(self, wrap: WrapStore | None) -> StackArray:
        """Return the array as a transaction sees it, or as it is outside any if None."""
        out = copy(self)
        out._layers = self._layers.in_transaction(wrap)
        return out

    @property
    def in_memory(self) -> bool:
        """True if reading the layers uses no store."""
        return all(layer.in_memory for layer in self._layers.layers)

    @property
    def dtype(self) -> DataType:
        """Type of the elements of all layers."""
        return self._spec.common.dtype

    @property
    def boxes(self) -> LayerBoxes:
        """Bounds of the layers."""
        return self._boxes

    def read_into(self, transform: IndexTransform, out: Array) -> Future[Array]:
        """Fill `out` with the selection of a bounded `transform`; return a future of `out`."""

        fill_value = self._spec.fill_value
        regions: dict[int, tuple[Region, Array]] = {}

        def view_of(region: Region) -> Array:
            known = regions.get(id(region))
            if known is None:
                known = regions[id(region)] = region, region.view(out)
            return known[1]

        def read(base: Base | None, part: LayerRequest) -> Future[Any]:
            view, at = view_of(part.region), part.at
            if base is None:
                view[at] = fill_value
                return Future.ready(None)
            with naming(part.layer):
                request = base.part(part.request)
            if not part.region.indexed:
                return base.array.read_into(request, view[at])
            view[at] = base.array.read_into(request, np.empty(request.input_shape, out.dtype)).result()
            return Future.ready(None)

        def finish(_: object) -> Array:
            for region, _ in regions.values():
                region.finish(out)
            return out

        futures: list[Future[Any]] = []
        others: list[LayerRequest] = []
        try:
            for found in self._divided(transform, holes=fill_value is not None):
                if isinstance(found, LayerRequest):
                    others.append(found)
                    continue
                tables = layer_tables(found, self._layers.layer_sources, self.pool.n_workers)
                others += found.parts(tables.others)
                futures.append(self._read_tables(tables, view_of))
            if others:
                do = as_batched(read)
                futures.append(self._layers.run(others, do, pool=self.pool, write=False))
        except Exception as e:
            futures.append(Future.failed(e))
        return map_future(finish, gather(futures))

    def _read_tables(self, tables: LayerTables, view_of: Callable[[Region], Array]) -> Future[None]:
        n_workers = tables.n_workers
        limit = self.pool.codec_limit(n_workers)

        def open_worker(stop: Stop) -> Callable[[tuple[LayerTable, slice]], None]:
            readers: dict[int, Callable[[slice], None]] = {}

            def read(batch: tuple[LayerTable, slice]) -> None:
                table, rows = batch
                reader = readers.get(id(table))
                if reader is None:
                    view = view_of(table.region)
                    reader = readers[id(table)] = table.open_reader(view, stop, limit)
                reader(rows)

            return read

        return self.pool.run(
            tables.batches, open_worker, lambda: None, n_workers=max(1, n_workers), inline=not n_workers
        )

    def requests(
        self, transform: IndexTransform, *, holes: bool = False
    ) -> Iterator[tuple[OpenArray, IndexTransform]]:
        """Open the layers that a read of a bounded `transform` meets; yield the request to each.

        An element in no layer is an error, unless there is a fill value, or `holes` are allowed.
        """
        bases: dict[int, Base | None] = {}
        for part in self._parts(transform, holes=holes or self._spec.fill_value is not None):
            if part.layer not in bases:
                bases[part.layer] = self._layers.opened(part.layer, write=False)
            base = bases[part.layer]
            if base is not None:
                yield base.array, base.part(part.request)

    def write_from(self, transform: IndexTransform, source: Array) -> WriteFutures:
        """Write `source` to the selection of a bounded `transform`, in the topmost layer at each index."""

        def write(base: Base | None, part: LayerRequest) -> Future[Any]:
            assert base is not None
            view = part.region.view(source, last=True)
            with naming(part.layer):
                request = base.part(part.request)
            done = base.array.write_from(request, view[part.at])
            if part.region.indexed:
                done.result()
            return done.commit

        done: Future[None]
        try:
            parts = self._parts(transform)
            done = self._layers.run(parts, write, pool=self.pool, write=True)
        except Exception as e:
            done = Future.failed(e)
        return WriteFutures.of(done, done)

    def _divided(
        self, transform: IndexTransform, *, holes: bool = False
    ) -> Iterable[LayerRequest | LayerRequests]:
        """Divide a request among the layers; a view that is read again reuses its plan."""
        # Reading 5 by 5 elements of four layers again takes 0.06 ms of processor time, 0.23 without this.
        known = self._last_plan
        if known is not None and known[0] is transform and known[1] is holes:
            return [known[2]]
        lowest, itemsize = self._domain.inclusive_min, max(1, self.dtype.itemsize)
        found = divide_stack(transform, self._boxes, lowest, itemsize, holes=holes)
        first = list(islice(found, 2))
        if len(first) == 1 and isinstance(first[0], LayerRequests):
            self._last_plan = transform, holes, first[0]
        return chain(first, found)

    def _parts(self, transform: IndexTransform, *, holes: bool = False) -> Iterator[LayerRequest]:
        """Divide a request among the layers; yield single parts."""
        for found in self._divided(transform, holes=holes):
            yield from [found] if isinstance(found, LayerRequest) else found.parts()

    def schema(self) -> Schema:
        """Type, domain, and the units on which layers agree."""
        rank = self._domain.rank
        own = self._spec.schema.dimension_units or (None,) * rank
        units = common_units((layer.schema() for layer in self._layers.layers), rank)
        out = Schema(dtype=self.dtype, domain=self._domain)
        if any(own) or any(units):
            out.update(dimension_units=[a or b for a, b in zip(own, units, strict=True)])
        if self._spec.fill_value is not None:
            out.update(fill_value=self._spec.fill_value)
        return out

    def spec(self) -> StackSpec:
        """Return a spec with the current layers."""
        schema = self._spec.schema.with_domain(self._domain)
        layers = tuple(layer.as_spec() for layer in self._layers.layers)
        return replace(self._spec, schema=schema, layers=layers)

    def view_spec(self, transform: IndexTransform) -> tuple[StackSpec, IndexTransform]:
        """Return the spec, and the transform of a view to it, with its current bounds."""
        return self.spec(), transform


def open_stack(
    spec: StackSpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None
) -> StackArray:
    """Open the stack of a bound spec, without opening its layers."""
    layers = []
    for layer in spec.layers:
        domain = layer.domain
        assert domain is not None
        layers.append(Layer(layer, domain))
    return StackArray(
        StackLayers(layers, wrap), spec.domain, spec, pool_under(spec), readable=readable, writable=writable
    )
