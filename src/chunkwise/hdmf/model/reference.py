"""References and links as records, whatever form they are stored in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chunkwise.errors import DataCorruptionError, InvalidArgumentError
from chunkwise.extension.inside import parse_json

__all__ = [
    "Reference",
    "canonical_path",
    "dump_identity",
    "dump_reference",
    "join_path",
    "parent_path",
    "parse_reference",
    "split_path",
]


def split_path(path: str) -> list[str]:
    """Return the names in a path below the root; ``""`` and ``"/"`` are the root."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise InvalidArgumentError(f'path "{path}" contains ".."')
    return names


def canonical_path(path: str) -> str:
    """Return the one spelling of a path: ``"/"``, or names each after a slash."""
    return "/" + "/".join(split_path(path))


def join_path(group: str, name: str) -> str:
    """Return the path of a child."""
    return f"/{name}" if group == "/" else f"{group}/{name}"


def parent_path(path: str) -> str:
    """Return the path of the group that an object is in."""
    return path.rpartition("/")[0] or "/"


@dataclass(frozen=True, slots=True)
class Reference:
    """Target of a link or a reference.

    Attributes
    ----------
    path : str
        Of the target in its store, as stored.
    source : str
        The store that holds the target, relative to the one that holds the reference; ``"."`` is the same.
    object_id, source_object_id : str or None
        Identity of the target, and of the root of its store.
    region : dict or None
        Canonical description of the part of the target that is meant; see `chunkwise.hdmf.model.region`.
    link : bool
        Whether it is a link of a group; its identities are those of the target, whoever wrote it.
    """

    path: str
    source: str = "."
    object_id: str | None = None
    source_object_id: str | None = None
    region: Mapping[str, Any] | None = None
    link: bool = False

    @property
    def internal(self) -> bool:
        """True if the target is said to be in the same store."""
        return self.source in (".", "")


def _text(value: Any, member: str, default: str | None) -> Any:
    if value is None:
        return default
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise DataCorruptionError(f'member "{member}" of a reference is {value!r}, but expected text')
    return value


def parse_reference(value: Any) -> Reference:
    """Return the record of any stored form: a mapping, its JSON text, or a bare path."""
    if isinstance(value, Reference):
        return value
    if isinstance(value, str):
        if not value.startswith("{"):
            return Reference(value)
        try:
            value = parse_json(value)
        except ValueError:
            return Reference(value)
    if not isinstance(value, Mapping):
        raise DataCorruptionError(f"expected a reference, but found {str(value)[:80]!r}")
    region = value.get("region")
    if region is not None and not isinstance(region, Mapping):
        raise DataCorruptionError(f'member "region" of a reference is {region!r}, but expected an object')
    return Reference(
        _text(value.get("path"), "path", "/") or "/",
        _text(value.get("source"), "source", ".") or ".",
        _text(value.get("object_id"), "object_id", None),
        _text(value.get("source_object_id"), "source_object_id", None),
        region,
    )


def dump_reference(value: Reference, *, full: bool) -> dict[str, Any]:
    """Return the JSON form of a reference."""
    out: dict[str, Any] = {"source": value.source, "path": value.path}
    if full:
        out |= {"object_id": value.object_id, "source_object_id": value.source_object_id}
    elif not value.internal:
        out |= dump_identity(value)
    if value.region is not None:
        out["region"] = dict(value.region)
    return out


def dump_identity(value: Reference) -> dict[str, str]:
    """Return the members that tell the target from another object at its place."""
    ids = {"object_id": value.object_id, "source_object_id": value.source_object_id}
    return {name: text for name, text in ids.items() if text is not None}
