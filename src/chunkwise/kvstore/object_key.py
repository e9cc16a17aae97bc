"""Keys of object stores."""

from __future__ import annotations

import re

from chunkwise.binding import dump
from chunkwise.errors import InvalidArgumentError

__all__ = ["check_object_key", "is_object_key"]

_BAD = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|[\x00-\x1f\x7f\ud800-\udfff]")


def is_object_key(key: str, refused: str = "") -> bool:
    """Return True if a server that changes `refused` characters stores `key` under its own name."""
    return _BAD.search(key) is None and not any(c in key for c in refused)


def check_object_key(key: str, refused: str = "") -> None:
    """Raise InvalidArgumentError for a key that can't be stored under its own name."""
    # It is empty, has an empty component, ``.`` or ``..``, a control character, or is not UTF-8.
    if not is_object_key(key, refused):
        raise InvalidArgumentError(
            f"Invalid key: {dump(key)}: object stores take UTF-8 without control characters"
            f'{_and(refused)} and no component that is empty, "." or ".."'
        )


def _and(refused: str) -> str:
    return f" or {refused}," if refused else ","
