"""Trees of served data: the arrays and groups at their paths, stored or made by a program.

Behind an array of records ``.fields/NAME`` is a field of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, NamedTuple, Protocol

from chunkwise import Context, TensorStore, d
from chunkwise import open as open_spec
from chunkwise.copying.summary import summarize
from chunkwise.errors import InvalidArgumentError, PermissionDeniedError, UnsupportedError
from chunkwise.extension import DEFAULT_TRAITS, JSON, Buffer, ByteRange, Children, Stamped, StoreTraits
from chunkwise.extension.inside import (
    MISSING_GENERATION,
    FileStore,
    ListEntry,
    Reader,
    cached_property,
    extended_path,
    new_lock,
)
from chunkwise.extension.trees import (
    DRIVERS,
    ChunkedArray,
    Location,
    Node,
    children,
    find_node,
    node_attributes,
)
from chunkwise.images.multiscale.image import MultiscaleImage

__all__ = [
    "FIELDS",
    "KNOWN_FOR",
    "ConfinedStore",
    "FixedTree",
    "LocationTree",
    "Member",
    "Served",
    "ServedArray",
    "ServedGroup",
    "Source",
    "at_zero",
    "member_of",
]


# -- stores without ways out --------------------------------------------------------------------------

# The files below a directory, read-only, without those that symbolic links lead to outside.


class ConfinedStore:
    """The files below `directory`, read-only; files outside, after links are resolved, are missing."""

    def __init__(self, directory: str) -> None:
        real = os.path.realpath(directory)
        self.files = FileStore(real)
        self._real = real
        self._inside = real.rstrip(os.sep) + os.sep

    def __reduce__(self) -> tuple[Any, ...]:
        return ConfinedStore, (self._real,)

    @property
    def identity(self) -> Any:
        """Identity of the files."""
        return self.files.identity

    @property
    def traits(self) -> StoreTraits:
        """Those of a store that answers at once; nothing goes past the check of a key."""
        return DEFAULT_TRAITS

    def describe(self, key: str) -> str:
        """Return how the files are named."""
        return self.files.describe(key)

    def leads_inside(self, key: str) -> bool:
        """Return True if the path of `key` stays below the directory when its links are resolved."""
        real = os.path.realpath(self.files.root + key)
        return real == self._real or real.startswith(self._inside)

    def size(self, key: str) -> int | None:
        """Return the size of a value in bytes, None if it is missing."""
        path = extended_path(self.files.root + key)
        return os.path.getsize(path) if self.leads_inside(key) and os.path.isfile(path) else None

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Read a file, which is missing if it lies outside."""
        if not self.leads_inside(key):
            return Stamped(None, MISSING_GENERATION, 0.0)
        return self.files.read(key, byte_range=byte_range, if_not_equal=if_not_equal)

    def open_reader(self) -> Reader:
        """Return a reader for one worker."""
        fetch, leads_inside = self.files.open_reader(), self.leads_inside

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            return fetch(key, start, stop) if leads_inside(key) else None

        return read

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys of files that lie inside."""
        return (key for key in self.files.list(start, stop) if self.leads_inside(key))

    def list_entries(self, start: str = "", stop: str = "") -> Iterator[ListEntry]:
        """Yield keys and sizes of files that lie inside."""
        for key in self.list(start, stop):
            size = self.size(key)
            if size is not None:
                yield ListEntry(key, size, None)

    def list_children(self, prefix: str) -> Children:
        """List one level, without links that lead elsewhere."""
        if not self.leads_inside(prefix):
            return Children([], [])
        keys, prefixes = self.files.list_children(prefix)
        return Children(
            [key for key in keys if self.leads_inside(key)],
            [below for below in prefixes if self.leads_inside(below)],
        )

    def linked_directories(self, prefix: str) -> Sequence[str]:
        """Return the links to directories that lie inside."""
        links = self.files.linked_directories(prefix) if self.leads_inside(prefix) else []
        return [key for key in links if self.leads_inside(key)]

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Refuse."""
        raise _read_only(key)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Refuse."""
        raise _read_only(key)

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Refuse."""
        raise UnsupportedError("served data is read-only")


def _read_only(key: str) -> PermissionDeniedError:
    return PermissionDeniedError(f"served data is read-only: {key!r}")


# -- trees --------------------------------------------------------------------------------------------

FIELDS = ".fields"
"""Name between the path of an array of records and that of a field."""

KNOWN_FOR = 2.0
"""Seconds after which a node is looked at again."""

_MOST_KNOWN = 4096
_SMALL = 1 << 20  # bytes of a chunk
_CACHED_NBYTES = 256 << 20  # of decoded chunks that are kept, since neighbouring tiles share chunks


