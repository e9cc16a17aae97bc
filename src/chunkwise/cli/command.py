"""Output and errors, the same for all commands."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from chunkwise.core.base.binding import JSON
from chunkwise.core.base.extras import needs
from chunkwise.errors import ChunkwiseError

__all__ = [
    "FAILED",
    "INCOMPLETE",
    "WRONG_USAGE",
    "UsageError",
    "add_json",
    "as_json",
    "message",
    "required",
    "rows_as_lines",
    "show",
    "tell",
    "text_of",
]

FAILED, WRONG_USAGE = 1, 2

_STATUS = re.compile("[A-Z]+(_[A-Z]+)*")  # such as NOT_FOUND

INCOMPLETE = 3
"""Exit status of a copy that lacks something of the source, since the format has no place for it."""


class UsageError(Exception):
    """A command line that can't be carried out; exit status 2."""


def add_json(parser: argparse.ArgumentParser, default: object = False) -> None:
    """Declare --json."""
    parser.add_argument("--json", action="store_true", default=default, help="print JSON")


def message(text: str) -> None:
    """Tell the user something that is not the command's data."""
    print(f"chunkwise: {text}", file=sys.stderr, flush=True)


def text_of(error: BaseException) -> str:
    """Return what an error says to people: with its notes, without the status that programs look for."""
    text = str(error)
    if isinstance(error, ChunkwiseError):
        status, colon, rest = error.message.partition(": ")
        text = rest if colon and _STATUS.fullmatch(status) else error.message
    return "; ".join([text or type(error).__name__, *getattr(error, "__notes__", ())])


def as_json(value: object) -> str:
    """Return data as JSON; numbers that JSON lacks become strings, as in Zarr metadata."""
    return json.dumps(_printable(value), indent=2, ensure_ascii=False)


def show(arguments: argparse.Namespace, value: object, *lines: object) -> None:
    """Print the command's data: `value` as JSON with --json, else `lines`."""
    if arguments.json:
        print(as_json(value))
    else:
        for line in lines:
            print(line)
    sys.stdout.flush()  # a command that goes on, such as `serve`, has said it


def tell(arguments: argparse.Namespace, value: object, text: str) -> None:
    """Say that the command, which has no data, is done: `value` as JSON with --json, else `text`."""
    if arguments.json:
        print(as_json(value))
    else:
        message(text)


def rows_as_lines(rows: Iterable[tuple[str, object]], width: int = 12) -> Iterator[str]:
    """Yield labels with what they stand for, one a line."""
    return (f"{label:<{width}} {value}" for label, value in rows)


@contextmanager
def required(what: str, package: str, extra: str | None = None) -> Iterator[None]:
    """Raise UsageError with the command that installs `package`, where an import fails for want of it."""
    try:
        yield
    except ImportError:
        raise UsageError(needs(what, package, extra)) from None


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
