"""Consolidated metadata of a whole tree: writing and checking them.

They are as zarr-python writes them: nodes in the order of their depth, and in each copy of a group an empty
``consolidated_metadata`` of its own.

A process that changes a node while the tree is walked finds no consolidated metadata that it would have to
update.  So the tree is walked again after they were written, until nothing has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from chunkwise.binding import JSON, MISSING
from chunkwise.driver.zarr3.metadata import parse_metadata
from chunkwise.engine.together import together
from chunkwise.errors import (
    AbortedError,
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
)
from chunkwise.hierarchy.consolidated import EMPTY, update_consolidated
from chunkwise.hierarchy.document import change_document, read_document
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import Node, find_node, require_node
from chunkwise.hierarchy.walk import walk
from chunkwise.kvstore.value_bound import read_bounded

__all__ = [
    "Gathered",
    "check_consolidated",
    "consolidate",
    "copies_of",
    "gather",
    "is_consolidated",
    "remove_consolidated",
    "subtree_copies",
]

_ATTEMPTS = 20


class Gathered(NamedTuple):
    """Copies of the documents of a tree, and the paths of nodes of other formats, which are left out."""

    documents: dict[str, JSON]
    left_out: list[str]
    groups: list[tuple[str, Node]]  # below, with their paths; they may have copies of their own
    n_below: int = 0  # nodes below that there are copies of

    def below(self, path: str) -> dict[str, JSON]:
        """Return the copies that the group at a path would have."""
        start = path + "/"
        return {key[len(start) :]: copy for key, copy in self.documents.items() if key.startswith(start)}


def consolidate(location: Location, *, alone: bool = False) -> Gathered:
    """Write the consolidated metadata of a Zarr group; raise AbortedError if the tree keeps changing.

    Groups below that have consolidated metadata of their own get new ones too.  If the caller is `alone`, so
    that nobody can change the tree meanwhile, it is gone through once, and stores without conditional writes
    will do.
    """
    if alone:
        location = location.alone()
    for _ in range(_ATTEMPTS):
        node = _zarr_group(location)
        gathered = gather(node)
        for path, group in gathered.groups:
            if _has_copies(group):
                _write(group, gathered.below(path))
        _write(node, gathered.documents)
        if alone or _problems(_stored(_zarr_group(location)), gather(node).documents) == []:
            update_consolidated(location.store, location.path)
            return gathered
    raise AbortedError(f"{location.text} was changed by others {_ATTEMPTS} times while it was gone through")


def is_consolidated(node: Node) -> bool:
    """Return True if a group has copies of the documents below it, whatever they say."""
    key = node.rules.consolidated_key
    if key == node.key:
        return bool(key) and "consolidated_metadata" in node.document
    return bool(key) and read_bounded(node.location.store, node.location.path + key).value is not None


def remove_consolidated(location: Location) -> bool:
    """Delete the consolidated metadata of a group; return whether there were any."""
    node = _zarr_group(location)
    there = _stored(node) is not None
    if node.format == "zarr2":
        location.store.delete(location.path + ".zmetadata")
        return there

    def without(document: JSON) -> JSON:
        if not isinstance(document, dict):
            return document
        return {name: value for name, value in document.items() if name != "consolidated_metadata"}

    change_document(location.store, location.path + "zarr.json", without)
    return there


def check_consolidated(node: Node, *, below: bool = False) -> list[str]:
    """Return the mistakes in the consolidated metadata of a group, or also of those `below` it."""
    # There are none in a group that has no consolidated metadata.
    if node.kind != "group" or node.error or node.format not in ("zarr3", "zarr2"):
        return []
    try:
        stored = _stored(node)
    except FailedPreconditionError as e:
        return [e.message]
    if stored is None and not below:
        return []
    gathered = gather(node, errors=False)
    problems = [] if stored is None else _problems(stored, gathered.documents)
    for path, group in gathered.groups if below else ():
        try:
            own = _stored(group)
        except FailedPreconditionError as e:
            problems.append(f"{path}: {e.message}")
            continue
        if own is not None:
            problems += [f"{path}: {problem}" for problem in _problems(own, gathered.below(path))]
    return problems


def _has_copies(group: Node) -> bool:
    try:
        return _stored(group) is not None
    except FailedPreconditionError:  # of a kind that nobody knows: they are somebody else's
        return False


def _zarr_group(location: Location) -> Node:
    node = require_node(location)
    if node.kind != "group" or not node.key or node.format not in ("zarr3", "zarr2"):
        what = "an implicit group" if not node.key else f"an {node.format} {node.kind}"
        raise InvalidArgumentError(
            f"{location.text} is {what}; only groups of Zarr v2 and v3 have consolidated metadata"
        )
    return node


def gather(node: Node, *, errors: bool = True) -> Gathered:
    """Return the documents of a tree; those that can't be read raise if `errors`, else are left out."""
    found: list[tuple[int, str, Node]] = []
    left_out: list[str] = []
    for name, below in walk(node):
        if below.error:
            if errors:
                raise FailedPreconditionError(f"{below.location.text}: {below.error}")
            continue
        if below.format != node.format:
            left_out.append(name)
        elif below.key:
            found.append((name.count("/") + 1 if name else 0, name, below))
    found.sort(key=lambda item: item[0])
    documents: dict[str, JSON] = {}
    groups = [(name, below) for _, name, below in found if name and below.kind == "group"]
    itself = node.key != node.rules.consolidated_key  # a zarr.json has no copy of itself
    wanted = [(name, below) for _, name, below in found if name or itself]
    for copies in together(node.location.store, lambda at: copies_of(*at), wanted):
        documents.update(copies)
    return Gathered(documents, left_out, groups, sum(1 for _, name, _ in found if name))


