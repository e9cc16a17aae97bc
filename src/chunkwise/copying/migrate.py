"""Migration of Zarr v1 and v2 arrays to Zarr v3 in place: new metadata, the same chunks.

That is possible if v3 has names for everything that the array uses: the key encoding ``v2`` finds the chunks,
and a codec chain says how they are stored.  The chain of the new document is compared with the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from chunkwise.copying.array_template import regular_grid
from chunkwise.copying.losses import finite_attributes
from chunkwise.core.base.binding import JSON, dump, load_json
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.codec_json import codec_to_json
from chunkwise.core.codec.protocol import ChunkSpec, Codec
from chunkwise.core.driver.tree_formats import TREE_FORMATS
from chunkwise.core.driver.zarr2.metadata import MEMBERS, Zarr2Metadata
from chunkwise.core.driver.zarr2.metadata import parse_metadata as parse_zarr2
from chunkwise.core.driver.zarr3.metadata import make_document
from chunkwise.core.driver.zarr3.metadata import parse_metadata as parse_zarr3
from chunkwise.core.dtypes.zarr3 import to_zarr3
from chunkwise.core.kvstore.atomic import AtomicWritable
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, KvStoreDriver, offers
from chunkwise.core.trees.attributes import node_attributes
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import Node, find_documented
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    FailedPreconditionError,
    UnsupportedError,
    prefix,
)

__all__ = ["Migration", "change_documents", "migrate_array", "notes_above", "old_node", "plan_migration"]

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
        removed = [path + key for key in planned.removed]
        change_documents(kv, {path + "zarr.json": dump(planned.document).encode()}, removed)
        try:
            update_consolidated(kv, path)
        except ChunkwiseError as e:
            raise prefix(e, "The array is migrated, but not its copy in consolidated metadata") from None
    return planned


def plan_migration(node: Node, *, keep_old: bool = False) -> Migration:
    """Return what `migrate` would do to an array, without looking at the groups above it."""
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
    attributes, changed = finite_attributes(attributes, "zarr3")
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


def change_documents(kv: KvStoreDriver, written: Mapping[str, bytes], removed: Sequence[str]) -> None:
    """Write new documents, then delete others; after an error all are as they were.

    Raises
    ------
    AlreadyExistsError
        If there is another document with one of the names.
    """
    there = {key: found for key in written if (found := kv.read(key).value) is not None}
    for key, value in there.items():
        if not _is_same_json(bytes(value), written[key]):
            raise AlreadyExistsError(f"{kv.describe(key)} exists already")
    new = {key: value for key, value in written.items() if key not in there}
    store: object = kv
    if offers(store, AtomicWritable):
        conditions = dict.fromkeys(new, MISSING_GENERATION)
        changed = store.write_all({**new, **dict.fromkeys(removed)}, conditions=conditions)
        if changed is not None:
            raise AlreadyExistsError(f"{kv.describe(changed)} exists already")
        return
    undo: list[Callable[[], object]] = []
    try:
        for key, value in new.items():
            generation = kv.write(key, value, if_equal=MISSING_GENERATION)
            if generation is None:
                raise AlreadyExistsError(f"{kv.describe(key)} exists already")
            undo.append(partial(kv.delete, key, if_equal=generation))
        for key in removed:
            old = kv.read(key).value
            if old is not None:
                undo.append(partial(kv.write, key, bytes(old), if_equal=MISSING_GENERATION))
                kv.delete(key)
    except BaseException:  # an interrupt too
        for step in reversed(undo):
            with suppress(ChunkwiseError):  # the store may have failed permanently: then both are there
                step()
        raise


def _is_same_json(a: bytes, b: bytes) -> bool:
    try:
        return repr(load_json(a)) == repr(load_json(b))
    except ChunkwiseError:
        return False
