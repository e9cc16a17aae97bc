"""Progress of long commands on stderr, with rate and time left.

In a terminal there is rich's bar; elsewhere, and where rich is not installed, a line now and then.  With
``--json`` each line is an event, a JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Self, TextIO

from chunkwise.cli.quantities import format_duration, format_nbytes, format_rate, plural
from chunkwise.fork import new_lock
from chunkwise.tools.executors import Workers

__all__ = ["Progress", "add_quiet", "progress_of"]


class Progress:
    """Shows how much of an amount is done, here nothing of it; a context manager, for any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.started = clock, clock()

    @property
    def seconds(self) -> float:
        """Seconds since the display was made."""
        return self.clock() - self.started

    def advance(self, nbytes: int) -> None:
        """Add to what is done."""

    def clear(self) -> None:
        """Make room for a line of the command's output; the display comes back with the next advance."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Declare --quiet."""
    parser.add_argument("--quiet", action="store_true", help="show no progress")


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
    if sys.stderr.isatty():
        try:
            return _Bar(what, total_nbytes, done_nbytes, workers)
        except ImportError:
            pass
    return _Lines(what, total_nbytes, done_nbytes, sys.stderr, workers=workers)


class _Lines(Progress):
    """A line of text, at most once in `interval` seconds."""

    interval = 10.0

    def __init__(
        self,
        what: str,
        total: int | None,
        done: int,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
        workers: Workers | None = None,
    ) -> None:
        super().__init__(clock)
        self.workers = workers
        self.what, self.total, self.done, self.before = what, total, done, done
        self.stream, self.shown = stream, self.started
        self.lock = new_lock()

    def __exit__(self, *_: object) -> None:
        if self.total is not None or self.shown != self.started:
            self.show()

    def advance(self, nbytes: int) -> None:
        with self.lock:
            self.done += nbytes
            now = self.clock()
            if now - self.shown >= self.interval:
                self.shown = now
                self.show()

    def show(self) -> None:
        """Write how far it is."""
        self.stream.write(f"{self.what} {self.numbers()}\n")
        self.stream.flush()

    def numbers(self) -> str:
        """Return percentage, amount, rate and time left."""
        seconds, moved = self.seconds, self.done - self.before
        text = format_nbytes(self.done)
        if self.total is not None:
            share = min(1.0, self.done / self.total) if self.total else 1.0
            text = f"{share:4.0%}  {text} of {format_nbytes(self.total)}"
        if moved and seconds > 0:
            text += f"  {format_rate(moved, seconds)}"
            if self.total is not None and self.done < self.total:
                text += f"  {format_duration((self.total - self.done) * seconds / moved)} left"
        return f"{text}  {_tasks(self.workers)}".rstrip()


class _Events(_Lines):
    """A JSON object, at the beginning, at the end, and at most once in `interval` seconds between."""

    def __enter__(self) -> Self:
        self.write("begin")
        return self

    def __exit__(self, *error: object) -> None:
        self.write("stop" if any(error) else "end")

    def show(self) -> None:
        """Write how far it is."""
        self.write("progress")

    def write(self, event: str) -> None:
        """Write an event with all that is known; what isn't is null."""
        seconds, moved = self.seconds, self.done - self.before
        rate = moved / seconds if moved and seconds > 0 else None
        left = None if self.total is None or rate is None else max(0, self.total - self.done) / rate
        tally = None if self.workers is None else self.workers.tally
        out = {
            "event": event,
            "what": self.what,
            "bytes": self.done,
            "total_bytes": self.total,
            "tasks": None if tally is None else tally.n_done,
            "total_tasks": None if tally is None else tally.n_tasks,
            "workers": None if self.workers is None else self.workers.n_workers,
            "seconds": round(seconds, 3),
            "bytes_per_second": None if rate is None else round(rate),
            "seconds_left": None if left is None else round(left, 1),
        }
        self.stream.write(json.dumps(out) + "\n")
        self.stream.flush()


def _tasks(workers: Workers | None) -> str:
    """Return how many tasks are done, and by how many workers."""
    if workers is None or not workers.tally.n_tasks:
        return ""
    tally = workers.tally
    return f"{tally.n_done:,} of {plural(tally.n_tasks, 'task')}, {plural(workers.n_workers, 'worker')}"


class _Bar(Progress):
    """rich's bar; raises ImportError where it isn't installed."""

    def __init__(self, what: str, total: int | None, done: int, workers: Workers | None = None) -> None:
        from rich import progress
        from rich.console import Console

        super().__init__()
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[tasks]}"),
            console=Console(stderr=True),
            redirect_stdout=False,  # what is printed goes to stdout, wherever that leads
        )
        self._workers = workers
        self._task = self._bar.add_task(what, total=total, completed=done, tasks="")

    def advance(self, nbytes: int) -> None:
        self._bar.start()  # again after `clear`
        self._bar.update(self._task, advance=nbytes, tasks=_tasks(self._workers))

    def clear(self) -> None:
        self._bar.live.transient = True
        self._bar.stop()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.start()
        self._bar.live.transient = False
        self._bar.stop()
