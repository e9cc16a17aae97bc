"""Reading layers that have sites: what one worker of a read of a stack does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.arrays.layer_sites import FILES, FileSite, MemorySite, Site
from chunkwise.arrays.site_columns import Alike, SiteColumns
from chunkwise.arrays.stack_layer import StackLayers
from chunkwise.engine.future import Future
from chunkwise.engine.pool import Stop
from chunkwise.engine.read import read_chunks, read_into
from chunkwise.engine.requests import ChunkRequests, TableReader, TableSource, is_simple
from chunkwise.engine.result_memory import pages_of
from chunkwise.index_space import IndexTransform
from chunkwise.plan.stack_part import Leaf, StackPart, StackParts

__all__ = ["SiteReader", "open_site"]

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]

# A box of more is read as an array is, by several threads.
_FEW_CHUNKS = 16
# Boxes of so many chunks are made one after the other, by what reads an array.
_MOST_CHUNKS = 1 << 16


class SiteReader:
    """Reads parts of layers, for one worker.

    Parameters
    ----------
    layers : StackLayers
    view : callable
        Gives the result as the parts of a leaf see it.
    stop : sequence
        True as soon as nothing more is to be read.
    """

    def __init__(
        self,
        layers: StackLayers,
        view: Callable[[Leaf], Array],
        stop: Stop,
    ) -> None:
        self._layers = layers
        self._view = view
        self._stop = stop
        self._fetch = FILES.open_reader()

    def site(self, number: int) -> Site | None:
        """Return the site of a layer."""
        return self._layers.site(number, self._fetch)

    def read(self, number: int, parts: Sequence[StackPart]) -> bool:
        """Read what one layer has of a request; return False if it has to be opened for that."""
        site = self.site(number)
        return site is not None and self._read(site, number, parts)

    def _read(self, site: Site, number: int, parts: Sequence[StackPart]) -> bool:
        for part in parts:
            box = self._box(site, part)
            if box is None or not _read(site, *box):
                started = self.start(number, parts)
                for future in started or ():
                    future.result()
                return started is not None
        return True

    def read_many(self, parts: StackParts, rows: range) -> list[int]:
        """Read some of many parts, with bounds; return those whose layers have to be opened."""
        view = self._view(parts.leaf)
        divided, columns = self._layers.divide(parts, rows, self._fetch)
        singly, to_open = list(divided.singly), list(divided.to_open)
        for some in divided.alike:
            if some.in_memory:
                _copy(columns, some, view)
                continue
            requests = some.requests
            if requests is None or requests.n_chunks > _MOST_CHUNKS:
                singly += some.rows.tolist()
            else:
                read_requests(requests.in_chunks(), view, self._stop)
        for row in singly:
            if not self.read(int(parts.layers[row]), list(parts.parts([row]))):
                to_open.append(row)
        return to_open

    def read_requests(self, leaf: Leaf, requests: ChunkRequests) -> None:
        """Read requests that are in one chunk each; they are of a leaf."""
        read_requests(requests, self._view(leaf), self._stop)

    def chunks(self, parts: StackParts, rows: range) -> tuple[list[ChunkRequests], list[int]]:
        """Return a box for each chunk of simple arrays in files, and which parts are of others."""
        divided, _ = self._layers.divide(parts, rows, self._fetch)
        left = divided.singly + divided.to_open
        found = []
        for some in divided.alike:
            requests = some.requests
            if requests is None or requests.n_chunks > _MOST_CHUNKS:
                left += some.rows.tolist()
            else:
                found.append(requests.in_chunks())
        return found, sorted(left)

    def start(self, number: int, parts: Sequence[StackPart]) -> list[Future[Array]] | None:
        """Begin to read what one layer has of a request; return None if it has to be opened for that."""
        site = self.site(number)
        if not isinstance(site, FileSite) or site.pool is None:
            return None
        requests = []
        for part in parts:
            if part.indexed:
                return None
            request, at = part.where()
            onto = site.place.onto(request)
            if onto is None:
                return None
            requests.append((onto, self._view(part.leaf)[at]))
        array = site.below()
        return [
            read_into(array, FILES, request, out, pool=site.pool, fill_missing=site.fill_missing)
            for request, out in requests
        ]

    def _box(self, site: Site, part: StackPart) -> tuple[list[int], Array] | None:
        """Return where a part begins in the array of a layer, and where its elements go."""
        box = part.box(self._view(part.leaf))
        if box is None:
            return None
        place = site.place
        if place.plain:
            return list(map(add, box[0], place.offsets)), box[1]
        return place.box(*box)


def _copy(columns: SiteColumns, alike: Alike, view: Array) -> None:
    first, start, stop = alike.bounds
    size = stop - start
    for layer, part, box in zip(alike.layers, _boxes(first, first + size), _boxes(start, stop), strict=True):
        elements = columns.elements(layer)
        view[box] = elements[part]


def _boxes(start: Numbers, stop: Numbers) -> Iterator[Any]:
    """Yield indices for boxes.

    None of them outlives its turn: Python's search for cycles begins again and again if there are thousands.
    """
    if not start.shape[1]:
        return repeat((...,), len(start))
    return zip(*map(partial(map, slice), start.T.tolist(), stop.T.tolist()), strict=True)


def open_site(site: Site) -> Callable[[IndexTransform, Array], bool]:
    """Return a function that reads a request to where a site's layer is seen, for one worker.

    It returns False, and may have read something, if the request is not a box of a few chunks in the order of
    the dimensions.
    """

    def read(request: IndexTransform, out: Array) -> bool:
        first = box_of(request, out.ndim)
        box = None if first is None else site.place.box(first, out)
        return box is not None and _read(site, *box)

    return read


def read_requests(requests: ChunkRequests, view: Array, stop: Stop) -> None:
    """Read requests that are in one chunk each to their places in `view`."""
    if requests.n:
        pages = pages_of(view)
        if pages is not None:
            pages.prepare(view[requests.hull()])
        source = TableSource(requests, FILES)
        batches = TableReader(requests, view).batches()
        read_chunks(batches, source, stop, fill_missing=requests.fill_missing)


def _read(site: Site, first: Sequence[int], out: Array) -> bool:
    """Fill `out` with a box of a site's array; return False if that takes another way."""
    if type(site) is MemorySite:
        at: list[Any] = [slice(a, a + n) for a, n in zip(first, out.shape, strict=True)]
        np.copyto(out, site.elements[(*at, ...)])
        return True
    assert isinstance(site, FileSite)
    if not is_simple(site.array):
        return False
    start = np.zeros((1, out.ndim), np.int64)
    requests = ChunkRequests(
        site.array, [site.prefix], start + first, start, start + out.shape, site.fill_missing
    )
    if requests.n_chunks > _FEW_CHUNKS:
        return False
    read_requests(requests.in_chunks(), out, [])
    return True


def box_of(request: IndexTransform, rank: int) -> list[int] | None:
    """Return where a request of one dimension after the other, without steps, begins; else None."""
    if len(request._output) != rank:
        return None
    for dim, m in enumerate(request._output):
        if m._dim != dim or m._stride != 1 or m._array is not None:
            return None
    return [m._offset + lo for m, lo in zip(request._output, request._domain._lo, strict=True)]
