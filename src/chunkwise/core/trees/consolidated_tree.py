"""Consolidated metadata of a whole tree: writing and checking it.

It has the form that zarr-python writes: nodes in order of depth, and an empty ``consolidated_metadata`` in
each copy of a group.

A process that changes a node during the walk finds no consolidated metadata to update.  So after writing, the
tree is checked again, until nothing has changed: on an object store by the ETags of a listing, otherwise by
another walk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

from chunkwise.core.arrays.metadata_observers import HOLDERS, metadata_changed
from chunkwise.core.base.binding import JSON, MISSING
from chunkwise.core.driver.chunked.documents import usual_form
from chunkwise.core.driver.zarr3.metadata import parse_metadata
from chunkwise.core.engine.concurrent_requests import is_slow, map_requests
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.objects.read import e_tag_in, is_version
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, ByteRange, EntryListable, offers
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.core.trees.consolidated import EMPTY, missing_parents, move_consolidated, with_parents
from chunkwise.core.trees.document import change_document, read_document, read_version
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import Node, find_node, require_node
from chunkwise.core.trees.walk import walk
from chunkwise.errors import (
    AbortedError,
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
)

__all__ = [
    "EMPTY",
    "Gathered",
    "check_consolidated",
    "consolidate",
    "gather",
    "is_consolidated",
    "remove_consolidated",
    "renew_copies_above",
]

_ATTEMPTS = 20
_PAGE = 1000  # number of keys in an answer of most servers
_DOCUMENTS_PER_PAGE = 20  # number of documents read in the time of a page, since they are read together


class Gathered(NamedTuple):
    """Copies of the documents of a tree, and the paths of nodes in other formats, which are left out."""

    documents: dict[str, JSON]
    left_out: list[str]
    groups: list[tuple[str, Node]]  # groups below, with their paths; they may have their own copies
    n_below: int = 0  # nodes below with copies
    read: Mapping[str, bytes] = {}  # generation of every document found, by complete key

    def below(self, path: str) -> dict[str, JSON]:
        """Return the copies for the group at a path."""
        start = path + "/"
        return {key[len(start) :]: copy for key, copy in self.documents.items() if key.startswith(start)}


def consolidate(location: Location, *, alone: bool = False, found: Node | None = None) -> Gathered:
    """Write the consolidated metadata of a Zarr group; raise AbortedError if the tree keeps changing.

    Groups below with their own consolidated metadata are updated too, and directories without a document that
    contain nodes become groups.  If the caller is `alone`, so that the
    tree can't change meanwhile, it is walked once, and the store need not have conditional writes.  `found`
    is the group, if the caller has just read it.
    """
    if alone:
        location, found = location.alone(), None
    for _ in range(_ATTEMPTS):
        node = _zarr_group(location, found)
        gathered = gather(node)
        if missing_parents(gathered.documents, node.rules.name):
            with_parents(node.location.store, node.location.path, node.rules.name, gathered.documents)
            gathered = gather(node)
        for path, group in gathered.groups:
            if _has_copies(group):
                _write(group, gathered.below(path))
        _write(node, gathered.documents)
        if alone or _is_listed(node, gathered) or _is_stored(location, gathered):
            metadata_changed(location.store, location.path, node.rules.consolidated_key)
            return gathered
        found = None
    raise AbortedError(f"{location.text} was changed by others {_ATTEMPTS} times during the walk")


def _is_listed(node: Node, gathered: Gathered) -> bool:
    """Return True if a listing proves that the documents of a tree are unchanged since they were read."""
    # It takes a few requests instead of one for each document, but also lists every chunk.
    store, rules = node.location.store, node.rules
    if not is_slow(store) or not offers(store, EntryListable):
        return False
    expected = dict(gathered.read)
    if rules.consolidated_key == node.key:  # a zarr.json, which was rewritten if it has copies
        documents = {node.key}
        written = {node.location.path + node.key}
        written |= {group.location.path + group.key for _, group in gathered.groups if _has_copies(group)}
        if len(written) > 1:
            return False
        expected = {key: generation for key, generation in expected.items() if key not in written}
    else:
        documents, written = set(rules.documents) - {rules.consolidated_key}, set()
    most = _PAGE * max(1, len(expected) // _DOCUMENTS_PER_PAGE)
    keys = KeyRange.of_prefix(node.location.path)
    for n, entry in enumerate(store.list_entries(keys.start, keys.stop)):
        if n == most:
            return False
        is_document = entry.key.rpartition("/")[2] in documents and entry.key not in written
        if is_document and not is_version(entry.e_tag, e_tag_in(expected.pop(entry.key, b""))):
            return False
    return not expected


def _is_stored(location: Location, gathered: Gathered) -> bool:
    """Return True if a group has copies of the documents below it, which are read again to compare."""
    node = _zarr_group(location)
    return _problems(_stored(node), gather(node).documents, node.rules.name) == []


def is_consolidated(node: Node) -> bool:
    """Return True if a group has copies of the documents below it, with any content."""
    key = node.rules.consolidated_key
    if key == node.key:
        return bool(key) and "consolidated_metadata" in node.document
    return bool(key) and read_bounded(node.location.store, node.location.path + key).value is not None


def remove_consolidated(location: Location) -> bool:
    """Delete the consolidated metadata of a group; return whether there was any."""
    node = _zarr_group(location)
    there = _stored(node) is not None
    if not node.rules.consolidated_member:
        location.store.delete(location.path + ".zmetadata")
        return there

    def without(document: JSON) -> JSON:
        if not isinstance(document, dict):
            return document
        return {name: value for name, value in document.items() if name != "consolidated_metadata"}

    change_document(location.store, location.path + "zarr.json", without)
    return there


def check_consolidated(node: Node, *, below: bool = False) -> list[str]:
    """Return the mistakes in the consolidated metadata of a group, and of groups `below` it if requested."""
    # A group without consolidated metadata has no mistakes.
    if node.kind != "group" or node.error or not node.rules.consolidated_key:
        return []
    try:
        stored = _stored(node)
    except FailedPreconditionError as e:
        return [e.message]
    if stored is None and not below:
        return []
    gathered = gather(node, errors=False)
    problems = [] if stored is None else _problems(stored, gathered.documents, node.rules.name)
    for path, group in gathered.groups if below else ():
        try:
            own = _stored(group)
        except FailedPreconditionError as e:
            problems.append(f"{path}: {e.message}")
            continue
        if own is not None:
            problems += [
                f"{path}: {problem}" for problem in _problems(own, gathered.below(path), group.rules.name)
            ]
    return problems


def _has_copies(group: Node) -> bool:
    try:
        return _stored(group) is not None
    except FailedPreconditionError:  # an unknown kind, written by other software
        return False


def _zarr_group(location: Location, found: Node | None = None) -> Node:
    node = found or require_node(location)
    if node.kind != "group" or not node.key or not node.rules.consolidated_key:
        what = "an implicit group" if not node.key else f"an {node.format} {node.kind}"
        raise InvalidArgumentError(
            f"{location.text} is {what}; only groups of Zarr v2 and v3 have consolidated metadata"
        )
    return node


def gather(node: Node, *, errors: bool = True) -> Gathered:
    """Return the documents of a tree; unreadable ones raise if `errors`, otherwise are left out."""
    found: list[tuple[int, str, Node]] = []
    left_out: list[str] = []
    inside = ""  # the node of another format that the walk is in
    for name, below in walk(node):
        if below.error:
            if errors:
                raise FailedPreconditionError(f"{below.location.text}: {below.error}")
            continue
        inside = inside if inside and name.startswith(inside) else ""
        if inside or below.format != node.format:
            inside = inside or f"{name}/"
            left_out.append(name)
        elif below.key:
            found.append((name.count("/") + 1 if name else 0, name, below))
    found.sort(key=lambda item: item[0])
    groups = [(name, below) for _, name, below in found if name and below.kind == "group"]
    itself = node.key != node.rules.consolidated_key  # a zarr.json contains no copy of itself
    wanted = [(name, below) for _, name, below in found if name or itself]
    documents, read = _copies_of(wanted)
    n_below = sum(1 for _, name, _ in found if name)
    return Gathered(documents, left_out, groups, n_below, read)


def renew_copies_above(location: Location, *, format: str | None = None) -> None:
    """Let the groups above, or those of a format, have copies of a node and all below it as they are now."""
    copies = cache(partial(_subtree_copies, location))
    move_consolidated(location.store, location.path, copies, format=format)


def _subtree_copies(location: Location) -> dict[str, dict[str, JSON]]:
    """Return, by format and path from the node, the copies of it and all nodes below in groups above."""
    out: dict[str, dict[str, JSON]] = {format: {} for format, _, _ in HOLDERS}
    node = find_node(location)
    known = [
        (name, below)
        for name, below in (() if node is None else walk(node))
        if below.format in out and below.key and not below.error
    ]
    for format, copies in out.items():
        copies.update(_copies_of([(name, below) for name, below in known if below.format == format])[0])
    return out


def _copies_of(nodes: Sequence[tuple[str, Node]]) -> tuple[dict[str, JSON], dict[str, bytes]]:
    """Return the copies of the documents of nodes, by their paths, and the generations of the documents."""
    copies: dict[str, JSON] = {}
    read: dict[str, bytes] = {}
    if not nodes:
        return copies, read
    beside = map_requests(nodes[0][1].location.store, lambda at: _attributes_beside(at[1]), nodes)
    for (name, node), (attributes, generation) in zip(nodes, beside, strict=True):
        document = {key: value for key, value in node.document.items() if key != "consolidated_metadata"}
        read[node.location.path + node.key] = b"" if node.found is None else node.found.generation
        key = node.rules.attributes_key
        if key:
            under = f"{name}/" if name else ""
            copies |= {f"{under}{node.key}": document, f"{under}{key}": attributes}
            if generation != MISSING_GENERATION:
                read[node.location.path + key] = generation
        else:
            copies[name] = {**document, "consolidated_metadata": EMPTY} if node.kind == "group" else document
    return copies, read


def _attributes_beside(node: Node) -> tuple[JSON, bytes]:
    """Return a node's attributes from their own document, and its generation."""
    key, location = node.rules.attributes_key, node.location
    if not key:
        return {}, MISSING_GENERATION
    return read_version(location.store, location.path + key, missing={})