def subtree_copies(location: Location) -> dict[str, dict[str, JSON]]:
    """Return by format the copies that groups above have of a node and of all below it; names from there."""
    out: dict[str, dict[str, JSON]] = {"zarr3": {}, "zarr2": {}}
    node = find_node(location)
    known = [
        (name, below)
        for name, below in (() if node is None else walk(node))
        if below.format in out and below.key and not below.error
    ]
    for (_, below), copies in zip(
        known, together(location.store, lambda at: copies_of(*at), known), strict=True
    ):
        out[str(below.format)].update(copies)
    return out


def copies_of(name: str, node: Node) -> dict[str, JSON]:
    """Return the consolidated metadata of one node, with the path `name`."""
    document = {key: value for key, value in node.document.items() if key != "consolidated_metadata"}
    if node.format == "zarr3":
        if node.kind == "group":
            document["consolidated_metadata"] = EMPTY
        return {name: document}
    location = node.location
    attributes = read_document(location.store, location.path + ".zattrs", missing={})
    under = f"{name}/" if name else ""
    return {f"{under}{node.key}": document, f"{under}.zattrs": attributes}


def _write(node: Node, documents: Mapping[str, JSON]) -> None:
    kv, path = node.location.store, node.location.path
    if node.format == "zarr2":
        whole = {"metadata": dict(documents), "zarr_consolidated_format": 1}
        change_document(kv, path + ".zmetadata", lambda _: whole)
        return

    def with_copies(document: JSON) -> JSON:
        if not isinstance(document, dict):
            raise FailedPreconditionError("zarr.json was deleted or replaced meanwhile")
        return {**document, "consolidated_metadata": {**EMPTY, "metadata": dict(documents)}}

    change_document(kv, path + "zarr.json", with_copies)


def _stored(node: Node) -> dict[str, JSON] | None:
    """Return the copies that a group has, None if it has none; raise FailedPreconditionError for bad ones."""
    location = node.location
    if node.format == "zarr2":
        key = ".zmetadata"
        document = read_document(location.store, location.path + key, missing=MISSING)
        known = isinstance(document, dict) and document.get("zarr_consolidated_format") == 1
    else:
        key = "zarr.json"
        document = node.document.get("consolidated_metadata")
        document = MISSING if document is None else document  # zarr-python writes null for none
        known = isinstance(document, dict) and document.get("kind") == "inline"
    if document is MISSING:
        return None
    copies = document.get("metadata") if known else None
    if not isinstance(copies, dict):
        raise FailedPreconditionError(f"{location.path}{key}: consolidated metadata of an unknown kind")
    return copies


def _problems(stored: Mapping[str, JSON] | None, true: Mapping[str, JSON]) -> list[str]:
    if stored is None:
        return ["there are no consolidated metadata"]
    out = []
    for name, copy in stored.items():
        if name not in true:
            if not (name.endswith(".zattrs") and copy == {}):
                out.append(f'consolidated metadata have "{name}", which does not exist')
        elif _comparable(copy) != _comparable(true[name]):
            out.append(f'consolidated metadata of "{name}" are not those that the node has')
    for name, document in true.items():
        if name not in stored and not (name.endswith(".zattrs") and document == {}):
            out.append(f'consolidated metadata lack "{name}"')
    return out


def _comparable(document: JSON) -> str:
    """Return text that is equal for documents of equal meaning."""
    if isinstance(document, dict):
        document = {key: value for key, value in document.items() if key not in _SAYS_NOTHING}
        if document.get("node_type") == "array":
            document = _normal_zarr3(document)
        if document.get("attributes") == {}:
            del document["attributes"]
    return json.dumps(document, sort_keys=True)  # in which NaN equals NaN


_SAYS_NOTHING = ("consolidated_metadata", "storage_transformers")


def _normal_zarr3(document: dict[str, JSON]) -> dict[str, JSON]:
    """Return the metadata of an array with every option of its codecs, which a copy may lack or have."""
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
