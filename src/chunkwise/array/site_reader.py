"""Reading layers that have sites: what one worker of a read of a stack does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from chunkwise.array.layer_sites import FILES, Site
from chunkwise.execute.box_read import BoxReader
from chunkwise.index_space import IndexTransform
from chunkwise.kvstore.protocol import Reader
from chunkwise.plan.stack import StackPart

__all__ = ["SiteReader", "open_site"]


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
        array, prefix, place, fill_missing = site
        for part in parts:
            box = None if part.indexed else part.box(self._view(part))
            box = None if box is None else place.box(*box)
            if box is None or not self._boxes.read(array, prefix, *box, fill_missing=fill_missing):
                return False
        return True


def open_site(site: Site) -> Callable[[IndexTransform, npt.NDArray[Any]], bool]:
    """Return a function that reads a request to where a site's layer is seen, for one worker.

    It returns False, and may have read something, if the request is not a box of a few chunks in the order of
    the dimensions.
    """
    reader = BoxReader(FILES)
    array, prefix, place, fill_missing = site

    def read(request: IndexTransform, out: npt.NDArray[Any]) -> bool:
        first = box_of(request, out.ndim)
        box = None if first is None else place.box(first, out)
        return box is not None and reader.read(array, prefix, *box, fill_missing=fill_missing)

    return read


def box_of(request: IndexTransform, rank: int) -> list[int] | None:
    """Return where a request of one dimension after the other, without steps, begins; else None."""
    if len(request._output) != rank:
        return None
    for dim, m in enumerate(request._output):
        if m._dim != dim or m._stride != 1 or m._array is not None:
            return None
    return [m._offset + lo for m, lo in zip(request._output, request._domain._lo, strict=True)]