@dataclass(frozen=True, eq=False)
class ServedArray:
    """An array whose origin is 0."""

    view: TensorStore
    name: str
    node: Node | None = None  # if it is all of a stored array
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)  # what has been made of it, by format
    outside: Location | None = None  # from which the groups above the tree are seen
    assumed: str = ""  # about it, since nothing says so

    @property
    def stored(self) -> ChunkedArray | None:
        """The array as it lies in chunks; None for one that is computed."""
        array = self.view._array
        return array if self.node is not None and isinstance(array, ChunkedArray) else None

    @cached_property
    def is_small(self) -> bool:
        """True if the stored chunk is small enough to be sent without streaming."""
        if self.stored is None:
            return False
        shape = self.view.chunk_layout.write_chunk.shape or (None,)
        nbytes = self.view.dtype.memory_dtype.itemsize * prod(n or _SMALL for n in shape)
        return not self.view.dtype.memory_dtype.hasobject and nbytes <= _SMALL

    @property
    def is_computed(self) -> bool:
        """True if it is put together from others, or computed."""
        return not isinstance(self.view._array, ChunkedArray)


@dataclass(frozen=True, eq=False)
class ServedGroup:
    """A group, whose members are looked for when they are asked for."""

    name: str
    node: Node | None = None
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    members: Mapping[str, ServedArray] = field(default_factory=dict)  # of a group that is not stored
    groups: Mapping[str, ServedGroup] = field(default_factory=dict)  # further members of such a group
    image: MultiscaleImage | None = None  # whose levels the members are
    context: Context | None = None  # with the cache that arrays of the group share
    made: dict[Any, Any] = field(default_factory=dict)  # what has been made of it, by format
    outside: Location | None = None  # from which the groups above the tree are seen


Served = ServedArray | ServedGroup


class Member(NamedTuple):
    """Member of a group in a listing."""

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
        """Yield the members of a group in order; raise UnsupportedError where the store can't list them."""
        ...


class LocationTree:
    """The tree at a location; `outside` leads to the groups above, which may describe its images."""

    def __init__(self, location: Location, outside: Location | None = None) -> None:
        self.location, self._outside = location, outside
        self.is_local = isinstance(location.store, ConfinedStore | FileStore)
        self._context = Context({"cache_pool": {"total_bytes_limit": _CACHED_NBYTES}})
        self._known: dict[tuple[str, ...], tuple[float, Served | None]] = {}
        self._lock = new_lock()

    def find(self, names: tuple[str, ...]) -> Served | None:
        """Return the array or group at a path; recent results are kept."""
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
        node.check()
        if before is not None and before.node is not None and _same(node, before.node):
            return before
        attributes = node_attributes(node)
        outside = self._outside
        if outside is not None:
            outside = outside.at(outside.path + location.path[len(self.location.path) :])
        if node.kind == "group":
            return ServedGroup(location.name, node, attributes, context=self._context, outside=outside)
        assert node.format is not None
        spec = {"driver": DRIVERS[node.format], "kvstore": location.kvstore(), "open": True}
        view = open_spec(spec, read=True, context=self._context).result()
        return ServedArray(at_zero(view), location.name, node, attributes, outside=outside)

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
        """Yield the members of a group in order."""
        if group.node is None:
            yield from map(member_of, group.members.items())
            return
        for name, node in children("", group.node):
            if node.kind == "array" and not node.error:
                summary = summarize(node)
                yield Member(name, "array", summary.shape, summary.dtype)
            elif not node.undeclared or next(children("", node), None) is not None:
                yield Member(name, node.kind, error=node.error)


class FixedTree:
    """An array or group that a program made."""

    def __init__(self, root: Served) -> None:
        self.root = root

    def find(self, names: tuple[str, ...]) -> Served | None:
        """Return the array or group at a path."""
        found: Served | None = self.root
        for name in names:
            if not isinstance(found, ServedGroup):
                return None
            found = found.groups.get(name) or found.members.get(name)
        return found

    def members(self, group: ServedGroup) -> Iterator[Member]:
        """Yield the members of a group in order."""
        yield from (Member(name, "group") for name in group.groups)
        yield from map(member_of, group.members.items())


def member_of(item: tuple[str, ServedArray]) -> Member:
    """Return the entry of an array in a listing."""
    name, found = item
    return Member(name, "array", found.view.shape, found.view.dtype.name)


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
    in_document = not a.rules.attributes_key  # attributes of the others lie beside it
    return in_document and a.found.generation == b.found.generation
