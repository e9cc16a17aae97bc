"""Output and errors, the same for all commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from chunkwise.errors import ChunkwiseError
from chunkwise.extension import UsageError, message, show
from chunkwise.extension.inside import as_json, needs

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
"""Exit status of a copy that lacks something which its format can't hold."""


def add_json(parser: argparse.ArgumentParser, default: object = False) -> None:
    """Declare --json."""
    parser.add_argument("--json", action="store_true", default=default, help="print JSON")


def text_of(error: BaseException) -> str:
    """Return the text of an error for people: with its notes, without the status code."""
    text = str(error)
    if isinstance(error, ChunkwiseError):
        status, colon, rest = error.message.partition(": ")
        text = rest if colon and _STATUS.fullmatch(status) else error.message
    return "; ".join([text or type(error).__name__, *getattr(error, "__notes__", ())])


def tell(arguments: argparse.Namespace, value: object, text: str) -> None:
    """Report that a command without output is done: `value` as JSON with --json, else `text`."""
    if arguments.json:
        print(as_json(value))
    else:
        message(text)


def rows_as_lines(rows: Iterable[tuple[str, object]], width: int = 12) -> Iterator[str]:
    """Yield one line for each label and its value."""
    return (f"{label:<{width}} {value}" for label, value in rows)


@contextmanager
def required(what: str, package: str, extra: str | None = None) -> Iterator[None]:
    """Raise UsageError with the command that installs `package` if an import fails because it is missing."""
    try:
        yield
    except ImportError:
        raise UsageError(needs(what, package, extra)) from None
