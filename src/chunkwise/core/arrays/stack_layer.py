"""The layers of an open stack: each is open, or a spec that is opened when an operation needs it.

`StackLayers` opens a layer of a stack, or finds its `LayerSource`, with which a chunked array in local files
is read without being opened (`chunkwise.core.arrays.layer_source`).

Layers of a stack as tables of requests, so that work is done for all layers together where possible.

Requests to layers whose sources differ only in prefix and offset are rows of one table.  The loop of all
reads reads their chunks, in batches that span all such layers.  The remaining work for each layer is checking
its metadata and three system calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.arrays.base_array import Base, open_base
from chunkwise.core.arrays.layer_source import (
    FILES,
    FindSource,
    LayerSource,
    Templates,
    find_of_base,
    find_of_spec,
    no_source,
)
from chunkwise.core.arrays.protocol import WrapStore
from chunkwise.core.base.threads import Counter, Lock, new_lock
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.engine.abandoned_changes import EVERYWHERE
from chunkwise.core.engine.chunk_codec import CodecLimit
from chunkwise.core.engine.derived_futures import gather, map_future
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.memory import pages_of
from chunkwise.core.engine.pool import Pool, Stop, in_event_loop
from chunkwise.core.engine.read import read_chunks
from chunkwise.core.engine.requests import ChunkRequests, TableReader, TableSource
from chunkwise.core.engine.strategy import ReadStrategy, read_strategy
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.kvstore.request_limits import DEFAULT_CONCURRENCY
from chunkwise.core.plan.layers import NO_LAYER, LayerRequest, LayerRequests, Region
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, prefix, prefixed

__all__ = ["Layer", "LayerTable", "LayerTables", "StackLayers", "layer_tables", "naming"]


_count_opened = Counter("/chunkwise/stack/layers_opened").add

Do: TypeAlias = Callable[["Base | None", LayerRequest], Future[Any]]
"""Reads or writes a part of a layer opened for it, or of a hole if None."""


class Layer(NamedTuple):
    """An open layer, or its bound spec."""

    source: Base | Spec  # the layer with the transform from the stack
    domain: IndexDomain  # domain in the stack

    @property
    def is_remote(self) -> bool:
        """True if reading the layer may wait for a network."""
        if isinstance(self.source, Spec):
            return self.source._driver.is_remote
        from chunkwise.core.arrays.chunked import ChunkedArray  # few stacks open their layers

        array = self.source.array
        return array.is_remote if type(array) is ChunkedArray else array.spec().is_remote

    @property
    def in_memory(self) -> bool:
        """True if reading the layer uses no store."""
        if isinstance(self.source, Spec):
            return self.source._driver.in_memory
        return bool(getattr(self.source.array, "in_memory", False))

    def schema(self) -> Schema:
        """Return the known schema of the layer, in the index space of the stack."""
        if isinstance(self.source, Spec):
            return self.source.schema
        return self.source.array.schema().transformed(self.source.transform)

    def as_spec(self) -> Spec:
        """Return a spec that opens the layer again."""
        return self.source if isinstance(self.source, Spec) else self.source.spec()

    def opened(self, number: int, wrap: WrapStore | None, *, write: bool) -> Base:
        """Return the layer open for reading or writing; errors begin with its number."""
        base = self.source
        if isinstance(base, Spec):
            driver = base._driver
            _count_opened()
            with prefixed(f"While opening layer {number}", ChunkwiseError):
                if not write and driver.own_mode().create:
                    error = InvalidArgumentError("Cannot specify an open mode of `create` without `write`")
                    raise prefix(error, f'Error opening "{driver.driver}" driver')
                base = open_base(base, readable=not write, writable=write, wrap=wrap)
        if not (base.array.writable if write else base.array.readable):
            raise InvalidArgumentError(f"Layer {number}: {'Write' if write else 'Read'} mode not supported")
        return base


class StackLayers:
    """Layers by number, later ones on top; `wrap` returns stores as a transaction sees them."""

    def __init__(self, layers: Sequence[Layer], wrap: WrapStore | None) -> None:
        self.layers = layers
        self._wrap = wrap
        self._templates: Templates = {}
        self._finders: list[FindSource | None] = [None] * len(layers)

    def in_transaction(self, wrap: WrapStore | None) -> StackLayers:
        """Return the layers as a transaction sees them, or as they are outside any if None."""
        layers = [
            layer
            if isinstance(layer.source, Spec)
            else layer._replace(source=layer.source.in_transaction(wrap))
            for layer in self.layers
        ]
        return StackLayers(layers, wrap)

    def layer_sources(self, numbers: Iterable[int]) -> list[LayerSource | None]:
        """Return the sources of some layers; None for those that must be opened."""
        known: dict[int, LayerSource | None] = {NO_LAYER: None}
        fetch = FILES.open_reader()
        sources = []
        for number in numbers:
            if number not in known:
                known[number] = self._finder(number)(fetch)
            sources.append(known[number])
        return sources

    def _finder(self, number: int) -> FindSource:
        """Return the function that finds the source of a layer; in a transaction each layer is opened."""
        find = self._finders[number]
        if find is None:
            source, domain = self.layers[number]
            if self._wrap is not None:
                find = no_source
            elif isinstance(source, Spec):
                find = find_of_spec(source, domain, self._templates)
            else:
                find = find_of_base(source, domain)
            self._finders[number] = find
        return find

    def opened(self, number: int, *, write: bool) -> Base | None:
        """Return a layer open for reading or writing; None for `NO_LAYER`."""
        return None if number == NO_LAYER else self.layers[number].opened(number, self._wrap, write=write)

    def run(self, parts: Iterable[LayerRequest], do: Do, *, pool: Pool, write: bool) -> Future[None]:
        """Open the layers of some parts, and call `do` with each and its parts."""
        groups: dict[int, list[LayerRequest]] = {}
        for part in parts:
            groups.setdefault(part.layer, []).append(part)
        n_workers = self._n_workers(list(groups), pool)
        if any(part.region.indexed for group in groups.values() for part in group) and in_event_loop():
            n_workers = n_workers or pool.n_workers  # wait for index arrays
        if not n_workers:
            futures: list[Future[Any]] = []
            try:
                for number, group in groups.items():
                    base = self.opened(number, write=write)
                    futures += [do(base, part) for part in group]
            except Exception as e:
                futures.append(Future.failed(e))
            return map_future(lambda _: None, gather(futures))

        def open_worker(stop: Stop) -> Callable[[tuple[int, list[LayerRequest]]], None]:
            def work(item: tuple[int, list[LayerRequest]]) -> None:
                if not stop:
                    base = self.opened(item[0], write=write)
                    for part in item[1]:
                        do(base, part).result()

            return work

        return pool.run(
            list(groups.items()),
            open_worker,
            lambda: None,
            n_workers=n_workers,
            writes=EVERYWHERE if write else None,
        )

    def _n_workers(self, numbers: Sequence[int], pool: Pool) -> int:
        """Return how many threads process one layer after the other; 0 if layers divide their own work."""
        # Opening layers takes longer than handing them over: with threads, 4 to 64 sharded layers of 16³ to
        # 64³ elements take 0.4 to 0.95 of the time.  If there are fewer layers than threads, layers divide
        # their own work.
        remote = any(number != NO_LAYER and self.layers[number].is_remote for number in numbers)
        n_workers = DEFAULT_CONCURRENCY if remote else pool.n_workers
        return n_workers if len(numbers) >= max(2, n_workers) else 0


@contextmanager
def naming(layer: int) -> Iterator[None]:
    """Add the layer's number to errors."""
    with prefixed(f"Layer {layer}", ChunkwiseError):
        yield


