"""What is served: named trees of stored arrays, and arrays and images that a program has.

A path is a name of a source and the path in it, such as ``volume.zarr/raw/s0``.  Behind an array of
records ``.fields/NAME`` is a field of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from chunkwise.api.array import array as array_of
from chunkwise.api.open import open as open_spec
from chunkwise.api.tensorstore import TensorStore
from chunkwise.arrays.chunked import ChunkedArray
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)
from chunkwise.fork import new_lock
from chunkwise.groups.group import Group
from chunkwise.hierarchy.attributes import node_attributes
from chunkwise.hierarchy.location import Location, locate
from chunkwise.hierarchy.node import DRIVERS, Node, find_node, nothing_at
from chunkwise.hierarchy.walk import children
from chunkwise.index_space import d
from chunkwise.multiscale.image import MultiscaleImage
from chunkwise.server.confined import ConfinedStore
from chunkwise.spec.context import Context
from chunkwise.spec.url import is_url
from chunkwise.tools.spec_file import read_spec_file
from chunkwise.tools.summary import summarize

__all__ = [
    "FIELDS",
    "KNOWN_FOR",
    "Member",
    "Served",
    "ServedArray",
    "ServedGroup",
    "Source",
    "Sources",
    "at_zero",
    "sources_of",
]

FIELDS = ".fields"
"""Name between the path of an array of records and that of a field."""

_SHOWN = 5
KNOWN_FOR = 2.0
"""Seconds after which a node is looked at again."""

_MOST_KNOWN = 4096
_CACHED_NBYTES = 256 << 20  # of decoded chunks that are kept, since neighbouring tiles share chunks


@dataclass(frozen=True, eq=False)
class ServedArray:
    """An array whose origin is 0."""

    view: TensorStore
    name: str
    node: Node | None = None  # if it is all of a stored array
    attributes: Mapping[str, Any] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)  # what has been made of it, by format

    @property
    def stored(self) -> ChunkedArray | None:
        """The array as it lies in chunks; None for one that is computed."""
        array = self.view._array
        return array if self.node is not None and isinstance(array, ChunkedArray) else None

    @property
    def is_computed(self) -> bool:
        """True if it is put together from others, or computed."""
        return not isinstance(self.view._array, ChunkedArray)


@dataclass(frozen=True, eq=False)
class ServedGroup:
    """A group, whose members are looked for when they are asked for."""

    name: str
    node: Node | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    members: Mapping[str, ServedArray] = field(default_factory=dict)  # of a group that is not stored
    context: Context | None = None  # with the cache that arrays of the group share
    made: dict[str, Any] = field(default_factory=dict)  # what has been made of it, by format


Served = ServedArray | ServedGroup


class Member(NamedTuple):
    """What a listing tells of a member of a group."""

    name: str
    kind: Literal["array", "group"]
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    error: str = ""


class Source(Protocol):
    """A tree whose nodes are found by path."""

    def find(self, names: tuple[str, ...]) -> Served | None:
        """Return the array or group at a path, None if there is none."""
        ...

    def members(self, group: ServedGroup) -> Iterator[Member]:
        """Yield the members of a group in order."""
        ...


class StoredTree:
    """The tree at a location."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._context = Context({"cache_pool": {"total_bytes_limit": _CACHED_NBYTES}})
        self._known: dict[tuple[str, ...], tuple[float, Served | None]] = {}
        self._lock = new_lock()

    def find(self, names: tuple[str, ...]) -> Served | None:
        """Return the array or group at a path; what was found lately is not looked at again."""
        now = time.monotonic()
        when, found = self._known.get(names, (float("-inf"), None))
        if now - when < KNOWN_FOR:
            return found
        found = self._look(names, found)
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[names] = now, found
        return found

    def _look(self, names: tuple[str, ...], before: Served | None) -> Served | None:
        if not names:
            return self._served(find_node(self.location), self.location, before)
        above = self.find(names[:-1])
        if isinstance(above, ServedArray):
            return self._fields(above) if names[-1] == FIELDS else None
        if above is None:
            return None
        if above.members:
            return above.members.get(names[-1])
        assert above.node is not None
        location = above.node.location.child(names[-1])
        return self._served(find_node(location, above.node.format), location, before)

    def _served(self, node: Node | None, location: Location, before: Served | None) -> Served | None:
        if node is None:
            return None
        if node.error:
            raise FailedPreconditionError(f"{location.describe(node.key)}: {node.error}")
        if before is not None and before.node is not None and _same(node, before.node):
            return before
        attributes = node_attributes(node)
        if node.kind == "group":
            return ServedGroup(location.name, node, attributes, context=self._context)
        assert node.format is not None
        spec = {"driver": DRIVERS[node.format], "kvstore": location.kvstore(), "open": True}
        view = open_spec(spec, read=True, context=self._context).result()
        return ServedArray(at_zero(view), location.name, node, attributes)

    def _fields(self, above: ServedArray) -> ServedGroup | None:
        """Return the fields of an array of records as a group."""
        names = above.view.dtype.memory_dtype.names
        if names is None or above.node is None:
            return None
        found = {name: self._field(above, name) for name in names}
        return ServedGroup(FIELDS, members={name: a for name, a in found.items() if a is not None})

    def _field(self, above: ServedArray, name: str) -> ServedArray | None:
        node = above.node
        if node is None or node.format is None or name not in (above.view.dtype.memory_dtype.names or ()):
            return None
        spec = {"driver": DRIVERS[node.format], "kvstore": node.location.kvstore(), "field": name}
        view = open_spec({**spec, "open": True}, read=True, context=self._context).result()
        return ServedArray(at_zero(view), name)

    def members(self, group: ServedGroup) -> Iterator[Member]:
        """Yield the members of a group in order; none where the store can't list."""
        if group.node is None:
            yield from map(_member, group.members.items())
            return
        try:
            for name, node in children("", group.node):
                if node.kind == "array" and not node.error:
                    summary = summarize(node)
                    yield Member(name, "array", summary.shape, summary.dtype)
                elif not node.undeclared or next(children("", node), None) is not None:
                    yield Member(name, node.kind, error=node.error)
        except UnsupportedError:  # a web server
            return


