"""Progress of long commands on stderr, with rate and time left.

In a terminal there is rich's bar; elsewhere, and where rich is not installed, a line now and then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Self, TextIO

from chunkwise.cli.quantities import format_duration, format_nbytes, format_rate
from chunkwise.fork import new_lock

__all__ = ["Progress", "open_progress"]


class Progress:
    """Shows how much of an amount is done, here nothing of it; a context manager, for any thread."""

    def advance(self, nbytes: int) -> None:
        """Add to what is done."""

    def clear(self) -> None:
        """Make room for a line of the command's output; the display comes back with the next advance."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def open_progress(
    what: str, total_nbytes: int | None, done_nbytes: int = 0, *, show: bool = True
) -> Progress:
    """Return the display that suits stderr; `done_nbytes` of the `total_nbytes` were done before."""
    if not show:
        return Progress()
    if sys.stderr.isatty():
        try:
            return _Bar(what, total_nbytes, done_nbytes)
        except ImportError:
            pass
    return _Lines(what, total_nbytes, done_nbytes, sys.stderr)


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
    ) -> None:
        self.what, self.total, self.done, self.before = what, total, done, done
        self.stream, self.clock = stream, clock
        self.started = self.shown = clock()
        self.lock = new_lock()

    def __exit__(self, *_: Any) -> None:
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
        seconds = self.clock() - self.started
        moved = self.done - self.before
        text = format_nbytes(self.done)
        if self.total is not None:
            share = min(1.0, self.done / self.total) if self.total else 1.0
            text = f"{share:4.0%}  {text} of {format_nbytes(self.total)}"
        if moved and seconds > 0:
            text += f"  {format_rate(moved, seconds)}"
            if self.total is not None and self.done < self.total:
                text += f"  {format_duration((self.total - self.done) * seconds / moved)} left"
        return text


class _Bar(Progress):
    """rich's bar; raises ImportError where it isn't installed."""

    def __init__(self, what: str, total: int | None, done: int) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            redirect_stdout=False,  # what is printed goes to stdout, wherever that leads
        )
        self._task = self._bar.add_task(what, total=total, completed=done)

    def advance(self, nbytes: int) -> None:
        self._bar.start()  # again after `clear`
        self._bar.advance(self._task, nbytes)

    def clear(self) -> None:
        self._bar.live.transient = True
        self._bar.stop()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.start()
        self._bar.live.transient = False
        self._bar.stop()
