"""The manifest: the settings of a database, as given and as stored, and its versions.

The manifest itself has the latest versions, nodes of a tree have the older ones.  A node of height ``h`` has
the versions of whole runs of ``2 ** (arity_log2 * (h + 1))`` generations.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from chunkwise.core.base.binding import (
    JSON,
    Members,
    dump,
    expect_int,
    expect_object,
    expect_one_of,
    expect_string,
)
from chunkwise.core.kvstore.ocdbt.fields import LARGEST_BODY, Fields, frame_body, make_frame, varint, varints
from chunkwise.core.kvstore.ocdbt.places import NO_PLACE, DataFile, FileTable, Place, read_files
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.errors import DataCorruptionError, FailedPreconditionError, SpecError, UnsupportedError

__all__ = [
    "Config",
    "ConfigMembers",
    "Manifest",
    "Statistics",
    "Subtree",
    "Version",
    "VersionNode",
    "encode_manifest",
    "encode_version_node",
    "format_config",
    "make_config",
    "parse_config",
    "parse_version_node",
    "read_manifest",
    "read_version_node",
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


def _read_versions(fields: Fields, files: Sequence[DataFile], arity_log2: int) -> list[Version]:
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


def _encode_versions(files: FileTable, versions: Sequence[Version]) -> bytes:
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


def _read_subtrees(fields: Fields, files: Sequence[DataFile], height: int | None) -> list[Subtree]:
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


def _encode_subtrees(files: FileTable, subtrees: Sequence[Subtree], *, with_heights: bool) -> bytes:
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
        versions = _read_versions(fields, files, arity_log2)
    else:
        subtrees = _read_subtrees(fields, files, height)
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
        _encode_subtrees(files, node.subtrees, with_heights=False)
        if node.height
        else _encode_versions(files, node.versions)
    )
    return make_frame(bytes((arity_log2, node.height)) + files.encoded() + body, _MAGIC, level)


MAGIC = 0x0CDB3A2A
KINDS = ("single", "numbered")
# TensorStore's limits; `Config` has TensorStore's defaults.
MAX_INLINE = 1 << 20
MAX_ARITY_LOG2 = 16
MAX_NODE = (1 << 32) - 1
_LEVEL = struct.Struct("<i")


class Config(NamedTuple):
    """Settings of a database; they never change."""

    uuid: bytes  # 16 bytes
    manifest_kind: str = "single"  # or "numbered"
    max_inline_value_bytes: int = 100  # largest value that is stored in a node
    max_decoded_node_bytes: int = 8 << 20  # largest node, before compression
    version_tree_arity_log2: int = 4  # most versions of a version node, and most children, as a power of two
    level: int | None = 0  # level of zstd; None for no compression


class Manifest(NamedTuple):
    """Content of a manifest; without `versions`, the database has numbered manifests."""

    config: Config
    versions: list[Version]
    subtrees: list[Subtree]  # nodes of earlier versions, the highest first

    @property
    def latest(self) -> Version:
        """The latest version."""
        return self.versions[-1]


def read_manifest(raw: Buffer) -> Manifest:
    """Return the manifest from its bytes."""
    fields = Fields(frame_body(raw, MAGIC))
    config = _read_config(fields)
    versions, subtrees = [], []
    if config.manifest_kind == "single":
        files = read_files(fields, b"", LARGEST_BODY)
        versions = _read_versions(fields, files, config.version_tree_arity_log2)
        subtrees = _read_subtrees(fields, files, None)
        if subtrees and subtrees[-1].generation >= versions[0].generation:
            raise DataCorruptionError("version tree nodes have the versions that the manifest has itself")
    fields.finish()
    return Manifest(config, versions, subtrees)


def _read_config(fields: Fields) -> Config:
    uuid = bytes(fields.take(16))
    kind, inline, node = fields.varints(3)
    arity, method = fields.uint8(), fields.varint()
    for name, value, lo, hi in (
        ("manifest_kind", kind, 0, len(KINDS) - 1),
        ("max_inline_value_bytes", inline, 0, MAX_INLINE),
        ("max_decoded_node_bytes", node, 0, MAX_NODE),
        ("version_tree_arity_log2", arity, 1, MAX_ARITY_LOG2),
    ):
        if not lo <= value <= hi:
            raise DataCorruptionError(f"{name} is {value}, expected {lo} to {hi}")
    if method > 1:
        raise UnsupportedError(f"compression method {method} is not supported; expected 0 (none) or 1 (zstd)")
    level = _LEVEL.unpack(fields.take(4))[0] if method else None
    return Config(uuid, KINDS[kind], inline, node, arity, level)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as bytes."""
    config = manifest.config
    body = [
        config.uuid,
        varints((KINDS.index(config.manifest_kind), config.max_inline_value_bytes)),
        varint(config.max_decoded_node_bytes),
        bytes((config.version_tree_arity_log2,)),
        b"\0" if config.level is None else b"\1" + _LEVEL.pack(config.level),
    ]
    if manifest.versions:
        files = FileTable(
            [v.root.file for v in manifest.versions] + [s.place.file for s in manifest.subtrees]
        )
        body.append(files.encoded())
        body.append(_encode_versions(files, manifest.versions))
        body.append(_encode_subtrees(files, manifest.subtrees, with_heights=True))
    return make_frame(b"".join(body), MAGIC, config.level)