class FixedTree:
    """An array or group that a program made."""

    def __init__(self, root: Served) -> None:
        self.root = root

    def find(self, names: tuple[str, ...]) -> Served | None:
        """Return the array or group at a path."""
        if not names:
            return self.root
        if len(names) == 1 and isinstance(self.root, ServedGroup):
            return self.root.members.get(names[0])
        return None

    def members(self, group: ServedGroup) -> Iterator[Member]:
        """Yield the members of a group in order."""
        yield from map(_member, group.members.items())


class Sources(dict[str, Source]):
    """Sources by name."""

    def find(self, names: Sequence[str]) -> Served | None:
        """Return what is at a path, whose first name is that of a source."""
        source = self.get(names[0]) if names else None
        return None if source is None else source.find(tuple(names[1:]))

    def split(self, names: Sequence[str]) -> tuple[Served, str] | None:
        """Divide a path into a node and a key in it; None if not even the first name is a source's."""
        source = self.get(names[0]) if names else None
        found = None if source is None else source.find(())
        if source is None or found is None:
            return None
        n = 1
        while n < len(names):
            if isinstance(found, ServedArray) and names[n] != FIELDS:
                break  # the names of chunks are no nodes
            below = source.find(tuple(names[1 : n + 1]))
            if below is None:
                break
            found, n = below, n + 1
        return found, "/".join(names[n:])

    def members(self, names: Sequence[str], group: ServedGroup) -> Iterator[Member]:
        """Yield the members of the group at a path, in order."""
        return self[names[0]].members(group)

    def top(self) -> Iterator[Member]:
        """Yield the sources."""
        for name, source in self.items():
            found = source.find(())
            if isinstance(found, ServedArray):
                yield _member((name, found))
            elif found is not None:
                yield Member(name, "group")


def _member(item: tuple[str, ServedArray]) -> Member:
    name, found = item
    return Member(name, "array", found.view.shape, found.view.dtype.name)


def sources_of(what: Any) -> Sources:
    """Return the sources that `what` stands for: a path, an array, a group, or several of them.

    Raises
    ------
    NotFoundError
        If there is no array or group at a path; the message lists what there is.
    """
    sources = Sources()
    if isinstance(what, Mapping):
        for name, one in what.items():
            if not isinstance(name, str) or not name or "/" in name or name in (".", ".."):
                raise InvalidArgumentError(f'names of what is served are text without "/", not {name!r}')
            sources[name] = _source(one)
        return sources
    for one in what if isinstance(what, tuple) else (what,):
        source = _source(one)
        base = _name_of(one)
        name, n = base, 2
        while name in sources:
            name, n = f"{base}-{n}", n + 1
        sources[name] = source
    return sources


