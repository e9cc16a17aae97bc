"""Output and errors, the same for all commands."""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ["UsageError", "message", "print_json", "printable"]


class UsageError(Exception):
    """A command line that can't be carried out; exit status 2."""


def message(text: str) -> None:
    """Tell the user something that is not the command's data."""
    print(f"chunkwise: {text}", file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Print the command's data as JSON; numbers that JSON lacks become strings, as in Zarr metadata."""
    print(json.dumps(printable(value), indent=2, ensure_ascii=False))


def printable(value: Any) -> Any:
    """Return `value` with tuples and arrays as lists, and NaN and infinities as strings."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [printable(item) for item in value]
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, complex):
        return [printable(value.real), printable(value.imag)]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value
