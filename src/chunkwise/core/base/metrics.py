"""Counts of what this process has done, which any thread may add to without a lock."""

from __future__ import annotations

from itertools import count

__all__ = ["Counter", "counter_values"]


class Counter:
    """A count; `name` is a path, ``/chunkwise/...``, or TensorStore's path of the same metric."""

    def __init__(self, name: str) -> None:
        self.name = name
        numbers = count()
        self.add = numbers.__next__
        self._numbers = numbers
        _counters.append(self)

    @property
    def value(self) -> int:
        """Number of calls of `add`."""
        return int(repr(self._numbers)[len("count(") : -1])  # repr shows the next number without taking it


_counters: list[Counter] = []


def counter_values() -> dict[str, int]:
    """Return the values of all counters by name."""
    return {counter.name: counter.value for counter in _counters}
