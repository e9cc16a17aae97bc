"""Nodes of the B+tree: keys with values, or with nodes below."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from chunkwise.core.kvstore.ocdbt.fields import LARGEST_BODY, Fields, frame_body, make_frame, varint, varints
from chunkwise.core.kvstore.ocdbt.manifest import Statistics
from chunkwise.core.kvstore.ocdbt.places import (
    DataFile,
    FileTable,
    Place,
    prefix_lengths,
    read_files,
    shared_length,
    take_keys,
)
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.errors import DataCorruptionError, UnsupportedError

__all__ = ["LONGEST_KEY", "Child", "Entry", "Inner", "Leaf", "Node", "encode_node", "read_node"]

_MAGIC = 0x0CDB20DE
LONGEST_KEY = 0xFFFF
_MOST_ENTRIES = 1 << 20  # entries of a node; their Python objects take some 230 MB


class Entry(NamedTuple):
    """A key and its value; a value outside the node is a place."""

    key: bytes
    value: bytes | Place


class Child(NamedTuple):
    """A node below: its first key, the prefix its keys share, its place and its statistics."""

    key: bytes
    shared: int  # bytes of `key` that begin all keys of the node, where they are left out
    place: Place
    statistics: Statistics


class Leaf(NamedTuple):
    """A node with values."""

    keys: list[bytes]
    entries: list[Entry]

    height: int = 0


class Inner(NamedTuple):
    """A node with nodes."""

    keys: list[bytes]
    entries: list[Child]
    height: int


Node: TypeAlias = Leaf | Inner


def read_node(raw: Buffer, above: bytes, shared: bytes, height: int | None) -> Node:
    """Read a node; its paths are relative to `above`, and `shared` precedes its keys."""
    fields = Fields(frame_body(raw, _MAGIC))
    found = fields.uint8()
    if height is None:
        height = found
    elif found != height:
        raise DataCorruptionError(f"height {found}, but {height} in the reference to it")
    files = read_files(fields, above, LARGEST_BODY)
    n = fields.count("entries")
    if n == 0:
        raise DataCorruptionError("it has no entries")
    if n > _MOST_ENTRIES:
        raise UnsupportedError(f"a node of {n} entries is not supported; expected at most {_MOST_ENTRIES}")
    prefixes, suffixes = fields.varints(n - 1), fields.varints(n)
    common = fields.varints(n) if height else []
    keys = take_keys(fields, prefixes, suffixes, LONGEST_KEY - len(shared), LARGEST_BODY - n * len(shared))
    if any(a >= b for a, b in pairwise(keys)):
        raise DataCorruptionError("its keys are not in order")
    if any(size > len(key) for size, key in zip(common, keys, strict=False)):
        raise DataCorruptionError("a node below shares more bytes than its key has")
    if shared:
        keys = [shared + key for key in keys]
    node: Node
    if height:
        node = Inner(
            keys, _read_children(fields, files, keys, [len(shared) + size for size in common]), height
        )
    else:
        node = Leaf(keys, _read_entries(fields, files, keys))
    fields.finish()
    return node


def _places(files: Sequence[DataFile], ids: list[int], offsets: list[int], lengths: list[int]) -> list[Place]:
    if ids and max(ids) >= len(files):
        raise DataCorruptionError(f"data file {max(ids)} of {len(files)}")
    places = [Place(files[i], at, size) for i, at, size in zip(ids, offsets, lengths, strict=True)]
    if any(place.offset + place.length >= 1 << 63 for place in places):
        raise DataCorruptionError("a place that ends after byte 2**63 of its data file")
    return places


def _read_children(
    fields: Fields, files: Sequence[DataFile], keys: list[bytes], shared: list[int]
) -> list[Child]:
    n = len(keys)
    places = _places(files, fields.varints(n), fields.varints(n), fields.varints(n))
    columns = zip(fields.varints(n), fields.varints(n), fields.varints(n), strict=True)
    statistics = [Statistics(*row) for row in columns]
    return [Child(*row) for row in zip(keys, shared, places, statistics, strict=True)]


def _read_entries(fields: Fields, files: Sequence[DataFile], keys: list[bytes]) -> list[Entry]:
    n = len(keys)
    lengths, kinds = fields.varints(n), fields.varints(n)
    if max(kinds) > 1:
        raise DataCorruptionError(f"a value of kind {max(kinds)}, expected 0 or 1")
    outside = sum(kinds)
    ids, offsets = fields.varints(outside), fields.varints(outside)
    sizes = [size for size, kind in zip(lengths, kinds, strict=True) if kind]
    places = iter(_places(files, ids, offsets, sizes))
    raw = bytes(fields.take(sum(lengths) - sum(sizes)))
    out, at = [], 0
    for key, size, kind in zip(keys, lengths, kinds, strict=True):
        if kind:
            out.append(Entry(key, next(places)))
        else:
            out.append(Entry(key, raw[at : at + size]))
            at += size
    return out


def encode_node(node: Node, level: int | None, is_root: bool) -> tuple[bytes, Child]:
    """Return a node as bytes, and a reference to it, still without its place."""
    keys = node.keys
    # The prefix that a node leaves out must be in the node above.
    shared = 0 if is_root else shared_length(keys[0], keys[-1])
    if isinstance(node, Inner):
        shared = min(shared, *(child.shared for child in node.entries))
    relative = [key[shared:] for key in keys]
    prefixes = prefix_lengths(relative)
    suffixes = [key[n:] for key, n in zip(relative, (0, *prefixes), strict=False)]
    columns = [varint(len(keys)), varints(prefixes), varints(map(len, suffixes))]
    if isinstance(node, Inner):
        places = [child.place for child in node.entries]
        files = FileTable(place.file for place in places)
        columns += (
            varints(child.shared - shared for child in node.entries),
            *suffixes,
            varints(files.ids(places)),
            varints(place.offset for place in places),
            varints(place.length for place in places),
            *(varints(child.statistics[i] for child in node.entries) for i in range(3)),
        )
        statistics = Statistics()
        for child in node.entries:
            statistics = statistics.plus(child.statistics)
    else:
        values = [entry.value for entry in node.entries]
        places = [value for value in values if isinstance(value, Place)]
        files = FileTable(place.file for place in places)
        columns += (
            *suffixes,
            varints(value.length if isinstance(value, Place) else len(value) for value in values),
            bytes(isinstance(value, Place) for value in values),
            varints(files.ids(places)),
            varints(place.offset for place in places),
            *(value for value in values if not isinstance(value, Place)),
        )
        statistics = Statistics(len(keys), 0, sum(place.length for place in places))
    raw = make_frame(b"".join((bytes((node.height,)), files.encoded(), *columns)), _MAGIC, level)
    statistics = statistics.plus(Statistics(0, len(raw), 0))
    return raw, Child(keys[0], shared, Place(DataFile(b"", b""), 0, len(raw)), statistics)
