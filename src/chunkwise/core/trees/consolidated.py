"""Consolidated metadata: the copies of a node's documents in groups above it, read as snapshots and updated.

Zarr v2 has them in ``.zmetadata``, Zarr v3 in member ``consolidated_metadata`` of the group's ``zarr.json``.
Neither form is part of the core specification; both are as in zarr-python.  They may be outdated: see
`chunkwise.core.trees.consolidated_tree.check_consolidated`.

Readers trust the copies, so every change of a node updates them.  zarr-python opens them only if the groups
above each node are among them.  So a directory without a document becomes a group when a node below it is
listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from chunkwise.core.arrays.metadata_observers import HOLDERS, NO_CHECKS, Checks, find_holders
from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.chunked.documents import usual_form
from chunkwise.core.driver.tree_format import FormatName, TreeFormat
from chunkwise.core.driver.tree_formats import TREE_FORMATS, tree_format
from chunkwise.core.engine.concurrent_requests import map_requests
from chunkwise.core.kvstore.places.replaced_places import changes
from chunkwise.core.kvstore.places.staging import JOURNAL, UNFINISHED, upwards
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.core.trees.document import change_document, read_document, write_new
from chunkwise.core.trees.node import Node
from chunkwise.errors import ChunkwiseError

__all__ = [
    "EMPTY",
    "Entry",
    "Snapshot",
    "missing_parents",
    "move_consolidated",
    "parse_snapshot",
    "read_snapshot",
    "update_consolidated",
    "with_copies",
    "with_parents",
]


class Entry(NamedTuple):
    """A node of a snapshot."""

    kind: Literal["array", "group"]
    key: str  # key of its document, relative to it; empty for a group that only has nodes below it
    document: Mapping[str, JSON]
    attributes: Mapping[str, JSON] | None  # separate attributes; None if they are in the document


class Snapshot:
    """The nodes of a tree at a `time`, by path from the root, whose own path is empty."""

    def __init__(self, format: FormatName, entries: dict[str, Entry], time: float) -> None:
        self.format = format
        self.time = time
        self.change_number = changes.number  # of the last change in this process that it may know of
        self._entries = entries
        self._children: dict[str, dict[str, None]] | None = None

    def find(self, path: str) -> Entry | None:
        """Return the node at `path`, or None."""
        entry = self._entries.get(path)
        if entry is None and path in self._index():
            return Entry("group", "", {}, {})
        return entry

    def entries(self) -> list[tuple[str, Entry]]:
        """Return the paths and entries of all nodes with a document, each group before its members."""
        return sorted(self._entries.items(), key=lambda item: (item[0] != "", item[0].count("/")))

    def children(self, path: str) -> list[str]:
        """Return the names directly below a group."""
        return list(self._index().get(path, ()))

    def _index(self) -> dict[str, dict[str, None]]:
        if self._children is None:
            index: dict[str, dict[str, None]] = {}
            for path in self._entries:
                while path:
                    parent, _, name = path.rpartition("/")
                    names = index.setdefault(parent, {})
                    if name in names:
                        break  # its parents are known too
                    names[name] = None
                    path = parent
            self._children = index
        return self._children


def parse_snapshot(key: str, document: JSON, time: float) -> Snapshot | None:
    """Return the snapshot in a ``zarr.json`` or ``.zmetadata``; None without consolidated metadata."""
    entries = _zarr3_entries(document) if key == "zarr.json" else _zarr2_entries(document)
    return None if entries is None else Snapshot("zarr3" if key == "zarr.json" else "zarr2", entries, time)


def read_snapshot(node: Node) -> Snapshot | None:
    """Return a group's snapshot of the nodes below it, or None."""
    key, document = node.rules.consolidated_key, node.document
    if not key or node.kind != "group":
        return None
    if key != node.key:
        document = read_document(node.location.store, node.location.path + key)
    return parse_snapshot(key, document, 0.0)


def _zarr3_entries(document: Mapping[str, JSON]) -> dict[str, Entry] | None:
    consolidated = document.get("consolidated_metadata")
    if not isinstance(consolidated, dict) or consolidated.get("kind") != "inline":
        return None
    copies = consolidated.get("metadata")
    if not isinstance(copies, dict):
        return None
    entries = {"": Entry("group", "zarr.json", document, None)}
    for path, copy in copies.items():
        kind = copy.get("node_type") if isinstance(copy, dict) else None
        if kind in ("array", "group") and _is_path(path):
            entries[path] = Entry(kind, "zarr.json", usual_form(copy), None)
    return entries


_KINDS: dict[str, Literal["array", "group"]] = {".zarray": "array", ".zgroup": "group"}


