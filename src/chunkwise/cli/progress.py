"""Progress of long commands on stderr, with rate and time left.

It is shown as `chunkwise.copying.progress` does.  With ``--json`` each line is an event, a JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Self

from chunkwise.copying.executors import Workers
from chunkwise.copying.progress import Lines, Progress, display

__all__ = ["Progress", "add_quiet", "progress_of"]


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
