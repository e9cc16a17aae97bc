"""Nodes: the array or group at a location, from its documents alone; their names and paths.

Documents are tried in this order: ``zarr.json``, ``.zarray``, ``.zgroup``, ``attributes.json``, ``meta``; but
first those in the format of the group above.  A location without any document is an implicit group if
something is below it.  In an N5 container every directory is a group.  The document of an array is not
interpreted here, so that arrays with unknown codecs or data types can be listed too.

A path is names joined by ``/``; empty components are dropped, so ``/a//b/`` is ``a/b``.  A leading ``/``
means the root of the opened tree.  No component may be ``.`` or ``..``, or contain a backslash or a NUL: a
backslash is a ``/`` in Zarr v2, an escape in N5, and a separator in Windows, so each would find a different
node.

New nodes can't have names that a format reserves:

======  ============================================================================================
zarr3   ``zarr.json``, names of nothing but periods, and names that begin with ``__``
zarr2   names that begin with ``.z``, such as ``.zattrs``
n5      ``attributes.json``
all     the documents of the other formats, names that end in ``.__lock``, journals of copies
======  ============================================================================================

Specification: Zarr core v3.1, "Node names"; Zarr v2, "Logical storage paths"; N5 README, "File-system
specification"; n5-java ``N5URI.normalizeGroupPath``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.driver.found_instead import database_instead, found_instead, interrupted_instead
from chunkwise.core.driver.tree_format import FormatName, TreeFormat
from chunkwise.core.driver.tree_formats import TREE_FORMATS, tree_format
from chunkwise.core.engine.concurrent_requests import is_slow, map_requests
from chunkwise.core.kvstore.files.path import LOCK_SUFFIX
from chunkwise.core.kvstore.places.staging import JOURNAL, UNFINISHED, is_staging
from chunkwise.core.kvstore.protocol import (
    Children,
    KvStoreDriver,
    Stamped,
    WithDirectories,
    WithLinks,
    offers,
)
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.core.trees.location import Location, inside_file
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedError,
)

__all__ = [
    "DOCUMENTS",
    "JOURNAL",
    "Node",
    "check_new_names",
    "find_documented",
    "find_node",
    "how_to_say",
    "instead_of_node",
    "is_declared",
    "is_link",
    "is_name",
    "node_of",
    "nodes_below",
    "require_node",
    "split_path",
    "what_is_at",
]

_UNFINISHED = {
    JOURNAL: "unfinished copy: its command goes on with --resume",
    UNFINISHED: "unfinished HDMF store: its writing was interrupted or goes on",
}

DOCUMENTS = tuple(key for format in TREE_FORMATS.values() for key in format.documents)
"""All metadata keys of all formats, relative to a node."""


@dataclass(frozen=True, slots=True)
class Node:
    """An array or group."""

    location: Location
    format: FormatName | None  # None for an implicit group outside N5 containers
    kind: Literal["array", "group"]
    key: str = ""  # key of the document, relative to the node; empty for an implicit group
    document: Mapping[str, JSON] = None  # type: ignore[assignment]  # empty if it can't be read
    error: str = ""  # why the document can't be read
    found: Stamped | None = field(default=None, repr=False, compare=False)  # the document as read

    def __post_init__(self) -> None:
        if self.document is None:
            object.__setattr__(self, "document", {})

    @property
    def implicit(self) -> bool:
        """True for a group without a document, with something below it."""
        return not self.key

    @property
    def is_unfinished(self) -> bool:
        """True for a copy or store that is not complete."""
        return self.key in _UNFINISHED

    @property
    def undeclared(self) -> bool:
        """True for a directory that is a group only because of its content; in N5 every directory is one."""
        return not self.key and not self.rules.directories_are_groups

    @property
    def rules(self) -> TreeFormat:
        """Rules by which the node's format stores trees."""
        return tree_format(self.format)

    @property
    def own_format(self) -> FormatName | None:
        """The format; None for a node read by reference, whose metadata is made up."""
        return None if traits_of(self.location.store).by_reference else self.format

    def check(self) -> None:
        """Raise FailedPreconditionError if the document can't be read."""
        if self.error:
            raise FailedPreconditionError(f"{self.location.describe(self.key)}: {self.error}")

    def in_store(self, store: KvStoreDriver) -> Node:
        """Return the same node, in another store of the same storage."""
        return replace(self, location=self.location._replace(store=store))

    @property
    def is_container(self) -> bool:
        """True for the root of an N5 container, which may be a dataset and have nodes below it."""
        member = self.rules.container_member
        return bool(member) and member in self.document


