"""Layers of a stack as tables of requests, so that work is done for all layers together where possible.

Requests to layers whose sources differ only in prefix and offset are rows of one table.  The loop of all
reads reads their chunks, in batches that span all such layers.  The remaining work for each layer is checking
its metadata and three system calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.arrays.layer_source import FILES, LayerSource
from chunkwise.core.base.fork import Lock, new_lock
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.engine.chunk_codec import CodecLimit
from chunkwise.core.engine.memory import pages_of
from chunkwise.core.engine.pool import Stop
from chunkwise.core.engine.read import read_chunks
from chunkwise.core.engine.requests import ChunkRequests, TableReader, TableSource
from chunkwise.core.engine.strategy import ReadStrategy, read_strategy
from chunkwise.core.plan.layer_requests import LayerRequests, Region

__all__ = ["LayerTable", "LayerTables", "layer_tables"]

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
