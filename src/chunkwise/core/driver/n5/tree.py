"""Trees in N5.

Specification: N5 README, "File-system specification".

``attributes.json``: lenient parsing and canonical writing; and the container's version.

The version is the attribute ``n5`` of the root.  Readers accept containers up to a major version; the rest is
ignored.  Numeric datasets have not changed since 2.0, so new containers get the oldest version that describes
them.

Specification: N5 README, "File-system specification", items 1 to 4; n5-java ``N5Reader.Version``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from chunkwise.core.base.binding import JSON, dump_bytes, parse_json
from chunkwise.core.codec.notation import CodecNotation, notation_of
from chunkwise.core.driver.tree_format import FormatName, TreeFormat
from chunkwise.errors import InvalidArgumentError, SpecError, UnsupportedError

__all__ = [
    "ATTRIBUTES_KEY",
    "DATASET_NAMES",
    "NUMERIC_VERSION",
    "STRING_VERSION",
    "N5Tree",
    "Version",
    "check_version",
    "container_key",
    "dump_document",
    "is_dataset",
    "is_marker",
    "load_document",
    "parse_version",
]


ATTRIBUTES_KEY = "attributes.json"
"""Key of the only metadata document of a group or dataset, below its path."""


def load_document(raw: bytes | bytearray | memoryview) -> JSON:
    """Return the JSON value of an ``attributes.json``."""
    # As in n5-java, this accepts a UTF-8 byte order mark, ``NaN`` and infinities.  An empty file and
    # ``null``, which remains after removing all attributes, are a group without attributes.
    text = bytes(raw)
    if not text.strip():
        return {}
    try:
        value: JSON = parse_json(text.decode("utf-8-sig"))
    except ValueError:
        raise SpecError("Invalid JSON") from None
    return {} if value is None else value


def dump_document(document: Mapping[str, JSON]) -> bytes:
    """Return the text to store for `document`: compact, with sorted members, in UTF-8."""
    return dump_bytes(document)


def is_dataset(document: JSON) -> bool:
    """Return True if the JSON of an ``attributes.json`` describes a dataset, by n5-java's rule."""
    # A dataset has ``dimensions``, ``blockSize``, ``dataType`` and one of ``compression``,
    # ``compressionType`` (version 0) and ``codecs``; their values are not checked.
    return (
        isinstance(document, Mapping)
        and all(name in document for name in ("dimensions", "blockSize", "dataType"))
        and any(name in document for name in ("compression", "compressionType", "codecs"))
    )


def is_marker(document: JSON) -> bool:
    """Return True if an ``attributes.json`` has only the version of a container."""
    return isinstance(document, Mapping) and document.keys() <= {"n5"}


NUMERIC_VERSION = "2.0.0"
"""Version of a new container with numeric datasets: old readers still open it."""

STRING_VERSION = "4.0.0"
"""Version of a container with ``string`` datasets."""

_NEWEST_MAJOR = 4
_VERSION = re.compile(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?(.*)", re.DOTALL | re.ASCII)


class Version(NamedTuple):
    """A semantic version with its suffix, such as ``-SNAPSHOT``."""

    major: int
    minor: int
    patch: int
    suffix: str

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}{self.suffix}"


def parse_version(value: JSON) -> Version | None:
    """Read the attribute ``n5``, text or a number; None if it is missing (None) or not a version."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _VERSION.fullmatch(str(value))
    if match is None:
        return None
    major, minor, patch, suffix = match.groups()
    return Version(int(major), int(minor or 0), int(patch or 0), suffix)


def check_version(value: JSON) -> None:
    """Raise UnsupportedError if the attribute ``n5`` of a root names a major version above 4."""
    # Containers without a readable version, such as TensorStore's, are accepted.
    version = parse_version(value)
    if version is not None and version.major > _NEWEST_MAJOR:
        raise UnsupportedError(f"Incompatible N5 version {version} (this reads up to {_NEWEST_MAJOR})")


def container_key(path: str) -> str | None:
    """Return the key of the container's root document; None if no directory is named ``*.n5``."""
    end = path.rfind(".n5/", 0, len(path) - 1)
    return None if end < 0 else path[: end + 4] + "attributes.json"


DATASET_NAMES = ("dimensions", "blockSize", "dataType", "compression", "compressionType", "codecs")
"""Members of ``attributes.json`` that describe how the blocks of an N5 dataset are stored."""


class N5Tree(TreeFormat):
    """One ``attributes.json`` for each node, whose members are the attributes; every directory is a group."""

    name: ClassVar[FormatName] = "n5"
    title: ClassVar[str] = "N5"
    driver: ClassVar[str] = "n5"
    suffix: ClassVar[str] = ".n5"
    array_key: ClassVar[str] = ATTRIBUTES_KEY
    group_key: ClassVar[str] = ATTRIBUTES_KEY
    documents: ClassVar[tuple[str, ...]] = (ATTRIBUTES_KEY,)
    container_member: ClassVar[str] = "n5"
    directories_are_groups: ClassVar[bool] = True
    keeps_null: ClassVar[bool] = False
    has_fill_value: ClassVar[bool] = False
    codecs: ClassVar[CodecNotation] = notation_of("n5")
    has_empty_arrays: ClassVar[bool] = False
    shape_member: ClassVar[str] = "dimensions"
    names_member: ClassVar[str] = "axes"
    dimension_attributes: ClassVar[tuple[str, ...]] = ("axes", "units", "resolution")
    successor: ClassVar[FormatName | None] = None
    has_bool: ClassVar[bool] = False
    has_fixed_text: ClassVar[bool] = False
    reversed_axes: ClassVar[bool] = True

    def load(self, raw: bytes | bytearray | memoryview) -> JSON:
        """Return the JSON value, as lenient as n5-java."""
        return load_document(raw)

    def kind_of(self, key: str, document: Mapping[str, JSON]) -> tuple[Literal["array", "group"], str]:
        """Return "array" for a document with the members of a dataset."""
        return ("array" if is_dataset(document) else "group"), ""

    def float_marker(self, value: float) -> JSON:
        """Return a number, or the name of a non-finite one."""
        return value if math.isfinite(value) else "NaN" if value != value else f"{'-' * (value < 0)}Infinity"

    def own_members(self, kind: str) -> tuple[str, ...]:
        """Return the version of a container, and the members of a dataset."""
        return (*DATASET_NAMES, "n5") if kind == "array" else ("n5",)

    def attributes_of(self, document: Mapping[str, JSON], kind: str) -> dict[str, JSON]:
        """Return all members except those of a dataset."""
        # As in other N5 software, "axes", "units", "resolution" and "n5" count as attributes.
        own = DATASET_NAMES if kind == "array" else ()
        return {name: value for name, value in document.items() if name not in own}

    def compression(self, document: Mapping[str, JSON]) -> JSON:
        """Return ``compression``, also from version 0."""
        return document.get("compression", {"type": document.get("compressionType", "raw")})

    def group_documents(self, attributes: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return ``attributes.json``."""
        return {ATTRIBUTES_KEY: dict(attributes)}

    def check_group_attributes(self, attributes: Mapping[str, JSON]) -> None:
        """Raise for attributes of a container or a dataset."""
        if "n5" in attributes:
            raise InvalidArgumentError('"n5" is the version of the container, not an attribute')
        if is_dataset({**attributes}):
            raise InvalidArgumentError("these attributes would make a dataset of an N5 group")
