"""N5 URIs: ``container?group#attribute``.

Specification: n5-java 4, ``N5URI``.  Characters that URIs forbid, such as spaces, are fine; percent
escapes are decoded in the attribute only.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

__all__ = ["N5Uri", "parse_n5_uri"]


class N5Uri(NamedTuple):
    """A place in an N5 container."""

    container: str  # URI or path of the container; empty if the URI is relative to one
    group: str | None = None  # path of a group as written, None if there is none, which means the root
    # Attribute path as written, None if there is none, which means all attributes.
    attribute: str | None = None

    def __str__(self) -> str:
        group = "" if self.group is None else f"?{self.group}"
        attribute = "" if self.attribute is None else f"#{self.attribute}"
        return f"{self.container}{group}{attribute}"


def parse_n5_uri(text: str) -> N5Uri:
    """Split ``container?group#attribute`` at the last ``#`` and the first ``?`` before it."""
    before, hash_mark, attribute = text.rpartition("#")
    if not hash_mark:
        before = text
    container, question_mark, group = before.partition("?")
    return N5Uri(
        container,
        group if question_mark else None,
        unquote(attribute) if hash_mark else None,
    )
