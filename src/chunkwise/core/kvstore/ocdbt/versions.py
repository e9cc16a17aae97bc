"""Versions of a database, and the nodes of the tree of older versions.

The manifest itself has the latest versions.  A node of height ``h`` has the versions of whole runs of ``2 **
(arity_log2 * (h + 1))`` generations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from chunkwise.core.kvstore.ocdbt.fields import LARGEST_BODY, Fields, frame_body, make_frame, varint, varints
from chunkwise.core.kvstore.ocdbt.places import NO_PLACE, DataFile, FileTable, Place, read_files
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.errors import DataCorruptionError

__all__ = [
    "Statistics",
    "Subtree",
    "Version",
    "VersionNode",
    "encode_subtrees",
    "encode_version_node",
    "encode_versions",
    "parse_version_node",
    "read_subtrees",
    "read_version_node",
    "read_versions",
]

_MAGIC = 0x0CDB1234


class Statistics(NamedTuple):
    """Sums over a B+tree."""

    n_keys: int = 0
    n_tree_bytes: int = 0  # bytes of all nodes, as stored
    n_value_bytes: int = 0  # bytes of values outside nodes

    def plus(self, other: Statistics) -> Statistics:
        """Return the sum of both."""
        return Statistics(*map(sum, zip(self, other, strict=True)))


class Version(NamedTuple):
    """One state of the database."""

    generation: int
    root: Place  # place of the root, NO_PLACE for an empty tree
    height: int  # of the root
    statistics: Statistics
    time: int  # time of the commit, in nanoseconds since the epoch


class Subtree(NamedTuple):
    """A reference to a version node."""

    generation: int  # its latest generation
    place: Place
    n_generations: int
    time: int  # time of its earliest version
    height: int


class VersionNode(NamedTuple):
    """A version node, with versions or with nodes below."""

    height: int
    versions: list[Version]
    subtrees: list[Subtree]


def _increasing(values: Sequence[int], what: str) -> None:
    if 0 in values or any(a >= b for a, b in pairwise(values)):
        raise DataCorruptionError(f"{what} are not increasing from 1 on: {values[:10]}")


def _places(fields: Fields, files: Sequence[DataFile], n: int) -> list[Place]:
    ids, offsets, lengths = fields.varints(n), fields.varints(n), fields.varints(n)
    if ids and max(ids) >= len(files):
        raise DataCorruptionError(f"data file {max(ids)} of {len(files)}")
    return [Place(files[i], at, size) for i, at, size in zip(ids, offsets, lengths, strict=True)]


def _encode_places(files: FileTable, places: Sequence[Place]) -> bytes:
    return b"".join(
        (
            varints(files.ids(places)),
            varints(place.offset for place in places),
            varints(place.length for place in places),
        )
    )


def read_versions(fields: Fields, files: Sequence[DataFile], arity_log2: int) -> list[Version]:
    """Read the versions of a leaf or manifest."""
    n = fields.count("versions")
    generations, heights = fields.varints(n), fields.uint8s(n)
    _increasing(generations, "generations")
    places = _places(fields, files, n)
    columns = zip(fields.varints(n), fields.varints(n), fields.varints(n), strict=True)
    statistics = [Statistics(*row) for row in columns]
    times = fields.uint64s(n)
    if not 1 <= n <= (generations[-1] - 1 if n else 0) % (1 << arity_log2) + 1:
        raise DataCorruptionError(f"{n} versions up to {generations[-1:]}, with arity 2**{arity_log2}")
    out = []
    for row in zip(generations, places, heights, statistics, times, strict=True):
        version = Version(*row)
        if version.root.is_missing:
            if version.height or any(version.statistics):
                raise DataCorruptionError(f"version {version.generation} has keys, but no root")
            version = version._replace(root=NO_PLACE)
        out.append(version)
    return out


def encode_versions(files: FileTable, versions: Sequence[Version]) -> bytes:
    """Return versions as bytes."""
    return b"".join(
        (
            varint(len(versions)),
            varints(version.generation for version in versions),
            bytes(version.height for version in versions),
            _encode_places(files, [version.root for version in versions]),
            *(varints(version.statistics[i] for version in versions) for i in range(3)),
            *(version.time.to_bytes(8, "little") for version in versions),
        )
    )


def read_subtrees(fields: Fields, files: Sequence[DataFile], height: int | None) -> list[Subtree]:
    """Read the children of a node of `height`; None for the manifest's, which state their own height."""
    n = fields.count("version tree nodes")
    generations = fields.varints(n)
    _increasing(generations, "generations")
    places = _places(fields, files, n)
    counts, times = fields.varints(n), fields.uint64s(n)
    heights = fields.uint8s(n) if height is None else [height - 1] * n
    if height is None and any(a <= b for a, b in pairwise(heights)):
        raise DataCorruptionError(f"heights of version tree nodes are not decreasing: {heights[:10]}")
    return [Subtree(*row) for row in zip(generations, places, counts, times, heights, strict=True)]


def encode_subtrees(files: FileTable, subtrees: Sequence[Subtree], *, with_heights: bool) -> bytes:
    """Return the children of a node, or of the manifest, as bytes."""
    return b"".join(
        (
            varint(len(subtrees)),
            varints(subtree.generation for subtree in subtrees),
            _encode_places(files, [subtree.place for subtree in subtrees]),
            varints(subtree.n_generations for subtree in subtrees),
            *(subtree.time.to_bytes(8, "little") for subtree in subtrees),
            bytes(subtree.height for subtree in subtrees) if with_heights else b"",
        )
    )


def parse_version_node(raw: Buffer, above: bytes) -> tuple[int, VersionNode]:
    """Read a node, whose paths are relative to `above`; return it with the binary logarithm of its arity."""
    fields = Fields(frame_body(raw, _MAGIC))
    arity_log2, height = fields.uint8(), fields.uint8()
    files = read_files(fields, above, LARGEST_BODY)
    versions: list[Version] = []
    subtrees: list[Subtree] = []
    if height == 0:
        versions = read_versions(fields, files, arity_log2)
    else:
        subtrees = read_subtrees(fields, files, height)
    fields.finish()
    return arity_log2, VersionNode(height, versions, subtrees)


def read_version_node(raw: Buffer, subtree: Subtree, arity_log2: int) -> VersionNode:
    """Read the node that `subtree` refers to."""
    found, node = parse_version_node(raw, subtree.place.file.base)
    if found != arity_log2:
        raise DataCorruptionError(f"arity 2**{found}, but 2**{arity_log2} in the manifest")
    if node.height != subtree.height:
        raise DataCorruptionError(f"height {node.height}, but {subtree.height} in the node above")
    generations = [v.generation for v in node.versions] + [s.generation for s in node.subtrees]
    if not generations or generations[-1] != subtree.generation:
        raise DataCorruptionError(
            f"it ends at version {generations[-1:]}, but {subtree.generation} in the node above"
        )
    return node


def encode_version_node(node: VersionNode, arity_log2: int, level: int | None) -> bytes:
    """Return a node as bytes."""
    places = [v.root for v in node.versions] + [s.place for s in node.subtrees]
    files = FileTable(place.file for place in places)
    body = (
        encode_subtrees(files, node.subtrees, with_heights=False)
        if node.height
        else encode_versions(files, node.versions)
    )
    return make_frame(bytes((arity_log2, node.height)) + files.encoded() + body, _MAGIC, level)
