"""The version of an N5 container, in the attribute ``n5`` of its root.

Readers take containers up to a major version; nothing else is compared.  No byte of a numeric dataset
has changed since 2.0, so new containers are marked with the oldest version that describes them.

Specification: N5 README, "File-system specification", item 3; n5-java ``N5Reader.Version``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from chunkwise.binding import JSON
from chunkwise.errors import UnsupportedError

__all__ = ["NUMERIC_VERSION", "STRING_VERSION", "Version", "check_version", "container_key", "parse_version"]

NUMERIC_VERSION = "2.0.0"
"""Version of a new container with numeric datasets: old readers still open it."""

STRING_VERSION = "4.0.0"
"""Version of a container with ``string`` datasets."""

_NEWEST_MAJOR = 4
_VERSION = re.compile(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?(.*)", re.DOTALL | re.ASCII)


class Version(NamedTuple):
    """A semantic version with whatever follows it, such as ``-SNAPSHOT``."""

    major: int
    minor: int
    patch: int
    suffix: str

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}{self.suffix}"


def parse_version(value: JSON) -> Version | None:
    """Read the attribute ``n5``, text or a number; None if it is missing (None) or no version."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _VERSION.fullmatch(str(value))
    if match is None:
        return None
    major, minor, patch, suffix = match.groups()
    return Version(int(major), int(minor or 0), int(patch or 0), suffix)


def check_version(value: JSON) -> None:
    """Raise UnsupportedError if the attribute ``n5`` of a root names a major version above 4."""
    # Containers without a readable version, as TensorStore makes them, are fine.
    version = parse_version(value)
    if version is not None and version.major > _NEWEST_MAJOR:
        raise UnsupportedError(f"Incompatible N5 version {version} (this reads up to {_NEWEST_MAJOR})")


def container_key(path: str) -> str | None:
    """Return the key of the container's root document; None if no directory is named ``*.n5``."""
    end = path.rfind(".n5/", 0, len(path) - 1)
    return None if end < 0 else path[: end + 4] + "attributes.json"
