"""Sets of the numbers from 0 up to n, as ranges: of a billion tasks, some hundred numbers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

__all__ = ["Ranges"]


class Ranges:
    """A set of integers that come in runs.

    Parameters
    ----------
    ranges : iterable of (int, int)
        First number of each run, and the one after its last.
    """

    def __init__(self, ranges: Iterable[Iterable[int]] = ()) -> None:
        self._edges: list[int] = []  # a start, a stop, a start ..., ascending
        for start, stop in ranges:
            self.add(start, stop)

    def __contains__(self, number: int) -> bool:
        return bisect_right(self._edges, number) % 2 == 1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(list(zip(self._edges[::2], self._edges[1::2], strict=True)))

    def __len__(self) -> int:
        """Return how many numbers there are."""
        return sum(stop - start for start, stop in self)

    def add(self, start: int, stop: int) -> None:
        """Add the numbers from `start` up to, but without, `stop`."""
        if start >= stop:
            return
        first, last = bisect_left(self._edges, start), bisect_right(self._edges, stop)
        inside = [start] * (first % 2 == 0) + [stop] * (last % 2 == 0)
        self._edges[first:last] = inside

    def missing(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the runs from `start` up to `stop` that aren't here."""
        for low, high in self:
            if high <= start:
                continue
            if low >= stop:
                break
            if start < low:
                yield start, low
            start = high
        if start < stop:
            yield start, stop
