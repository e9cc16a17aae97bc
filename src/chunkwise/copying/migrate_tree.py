"""Migration of a hierarchy: every Zarr v2 array and group in it becomes Zarr v3.

1. The migration of every array is planned first; if one can't be migrated, nothing is written.
2. The new documents are written beside the old ones, from the deepest up: until the last is written, the Zarr
   v2 tree is complete.  Then the old ones are deleted.  After an error all are as they were.
3. If there was consolidated metadata, it is written for Zarr v3.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from chunkwise.copying.hdmf_files import is_hdmf_file
from chunkwise.copying.losses import finite_attributes
from chunkwise.copying.migrate import (
    Migration,
    change_documents,
    migrate_array,
    notes_above,
    old_node,
    plan_migration,
)
from chunkwise.copying.ome_attributes import level_names, ome_attributes
from chunkwise.copying.resolve import resolve
from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.trees.attributes import node_attributes
from chunkwise.core.trees.consolidated_tree import consolidate, is_consolidated, renew_copies_above
from chunkwise.core.trees.location import Location, located
from chunkwise.core.trees.node import Node
from chunkwise.core.trees.walk import walk
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, prefix

__all__ = ["MigratedNode", "migrate", "migrate_tree"]

_OLD_KEYS = (".zgroup", ".zattrs")


def migrate(
    place: str | os.PathLike[str] | Location,
    *,
    apply: bool = False,
    keep_old: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Migration:
    """Give a Zarr v1 or v2 array, or group, the metadata of Zarr v3; no chunk is read or written.

    Parameters
    ----------
    place : str, path or Location
        The array, or a group: everything below it is migrated, or, if one node can't be, nothing.
    apply : bool, default False
        Whether to do it; otherwise nothing is written.
    keep_old : bool, default False
        Whether the old documents stay beside the new one, so that the array can be opened as either.  Later
        changes of one don't change the other.
    storage_options : mapping, optional
        As for `open_group`.

    Returns
    -------
    Migration
        The changes made, or that would be made.

    Raises
    ------
    NotFoundError
        If there is nothing.
    FailedPreconditionError
        If it isn't such an array or group, or v3 can't describe it; the error names node, member and reason.
    AlreadyExistsError
        If there is another ``zarr.json`` already.

    Notes
    -----
    The new document is written before the old ones are deleted, so the array exists at any time; after an
    error the old documents are as they were.  Another call finishes what a killed process has begun. Writers
    of chunks need not stop; programs that change attributes or shape should.

    Examples
    --------
    >>> import tempfile
    >>> import chunkwise
    >>> place = tempfile.mkdtemp()
    >>> spec = {"driver": "zarr", "kvstore": f"file://{place}/"}
    >>> chunkwise.open(spec, create=True, dtype="uint8", shape=[2]).result()[...] = [7, 8]
    >>> chunkwise.migrate(place).removed
    ('.zarray',)
    >>> chunkwise.migrate(place, apply=True).applied
    True
    >>> chunkwise.open({"driver": "zarr3", "kvstore": f"file://{place}/"}).result().read().result()
    array([7, 8], dtype=uint8)
    """
    node = resolve(*located(storage_options, place)).as_node()
    if node.kind == "array":
        return migrate_array(node, apply=apply, keep_old=keep_old)
    report = migrate_tree(node, apply=apply, keep_old=keep_old)
    for migrated in report:
        if migrated.error:
            raise FailedPreconditionError(f"{migrated.name or node.location.text}: {migrated.error}")
    if not report:
        raise FailedPreconditionError(f"{node.location.text} has no node of Zarr v1 or v2")
    return Migration(
        dict(report[0].document),
        tuple(f"{at.name}/{key}".lstrip("/") for at in report for key in at.removed),
        tuple(f"{at.name or '.'}: {note}" for at in report for note in at.notes),
        apply,
    )


class MigratedNode(NamedTuple):
    """Result, or plan, of the migration of a node."""

    name: str
    kind: str
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""
    document: Mapping[str, JSON] = {}  # the new one


def migrate_tree(root: Node, *, apply: bool, keep_old: bool) -> list[MigratedNode]:
    """Migrate all nodes from the group `root` down if `apply`, and if all can be; return the results."""
    if root.rules.successor is None:
        raise FailedPreconditionError(
            f"{root.location.text} is a group of {root.rules.title}; cp -r makes a Zarr copy of it"
        )
    if root.format != root.rules.successor and is_hdmf_file(root):
        raise FailedPreconditionError(
            f"{root.location.text} is an NWB or HDMF file, whose references depend on the format; "
            f"`chunkwise nwb repack --format {root.rules.successor} {root.location.text}` rewrites it"
        )
    found = [each._replace(node=old_node(each.node)) for each in walk(root) if not each.node.implicit]
    nodes = [each for each in found if each.node.format != each.node.rules.successor]
    report = _with_axes([_plan(name, node, keep_old) for name, node in nodes])
    if not apply or not report or any(node.error for node in report):
        return report
    written: dict[str, bytes] = {}
    removed: list[str] = []
    # Zarr v3 groups around some of the nodes have copies too.
    consolidated = [node for _, node in found if node.rules.consolidated_member and is_consolidated(node)]
    kv = root.location.store
    for (_, node), migrated in reversed(list(zip(nodes, report, strict=True))):
        path = node.location.path
        written[path + "zarr.json"] = dump(migrated.document).encode()
        removed += [path + key for key in migrated.removed if key != ".zmetadata"]
        if node.kind == "group" and kv.read(path + ".zmetadata").value is not None:
            consolidated.append(node)
    # First, since the members that it names are removed.
    old = [node.location.path + ".zmetadata" for node in consolidated if not node.rules.consolidated_member]
    change_documents(kv, written, [*old, *removed])
    try:
        renew_copies_above(root.location, format="zarr3" if keep_old else None)  # old ones have their copies
        for node in consolidated:
            consolidate(node.location)
    except ChunkwiseError as e:
        raise prefix(e, "The tree is migrated, but not its consolidated metadata") from None
    return report


def _plan(name: str, node: Node, keep_old: bool) -> MigratedNode:
    """Return the result for a node."""
    try:
        if node.error:
            raise FailedPreconditionError(node.error)
        if node.kind == "array":
            planned = plan_migration(node, keep_old=keep_old)
            return MigratedNode(name, "array", planned.removed, planned.notes, document=planned.document)
        if node.rules.successor is None:
            raise FailedPreconditionError(f"it is a group of {node.format}")
        location = node.location
        attributes = ome_attributes(node_attributes(node), "zarr3", location.name)
        attributes, changed = finite_attributes(attributes, "zarr3")
        removed = [] if keep_old else [k for k in _OLD_KEYS if location.store.read(location.path + k).value]
        notes = (*changed, *(() if name else notes_above(location)))  # the groups below are migrated too
        document: dict[str, JSON] = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        return MigratedNode(name, "group", tuple(removed), tuple(notes), document=document)
    except ChunkwiseError as e:
        return MigratedNode(name, node.kind, error=e.message)


def _with_axes(report: list[MigratedNode]) -> list[MigratedNode]:
    """Name the dimensions of levels of images after the axes, as OME-Zarr 0.5 has them."""
    names = {
        f"{node.name}/{path}".lstrip("/"): axes
        for node in report
        if node.kind == "group"
        for path, axes in level_names(node.document.get("attributes") or {}).items()
    }
    for node in report:
        document, axes = node.document, names.get(node.name, ())
        unnamed = not any(document.get("dimension_names") or ())
        if axes and unnamed and isinstance(document, dict) and len(axes) == len(document.get("shape", ())):
            document["dimension_names"] = list(axes)
    return report