def _zarr2_entries(document: JSON) -> dict[str, Entry] | None:
    if not isinstance(document, dict) or document.get("zarr_consolidated_format") != 1:
        return None
    copies = document.get("metadata")
    if not isinstance(copies, dict) or not isinstance(copies.get(".zgroup"), dict):
        return None
    entries: dict[str, Entry] = {}
    for name, copy in copies.items():
        path, _, key = name.rpartition("/")
        if key in _KINDS and isinstance(copy, dict) and (_is_path(path) if path else key == ".zgroup"):
            attributes = copies.get(name[: -len(key)] + ".zattrs")
            own = attributes if isinstance(attributes, dict) else {}
            entries[path] = Entry(_KINDS[key], key, usual_form(copy), own)
    return entries


def _is_path(path: str) -> bool:
    """Return True if `path` can be a node's path; others are not trusted."""
    return _NO_PATH.search(path) is None


# Not an empty component, "." or "..", a backslash or a NUL; as in `node_name`, but in one pass.
_NO_PATH = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|[\\\0]")


EMPTY: dict[str, JSON] = {"kind": "inline", "must_understand": False, "metadata": {}}
"""Consolidated metadata in a copy of a Zarr v3 group's document."""

_Copies = Mapping[str, Mapping[str, JSON]]

_V2_DOCUMENTS = (".zarray", ".zgroup", ".zattrs")


def update_consolidated(
    kv: KvStoreDriver,
    *paths: str,
    format: str | None = None,
    checks: Checks = NO_CHECKS,
    looks: Sequence[Callable[[], object]] = (),
) -> None:
    """Update the copies of nodes' documents in them and all groups above; in each group together."""
    # Copies of nodes below are removed if the node is gone, and otherwise stay unchanged.  Only those of
    # `format` are looked at, if documents of no other have changed.  `checks` and `looks` come with that.
    places: dict[_Place, list[str]] = {}
    for path in paths:
        for group in upwards(path):
            for place in (_Place(group, *holder) for holder in HOLDERS):
                is_itself = group == path and place.key == "zarr.json"  # which has no copy of itself
                if not is_itself and format in (None, place.format):
                    places.setdefault(place, []).append(path)
    for place in _holding(kv, list(places), looks, checks):
        _change_copies(kv, place, partial(_nodes_changed, kv=kv, group=place.group, paths=places[place]))


def move_consolidated(
    kv: KvStoreDriver, path: str, documents: Callable[[], _Copies], *, format: str | None = None
) -> None:
    """Replace the copies of a node and all nodes below it in the groups above."""
    # `documents` has the copies by format and by path from the node; empty if it was moved away.  `format` is
    # as in `update_consolidated`.
    above = (group for group in upwards(path) if group != path)
    places = [_Place(group, *holder) for group in above for holder in HOLDERS if format in (None, holder[0])]
    for place in _holding(kv, places):
        name = path[len(place.group) :].rstrip("/")
        _change_copies(kv, place, partial(_replaced, name=name, documents=documents))


class _Place(NamedTuple):
    """A group's document that may have copies of others."""

    group: str
    format: str
    key: str
    word: bytes


def _holding(
    kv: KvStoreDriver,
    places: Sequence[_Place],
    looks: Sequence[Callable[[], object]] = (),
    checks: Checks = NO_CHECKS,
) -> list[_Place]:
    """Return the places with copies."""
    found = find_holders(kv, [(place.group + place.key, place.word) for place in places], looks, checks)
    return [place for place, there in zip(places, found, strict=True) if there]


_Change = Callable[[dict[str, JSON], str], dict[str, JSON]]


def _change_copies(kv: KvStoreDriver, place: _Place, change: _Change) -> None:
    """Change a group's copies."""
    changed = partial(_changed, change=change, kv=kv, place=place)
    change_document(kv, place.group + place.key, partial(with_copies, format=place.format, change=changed))


def with_copies(document: JSON, format: str, change: Callable[[dict[str, JSON]], dict[str, JSON]]) -> JSON:
    """Return a document with its copies of others replaced by ``change(copies)``, if it has any."""
    holder, member = document, tree_format(format).consolidated_member
    if member:
        holder = document.get(member) if isinstance(document, dict) else None
    if not isinstance(holder, dict) or not isinstance(holder.get("metadata"), dict):
        return document
    holder = {**holder, "metadata": change(dict(holder["metadata"]))}
    return {**document, member: holder} if member else holder


