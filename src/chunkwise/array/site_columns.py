"""The sites of many layers at once: which are read in the same way, and where each lies in its array."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.array.layer_sites import FileSite, Finder, MemorySite, Site
from chunkwise.array.shared_metadata import SharedMetadata
from chunkwise.execute.box_read import is_simple
from chunkwise.execute.boxes import Boxes
from chunkwise.kvstore.protocol import Reader
from chunkwise.plan.stack_part import Bounds, StackParts

__all__ = ["Alike", "SiteColumns"]

Numbers = npt.NDArray[np.int64]

# What stands where the number of a kind of files would.
_NO_SITE, _NOT_PLAIN, _MEMORY = -3, -2, -1


class Alike(NamedTuple):
    """Parts of layers that are read in the same way.

    Attributes
    ----------
    rows : ndarray
        Which of many parts, ascending.
    layers : list of int
        Their layers.
    some : FileSite or None
        Of one of the layers; None if they are in memory.
    offsets : ndarray
        From the stack to the array of each, of shape ``(n, rank)``.
    prefixes : list of str
        Of the arrays, if they are in files.
    """

    rows: Numbers
    layers: list[int]
    some: FileSite | None
    offsets: Numbers
    prefixes: list[str]

    def bounds(self, bounds: Bounds) -> Bounds:
        """Return where the parts begin in their arrays, and where they begin and end in the view."""
        first, start, stop = bounds
        if len(self.rows) != len(first):
            first, start, stop = first[self.rows], start[self.rows], stop[self.rows]
        return first + self.offsets, start, stop

    def boxes(self, bounds: Bounds) -> Boxes | None:
        """Return the parts as boxes; None if their arrays are read in another way."""
        some = self.some
        assert some is not None
        if not is_simple(some.array):
            return None
        return Boxes(some.array, self.prefixes, *self.bounds(bounds), some.fill_missing)


class SiteColumns:
    """What is known of the sites of layers, by number; it is looked at whether that still holds.

    Parameters
    ----------
    n, rank : int
        Of the layers, and of the stack.
    """

    def __init__(self, n: int, rank: int) -> None:
        # One more than layers: what is no layer has the number -1, and no site.
        self._seen: list[Site | None] = [None] * (n + 1)
        self._kinds = np.full(n + 1, _NO_SITE, np.int32)
        self._offsets = np.zeros((n + 1, rank), np.int64)
        self._prefixes = [""] * (n + 1)
        self._of_kind: list[FileSite] = []
        self._number_of: dict[object, int] = {}
        self._lasting: tuple[object, npt.NDArray[np.bool_]] = None, np.zeros(0, bool)
        self._lock = Lock()

    @property
    def n_kinds(self) -> int:
        """How many kinds of files there have ever been."""
        return len(self._of_kind)

    def look_at(self, layers: Numbers, finder: Callable[[int], Finder], fetch: Reader) -> None:
        """Find the sites of layers, each of which is told once."""
        state, lasting = self._lasting
        if state is not SharedMetadata.state:
            # In one go with the state: who marks layers with an older one in mind marks them elsewhere.
            state, lasting = self._lasting = SharedMetadata.state, np.zeros(len(self._seen), bool)
        layers = layers[~lasting[layers]]
        if not layers.size:
            return
        seen = self._seen
        last = []
        for number in layers.tolist():
            find, is_lasting = finder(number)
            site = find(fetch)
            if site is not seen[number]:
                self._see(number, site)
            if is_lasting:
                last.append(number)
        lasting[last] = True

    def alike(self, parts: StackParts, rows: range) -> tuple[list[Alike], Numbers, Numbers]:
        """Return parts that are read in the same way, those that are no plain boxes, and those without sites.

        Parameters
        ----------
        parts : StackParts
        rows : range
            Which of them; their layers have been looked at.
        """
        layers = parts.layers[rows.start : rows.stop]
        kinds = self._kinds[layers]
        every = np.arange(rows.start, rows.stop)
        found: list[Alike] = []
        left: dict[int, Numbers] = {}
        for kind in np.unique(kinds).tolist() if (kinds != kinds[:1]).any() else kinds[:1].tolist():
            mine = slice(None) if (kinds == kind).all() else kinds == kind
            if kind in (_NO_SITE, _NOT_PLAIN):
                left[kind] = every[mine]
                continue
            numbers = layers[mine]
            listed = numbers.tolist()
            some = None if kind == _MEMORY else self._of_kind[kind]
            prefixes = [] if some is None else [self._prefixes[number] for number in listed]
            found.append(Alike(every[mine], listed, some, self._offsets[numbers], prefixes))
        return found, left.get(_NOT_PLAIN, every[:0]), left.get(_NO_SITE, every[:0])

    def elements(self, layer: int) -> npt.NDArray[Any]:
        """Return the elements of a layer in memory, which it always is."""
        site = self._seen[layer]
        assert isinstance(site, MemorySite)
        return site.elements

    def _see(self, number: int, site: Site | None) -> None:
        kind = _NO_SITE
        with self._lock:
            if site is not None and not site.place.plain:
                kind = _NOT_PLAIN
            elif site is not None:
                self._offsets[number] = site.place.offsets
                kind = _MEMORY
            if isinstance(site, FileSite) and kind != _NOT_PLAIN:
                self._prefixes[number] = site.prefix
                same = _same(site)
                if same not in self._number_of:
                    self._number_of[same] = len(self._of_kind)
                    self._of_kind.append(site)
                kind = self._number_of[same]
            self._kinds[number] = kind
            self._seen[number] = site


def _same(site: FileSite) -> object:
    """Return what is the same for arrays that are read in the same way; what it names is kept by the site."""
    array = site.array
    return is_simple(array), id(array.chain), id(array.fill_value), array.keys, site.fill_missing
