"""The text of a JSON value in the ``repr`` of a spec, schema or codec: Python syntax, 80 columns.

A value that fits goes on one line; otherwise each member or element gets a line of its own, with a
comma after the last too.  Width is counted as in TensorStore: a level of nesting takes three columns, two for
indentation and one for the closing comma; the name in front takes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

from chunkwise.core.index_space.dim import escape

__all__ = ["pretty", "pretty_repr"]

WIDTH = 80
LEVEL = 3  # columns for each level, as in TensorStore

_LARGEST_POSITIONAL = 15  # digits; larger numbers get an exponent, as in TensorStore


def pretty_repr(name: str, value: Any) -> str:
    """Return ``name(value)`` with sorted keys, on several lines if one is too short."""
    # The value may be a function that returns it.
    try:
        return f"{name}({pretty(value() if callable(value) else value)})"
    except RecursionError:  # attributes may be nested as deeply as their parser allows
        return f"{name}(...)"


def pretty(value: Any) -> str:
    """Return the text of a JSON value, on several lines if one is too short."""
    return "".join(_lines(value, "", 0))


def _lines(value: Any, lead: str, level: int) -> Iterator[str]:
    """Yield pieces of the text of `value` after `lead`, its key, at `level`."""
    flat = _flat(value)
    if (
        len(lead) + len(flat) <= WIDTH - LEVEL * level
        or not isinstance(value, dict | list | tuple)
        or not value
    ):
        yield lead + flat
        return
    indent = "\n" + "  " * (level + 1)
    if isinstance(value, dict):
        yield lead + "{"
        for key in sorted(value):
            yield indent
            yield from _lines(value[key], f"{_quoted(key)}: ", level + 1)
            yield ","
        end = "}"
    else:
        yield lead + "["
        for item in value:
            yield indent
            yield from _lines(item, "", level + 1)
            yield ","
        end = "]"
    yield indent[:-2] + end


def _flat(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(k)}: {_flat(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flat, value)) + "]"
    return str(value)


def _quoted(text: str) -> str:
    return f"'{escape(text)}'"


def _number(value: float) -> str:
    """Return the shortest digits that read back as `value`; an exponent from 1e15, Python's from 1e16."""
    if not isfinite(value):
        return "null"
    text = repr(value)
    if "e" in text or abs(value) < 10**_LARGEST_POSITIONAL:
        return text
    sign, digits = ("-", text[1:]) if text[0] == "-" else ("", text)
    whole, _, fraction = digits.partition(".")
    mantissa = (whole[1:] + fraction).rstrip("0")
    return f"{sign}{whole[0]}{'.' if mantissa else ''}{mantissa}e+{len(whole) - 1}"