Array: TypeAlias = "npt.NDArray[Any]"
Numbers: TypeAlias = "npt.NDArray[np.int64]"

# A table takes some 200 bytes for each chunk, so this one 13 MB; layers with more chunks in all are read like
# arrays.  Eight layers of 96³ elements in chunks of 4³ take 0.87 s of processor time that way, 0.98 s in one
# table.
_MAX_CHUNKS = 1 << 16


class _Copies(NamedTuple):
    """Boxes of arrays in memory, with the columns of `ChunkRequests`."""

    arrays: list[Array]
    first: Numbers
    start: Numbers
    stop: Numbers

    @property
    def n(self) -> int:
        return len(self.arrays)

    def copy_to(self, view: Array, rows: slice) -> None:
        n_fixed = self.start.shape[1] - self.first.shape[1]
        fixed = self.start[rows, :n_fixed].tolist()
        first, start, stop = self.first[rows], self.start[rows, n_fixed:], self.stop[rows, n_fixed:]
        boxes, parts = _boxes(start, stop), _boxes(first, first + stop - start)
        for array, at, box, part in zip(self.arrays[rows], fixed, boxes, parts, strict=True):
            place: Any = (*at, *box, ...)
            selected: Any = (*part, ...)
            view[place] = array[selected]


def _boxes(start: Numbers, stop: Numbers) -> Iterator[tuple[slice, ...]]:
    # None outlives its turn: with thousands of objects, Python's garbage collector would keep running.
    if not start.shape[1]:
        return repeat((), len(start))
    return zip(*map(partial(map, slice), start.T.tolist(), stop.T.tolist()), strict=True)