def _changed(
    copies: dict[str, JSON], *, change: _Change, kv: KvStoreDriver, place: _Place
) -> dict[str, JSON]:
    """Return changed copies in the order that zarr-python needs: by depth, members of a group together."""
    items = with_parents(kv, place.group, place.format, change(copies, place.format)).items()
    return dict(sorted(items, key=lambda item: (item[0].count("/"), item[0].rpartition("/")[0])))


def missing_parents(copies: Mapping[str, JSON], format: str) -> list[str]:
    """Return the paths of groups that are not among the copies, though nodes below them are, by depth."""
    rules = tree_format(format)
    listed = set(copies)
    if rules.attributes_key:
        listed = {
            path for path, _, key in (name.rpartition("/") for name in copies) if key in rules.node_keys
        }
    missing: set[str] = set()
    for path in filter(_is_path, listed):
        above = path.rpartition("/")[0]
        while above and above not in listed and above not in missing:
            missing.add(above)
            above = above.rpartition("/")[0]
    return sorted(missing, key=lambda path: (path.count("/"), path))


def with_parents(kv: KvStoreDriver, group: str, format: str, copies: Mapping[str, JSON]) -> dict[str, JSON]:
    """Make the groups that are missing among the copies of a group, and return the copies with them.

    Nodes below an array, a node of another format or an unfinished copy or store are left out.
    """
    copies = dict(copies)
    for name in missing_parents(copies, format):
        path = f"{group}{name}/"
        if _declare_group(kv, path, format):
            copies = _node_changed(copies, format, kv=kv, path=path, name=name)
        else:
            copies = _without(copies, name)
    return copies


def _declare_group(kv: KvStoreDriver, path: str, format: str) -> bool:
    """Make a directory a group, unless it is one; return False if it is something else."""
    rules = tree_format(format)
    document = read_document(kv, path + rules.group_key)
    if document is None:
        others = [(other, key) for other in TREE_FORMATS.values() for key in other.node_keys]
        if any(map_requests(kv, lambda other: _is_node(kv, path, *other), others)):
            return False
        if any(read_bounded(kv, path + key).value is not None for key in (JOURNAL, UNFINISHED)):
            return False
        ((key, document),) = rules.group_documents({}).items()
        write_new(kv, path + key, document)
    return isinstance(document, dict) and rules.kind_of(rules.group_key, document)[0] == "group"


def _is_node(kv: KvStoreDriver, path: str, rules: TreeFormat, key: str) -> bool:
    found = read_bounded(kv, path + key).value
    if found is None:
        return False
    try:
        return rules.is_sure(rules.load(found), "")
    except ChunkwiseError as e:
        return rules.is_sure({}, e.message)


def _nodes_changed(
    copies: dict[str, JSON], format: str, *, kv: KvStoreDriver, group: str, paths: Sequence[str]
) -> dict[str, JSON]:
    for path in paths:
        copies = _node_changed(copies, format, kv=kv, path=path, name=path[len(group) :].rstrip("/"))
    return copies


def _node_changed(
    copies: dict[str, JSON], format: str, *, kv: KvStoreDriver, path: str, name: str
) -> dict[str, JSON]:
    current: dict[str, JSON] = {}
    if tree_format(format).attributes_key:
        for key in _V2_DOCUMENTS:
            document = read_document(kv, path + key)
            if document is None and key == ".zattrs" and current:
                document = {}
            if document is not None:
                current[f"{name}/{key}" if name else key] = document
    else:
        document = read_document(kv, path + "zarr.json")
        if document is not None:
            current[name] = _as_copy(document, copies.get(name))
    if not current and name:
        return _without(copies, name)
    if tree_format(format).attributes_key:
        own = tuple(f"{name}/{key}" if name else key for key in _V2_DOCUMENTS)
        copies = {key: value for key, value in copies.items() if key not in own or key in current}
    return {**copies, **current}


def _as_copy(document: JSON, before: JSON) -> JSON:
    """Return the copy of a ``zarr.json``; a group's has empty consolidated metadata, or its earlier one."""
    if not isinstance(document, dict) or document.get("node_type") != "group":
        return document
    own = before.get("consolidated_metadata") if isinstance(before, dict) else None
    return {**document, "consolidated_metadata": own or EMPTY}


def _without(copies: Mapping[str, JSON], name: str) -> dict[str, JSON]:
    return {key: value for key, value in copies.items() if key != name and not key.startswith(name + "/")}


def _replaced(
    copies: dict[str, JSON], format: str, *, name: str, documents: Callable[[], _Copies]
) -> dict[str, JSON]:
    new = {f"{name}/{key}" if key else name: copy for key, copy in documents().get(format, {}).items()}
    return {**_without(copies, name), **new}