def find_node(
    location: Location, inside: FormatName | None = None, others: list[str] | None = None
) -> Node | None:
    """Return the node at `location`, or None; documents in the format `inside` are tried first."""
    # `others` is filled with the names of keys that exist instead of a document.
    return find_documented(location, inside) or _implicit(location, inside, others)


def find_documented(location: Location, inside: FormatName | None = None) -> Node | None:
    """Return the node with a document at `location`, or None; see `find_node`."""
    refusal: PermissionDeniedError | None = None
    for keys in _lookups(location.store, inside):
        answers = map_requests(location.store, partial(_ask, location), keys)
        for key, found in zip(keys, answers, strict=True):
            if isinstance(found, PermissionDeniedError):
                refusal = refusal or found
                continue
            if isinstance(found, Exception):
                raise found
            if found.value is not None:
                node = node_of(location, key, found)
                if node.rules.is_sure(node.document, node.error):
                    return node
    if (
        refusal is not None
    ):  # where keys can't be listed, a missing document is refused; another was looked for
        raise refusal
    return None


def is_declared(location: Location) -> bool:
    """Return True if a document declares a node, or a container around it."""
    # Otherwise it may be any directory, perhaps a long one, which must not be searched.
    if find_documented(location) is not None:
        return True
    from chunkwise.core.trees.container import container_root  # two modules, where no document is

    return container_root(location) is not None


_FORMAT_OF = {key: format for format in TREE_FORMATS.values() for key in format.node_keys}


def _lookups(store: KvStoreDriver, inside: FormatName | None) -> list[tuple[str, ...]]:
    """Return the keys of documents in the order of trying; keys of one item are read together."""
    # The likely ones come first: those of a node in a group of the given format.
    likely = tree_format(inside).node_keys or tuple(_FORMAT_OF)[:1]
    rest = [key for key in _FORMAT_OF if key not in likely]
    # Zarr v1 has no groups, and few arrays: it is asked for if nothing else is there.
    last = [key for key in rest if not _FORMAT_OF[key].group_key]
    batches = [tuple(key for key in rest if key not in last), tuple(last)]
    return [*((key,) for key in likely), *(batches if is_slow(store) else ((key,) for key in rest))]


def _ask(location: Location, key: str) -> Stamped | Exception:
    try:
        return read_bounded(location.store, location.path + key)
    except Exception as e:  # it counts only if no earlier document exists
        return e


def _node_or_file(location: Location) -> Node:
    """Return the node at `location`, or the one in a file there; raise if there is none."""
    node = find_node(location)
    inside = inside_file(location) if node is None else None
    if inside is not None:
        location, node = inside, find_node(inside)
    if node is None:
        raise nothing_at(location)
    return node


def require_node(location: Location) -> Node:
    """Return the node at `location`; raise if there is none, or its document can't be read."""
    node = _node_or_file(location)
    node.check()
    return node


def nothing_at(location: Location, what: str = "array or group") -> NotFoundError:
    """Return the error for a location without a node, which names the content that is there instead."""
    found = what_is_at(location)
    looked = "no zarr.json, .zarray, .zgroup, attributes.json or meta"
    return NotFoundError(f"there is no {what} at {location.text}: {found or looked}")


def what_is_at(location: Location) -> str:
    """Describe the content found instead of a node, and how to open it; empty if unknown."""
    return found_instead(location.store, location.path, location.text)


def instead_of_node(directory: Node) -> str:
    """Return what a directory without a document is, and what opens it, if it isn't there to be a group."""
    at = directory.location
    looks = (database_instead, interrupted_instead) if directory.implicit else ()
    return next(filter(None, (look(at.store, at.path, at.text) for look in looks)), "")


def how_to_say(directory: Node) -> str:
    """Return advice on how to name a directory as a group, by the format of its content; or nothing."""
    at = directory.location
    below = map(at.child, nodes_below(at))
    format = next((node.format for child in below if (node := find_documented(child)) is not None), None)
    return (
        f'; "{at.text.rstrip("/")}|{format}:" is it as a group of {tree_format(format).title}'
        if format
        else ""
    )


