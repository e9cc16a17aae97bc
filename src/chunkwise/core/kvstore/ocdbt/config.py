"""Settings for a new database, those that are given: the member ``config`` of a spec."""

from __future__ import annotations

import os
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
from chunkwise.core.kvstore.ocdbt.manifest import KINDS, MAX_ARITY_LOG2, MAX_INLINE, MAX_NODE, Config
from chunkwise.errors import FailedPreconditionError, SpecError

__all__ = ["ConfigMembers", "format_config", "make_config", "parse_config"]

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
