r"""Attribute paths: locations in the JSON tree of an ``attributes.json``.

``/`` separates members; ``[N]`` is an index into an array, and a separate component anywhere: ``a[3]b`` is
``a/[3]/b``.  ``\/`` and ``\[`` are the characters themselves.  Empty components and ``.`` are dropped, ``..``
removes the one before it.  ``""`` and ``"/"`` are the whole document.

Specification: n5-java 4, ``N5URI.normalizeAttributePath`` and ``GsonUtils``.

Compatibility: n5-java's tables are in the tests.  Here a group path above the root is a separate error, and
``//a`` is the group ``a``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from chunkwise.core.base.binding import JSON, MISSING, MOST_GIVEN
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "Token",
    "get_attribute",
    "normalize_group_path",
    "parse_attribute_path",
    "remove_attribute",
    "set_attribute",
]

Token: TypeAlias = str | int
"""A member name, or an index into an array."""

_INDEX = re.compile(r"(?<!\\)\[([0-9]+)\]")
_SEPARATOR = re.compile(r"(?<!\\)/")
_ESCAPED = re.compile(r"\\([/\[])")
_LARGEST_GAP = 1 << 20


def _components(path: str) -> list[str]:
    out: list[str] = []
    for part in _SEPARATOR.split(_INDEX.sub(r"/[\1]/", path)):
        if part == "..":
            del out[-1:]
        elif part not in ("", "."):
            out.append(part)
    if len(out) > MOST_GIVEN:
        raise InvalidArgumentError(f"attribute path: nested more than {MOST_GIVEN} deep, {len(out)} parts")
    return out


def parse_attribute_path(path: str) -> tuple[Token, ...]:
    """Return the names and indices along a path: ``multiscales``, 0, ``path`` of ``multiscales[0]/path``."""
    return tuple(
        int(index[1]) if (index := _INDEX.fullmatch(part)) else _ESCAPED.sub(r"\1", part)
        for part in _components(path)
    )


def _child(value: JSON, token: Token) -> JSON:
    if isinstance(value, Mapping):
        return value.get(_name(token), MISSING)
    if isinstance(value, list) and isinstance(token, int) and token < len(value):
        return value[token]
    return MISSING


def _name(token: Token) -> str:
    return f"[{token}]" if isinstance(token, int) else token


def get_attribute(document: JSON, path: str) -> JSON:
    """Return the value at `path`, or `chunkwise.binding.MISSING`."""
    # In an object, ``[0]`` is the member with that name.
    for token in parse_attribute_path(path):
        document = _child(document, token)
    return document


def set_attribute(document: JSON, path: str, value: JSON, *, keep_nulls: bool = False) -> JSON:
    """Return `document` with `value` at `path`."""
    # Missing parents are created; a parent of the wrong kind is replaced.  An array grows to the index,
    # filled with 0 if `value` is a number, otherwise null.  As in n5-java, members of objects that are null
    # are left out, unless `keep_nulls` is set.
    after = _set(document, parse_attribute_path(path), value)
    return after if keep_nulls else _without_nulls(after)


def _set(document: JSON, tokens: Sequence[Token], value: JSON) -> JSON:
    if not tokens:
        return value
    token, rest = tokens[0], tokens[1:]
    if isinstance(token, int) and not (isinstance(document, Mapping) and _name(token) in document):
        items = list(document) if isinstance(document, list) else []
        gap = token + 1 - len(items)
        if gap > _LARGEST_GAP:
            raise InvalidArgumentError(
                f"Index [{token}] is too far beyond the end of an array of {len(items)}"
            )
        is_number = not rest and isinstance(value, int | float) and not isinstance(value, bool)
        items.extend([0 if is_number else None] * gap)
        items[token] = _set(items[token], rest, value)
        return items
    members = dict(document) if isinstance(document, Mapping) else {}
    members[_name(token)] = _set(members.get(_name(token)), rest, value)
    return members


def _without_nulls(value: JSON) -> JSON:
    if isinstance(value, Mapping):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def remove_attribute(document: JSON, path: str) -> tuple[JSON, bool]:
    """Return `document` without the value at `path`, and whether there was one."""
    # Later elements of an array move up.  Removing the whole document leaves null.
    tokens = parse_attribute_path(path)
    if not tokens:
        return None, True
    if get_attribute(document, path) is MISSING:
        return document, False
    return _remove(document, tokens), True


def _remove(document: JSON, tokens: Sequence[Token]) -> JSON:
    token, rest = tokens[0], tokens[1:]
    if isinstance(document, Mapping):
        name = _name(token)
        kept = {key: item for key, item in document.items() if key != name}
        return {**document, name: _remove(document[name], rest)} if rest else kept
    assert isinstance(token, int)
    after = document[token + 1 :]
    return [*document[:token], *([_remove(document[token], rest)] if rest else []), *after]


def normalize_group_path(path: str) -> str:
    """Return the path of a group below its container, without leading or trailing ``/``, ``.`` and ``..``."""
    # A backslash makes the next character part of a name.
    out: list[str] = []
    for part in _SEPARATOR.split(path):
        if part == "..":
            if not out:
                raise InvalidArgumentError(f'Group path "{path}" leads out of its container')
            out.pop()
        elif part not in ("", "."):
            out.append(re.sub(r"\\(.)", r"\1", part))
    return "/".join(out)
