"""Output and errors, the same for all commands; progress of long ones on stderr.

Progress is shown as `chunkwise.copying.progress` does.  With ``--json`` each line is an event, a JSON object.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from chunkwise.copying.executors import Workers
from chunkwise.copying.progress import Lines, Progress, display
from chunkwise.errors import ChunkwiseError
from chunkwise.extension import UsageError, message, show
from chunkwise.extension.inside import as_json, needs

__all__ = [
    "FAILED",
    "INCOMPLETE",
    "WRONG_USAGE",
    "UsageError",
    "add_json",
    "add_quiet",
    "as_json",
    "message",
    "progress_of",
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


def add_quiet(parser: argparse.ArgumentParser, help: str = "show no progress") -> None:
    """Declare --quiet."""
    parser.add_argument("--quiet", action="store_true", help=help)


def progress_of(
    arguments: argparse.Namespace,
    what: str,
    total_nbytes: int | None,
    done_nbytes: int = 0,
    workers: Workers | None = None,
) -> Progress:
    """Return the display of a command that has --quiet and --json; it may count the tasks of `workers`.

    `done_nbytes` of the `total_nbytes` were done before.
    """
    if arguments.quiet:
        return Progress()
    if arguments.json:
        return _Events(what, total_nbytes, done_nbytes, sys.stderr, workers=workers)
    return display(what, total_nbytes, done_nbytes, workers)


class _Events(Lines):
    """JSON objects: one at the beginning, one at the end, and at most one per `interval` seconds between."""

    def __enter__(self) -> Self:
        self.write("begin")
        return self

    def __exit__(self, *error: object) -> None:
        self.write("stop" if any(error) else "end")

    def show(self) -> None:
        """Write the progress."""
        self.write("progress")

    def write(self, event: str) -> None:
        """Write an event; unknown members are null."""
        seconds, moved = self.seconds, self.done - self.before
        rate = moved / seconds if moved and seconds > 0 else None
        left = None if self.total is None or rate is None else max(0, self.total - self.done) / rate
        counts = None if self.workers is None else self.workers.task_counts
        out = {
            "event": event,
            "what": self.what,
            "bytes": self.done,
            "total_bytes": self.total,
            "tasks": None if counts is None else counts.n_done,
            "total_tasks": None if counts is None else counts.n_tasks,
            "workers": None if self.workers is None else self.workers.n_workers,
            "seconds": round(seconds, 3),
            "bytes_per_second": None if rate is None else round(rate),
            "seconds_left": None if left is None else round(left, 1),
        }
        self.stream.write(json.dumps(out) + "\n")
        self.stream.flush()