def _write(node: Node, documents: Mapping[str, JSON]) -> None:
    kv, path = node.location.store, node.location.path
    if not node.rules.consolidated_member:
        whole = {"metadata": dict(documents), "zarr_consolidated_format": 1}
        change_document(kv, path + ".zmetadata", lambda _: whole)
        written = kv.read(path + ".zmetadata", byte_range=ByteRange(0, 0))
        if kv.read(path + node.key, byte_range=ByteRange(0, 0)).value is None:
            kv.delete(path + ".zmetadata", if_equal=written.generation)
            raise AbortedError(f"{node.location.text} was deleted by another process meanwhile")
        return

    def with_copies(document: JSON) -> JSON:
        if not isinstance(document, dict):
            raise FailedPreconditionError("zarr.json was deleted or replaced meanwhile")
        return {**document, "consolidated_metadata": {**EMPTY, "metadata": dict(documents)}}

    change_document(kv, path + "zarr.json", with_copies, found=node.found)


def _stored(node: Node) -> dict[str, JSON] | None:
    """Return a group's copies, None if it has none; raise FailedPreconditionError for invalid ones."""
    location = node.location
    if not node.rules.consolidated_member:
        key = ".zmetadata"
        document = read_document(location.store, location.path + key, missing=MISSING)
        known = isinstance(document, dict) and document.get("zarr_consolidated_format") == 1
    else:
        key = "zarr.json"
        document = node.document.get("consolidated_metadata")
        document = MISSING if document is None else document  # zarr-python writes null for no copies
        known = isinstance(document, dict) and document.get("kind") == "inline"
    if document is MISSING:
        return None
    copies = document.get("metadata") if known else None
    if not isinstance(copies, dict):
        raise FailedPreconditionError(f"{location.path}{key}: consolidated metadata of an unknown kind")
    return copies


