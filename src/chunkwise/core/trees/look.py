"""``looking``: one look at the documents of a location and of all groups above it.

A writer asks many questions about a place before it writes: whether there is a node, in which format, and
which group is above it.  In a store with slow requests, listing all these directories answers them in one
round; without listings, the documents do.  The first write ends the look: later questions go to the store.
Every write is conditional, so a node that another process has made meanwhile is not replaced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice, pairwise
from typing import Any

from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import TREE_FORMATS, tree_format
from chunkwise.core.engine.concurrent_requests import is_slow, map_requests
from chunkwise.core.kvstore.places.staging import JOURNAL, UNFINISHED, is_staging
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    Children,
    FewListable,
    KvStoreDriver,
    Reader,
    Stamped,
    delete_where,
    offers,
)
from chunkwise.core.kvstore.store_base import SameKeysStore
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.core.specs.kvstore_spec import KvStoreSpec
from chunkwise.core.trees.location import Location, location_of
from chunkwise.core.trees.node import Node, find_documented
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, PermissionDeniedError

__all__ = [
    "check_new_place",
    "check_not_linked",
    "check_outside_arrays",
    "is_inside_array",
    "is_vacant",
    "looking",
    "looking_above",
    "node_above",
]

_FORMATS = TREE_FORMATS.values()
_ATTRIBUTES = tuple(
    format.attributes_key for format in _FORMATS if format.attributes_key and format.group_key
)
_KEYS = (*(key for format in _FORMATS for key in format.node_keys), *_ATTRIBUTES, JOURNAL, UNFINISHED)


class _Look(SameKeysStore):
    """A store whose documents and listings, in some directories, are those of one look."""

    def __init__(self, base: KvStoreDriver, paths: Sequence[str], expected: Sequence[str] = ()) -> None:
        # The documents below `paths` are listed first; those `expected` are asked for with the listings.
        super().__init__(base)
        self._children: dict[str, Children] = {}
        self._documents: dict[str, Stamped | Exception] = {}
        now = time.time()
        asks: list[Callable[[], Any]] = [partial(_few_children, base, path) for path in paths]
        asks += [partial(_document, base, key) for key in expected]
        answers = map_requests(base, lambda ask: ask(), asks)
        self._documents.update(zip(expected, answers[len(paths) :], strict=True))
        listed = zip(paths, answers, strict=False)
        self._children.update((path, found) for path, found in listed if found is not None)
        self._time = now
        unknown = [path + key for path in paths for key in _KEYS if not self.is_missing(path + key)]
        documents = map_requests(base, partial(_document, base), unknown)
        self._documents.update(zip(unknown, documents, strict=True))

    def is_missing(self, key: str) -> bool:
        """Return True if a listing lacks the key, or a directory around it."""
        directory = key[: key.rfind("/") + 1]
        found = self._children.get(directory)
        if found is not None:
            return key not in found.keys
        while directory and self._children:
            name, directory = directory[:-1], directory[: directory.rfind("/", 0, -1) + 1]
            found = self._children.get(directory)
            if found is not None:
                return name not in found.prefixes
        return False

    def has_nothing(self, path: str) -> bool:
        """Return True if a listing shows that nothing is below `path`."""
        return not any(self._children.get(path, ("unknown",)))

    def end(self) -> None:
        """Ask the store itself from now on."""
        self._documents = {}
        self._children = {}

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return a value from the look; read all others, and parts, from the store."""
        if self.is_missing(key):
            return Stamped(None, MISSING_GENERATION, self._time)
        seen = None if byte_range is not None or if_not_equal is not None else self._documents.get(key)
        if isinstance(seen, Exception):
            raise seen
        return self.base.read(key, byte_range=byte_range, if_not_equal=if_not_equal) if seen is None else seen

    def open_reader(self) -> Reader:
        """Return a reader of the store."""
        return self.base.open_reader()

    def list_children(self, prefix: str) -> Children:
        """Return the level that was seen, or list it."""
        seen = self._children.get(prefix)
        return self.base.list_children(prefix) if seen is None else seen

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Write to the store, and end the look."""
        self.end()
        return self.base.write(key, value, if_equal=if_equal)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete from the store, and end the look."""
        self.end()
        return self.base.delete(key, if_equal=if_equal)

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete from the store, and end the look."""
        self.end()
        self.base.delete_range(start, stop)

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        """Delete from the store, and end the look."""
        self.end()
        delete_where(self.base, start, stop, wanted)


def _few_children(store: KvStoreDriver, path: str) -> Children | None:
    """Return the level below `path`; None if it can't be listed with one request."""
    try:
        return store.few_children(path) if offers(store, FewListable) else None
    except ChunkwiseError:  # reading the documents gives the error
        return None


