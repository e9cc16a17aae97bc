"""N5 URIs: ``container?group#attribute``.

Specification: n5-java 4, ``N5URI``.  Characters that URIs forbid, such as spaces, are fine; percent
escapes are decoded in the attribute only.

Compatibility: resolving ``#y`` against a URI that has an attribute ``x`` gives ``#x/y``, where n5-java
loses the ``y``.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

__all__ = ["N5Uri", "parse_n5_uri", "resolve_n5_uri"]

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/|\\")


class N5Uri(NamedTuple):
    """A place in an N5 container."""

    container: str  # URI or path of the container; empty if the URI is relative to one
    group: str | None = None  # path of a group as written, None if there is none, which means the root
    # Attribute path as written, None if there is none, which means all attributes.
    attribute: str | None = None

    @property
    def is_absolute(self) -> bool:
        """True if the container does not depend on where the URI was found."""
        return _ABSOLUTE.match(self.container) is not None

    def __str__(self) -> str:
        group = "" if self.group is None else f"?{self.group}"
        attribute = "" if self.attribute is None else f"#{self.attribute}"
        return f"{self.container}{group}{attribute}"


def parse_n5_uri(text: str) -> N5Uri:
    """Split a URI; the last ``#`` starts the attribute, the first ``?`` before it the group.

    Examples
    --------
    >>> parse_n5_uri("s3://bucket/key.n5?a/b#c[2]")
    N5Uri(container='s3://bucket/key.n5', group='a/b', attribute='c[2]')
    """
    before, hash_mark, attribute = text.rpartition("#")
    if not hash_mark:
        before = text
    container, question_mark, group = before.partition("?")
    return N5Uri(
        container,
        group if question_mark else None,
        unquote(attribute) if hash_mark else None,
    )


def resolve_n5_uri(base: N5Uri, relative: N5Uri) -> N5Uri:
    """Return the place that `relative` means when it is found at `base`."""
    # The first part that `relative` has is appended to that of `base`, unless it is absolute; what
    # comes before it is taken from `base`, what comes after it from `relative`.
    if relative.is_absolute:
        return relative
    if relative.container:
        return relative._replace(container=_join(base.container, relative.container))
    if relative.group is not None:
        return N5Uri(base.container, _join(base.group, relative.group), relative.attribute)
    if relative.attribute is not None:
        return base._replace(attribute=_join(base.attribute, relative.attribute))
    return base


def _join(base: str | None, relative: str) -> str:
    if not base or relative.startswith("/"):
        return relative
    return f"{base.rstrip('/')}/{relative}"
