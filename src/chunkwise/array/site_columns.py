"""The sites of many layers at once: which are read in the same way, and where each lies in its array."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.array.layer_sites import FileSite, Finder, MemorySite, Site
from chunkwise.array.shared_metadata import SharedMetadata
from chunkwise.execute.box_read import is_simple
from chunkwise.execute.boxes import Boxes
from chunkwise.execute.listed_boxes import ListedBoxes
from chunkwise.kvstore.protocol import Reader
from chunkwise.plan.stack_part import Bounds, StackParts

__all__ = ["Alike", "Divided", "SiteColumns"]

Numbers = npt.NDArray[np.int64]

# What stands where the number of a kind of files would.
_NO_SITE, _NOT_PLAIN, _MEMORY = -3, -2, -1


class Alike:
    """Parts of layers that are read in the same way.

    Parameters
    ----------
    rows : ndarray
        Which of many parts, ascending.
    layers : list of int
        Their layers.
    bounds : tuple of ndarray
        Where they begin in their arrays, and where they begin and end in the view, each ``(n, rank)``.
    some : FileSite or None
        Of one of the layers; None if they are in memory.
    prefixes : list of str
        Of the arrays, if they are in files.
    """

    def __init__(
        self, rows: Numbers, layers: list[int], bounds: Bounds, some: FileSite | None, prefixes: list[str]
    ) -> None:
        self.rows, self.layers, self.bounds = rows, layers, bounds
        self._some, self._prefixes = some, prefixes

    @property
    def in_memory(self) -> bool:
        """Whether they are in memory."""
        return self._some is None

    @cached_property
    def boxes(self) -> ListedBoxes | None:
        """The parts as boxes of files; None if their arrays are read in another way."""
        some = self._some
        if some is None or not is_simple(some.array):
            return None
        return ListedBoxes(Boxes(some.array, self._prefixes, *self.bounds, some.fill_missing))


class Divided(NamedTuple):
    """Parts of a request by how their layers are read; those that are not in `alike` by their rows.

    Attributes
    ----------
    alike : list of Alike
    singly : list of int
        What is no plain box.
    to_open : list of int
        Those of layers without a site.
    """

    alike: list[Alike]
    singly: list[int]
    to_open: list[int]


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
        self._last: tuple[object, StackParts | None, range, Divided] = (
            None,
            None,
            range(0),
            Divided([], [], []),
        )
        self._lasting: tuple[object, npt.NDArray[np.bool_]] = None, np.zeros(0, bool)
        self._lock = Lock()

    @property
    def n_kinds(self) -> int:
        """How many kinds of files there have ever been."""
        return len(self._of_kind)

    def divide(
        self, parts: StackParts, rows: range, finder: Callable[[int], Finder], fetch: Reader
    ) -> Divided:
        """Divide parts by how their layers are read, after a look at their sites.

        Parameters
        ----------
        parts : StackParts
            With bounds.
        rows : range
            Which of them.
        finder : callable
            Of a layer.
        fetch : callable
            As :class:`Finder` has it.
        """
        state, known_parts, known_rows, divided = self._last
        if known_parts is parts and known_rows == rows and state is SharedMetadata.state:
            return divided  # a view that is read again
        layers = parts.layers[rows.start : rows.stop]
        state = self._look_at(layers if np.diff(layers).all() else np.unique(layers), finder, fetch)
        divided = self._divide(parts, rows, layers)
        if state is not None:
            self._last = state, parts, rows, divided
        return divided

    def _look_at(self, layers: Numbers, finder: Callable[[int], Finder], fetch: Reader) -> object | None:
        """Find the sites of layers, each told once; return the state in which all of them last, or None."""
        state, lasting = self._lasting
        if state is not SharedMetadata.state:
            # In one go with the state: who marks layers with an older one in mind marks them elsewhere.
            state, lasting = self._lasting = SharedMetadata.state, np.zeros(len(self._seen), bool)
        layers = layers[~lasting[layers]]
        if not layers.size:
            return state
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
        return state if len(last) == len(layers) else None

    def _divide(self, parts: StackParts, rows: range, layers: Numbers) -> Divided:
        bounds = parts.bounds
        assert bounds is not None
        kinds = self._kinds[layers]
        every = np.arange(rows.start, rows.stop)
        divided = Divided([], [], [])
        for kind in np.unique(kinds).tolist() if (kinds != kinds[:1]).any() else kinds[:1].tolist():
            mine = kinds == kind
            numbers, its_rows = layers[mine], every[mine]
            if kind in (_NO_SITE, _NOT_PLAIN):
                (divided.to_open if kind == _NO_SITE else divided.singly).extend(its_rows.tolist())
                continue
            first, start, stop = (along[its_rows] for along in bounds)
            listed = numbers.tolist()
            some = None if kind == _MEMORY else self._of_kind[kind]
            prefixes = [] if some is None else [self._prefixes[number] for number in listed]
            its_bounds = first + self._offsets[numbers], start, stop
            divided.alike.append(Alike(its_rows, listed, its_bounds, some, prefixes))
        return divided

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
