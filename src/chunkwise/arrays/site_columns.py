"""The sites of many layers at once: which are read in the same way, and where each lies in its array."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.arrays.layer_sites import FileSite, Finder, MemorySite, Site
from chunkwise.arrays.shared_metadata import SharedMetadata
from chunkwise.cached import cached_property
from chunkwise.engine.requests import ChunkRequests, is_simple
from chunkwise.kvstore.protocol import Reader
from chunkwise.plan.stack_part import Bounds, StackParts

__all__ = ["Alike", "Divided", "SiteColumns"]

Numbers = npt.NDArray[np.int64]

# Layers of which metadata changes over and over.
_MOST_KINDS = 1024
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
    def requests(self) -> ChunkRequests | None:
        """The parts as requests for chunks of files; None if their arrays are read in another way."""
        some = self._some
        if some is None or not is_simple(some.array):
            return None
        return ChunkRequests(some.array, self._prefixes, *self.bounds, some.fill_missing)


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
    """What is known of the sites of layers, by number, in one :attr:`SharedMetadata.state`.

    Several reads may look at the same layer at once, and see different metadata.  So a layer's site and kind
    are one entry, and all else is the same for all that a layer can have.

    Parameters
    ----------
    n, rank : int
        Of the layers, and of the stack.
    """

    def __init__(self, n: int, rank: int) -> None:
        self._state = SharedMetadata.state
        # One more than layers: what is no layer has the number -1, and no site.
        self._seen: list[tuple[Site | None, int]] = [(None, _NO_SITE)] * (n + 1)
        self._lasting = np.zeros(n + 1, bool)
        self._offsets = np.zeros((n + 1, rank), np.int64)
        self._prefixes = [""] * (n + 1)
        self._of_kind: dict[int, FileSite] = {}
        self._kind_of: dict[object, int] = {}
        self._next_kind = count()
        self._last: tuple[StackParts | None, range, Divided] = None, range(0), Divided([], [], [])

    @property
    def is_current(self) -> bool:
        """Whether what lasts in a state still does, and not too many kinds of files have been seen."""
        return self._state is SharedMetadata.state and len(self._of_kind) <= _MOST_KINDS

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
        known_parts, known_rows, divided = self._last
        if known_parts is parts and known_rows == rows:
            return divided  # a view that is read again
        layers = parts.layers[rows.start : rows.stop]
        self._look_at(layers if np.diff(layers).all() else np.unique(layers), finder, fetch)
        divided = self._divide(parts, rows, layers)
        if self._lasting[layers].all():
            self._last = parts, rows, divided
        return divided

    def _look_at(self, layers: Numbers, finder: Callable[[int], Finder], fetch: Reader) -> None:
        """Find the sites of layers, each told once."""
        seen = self._seen
        last = []
        for number in layers[~self._lasting[layers]].tolist():
            find, is_lasting = finder(number)
            site = find(fetch)
            if site is not seen[number][0]:
                seen[number] = site, self._kind(number, site)
            if is_lasting:
                last.append(number)
        self._lasting[last] = True

    def _divide(self, parts: StackParts, rows: range, layers: Numbers) -> Divided:
        bounds = parts.bounds
        assert bounds is not None
        kinds = np.array([self._seen[number][1] for number in layers.tolist()])
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
        site, _ = self._seen[layer]
        assert isinstance(site, MemorySite)
        return site.elements

    def _kind(self, number: int, site: Site | None) -> int:
        """Return the number of what is the same for sites that are read in the same way."""
        if site is None:
            return _NO_SITE
        if not site.place.plain:
            return _NOT_PLAIN
        self._offsets[number] = site.place.offsets
        if isinstance(site, MemorySite):
            return _MEMORY
        self._prefixes[number] = site.prefix
        same = _same(site)
        kind = self._kind_of.get(same)
        if kind is None:
            kind = next(self._next_kind)
            self._of_kind[kind] = site  # which keeps what `same` names; two may be made, and one is used
            kind = self._kind_of.setdefault(same, kind)
        return kind


def _same(site: FileSite) -> object:
    """Return what is the same for arrays that are read in the same way."""
    array = site.array
    return is_simple(array), id(array.chain), id(array.fill_value), array.keys, site.fill_missing
