"""An open stack: layers in one index space, each opened by the operations that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.array.based import Base, open_base, pool_under
from chunkwise.array.layer_sites import FILES, FileSite, OpenSites, Site, SpecSites
from chunkwise.array.protocol import OpenArray, ResizeRequest, StorageStatistics, WrapStore
from chunkwise.array.site_reader import SiteReader
from chunkwise.driver.stack.combine import common_units
from chunkwise.driver.stack.spec import StackSpec
from chunkwise.dtype.data_type import DataType
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, UnsupportedError, prefix
from chunkwise.execute.coroutine import in_event_loop
from chunkwise.execute.future import Future
from chunkwise.execute.join import gather, map_future
from chunkwise.execute.pool import Pool, Stop
from chunkwise.execute.workers import read_load
from chunkwise.execute.write_futures import WriteFutures
from chunkwise.index_space import IndexDomain, IndexTransform, resolve_bounds
from chunkwise.kvstore.protocol import Reader
from chunkwise.plan.layers import LayerBoxes
from chunkwise.plan.stack import HOLE, StackPart, plan_stack
from chunkwise.spec.schema import Schema
from chunkwise.spec.spec import Spec

__all__ = ["Layer", "StackArray", "open_stack"]

Array = npt.NDArray[Any]

_FEW = 64
_FEW_COPIES = 200
_SMALL_NBYTES = 1 << 20
_LEAST_NBYTES = 512 << 10

# Kvstores that answer at once; of others several requests are kept under way.
_LOCAL = ("file", "memory", "zip")
_N_WAITING = 32


class Layer(NamedTuple):
    """A layer: open, or how to open it.

    Attributes
    ----------
    base : Base or None
        An open array, with the transform from the stack to it.
    spec : Spec or None
        A bound spec; None if there is `base`.
    domain : IndexDomain
        Where it lies in the stack.
    """

    base: Base | None
    spec: Spec | None
    domain: IndexDomain

    @property
    def local(self) -> bool:
        """Whether reading it means no waiting for a network."""
        driver = self.base.array.spec() if self.spec is None and self.base is not None else None
        if self.spec is not None:
            driver = self.spec._driver
        store = None if driver is None else driver.key_value_store
        return store is None or store.driver in _LOCAL

    def opened(self, number: int, wrap: WrapStore | None, *, write: bool) -> Base:
        """Return the layer open for reading, or for writing.

        Raises
        ------
        ChunkwiseError
            With the number of the layer in front.
        """
        if self.base is None:
            assert self.spec is not None
            driver = self.spec._driver
            try:
                if not write and driver.own_mode().create:
                    error = InvalidArgumentError("Cannot specify an open mode of `create` without `write`")
                    raise prefix(error, f'Error opening "{driver.driver}" driver')
                base = open_base(self.spec, readable=not write, writable=write, wrap=wrap)
            except ChunkwiseError as e:
                raise prefix(e, f"While opening layer {number}") from None
        else:
            base = self.base
        if write and not base.array.writable:
            raise InvalidArgumentError(f"Layer {number}: Write mode not supported")
        if not write and not base.array.readable:
            raise InvalidArgumentError(f"Layer {number}: Read mode not supported")
        return base


class StackArray:
    """Layers over each other.

    A read or write of up to 64 layers holds these open while it lasts, one of more layers a single one for
    each worker.

    Parameters
    ----------
    layers : sequence of Layer
        Later ones on top.
    domain : IndexDomain
        Explicit.
    spec : StackSpec
        Bound; its layers are shown only if all `layers` are specs.
    pool : Pool
    readable, writable : bool
    wrap : callable, optional
        Gives stores as a transaction sees them.
    """

    __slots__ = (
        "_boxes",
        "_domain",
        "_layers",
        "_local",
        "_open_sites",
        "_pool",
        "_spec",
        "_spec_sites",
        "_wrap",
        "readable",
        "writable",
    )

    def __init__(
        self,
        layers: Sequence[Layer],
        domain: IndexDomain,
        spec: StackSpec,
        pool: Pool,
        *,
        readable: bool,
        writable: bool,
        wrap: WrapStore | None = None,
    ) -> None:
        self._layers = layers
        self._local: dict[int, bool] = {}
        self._open_sites, self._spec_sites = OpenSites(), SpecSites()
        self._domain = domain
        self._spec = spec
        self._pool = pool
        self._wrap = wrap
        self.readable = readable
        self.writable = writable
        self._boxes = LayerBoxes(
            [layer.domain.inclusive_min for layer in layers],
            [layer.domain.exclusive_max for layer in layers],
            domain.rank,
        )

    def in_transaction(self, wrap: WrapStore | None) -> StackArray:
        """Return the array as a transaction sees it, or, with None, as it is outside."""
        layers = [
            layer if layer.base is None else layer._replace(base=layer.base.in_transaction(wrap))
            for layer in self._layers
        ]
        return StackArray(
            layers,
            self._domain,
            self._spec,
            self._pool,
            readable=self.readable,
            writable=self.writable,
            wrap=wrap,
        )

    @property
    def dtype(self) -> DataType:
        """Type of the elements of all layers."""
        return self._spec.common.dtype

    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements in memory."""
        return self.dtype.memory_dtype

    @property
    def domain(self) -> IndexDomain:
        """Domain, which does not change."""
        return self._domain

    @property
    def boxes(self) -> LayerBoxes:
        """Where the layers lie."""
        return self._boxes

    def bounded(self, transform: IndexTransform) -> IndexTransform:
        """Return `transform` with implicit bounds resolved; raise if it leads out of the stack."""
        return resolve_bounds(transform, self._domain)

    def read_into(self, transform: IndexTransform, out: Array) -> Future[Array]:
        """Fill `out` with what `transform`, which is bounded, selects; the future gives `out`."""

        fill_value = self._spec.fill_value
        views: dict[int, Array] = {}

        def view_of(part: StackPart) -> Array:
            view = views.get(id(part.leaf))
            if view is None:
                view = views[id(part.leaf)] = part.view(out)
            return view

        def read(base: Base | None, part: StackPart) -> Future[Any]:
            request, at = part.where()
            view = view_of(part)
            if base is None:
                view[at] = fill_value
                return Future.ready(None)
            with _naming(part.layer):
                request = base.part(request) if part.strided else base.bounded(request)
            if not part.indexed:
                return base.array.read_into(request, view[at])
            values = np.empty(request.input_shape, out.dtype)
            base.array.read_into(request, values).result()
            view[at] = values
            return Future.ready(None)

        def finish(parts: Sequence[StackPart]) -> Array:
            for part in {id(part.leaf): part for part in parts}.values():
                part.finish(out)
            return out

        return self._work(
            transform,
            read,
            finish,
            write=False,
            holes=fill_value is not None,
            open_sites=lambda: SiteReader(self._site, view_of),
        )

    def requests(self, transform: IndexTransform) -> Iterator[tuple[OpenArray, IndexTransform]]:
        """Open the layers that a read of `transform`, which is bounded, meets; yield what it asks of each."""
        itemsize, lowest = max(1, self.dtype.itemsize), self._domain.inclusive_min
        holes = self._spec.fill_value is not None
        bases: dict[int, Base | None] = {}
        for part in plan_stack(transform, self._boxes, lowest, itemsize, holes=holes):
            if part.layer not in bases:
                bases[part.layer] = self._opened(part.layer, write=False)
            base = bases[part.layer]
            if base is not None:
                yield base.array, base.bounded(part.where()[0])

    def write_from(self, transform: IndexTransform, source: Array) -> WriteFutures:
        """Write `source` where `transform`, which is bounded, says: to the topmost layer at each index."""

        def write(base: Base | None, part: StackPart) -> Future[Any]:
            assert base is not None
            request, at = part.where()
            view = part.view(source, last=True)
            with _naming(part.layer):
                request = base.bounded(request)
            done = base.array.write_from(request, view[at])
            if part.indexed:
                done.result()
            return done.commit

        done = self._work(transform, write, lambda _: None, write=True)
        return WriteFutures.of(done, done)

    def _n_workers(self, groups: Mapping[int, Any], nbytes: int) -> int | None:
        """Return how many threads are to take one layer after the other; None if these are read as they are.

        A layer that is read as it is divides its own work among threads.  Of small layers each would be
        read by the calling thread alone; and of very many not all are to be open.
        """
        n = len(groups)
        local = all(self._is_local(number) for number in islice(groups, 4))
        if n > _FEW:
            return self._pool.n_workers if local else _N_WAITING
        small = _LEAST_NBYTES <= nbytes <= n * _SMALL_NBYTES
        return self._pool.n_workers if n > 1 and local and small else None

    def _load(self, sites: SiteReader, numbers: Sequence[int], n_workers: int) -> tuple[int, bool]:
        """Return how many threads are to take local layers, and whether the caller is to, instead of any.

        More threads than one are slower if chunks are small; the first, the last and one between tell.
        """
        most, inline = 1, True
        for i in (0, len(numbers) // 2, -1):
            site = sites.site(numbers[i])
            if isinstance(site, FileSite):
                load = read_load(self._pool, FILES, site.array.chain, len(numbers))
                most, inline = max(most, load.n_workers), inline and load.inline
            elif site is not None:
                inline = inline and len(numbers) <= _FEW_COPIES
            else:
                return n_workers, False
        return most, inline

    def _site(self, number: int, fetch: Reader) -> Site | None:
        """Return where a layer can be read without being opened; None if it can't."""
        if number == HOLE or self._wrap is not None:
            return None
        base, spec, domain = self._layers[number]
        if spec is not None:
            return self._spec_sites.find(number, spec, domain, fetch)
        if base is None or not base.array.readable:
            return None
        return self._open_sites.find(number, base, domain)

    def _is_local(self, number: int) -> bool:
        known = self._local.get(number)
        if known is None:
            known = self._local[number] = number == HOLE or self._layers[number].local
        return known

    def _opened(self, number: int, *, write: bool) -> Base | None:
        return None if number == HOLE else self._layers[number].opened(number, self._wrap, write=write)

    def _work(
        self,
        transform: IndexTransform,
        do: Callable[[Base | None, StackPart], Future[Any]],
        finish: Callable[[Sequence[StackPart]], Any],
        *,
        write: bool,
        holes: bool = False,
        open_sites: Callable[[], SiteReader] | None = None,
    ) -> Future[Any]:
        try:
            itemsize, lowest = max(1, self.dtype.itemsize), self._domain.inclusive_min
            parts = plan_stack(transform, self._boxes, lowest, itemsize, holes=holes)
            groups: dict[int, list[StackPart]] = {}
            for part in parts:
                groups.setdefault(part.layer, []).append(part)
            waits = any(part.indexed for part in parts) and in_event_loop()
            nbytes = transform.domain.size * itemsize
            n_workers = self._n_workers(groups, nbytes)
            sites, inline = None, False
            if open_sites is not None:
                sites = open_sites()
                if n_workers is not None and n_workers != _N_WAITING:
                    n_workers, inline = self._load(sites, list(groups), n_workers)
            small = inline or nbytes < _LEAST_NBYTES
            if (n_workers is None or inline) and not waits:
                futures = []
                for number, group in groups.items():
                    if sites is not None and small and sites.read(number, group):
                        continue
                    started = None if sites is None or small else sites.start(number, group)
                    if started is not None:
                        futures += started
                        continue
                    base = self._opened(number, write=write)
                    futures += [do(base, part) for part in group]
                return map_future(lambda _: finish(parts), gather(futures))
        except Exception as e:
            return Future.failed(e)

        def open_worker(stop: Stop) -> Callable[[tuple[int, list[StackPart]]], None]:
            sites = None if open_sites is None else open_sites()

            def work(item: tuple[int, list[StackPart]]) -> None:
                number, group = item
                if stop or (sites is not None and sites.read(number, group)):
                    return
                base = self._opened(number, write=write)
                for part in group:
                    do(base, part).result()

            return work

        return self._pool.run(
            list(groups.items()),
            open_worker,
            lambda: finish(parts),
            n_workers=n_workers or self._pool.n_workers,
        )

    def resolve(self) -> Future[IndexDomain]:
        """Return the domain; layers that have grown don't change it."""
        return Future.ready(self._domain)

    def resize(self, request: ResizeRequest) -> Future[IndexDomain]:
        """Fail: layers are resized by themselves."""
        return Future.failed(UnsupportedError("Resize not supported"))

    def schema(self) -> Schema:
        """Type, domain, and the units that layers agree on."""
        rank = self._domain.rank
        own = self._spec.schema.dimension_units or (None,) * rank
        units = common_units(map(_layer_schema, self._layers), rank)
        out = Schema(dtype=self.dtype, domain=self._domain)
        if any(own) or any(units):
            out.update(dimension_units=[a or b for a, b in zip(own, units, strict=True)])
        if self._spec.fill_value is not None:
            out.update(fill_value=self._spec.fill_value)
        return out

    def spec(self) -> StackSpec:
        """Return a spec with the layers as they are now."""
        schema = self._spec.schema.with_domain(self._domain)
        layers = tuple(
            layer.spec if layer.base is None and layer.spec is not None else _base_spec(layer)
            for layer in self._layers
        )
        return replace(self._spec, schema=schema, layers=layers)

    def count_stored(self, transform: IndexTransform) -> Future[StorageStatistics]:
        """Fail: layers that are hidden would count too."""
        return Future.failed(UnsupportedError("Storage statistics not supported"))


@contextmanager
def _naming(layer: int) -> Iterator[None]:
    """Say in errors which layer they are about."""
    try:
        yield
    except ChunkwiseError as e:
        raise prefix(e, f"Layer {layer}") from None


def _layer_schema(layer: Layer) -> Schema:
    if layer.base is not None:
        return layer.base.array.schema().transformed(layer.base.transform)
    assert layer.spec is not None
    return layer.spec.schema


def _base_spec(layer: Layer) -> Spec:
    assert layer.base is not None
    return layer.base.spec()


def open_stack(
    spec: StackSpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None
) -> StackArray:
    """Open the stack of a bound spec, which opens none of its layers."""
    layers = []
    for layer in spec.layers:
        domain = layer.domain
        assert domain is not None
        layers.append(Layer(None, layer, domain))
    return StackArray(
        layers, spec.domain, spec, pool_under(spec), readable=readable, writable=writable, wrap=wrap
    )