_LEVELS = (-131072, 22)  # levels of zstd


class ConfigMembers(NamedTuple):
    """The given fields of a `Config`."""

    given: Mapping[str, JSON]  # by name of field

    @classmethod
    def of(cls, config: Config) -> ConfigMembers:
        """Return all fields of a configuration, except the usual kind of manifest."""
        return cls({n: v for n, v in config._asdict().items() if (n, v) != ("manifest_kind", "single")})

    def check(self, config: Config) -> None:
        """Raise FailedPreconditionError if a database has other settings."""
        for name, expected in self.given.items():
            found = getattr(config, name)
            if found != expected:
                shown = [format_config({name: value}, include_defaults=True) for value in (expected, found)]
                ((member, wanted),), ((_, is_there),) = (one.items() for one in shown)
                raise FailedPreconditionError(
                    f"Configuration mismatch on {member}: "
                    f"expected {dump(wanted)} but received {dump(is_there)}"
                )


def make_config(members: ConfigMembers) -> Config:
    """Return the configuration of a new database."""
    return Config(**{"uuid": os.urandom(16), **members.given})


def parse_config(value: JSON) -> ConfigMembers:
    """Read the member ``config``."""
    members = Members(expect_object(value))
    taken = {
        "uuid": members.take("uuid", _expect_uuid, None),
        "manifest_kind": members.take("manifest_kind", lambda v: expect_one_of(v, KINDS), None),
        **{
            name: members.take(name, partial(expect_int, lo=lo, hi=hi), None)
            for name, lo, hi in (
                ("max_inline_value_bytes", 0, MAX_INLINE),
                ("max_decoded_node_bytes", 0, MAX_NODE),
                ("version_tree_arity_log2", 1, MAX_ARITY_LOG2),
            )
        },
    }
    given = {name: value for name, value in taken.items() if value is not None}
    compression = members.take("compression", _expect_compression, {})
    members.finish()
    return ConfigMembers({**given, **compression})


def format_config(given: Mapping[str, JSON], include_defaults: bool = False) -> dict[str, JSON]:
    """Return the member ``config`` for the fields of a `Config`."""
    out: dict[str, JSON] = {}
    for name, value in given.items():
        if name == "uuid":
            out[name] = value.hex()
        elif name == "level":
            level = {"level": value} if value or include_defaults else {}
            out["compression"] = None if value is None else {"id": "zstd", **level}
        else:
            out[name] = value
    return dict(sorted(out.items()))


def _expect_uuid(value: JSON) -> bytes:
    text = expect_string(value)
    if len(text) != 32 or not set(text) <= set("0123456789abcdefABCDEF"):
        raise SpecError(f"Expected string with 32 hex digits, but received: {dump(text)}")
    return bytes.fromhex(text)


def _expect_compression(value: JSON) -> dict[str, int | None]:
    """Return the field ``level``."""
    if value is None:
        return {"level": None}
    members = Members(expect_object(value))
    members.take("id", lambda v: expect_one_of(v, ("zstd",)))
    level = members.take("level", lambda v: expect_int(v, *_LEVELS), 0)
    members.finish()
    return {"level": level}
