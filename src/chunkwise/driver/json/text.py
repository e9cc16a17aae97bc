"""JSON as stored bytes: read strictly, written compactly with sorted members."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn

from chunkwise.binding import JSON, dump
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError

__all__ = ["decode_json", "encode_json"]


def decode_json(raw: bytes | bytearray | memoryview) -> JSON:
    """Return the value of UTF-8 text; of members with the same name the last counts."""
    try:
        text = bytes(raw).decode("utf-8-sig")
        return json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_number)
    except (ValueError, RecursionError):
        raise FailedPreconditionError("Invalid JSON") from None


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def _number(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _integer(text: str) -> int | float:
    # What needs more than 64 bits is a floating-point number to other readers.
    if len(text) > 20:
        return _number(text)
    number = int(text)
    return number if -(2**63) <= number < 2**64 else float(text)


def encode_json(value: JSON) -> bytes:
    """Return compact UTF-8 text with sorted members; numbers that JSON has not become null."""
    try:
        return dump(_plain(value)).encode()
    except (TypeError, ValueError, RecursionError) as e:
        raise InvalidArgumentError(f"Not a JSON value: {e}") from None


def _plain(value: Any) -> JSON:
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
