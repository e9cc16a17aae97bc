"""Output of all commands: data, messages, and errors of usage."""

from __future__ import annotations

import argparse
import json
import sys

from chunkwise.core.base.binding import JSON

__all__ = ["UsageError", "as_json", "message", "show"]


class UsageError(Exception):
    """A command line that can't be carried out; exit status 2."""


def message(text: str) -> None:
    """Tell the user something that is not the command's data."""
    print(f"chunkwise: {text}", file=sys.stderr, flush=True)


def show(arguments: argparse.Namespace, value: object, *lines: object) -> None:
    """Print the command's data: `value` as JSON with --json, else `lines`."""
    if arguments.json:
        print(as_json(value))
    else:
        for line in lines:
            print(line)
    sys.stdout.flush()  # a command may keep running, such as `serve`


def as_json(value: object) -> str:
    """Return data as JSON; numbers that JSON lacks become strings, as in Zarr metadata."""
    return json.dumps(_printable(value), indent=2, ensure_ascii=False)


def _printable(value: object) -> JSON:
    """Return `value` with tuples and arrays as lists, and NaN and infinities as strings."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: _printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, complex):
        return [_printable(value.real), _printable(value.imag)]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value
