"""Migration of Zarr v1 and v2 arrays and hierarchies to Zarr v3 in place: new metadata, the same chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chunkwise.copying.array_template import regular_grid
from chunkwise.copying.change_documents import change_documents
from chunkwise.copying.conventions import is_hdmf_file, level_names, ome_attributes
from chunkwise.copying.losses import finite_attributes
from chunkwise.copying.resolve import resolve
from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.base.catalogue import hooks
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.chain import codec_to_json
from chunkwise.core.codec.protocol import ChunkSpec, Codec
from chunkwise.core.driver.tree_formats import TREE_FORMATS
from chunkwise.core.driver.zarr2.metadata import MEMBERS, Zarr2Metadata
from chunkwise.core.driver.zarr2.metadata import parse_metadata as parse_zarr2
from chunkwise.core.driver.zarr3.metadata import make_document
from chunkwise.core.driver.zarr3.metadata import parse_metadata as parse_zarr3
from chunkwise.core.dtypes.zarr3 import to_zarr3
from chunkwise.core.trees.attributes import node_attributes
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.consolidated_tree import consolidate, is_consolidated, renew_copies_above
from chunkwise.core.trees.location import Location, located
from chunkwise.core.trees.node import Node, find_documented
from chunkwise.core.trees.walk import WalkedNode, walk
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    UnsupportedError,
    prefix,
)

__all__ = [
    "MigratedNode",
    "Migration",
    "migrate",
    "migrate_array",
    "migrate_tree",
    "notes_above",
    "old_node",
    "plan_migration",
]

# -- arrays -------------------------------------------------------------------------------------------

# That is possible if v3 has names for everything that the array uses: the key encoding ``v2`` finds the
# chunks, and a codec chain says how they are stored.  The chain of the new document is compared with the
# old one.

_DIMENSIONS = "_ARRAY_DIMENSIONS"


class Migration(NamedTuple):
    """Changes that are, or would be, made to an array, or to a group and everything below it.

    Attributes
    ----------
    document : dict
        The new ``zarr.json`` of the array, or of the group itself.
    removed : tuple of str
        Keys of the old documents that are removed, relative to the array or group.
    notes : tuple of str
        What changes for users; in a group, each begins with the path of the node.
    applied : bool
        Whether the changes have been made.
    """

    document: dict[str, JSON]
    removed: tuple[str, ...]
    notes: tuple[str, ...]
    applied: bool


def migrate_array(node: Node, *, apply: bool, keep_old: bool) -> Migration:
    """Migrate an array if `apply`; return the changes."""
    location = node.location
    planned = plan_migration(old_node(node), keep_old=keep_old)
    planned = planned._replace(notes=(*planned.notes, *notes_above(location)), applied=apply)
    if apply:
        kv, path = location.store, location.path

        def written(planned: Migration) -> dict[str, bytes]:
            return {path + "zarr.json": dump(planned.document).encode()}

        def again() -> dict[str, bytes]:
            found = find_documented(location, node.format)
            return {} if found is None else written(plan_migration(old_node(found), keep_old=keep_old))

        change_documents(kv, written(planned), [path + key for key in planned.removed], again)
        try:
            update_consolidated(kv, path)
        except ChunkwiseError as e:
            raise prefix(e, "The array is migrated, but not its copy in consolidated metadata") from None
    return planned


def plan_migration(node: Node, *, keep_old: bool = False) -> Migration:
    """Return the changes that `migrate` would make to an array, without looking at the groups above it."""
    location = node.location
    rules = node.rules
    if rules.successor in (None, node.format) or node.kind != "array":
        found = "an array" if node.kind == "array" else "a group"
        raise FailedPreconditionError(
            f"{location.text} is {found}{f' of format {node.format}' if node.format else ''}; "
            "only Zarr v1 and v2 arrays can be migrated"
        )
    document, notes = _describe(node)
    removed = () if keep_old else tuple(_existing(location, (rules.array_key, rules.attributes_key)))
    return Migration(document, removed, notes, False)


def _existing(location: Location, keys: tuple[str, ...]) -> Iterator[str]:
    return (key for key in keys if location.store.read(location.path + key).value is not None)


def _describe(node: Node) -> tuple[dict[str, JSON], tuple[str, ...]]:
    """Return the new document of an array, and notes."""
    location = node.location
    where = location.describe(node.key)
    stored = dict(node.document)
    try:
        members = node.rules.zarr2_members(stored, stored=True)
        old = parse_zarr2(members)
    except (ChunkwiseError, KeyError) as e:
        raise FailedPreconditionError(f"Error reading {where}: {e}") from None
    notes = []
    attributes = dict(node_attributes(node))
    names = attributes.get(_DIMENSIONS)
    if (
        isinstance(names, list)
        and len(names) == old.rank
        and all(n is None or isinstance(n, str) for n in names)
    ):
        del attributes[_DIMENSIONS]
        notes.append(f"attribute {_DIMENSIONS} becomes dimension_names")
    else:
        names = None
    attributes, changed = _attributes(attributes, where)
    notes += changed
    if old.fill_value is None:
        notes.append(
            f"fill_value null becomes {old.missing_value().item()!r}, as missing chunks are read already"
        )
    if members == stored and (extra := sorted(set(stored) - set(MEMBERS))):
        notes.append(f"members that mean nothing are left out: {', '.join(extra)}")
    try:
        plain = _plain(old)
        document = make_document(
            shape=old.shape,
            dtype=old.dtype,
            data_type=to_zarr3(old.dtype),
            chunk_grid=regular_grid(old.chunks),
            chunk_key_encoding={"name": "v2", "configuration": {"separator": old.separator}},
            fill_value=old.missing_value(),
            codecs=[codec_to_json(codec) for codec in plain],
            dimension_names=names,
            attributes=attributes,
            extra={},
        )
        _check_same(old, plain, document)
    except (ChunkwiseError, ValueError) as e:
        message = e.message if isinstance(e, ChunkwiseError) else str(e)
        raise FailedPreconditionError(f"{where} has no equal in Zarr v3: {message}") from None
    return document, tuple(notes)


def _attributes(old: Mapping[str, JSON], where: str) -> tuple[dict[str, JSON], list[str]]:
    """Return attributes as Zarr v3 has them, and notes; raise if one would be lost with the old documents."""
    attributes, notes = finite_attributes(old, "zarr3")
    if len(attributes) < len(old):
        raise FailedPreconditionError(f"{where} has no equal in Zarr v3: {'; '.join(notes)}")
    return attributes, notes


def _plain(old: Zarr2Metadata) -> list[Codec]:
    """Return the codec chain in v3's form."""
    # A record has one byte order, and Blosc's shuffle, which only the encoder has to know, is not automatic.
    codecs: list[Any] = list(old.codecs)
    for i, codec in enumerate(codecs):
        if isinstance(codec, Bytes) and old.dtype.memory_dtype.names is not None:
            if old.stored_dtype != old.stored_dtype.newbyteorder("<"):
                raise UnsupportedError(f'"dtype" has big-endian fields: {old.stored_dtype.descr}')
            codecs[i] = Bytes("little")
        if codec.name == "blosc" and codec.shuffle == -1:
            codecs[i] = replace(codec, shuffle=2 if codec.typesize == 1 else 1)
    return codecs


