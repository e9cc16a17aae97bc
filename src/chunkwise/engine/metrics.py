"""Counters, under TensorStore's names where they mean the same."""

from __future__ import annotations

from itertools import count
from typing import Any

from chunkwise.engine.pool import n_threads

__all__ = ["Counter", "collect", "prometheus_lines"]


class Counter:
    """A count that any thread may add to without a lock; `name` is a path, ``/chunkwise/...``."""

    def __init__(self, name: str) -> None:
        self.name = name
        numbers = count()
        self.add = numbers.__next__
        self._numbers = numbers
        _counters.append(self)

    @property
    def value(self) -> int:
        """Number of calls of `add`."""
        return int(repr(self._numbers)[len("count(") : -1])  # a look at the next number does not take it


_counters: list[Counter] = []


def _values() -> dict[str, int]:
    values = {counter.name: counter.value for counter in _counters}
    values["/tensorstore/thread_pool/started"] = n_threads()
    return values


def collect(prefix: str = "", include_zero: bool = False) -> list[dict[str, Any]]:
    """Return name and value of each metric whose name begins with `prefix`, sorted by name."""
    return [
        {"name": name, "values": [{"value": value}]}
        for name, value in sorted(_values().items())
        if name.startswith(prefix) and (value or include_zero)
    ]


def prometheus_lines(prefix: str = "") -> list[str]:
    """Return the same in the text format of Prometheus, one metric per line."""
    return [
        f"{metric['name'].strip('/').replace('/', '_')} {metric['values'][0]['value']}"
        for metric in collect(prefix)
    ]