class LayerTable(NamedTuple):
    """Requests to layers of one kind."""

    region: Region  # their region of the stack's request
    dims: tuple[int | None, ...]  # from their sources
    # dimensions of the stack that the layers lack are the result's first
    requests: ChunkRequests | _Copies
    fetching: Lock | None = None  # as for `read_chunks`

    def open_reader(self, view: Array, stop: Stop, limit: CodecLimit) -> Callable[[slice], None]:
        """Return the function that reads rows to `view`, the result as the region sees it; for one worker."""
        requests = self.requests
        view = view.transpose(*_absent(self.dims, view.ndim), *[d for d in self.dims if d is not None])
        if None in self.dims:
            n_fixed = view.ndim - sum(d is not None for d in self.dims)
            axes = [None if d is None else slice(None) for d in self.dims]
            view = view[(*[slice(None)] * n_fixed, *axes, ...)]
        if isinstance(requests, _Copies):
            return partial(requests.copy_to, view)
        pages, source = pages_of(view), TableSource(requests, FILES)
        reader, fill_missing = TableReader(requests, view, limit), requests.fill_missing

        def read(rows: slice) -> None:
            if pages is not None:
                pages.prepare(view[requests.hull(rows)])
            batches = reader.batches(rows)
            read_chunks(batches, source, stop, fill_missing=fill_missing, fetching=self.fetching)

        return read


class LayerTables(NamedTuple):
    """The tables of a request to a stack."""

    batches: list[tuple[LayerTable, slice]]  # number of rows that a worker reads at a time
    n_workers: int  # number of threads for reading them; 0 for the caller's own
    others: list[int]  # numbers of the parts whose layers must be opened


def layer_tables(
    parts: LayerRequests,
    sources_of: Callable[[list[int]], list[LayerSource | None]],
    n_processors: int,
) -> LayerTables:
    """Return tables of the parts that can be read without opening their layers."""
    bounds = parts.bounds
    if bounds is None:
        return LayerTables([], 0, list(range(len(parts.layers))))
    sources = sources_of(parts.layers.tolist())
    others: list[int] = []
    rows_of: dict[tuple[object, ...], list[int]] = {}
    for row, source in enumerate(sources):
        if source is None:
            others.append(row)
        else:
            rows_of.setdefault(source.kind, []).append(row)
    n_workers = 0
    batches: list[tuple[LayerTable, slice]] = []
    for rows in rows_of.values():
        of_rows = [source for row in rows if (source := sources[row]) is not None]
        requests = _requests(of_rows, *(column[rows] for column in bounds))
        if requests is None:
            others += rows
            continue
        strategy, size = _strategy(requests, len(parts.layers), n_processors)
        n_workers = max(n_workers, strategy.n_workers)
        fetching = new_lock() if strategy.together else None
        table = LayerTable(parts.region, of_rows[0].dims, requests, fetching)
        batches += [(table, slice(i, i + size)) for i in range(0, requests.n, size)]
    return LayerTables(batches, n_workers, sorted(others))


def _absent(dims: Sequence[int | None], rank: int) -> list[int]:
    """Return the dimensions of the stack that a layer lacks."""
    return [dim for dim in range(rank) if dim not in dims]


def _requests(
    sources: list[LayerSource], first: Numbers, start: Numbers, stop: Numbers
) -> ChunkRequests | _Copies | None:
    """Return the table of sources of one kind; None if it would be too long, or elements repeat."""
    dims = sources[0].dims
    absent = _absent(dims, first.shape[1])
    if (stop[:, absent] - start[:, absent] != 1).any():
        return None
    offsets = np.array([source.offsets for source in sources], np.int64).reshape(len(sources), len(dims))
    if dims != tuple(range(first.shape[1])):
        along = np.array([0 if dim is None else dim for dim in dims], np.int64)
        is_there = np.array([dim is not None for dim in dims])
        first = np.where(is_there, first[:, along], 0)
        start, stop = (
            np.concatenate([bound[:, absent], np.where(is_there, bound[:, along], size)], axis=1)
            for bound, size in ((start, 0), (stop, 1))
        )
    some = sources[0]
    first = first + offsets
    if not isinstance(some.array, StoredArray):
        return _Copies([source.array for source in sources], first, start, stop)  # type: ignore[misc]
    prefixes = [source.prefix for source in sources]
    requests = ChunkRequests(some.array, prefixes, first, start, stop, some.fill_missing)
    return None if requests.n_chunks > _MAX_CHUNKS else requests.in_chunks()


def _strategy(
    requests: ChunkRequests | _Copies, n_layers: int, n_processors: int
) -> tuple[ReadStrategy, int]:
    """Return the strategy for reading a table, and how many rows a worker takes at a time."""
    if isinstance(requests, _Copies):
        n_elements = int((requests.stop - requests.start).prod(axis=1).sum())
        rate, nbytes, batches = 0.0, n_elements * requests.arrays[0].itemsize // requests.n, False
    else:
        chain = requests.array.chain
        rate, nbytes, batches = chain.decode_rate, chain.item.nbytes, chain.decodes_batches
    nbytes = max(1, nbytes)
    strategy = read_strategy(
        source="store",
        decode_rate=rate,
        chunk_nbytes=nbytes,
        n_chunks=max(requests.n, n_layers),
        n_processors=n_processors,
        batches=batches,
    )
    return strategy, max(1, strategy.batch_nbytes // nbytes)
