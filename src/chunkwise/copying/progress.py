"""Progress of work that takes long, on stderr, with rate and time left.

In a terminal it is rich's bar; elsewhere, or without rich, a line now and then.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TextIO, TypeAlias

from chunkwise.copying.executors import Workers
from chunkwise.copying.quantities import format_duration, format_nbytes, format_rate, plural
from chunkwise.core.base.threads import new_lock

__all__ = ["Lines", "Progress", "Told", "check_progress", "display", "shown_progress"]

_NARROW = 60  # columns of a terminal

Told: TypeAlias = "Callable[..., object] | bool | None"
"""``progress=`` of functions: a function to call, or True for a display on stderr."""


def check_progress(progress: object) -> None:
    """Raise TypeError unless it is a function or a boolean."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress: expected a function, True or False, not {type(progress).__name__}")


@contextmanager
def shown_progress(
    progress: Told, what: str, total: int | None, done: int = 0, workers: Workers | None = None
) -> Iterator[Callable[..., object]]:
    """Yield a function to call with progress; its last argument is a number of bytes."""
    if not isinstance(progress, bool):
        yield progress or _nothing
    elif not progress:
        yield _nothing
    else:
        with display(what, total, done, workers) as shown:
            yield lambda *told: shown.advance(told[-1])


def display(what: str, total: int | None, done: int = 0, workers: Workers | None = None) -> Progress:
    """Return a display on stderr; `done` of the `total` bytes were done before."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":  # which can't draw over a line
        try:
            return _Bar(what, total, done, workers)
        except ImportError:
            pass
    return Lines(what, total, done, sys.stderr, workers=workers)


def _nothing(*told: Any) -> None:
    pass


class Progress:
    """Base of displays of progress, which shows nothing; a context manager, for any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.started = clock, clock()

    @property
    def seconds(self) -> float:
        """Seconds since the display was made."""
        return self.clock() - self.started

    def advance(self, nbytes: int) -> None:
        """Count bytes as done."""

    def clear(self) -> None:
        """Make room for a line of the command's output; the display comes back with the next advance."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Lines(Progress):
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
        """Write the progress."""
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


def _tasks(workers: Workers | None) -> str:
    """Return how many tasks are done, and by how many workers."""
    if workers is None or not workers.task_counts.n_tasks:
        return ""
    counts = workers.task_counts
    return f"{counts.n_done:,} of {plural(counts.n_tasks, 'task')}, {plural(workers.n_workers, 'worker')}"


class _Bar(Progress):
    """rich's bar; raises ImportError where it isn't installed."""

    def __init__(self, what: str, total: int | None, done: int, workers: Workers | None = None) -> None:
        from rich import progress
        from rich.console import Console
        from rich.table import Column

        super().__init__()
        console = Console(stderr=True)
        line = Column(no_wrap=True)  # what takes two lines can't be drawn over in all terminals
        columns: list[progress.ProgressColumn] = [
            progress.TextColumn("{task.description}", table_column=line),
            progress.BarColumn(),
            progress.TaskProgressColumn(table_column=line),
            progress.DownloadColumn(table_column=line),
            progress.TransferSpeedColumn(table_column=line),
            progress.TimeRemainingColumn(table_column=line),
            progress.TextColumn("{task.fields[tasks]}", table_column=line),
        ]
        if console.width < _NARROW:
            columns = columns[:3] + columns[5:6]
        self._bar = progress.Progress(
            *columns,
            console=console,
            redirect_stdout=False,  # printed text goes to stdout, wherever that leads
        )
        self._workers = workers
        self._task = self._bar.add_task(what, total=total, completed=done, tasks="")

    def advance(self, nbytes: int) -> None:
        self._bar.start()  # again after `clear`
        self._bar.update(self._task, advance=nbytes, tasks=_tasks(self._workers).partition(",")[0])

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
