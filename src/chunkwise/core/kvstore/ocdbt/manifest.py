"""The manifest: the settings of a database, as given and as stored, and its versions."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from functools import partial
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
from chunkwise.errors import DataCorruptionError, FailedPreconditionError, SpecError, UnsupportedError

__all__ = [
    "Config",
    "ConfigMembers",
    "Manifest",
    "encode_manifest",
    "format_config",
    "make_config",
    "parse_config",
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
