"""The manifest: the settings of a database, and its versions."""

from __future__ import annotations

import struct
from typing import NamedTuple

from chunkwise.core.kvstore.ocdbt.fields import LARGEST_BODY, Fields, frame_body, make_frame, varint, varints
from chunkwise.core.kvstore.ocdbt.places import FileTable, read_files
from chunkwise.core.kvstore.ocdbt.versions import (
    Subtree,
    Version,
    encode_subtrees,
    encode_versions,
    read_subtrees,
    read_versions,
)
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.errors import DataCorruptionError, UnsupportedError

__all__ = [
    "KINDS",
    "MAGIC",
    "MAX_ARITY_LOG2",
    "MAX_INLINE",
    "MAX_NODE",
    "Config",
    "Manifest",
    "encode_manifest",
    "read_manifest",
]

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
        versions = read_versions(fields, files, config.version_tree_arity_log2)
        subtrees = read_subtrees(fields, files, None)
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
        body.append(encode_versions(files, manifest.versions))
        body.append(encode_subtrees(files, manifest.subtrees, with_heights=True))
    return make_frame(b"".join(body), MAGIC, config.level)