def _problems(stored: Mapping[str, JSON] | None, true: Mapping[str, JSON], format: str) -> list[str]:
    if stored is None:
        return ["there are no consolidated metadata"]
    out = [f'consolidated metadata lack the group "{path}"' for path in missing_parents(stored, format)]
    for name, copy in stored.items():
        if name not in true:
            if not (name.endswith(".zattrs") and copy == {}):
                out.append(f'consolidated metadata have "{name}", which does not exist')
        elif _comparable(copy) != _comparable(true[name]):
            out.append(f'consolidated metadata of "{name}" are not those of the node')
    for name, document in true.items():
        if name not in stored and not (name.endswith(".zattrs") and document == {}):
            out.append(f'consolidated metadata lack "{name}"')
    return out


def _comparable(document: JSON) -> str:
    """Return text that is equal for equivalent documents."""
    if isinstance(document, dict):
        document = {k: value for k, value in usual_form(document).items() if k not in _SAYS_NOTHING}
        if document.get("node_type") == "array":
            document = _normal_zarr3(document)
        if document.get("attributes") == {}:
            del document["attributes"]
    return json.dumps(document, sort_keys=True)  # as text, NaN equals NaN


_SAYS_NOTHING = ("consolidated_metadata", "storage_transformers")


def _normal_zarr3(document: dict[str, JSON]) -> dict[str, JSON]:
    """Return the metadata of an array with all codec options, which a copy may lack."""
    try:
        metadata = parse_metadata(document)
    except (ChunkwiseError, ValueError):
        return document
    rest = ("codecs", "data_type", "fill_value", "chunk_key_encoding", "dimension_names")
    out = {key: value for key, value in document.items() if key not in rest}
    return {
        **out,
        "codecs": metadata.chain,
        "data_type": metadata.dtype.name,
        "fill_value": metadata.fill_value.tobytes().hex(),
        "chunk_key_encoding": repr(metadata.keys),
        "dimension_names": metadata.dimension_names,
    }
