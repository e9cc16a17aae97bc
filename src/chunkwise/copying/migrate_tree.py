"""Migration of a hierarchy: every Zarr v2 array and group in it becomes Zarr v3.

1. The migration of every array is planned first; if one can't be migrated, nothing is written.
2. The new documents are written beside the old ones, from the deepest up: until the last is written, the Zarr
   v2 tree is complete.  Then the old ones are deleted.  After an error all are as they were.
3. If there was consolidated metadata, it is written for Zarr v3.
"""

from __future__ import annotations

from typing import NamedTuple

from chunkwise.copying.losses import finite_attributes
from chunkwise.copying.migrate import change_documents, notes_above, old_node, plan_migration
from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.trees.attributes import node_attributes
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.consolidated_tree import consolidate
from chunkwise.core.trees.node import Node
from chunkwise.core.trees.walk import walk
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, prefix

__all__ = ["MigratedNode", "migrate_tree"]

_OLD_KEYS = (".zgroup", ".zattrs")


class MigratedNode(NamedTuple):
    """Result, or plan, of the migration of a node."""

    name: str
    kind: str
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""


def migrate_tree(root: Node, *, apply: bool, keep_old: bool) -> list[MigratedNode]:
    """Migrate all nodes from the group `root` down if `apply`, and if all can be; return the results."""
    if root.rules.successor is None:
        raise FailedPreconditionError(
            f"{root.location.text} is a group of {root.rules.title}; cp -r makes a Zarr copy of it"
        )
    nodes = [found._replace(node=old_node(found.node)) for found in walk(root) if not found.node.implicit]
    nodes = [found for found in nodes if found.node.format != found.node.rules.successor]
    planned = [_plan(name, node, keep_old) for name, node in nodes]
    report = [migrated for migrated, _ in planned]
    if not apply or any(node.error for node in report):
        return report
    written: dict[str, bytes] = {}
    removed: list[str] = []
    consolidated: list[Node] = []
    kv = root.location.store
    for (_, node), (migrated, document) in reversed(list(zip(nodes, planned, strict=True))):
        path = node.location.path
        written[path + "zarr.json"] = dump(document).encode()
        removed += [path + key for key in migrated.removed if key != ".zmetadata"]
        if node.kind == "group" and kv.read(path + ".zmetadata").value is not None:
            consolidated.append(node)
    # First, since the members that it names are removed.
    change_documents(kv, written, [*(n.location.path + ".zmetadata" for n in consolidated), *removed])
    try:
        update_consolidated(kv, root.location.path)
        for node in consolidated:
            consolidate(node.location)
    except ChunkwiseError as e:
        raise prefix(e, "The tree is migrated, but not its consolidated metadata") from None
    return report


def _plan(name: str, node: Node, keep_old: bool) -> tuple[MigratedNode, dict[str, JSON]]:
    """Return the result for a node, and its new document."""
    try:
        if node.error:
            raise FailedPreconditionError(node.error)
        if node.kind == "array":
            planned = plan_migration(node, keep_old=keep_old)
            return MigratedNode(name, "array", planned.removed, planned.notes), planned.document
        if node.rules.successor is None:
            raise FailedPreconditionError(f"it is a group of {node.format}")
        attributes, changed = finite_attributes(node_attributes(node), "zarr3")
        location = node.location
        removed = [] if keep_old else [k for k in _OLD_KEYS if location.store.read(location.path + k).value]
        notes = (*changed, *(() if name else notes_above(location)))  # the groups below are migrated too
        document: dict[str, JSON] = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        return MigratedNode(name, "group", tuple(removed), tuple(notes)), document
    except ChunkwiseError as e:
        return MigratedNode(name, node.kind, error=e.message), {}
