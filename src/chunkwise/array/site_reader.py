"""Reading layers that have sites: what one worker of a read of a stack does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.array.layer_sites import FILES, FileSite, MemorySite, Site
from chunkwise.codec.rows import copy_rows
from chunkwise.execute.box_read import BoxReader, is_simple
from chunkwise.execute.future import Future
from chunkwise.execute.read import read_into
from chunkwise.index_space import IndexTransform
from chunkwise.kvstore.protocol import Reader
from chunkwise.plan.stack_part import StackPart

__all__ = ["SiteReader", "open_site"]

_FEW_BYTES = 2048


class SiteReader:
    """Reads parts of layers, for one worker.

    Parameters
    ----------
    find : callable
        ``find(number, fetch)`` gives the site of a layer, None if it has none.
    view : callable
        Gives the caller's array as a part sees it.
    """

    def __init__(
        self,
        find: Callable[[int, Reader], Site | None],
        view: Callable[[StackPart], npt.NDArray[Any]],
    ) -> None:
        self._find = find
        self._view = view
        self._boxes = BoxReader(FILES)

    def site(self, number: int) -> Site | None:
        """Return the site of a layer."""
        return self._find(number, self._boxes.fetch)

    def read(self, number: int, parts: Sequence[StackPart]) -> bool:
        """Read what one layer has of a request; return False if it has to be opened for that."""
        site = self._find(number, self._boxes.fetch)
        if site is None:
            return False
        for part in parts:
            box = self._box(site, part)
            if box is None or not _read(self._boxes, site, *box):
                started = self.start(number, parts)
                for future in started or ():
                    future.result()
                return started is not None
        return True

    def start(self, number: int, parts: Sequence[StackPart]) -> list[Future[npt.NDArray[Any]]] | None:
        """Begin to read what one layer has of a request; return None if it has to be opened for that."""
        site = self._find(number, self._boxes.fetch)
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
            requests.append((onto, self._view(part)[at]))
        array = site.below()
        return [
            read_into(array, FILES, request, out, pool=site.pool, fill_missing=site.fill_missing)
            for request, out in requests
        ]

    def _box(self, site: Site, part: StackPart) -> tuple[list[int], npt.NDArray[Any]] | None:
        """Return where a part begins in the array of a layer, and where its elements go."""
        box = part.box(self._view(part))
        if box is None:
            return None
        place = site.place
        if place.plain:
            return list(map(add, box[0], place.offsets)), box[1]
        return place.box(*box)


def open_site(site: Site) -> Callable[[IndexTransform, npt.NDArray[Any]], bool]:
    """Return a function that reads a request to where a site's layer is seen, for one worker.

    It returns False, and may have read something, if the request is not a box of a few chunks in the order of
    the dimensions.
    """
    reader = BoxReader(FILES)

    def read(request: IndexTransform, out: npt.NDArray[Any]) -> bool:
        first = box_of(request, out.ndim)
        box = None if first is None else site.place.box(first, out)
        return box is not None and _read(reader, site, *box)

    return read


def _read(reader: BoxReader, site: Site, first: Sequence[int], out: npt.NDArray[Any]) -> bool:
    if type(site) is MemorySite:
        at: list[Any] = [slice(a, a + n) for a, n in zip(first, out.shape, strict=True)]
        elements = site.elements[(*at, ...)]
        (np.copyto if out.nbytes < _FEW_BYTES else copy_rows)(out, elements)
        return True
    assert isinstance(site, FileSite)
    if not is_simple(site.array):
        return False
    return reader.read(site.array, site.prefix, first, out, fill_missing=site.fill_missing)


def box_of(request: IndexTransform, rank: int) -> list[int] | None:
    """Return where a request of one dimension after the other, without steps, begins; else None."""
    if len(request._output) != rank:
        return None
    for dim, m in enumerate(request._output):
        if m._dim != dim or m._stride != 1 or m._array is not None:
            return None
    return [m._offset + lo for m, lo in zip(request._output, request._domain._lo, strict=True)]