def _document(store: KvStoreDriver, key: str) -> Stamped | Exception:
    try:
        return read_bounded(store, key)
    except Exception as e:  # raised only for who asks for it
        return e


@contextmanager
def looking(
    location: Location, tree: Location | None = None, format: FormatName | None = None
) -> Iterator[Location]:
    """Yield the location; until the block ends, or writes, its store answers from one look."""
    # In an open `tree` of that format only its own groups are looked at, since they are known to be there.
    above = [at.path for at in location.parents]
    if tree is None:
        paths, expected = [location.path, *above], list[str]()
    else:
        keys = tree_format(format).node_keys
        within = [path for path in above if path.startswith(tree.path)]
        paths, expected = [location.path], [path + key for path in within for key in keys]
    with _looking(location, paths, expected) as seen:
        yield seen


@contextmanager
def looking_above(location: Location, most: int | None = None) -> Iterator[Location]:
    """Do as `looking`, of the groups above alone, or of the nearest of them."""
    with _looking(location, [at.path for at in islice(location.parents, most)]) as seen:
        yield seen


@contextmanager
def _looking(location: Location, paths: Sequence[str], expected: Sequence[str] = ()) -> Iterator[Location]:
    if not is_slow(location.store) or isinstance(location.store, _Look):
        yield location
        return
    look = _Look(location.store, paths, expected)
    try:
        yield location._replace(store=look)
    finally:
        look.end()


def is_vacant(seen: Location) -> bool:
    """Return True if a look has shown that there is nothing: no file, and no key below."""
    look = seen.store
    if not (isinstance(look, _Look) and seen.path):
        return False
    return look.is_missing(seen.path[:-1]) and look.has_nothing(seen.path)


def node_above(location: Location) -> Node | None:
    """Return the nearest array or group with a document above a location, or None."""
    return _looked_above(location, lambda at: None)


def _looked_above(location: Location, look: Callable[[Location], None]) -> Node | None:
    """Return the nearest node above; `look` at the places without one that are nearer."""
    with looking_above(location) as seen:
        for below, at in pairwise(chain((seen,), seen.parents)):
            if is_staging(below.name):  # this is not its final location
                return None
            try:
                node = find_documented(at)
                if node is None:
                    look(at)
            except PermissionDeniedError:  # locations that far above are inaccessible
                return None
            if node is not None:
                return node.in_store(location.store)
    return None


def is_inside_array(location: Location) -> bool:
    """Return True if the nearest node above is an array, whose chunks new keys could look like."""
    above = node_above(location)
    return above is not None and above.kind == "array"


def check_outside_arrays(location: Location) -> Node | None:
    """Raise AlreadyExistsError if `location` is inside an array, whose chunks new keys could look like.

    A copy or store that isn't finished may become one.  A link in the group above has no place below it,
    either.  Returns the node above, if there is one.
    """
    above = _outside_arrays(location, _check_finished)
    base = location.store_spec.base
    if base is not None:  # an archive
        check_outside_arrays(location_of(base))
    return above


def _outside_arrays(location: Location, look: Callable[[Location], None]) -> Node | None:
    with looking_above(location) as seen:
        above = _looked_above(seen, look)
        if above is None:
            return None
        if above.kind == "array":
            raise AlreadyExistsError(f"{above.location.text} is an array; nothing can be below it")
        check_not_linked(above, location.path[len(above.location.path) :].partition("/")[0])
    return above.in_store(location.store)


def check_not_linked(group: Node, name: str, attributes: Mapping[str, JSON] | None = None) -> None:
    """Raise AlreadyExistsError if a group has a link with the name of a new node, which would hide it."""
    from chunkwise.core.trees.link import links_of  # loads what changes attributes

    if link := links_of(group, attributes).get(name):
        raise AlreadyExistsError(
            f"{group.location.child(name).text} is a link to {link}; make it there, or delete the link first"
        )


def _check_finished(location: Location) -> None:
    if any(location.store.read(location.path + key).value is not None for key in (JOURNAL, UNFINISHED)):
        raise AlreadyExistsError(
            f"{location.text} is being written, or its writing was interrupted; nothing else can be in it"
        )


def check_new_place(store: KvStoreDriver, path: str, spec: KvStoreSpec, *, unfinished: bool) -> None:
    """Check that the keys of a new array are in no other, nor, unless allowed, in what is `unfinished`."""
    # A copy makes its arrays inside itself.
    look = (lambda at: None) if unfinished else _check_finished
    _outside_arrays(Location(store, path, store.describe(path), {}, spec), look)
