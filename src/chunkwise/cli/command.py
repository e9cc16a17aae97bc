"""Output and errors, the same for all commands."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chunkwise.extras import needs

__all__ = [
    "UsageError",
    "message",
    "print_json",
    "print_rows",
    "printable",
    "replacing",
    "required",
    "show",
]


class UsageError(Exception):
    """A command line that can't be carried out; exit status 2."""


def message(text: str) -> None:
    """Tell the user something that is not the command's data."""
    print(f"chunkwise: {text}", file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Print the command's data as JSON; numbers that JSON lacks become strings, as in Zarr metadata."""
    print(json.dumps(printable(value), indent=2, ensure_ascii=False))


def print_rows(rows: Iterable[tuple[str, object]]) -> None:
    """Print labels with what they stand for, one a line."""
    for label, value in rows:
        print(f"{label:<12} {value}")


def show(arguments: argparse.Namespace, value: Any, *lines: object) -> None:
    """Print the command's data: `value` as JSON with --json, else `lines`."""
    if arguments.json:
        print_json(value)
    else:
        for line in lines:
            print(line)


@contextmanager
def required(what: str, package: str, extra: str | None = None) -> Iterator[None]:
    """Raise UsageError with the command that installs `package`, where an import fails for want of it."""
    try:
        yield
    except ImportError:
        raise UsageError(needs(what, package, extra)) from None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield the path of a file to be written, which takes the name `path` if there is no error."""
    part = Path(f"{path}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


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