def node_of(location: Location, key: str, found: Stamped) -> Node:
    """Return the node whose document, with the relative `key`, has been read."""
    format = _FORMAT_OF[key]
    assert found.value is not None
    document: JSON = {}
    error = ""
    try:
        document = format.load(found.value)
        if isinstance(document, dict):
            document = format.usual_form(document)
        else:
            document, error = {}, "Expected object"
    except ChunkwiseError as e:
        error = e.message
    kind, wrong = format.kind_of(key, document)
    return Node(location, format.name, kind, key, document, error or wrong, found)


def _implicit(location: Location, inside: FormatName | None, others: list[str] | None) -> Node | None:
    try:
        found = location.store.list_children(location.path)
    except UnsupportedError:  # on a web server, only documents make nodes
        return None
    for key, error in _UNFINISHED.items():
        if location.path + key in found.keys:
            return Node(location, inside, "group", key, {}, error)
    if inside is None:
        from chunkwise.core.trees.container import CONTAINER_FORMAT, container_root

        inside = CONTAINER_FORMAT if container_root(location) is not None else None
    if others is not None:
        others += [key[len(location.path) :] for key in found.keys if not is_staging(key)]
    if nodes_below(location, found) or (
        tree_format(inside).directories_are_groups and _is_directory(location)
    ):
        return Node(location, inside, "group")
    return None


def _is_directory(location: Location) -> bool:
    """Return True if there is a directory, perhaps an empty one, in a store that has directories."""
    above, path = location.parent, location.path[:-1]
    if above is not None and offers(location.store, WithDirectories):
        return location.store.is_directory(path)
    return above is not None and path in above.store.list_children(above.path).prefixes


def is_link(location: Location) -> bool:
    """Return True if a symbolic link leads to the node at a location."""
    store, path = location.store, location.path[:-1]
    return bool(path) and offers(store, WithLinks) and not store.is_directory(path)


def nodes_below(location: Location, found: Children | None = None) -> list[str]:
    """Return the names of directories, and of links to some, below a location, except staging places."""
    store, path = location.store, location.path
    found = store.list_children(path) if found is None else found
    names = [prefix[len(path) :] for prefix in found.prefixes]
    if offers(store, WithLinks) and any(key[len(path) :] not in DOCUMENTS for key in found.keys):
        names += (link[len(path) :] for link in store.linked_directories(path))
    return [name for name in names if not is_staging(name)]


_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "attributes.json", JOURNAL)


def split_path(path: str, base: str = "") -> list[str]:
    """Return the names from the root along `path`, which is relative to `base` unless it begins with "/"."""
    if not isinstance(path, str):
        raise TypeError(f"paths of nodes are text, got {type(path).__name__}")
    names = [name for name in path.split("/") if name]
    for name in names:
        why = _never(name)
        if why:
            raise InvalidArgumentError(f"{dump(path)} can't be the path of a node: {why}")
    if base and not path.startswith("/"):
        return [*base.split("/"), *names]
    return names


def _never(name: str) -> str:
    if name in (".", ".."):
        return f'it has a component "{name}"'
    if "\\" in name:
        return "it has a backslash, which formats and systems interpret differently; use /"
    if "\0" in name:
        return "it has a NUL"
    return ""


def is_name(name: str) -> bool:
    """Return True if `name` can be the name of a node."""
    return bool(name) and "/" not in name and not _never(name)


def check_new_names(names: list[str], format: str) -> None:
    """Raise InvalidArgumentError if a format doesn't allow one of these names for new nodes."""
    for name in names:
        why = _reserved(name, format)
        if why:
            raise InvalidArgumentError(f"{dump(name)} can't be the name of a new {format} node: {why}")


def _reserved(name: str, format: str) -> str:
    if name in _DOCUMENTS:
        return "it is the name of a metadata document"
    if name.endswith(LOCK_SUFFIX):
        return f'names that end in "{LOCK_SUFFIX}" are those of lock files'
    if why := tree_format(format).reserved(name):
        return why
    if not name.isprintable() and any(ord(c) < 32 for c in name):
        return "it has control characters"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "it can't be encoded in UTF-8"
    return ""