def _check_same(old: Zarr2Metadata, plain: list[Codec], document: dict[str, JSON]) -> None:
    """Raise unless the new document describes the same chunks."""
    new = parse_zarr3(document)
    item = ChunkSpec(old.chunks, old.missing_value().dtype, old.missing_value())
    same = len(plain) == len(new.codecs) and all(
        a == b or (isinstance(a, Bytes) and isinstance(b, Bytes) and a.layout(item) == b.layout(item))
        for a, b in zip(plain, new.codecs, strict=True)
    )
    if not same or new.dtype != old.dtype or new.fill_value.tobytes() != old.missing_value().tobytes():
        raise UnsupportedError(f"its chunks would be read differently with {dump(document['codecs'])}")


def notes_above(location: Location) -> list[str]:
    """Return a note on the group around a migrated node."""
    above = location.parent
    if above is None or above.store.read(above.path + ".zgroup").value is None:
        return []
    return [f"group {above.text} is of Zarr v2: what lists its members as such does not find {location.name}"]


def old_node(node: Node) -> Node:
    """Return the node of Zarr v2 or v1 to which a killed process has already given a ``zarr.json``."""
    for format in (name for name, rules in TREE_FORMATS.items() if name != rules.successor == node.format):
        found = find_documented(node.location, format)
        if found is not None and found.format == format and found.kind == node.kind:
            return found
    return node


# -- hierarchies --------------------------------------------------------------------------------------

# 1. The migration of every array is planned first; if one can't be migrated, nothing is written.
# 2. The new documents are written beside the old ones, from the deepest up: until the last is written, the
#    Zarr v2 tree is complete.  Then the old ones are deleted.  After an error all are as they were.
# 3. If there was consolidated metadata, it is written for Zarr v3.

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
    found, nodes, report = _plan_all(root, keep_old)
    if not apply or not report or any(node.error for node in report):
        return report
    removed: list[str] = []
    # Zarr v3 groups around some of the nodes have copies too.
    consolidated = [node for _, node in found if node.rules.consolidated_member and is_consolidated(node)]
    kv = root.location.store
    for (_, node), migrated in reversed(list(zip(nodes, report, strict=True))):
        path = node.location.path
        removed += [path + key for key in migrated.removed if key != ".zmetadata"]
        if node.kind == "group" and kv.read(path + ".zmetadata").value is not None:
            consolidated.append(node)
    # First, since the members that it names are removed.
    old = [node.location.path + ".zmetadata" for node in consolidated if not node.rules.consolidated_member]
    change_documents(
        kv, _written(nodes, report), [*old, *removed], lambda: _written(*_plan_all(root, keep_old)[1:])
    )
    try:
        renew_copies_above(root.location, format="zarr3" if keep_old else None)  # old ones have their copies
        for node in consolidated:
            consolidate(node.location)
    except ChunkwiseError as e:
        raise prefix(e, "The tree is migrated, but not its consolidated metadata") from None
    return report


def _plan_all(root: Node, keep_old: bool) -> tuple[list[WalkedNode], list[WalkedNode], list[MigratedNode]]:
    """Return all nodes, those that aren't migrated yet, and the results for these."""
    found = [each._replace(node=old_node(each.node)) for each in walk(root) if not each.node.implicit]
    nodes = [each for each in found if each.node.format != each.node.rules.successor]
    return found, nodes, _with_axes([_plan(name, node, keep_old) for name, node in nodes])


def _written(nodes: Sequence[WalkedNode], report: Sequence[MigratedNode]) -> dict[str, bytes]:
    """Return the new documents, those of children before their group's."""
    pairs = reversed(list(zip(nodes, report, strict=True)))
    return {each.node.location.path + "zarr.json": dump(done.document).encode() for each, done in pairs}


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
        attributes, changed = _attributes(attributes, location.describe(node.key))
        removed = [] if keep_old else [k for k in _OLD_KEYS if location.store.read(location.path + k).value]
        lost = hooks.find("image left out")(node, attributes, (), "zarr3")
        notes = (
            *changed,
            *([lost] if lost else ()),
            *(() if name else notes_above(location)),
        )  # the groups below are migrated too
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
