"""Reading layers that have sites: what one worker of a read of a stack does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from chunkwise.array.layer_sites import FILES, Site
from chunkwise.execute.box_read import BoxReader
from chunkwise.kvstore.protocol import Reader
from chunkwise.plan.stack import StackPart

__all__ = ["SiteReader"]


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
