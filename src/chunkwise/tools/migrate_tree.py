"""Migration of a hierarchy: every Zarr v2 array and group in it becomes one of Zarr v3.

1. The migration of every array is planned first; if one can't be migrated, nothing is written.
2. Consolidated metadata of Zarr v2 are deleted, since from now on they are wrong.
3. Arrays are migrated, then groups from the deepest up: v2 and v3 nodes side by side can be opened any time.
4. If there were consolidated metadata, those of Zarr v3 are written.
"""

from __future__ import annotations

from typing import NamedTuple

from chunkwise.binding import JSON
from chunkwise.errors import ChunkwiseError, FailedPreconditionError
from chunkwise.hierarchy.attributes import node_attributes
from chunkwise.hierarchy.consolidated import update_consolidated
from chunkwise.hierarchy.consolidated_tree import consolidate
from chunkwise.hierarchy.document import change_document
from chunkwise.hierarchy.node import Node
from chunkwise.hierarchy.walk import walk
from chunkwise.tools.migrate import migrate, notes_above, plan_migration

__all__ = ["MigratedNode", "migrate_tree"]

_OLD_KEYS = (".zgroup", ".zattrs")


class MigratedNode(NamedTuple):
    """Result of the migration of a node, or its plan."""

    name: str
    kind: str
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""


def migrate_tree(root: Node, *, apply: bool, keep_old: bool) -> list[MigratedNode]:
    """Migrate all nodes from the group `root` down if `apply`, and if all can be; return the results."""
    if root.format == "n5":
        raise FailedPreconditionError(f"{root.location.text} is a group of N5; cp -r makes a Zarr copy of it")
    nodes = [found for found in walk(root) if found.node.format != "zarr3" and not found.node.implicit]
    report = [_plan(name, node, keep_old) for name, node in nodes]
    if not apply or any(node.error for node in report):
        return report
    consolidated = [
        n for _, n in nodes if n.format == "zarr2" and n.kind == "group" and _delete(n, ".zmetadata")
    ]
    for _, node in nodes:
        if node.kind == "array":
            migrate(node.location, apply=True, keep_old=keep_old)
    for _, node in reversed(nodes):
        if node.kind == "group":
            _migrate_group(node, keep_old)
    update_consolidated(root.location.store, root.location.path)
    for node in reversed(consolidated):
        consolidate(node.location)
    return report


def _plan(name: str, node: Node, keep_old: bool) -> MigratedNode:
    try:
        if node.error:
            raise FailedPreconditionError(node.error)
        if node.kind == "array":
            planned = plan_migration(node, keep_old=keep_old)
            return MigratedNode(name, "array", planned.removed, planned.notes)
        if node.format != "zarr2":
            raise FailedPreconditionError(f"it is a group of {node.format}")
        node_attributes(node)
        location = node.location
        kept = [key for key in _OLD_KEYS if not keep_old and location.store.read(location.path + key).value]
        notes = () if name else tuple(notes_above(location))  # the groups below are migrated too
        return MigratedNode(name, "group", tuple(kept), notes)
    except ChunkwiseError as e:
        return MigratedNode(name, node.kind, error=e.message)


def _migrate_group(node: Node, keep_old: bool) -> None:
    attributes = node_attributes(node)
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}

    def written(before: object) -> JSON:
        return document if before is None else before

    change_document(node.location.store, node.location.path + "zarr.json", written)
    if not keep_old:
        for key in reversed(_OLD_KEYS):  # .zgroup last: until then there is a v2 group too
            _delete(node, key)


def _delete(node: Node, key: str) -> bool:
    """Delete a document; return whether there was one."""
    kv, path = node.location.store, node.location.path
    there = kv.read(path + key).value is not None
    if there:
        kv.delete(path + key)
    return there