def _name_of(one: Any) -> str:
    if isinstance(one, Group):
        return one.location.name or "tree"
    if isinstance(one, TensorStore):
        node = one._find_node().node
        path = (one.name or "").strip("/") or ("" if node is None else node.location.name)
        return path.rpartition("/")[2] or "array"
    if isinstance(one, str | os.PathLike):
        text = os.fspath(one).rstrip("/|:").removesuffix("|zip")
        text = text if is_url(text) else os.path.abspath(text)
        return text.rpartition("/")[2].partition("|")[0].partition("?")[0] or "root"
    return "array" if isinstance(one, np.ndarray) else "image"


def _source(one: Any) -> Source:
    if isinstance(one, str | os.PathLike):
        return _stored(os.fspath(one))
    if isinstance(one, Group):
        return StoredTree(one.location)
    if isinstance(one, np.ndarray):
        one = array_of(one)
    if isinstance(one, TensorStore):
        return FixedTree(_of_view(one, "array"))
    levels = list(one.levels) if isinstance(one, MultiscaleImage) else one
    if isinstance(levels, list | tuple) and levels and all(isinstance(a, TensorStore) for a in levels):
        members = {str(i): _of_view(level, str(i)) for i, level in enumerate(levels)}
        return FixedTree(ServedGroup("image", members=members))
    raise TypeError(
        "expected a path, an array, a group, an image or a list of its levels, "
        f"but received {type(one).__name__}"
    )


def _stored(text: str) -> Source:
    spec = read_spec_file(text)
    if spec is not None:
        view = open_spec(spec, read=True).result()
        return FixedTree(ServedArray(at_zero(view), os.path.basename(text)))
    location = locate(text)
    if not is_url(text) and "|" not in text and os.path.isdir(text):
        location = locate(ConfinedStore(text))
    node = find_node(location)
    if node is None:
        raise _nothing_at(text)
    if node.error:
        raise FailedPreconditionError(f"{location.describe(node.key)}: {node.error}")
    if node.kind == "group" and node.undeclared and next(children("", node), None) is None:
        raise _nothing_at(text)
    tree = StoredTree(location)
    tree.find(())  # metadata that can't be understood are an error now
    return tree


def _nothing_at(text: str) -> NotFoundError:
    """Return the error that there is nothing to serve; it lists what is near a local path."""
    error = nothing_at(locate(text))
    above, name = os.path.split(os.path.abspath(text))
    if is_url(text) or "|" in text or os.path.exists(text) or not os.path.isdir(above):
        return error
    names = sorted(os.listdir(above))
    near = get_close_matches(name, names, _SHOWN, 0.4) or names[:_SHOWN]
    if not near:
        return error
    return NotFoundError(f"{error.message}; near it there is {', '.join(near)}")


def _of_view(view: TensorStore, name: str) -> ServedArray:
    whole = view.domain == view._array.domain and isinstance(view._array, ChunkedArray)
    node = view._find_node().node if whole and view.transaction is None else None
    try:
        attributes = view.attrs.asdict()
    except ChunkwiseError:
        attributes = {}
    return ServedArray(at_zero(view), view.name or name, node, attributes)


def at_zero(view: TensorStore) -> TensorStore:
    """Return a view whose bounds are known and begin at 0."""
    if any(
        lo < -(2**61) or hi > 2**61 for lo, hi in zip(view.origin, view.domain.exclusive_max, strict=True)
    ):
        raise InvalidArgumentError(f"only arrays with bounds can be served, not {view.domain}")
    view = view[d[:].mark_bounds_implicit[False]] if view.rank else view
    return view.translate_to[(0,) * view.rank] if view.rank else view


def _same(a: Node, b: Node) -> bool:
    """Return True if documents are those that were read before."""
    if a.format != b.format or a.kind != b.kind or a.found is None or b.found is None:
        return False
    in_document = a.format in ("zarr3", "n5")  # attributes of the others lie beside it
    return in_document and a.found.generation == b.found.generation
