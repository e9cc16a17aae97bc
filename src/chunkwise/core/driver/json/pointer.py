"""JSON Pointer (RFC 6901): a location in a JSON value, and reading and writing there."""

from __future__ import annotations

import re
from typing import Any

from chunkwise.core.base.binding import JSON, dump
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    NotFoundError,
    OutOfRangeError,
    SpecError,
)

__all__ = ["MISSING_VALUE", "parse_pointer", "read_at", "written_at"]

MISSING_VALUE: Any = object()
"""Marks a value that doesn't exist yet."""

_INDEX = re.compile(r"0|[1-9][0-9]*")
_LARGEST_INDEX = 2**64 - 1


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Return the reference tokens of a JSON Pointer: ``a/b`` and ``0`` of ``/a~1b/0``."""
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise SpecError(f"JSON Pointer does not start with '/': {dump(pointer)}")
    if re.search(r"~(?![01])", pointer):
        raise SpecError(f"JSON Pointer requires '~' to be followed by '0' or '1': {dump(pointer)}")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))


def read_at(value: JSON, tokens: tuple[str, ...]) -> JSON:
    """Return the part of `value` at a pointer."""
    for i, token in enumerate(tokens):
        text = _text(tokens[: i + 1])
        if isinstance(value, dict):
            if token not in value:
                raise NotFoundError(f"JSON Pointer {text} refers to non-existent object member")
            value = value[token]
        elif isinstance(value, list):
            if token == "-":
                raise FailedPreconditionError(f"JSON Pointer {text} refers to non-existent array element")
            value = value[_index(token, value, text)]
        else:
            raise _no_container(value, text)
    return value


def written_at(value: JSON, tokens: tuple[str, ...], new: JSON) -> JSON:
    """Return `value` with `new` at a location; `value` itself may be changed."""
    # Missing objects on the way are created; ``-`` appends to an array.
    if not tokens:
        return new
    root = value = {} if value is MISSING_VALUE else value
    for i, token in enumerate(tokens):
        text = _text(tokens[: i + 1])
        last = i == len(tokens) - 1
        if isinstance(value, dict):
            if last:
                value[token] = new
            else:
                value = value.setdefault(token, {})
        elif isinstance(value, list):
            if token == "-":
                value.append(new if last else {})
                value = value[-1]
                continue
            index = _index(token, value, text, FailedPreconditionError)
            if last:
                value[index] = new
            else:
                value = value[index]
        else:
            raise _no_container(value, text)
    return root


def _index(token: str, array: list[JSON], text: str, error: type[ChunkwiseError] = OutOfRangeError) -> int:
    if not _INDEX.fullmatch(token) or int(token) > _LARGEST_INDEX:
        raise FailedPreconditionError(f"JSON Pointer {text} is invalid for array value")
    if int(token) >= len(array):
        raise error(f"JSON Pointer {text} is out-of-range for array of size {len(array)}")
    return int(token)


def _text(tokens: tuple[str, ...]) -> str:
    return dump("".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens))


def _no_container(value: JSON, text: str) -> FailedPreconditionError:
    kind = (
        "null"
        if value is None
        else "boolean"
        if isinstance(value, bool)
        else "string"
        if isinstance(value, str)
        else "number"
    )
    return FailedPreconditionError(
        f"JSON Pointer reference {text} cannot be applied to {kind} value: {dump(value)}"
    )
