"""Cells that are too large to be held: what a part of one adds to the result.

Integers stay exact.  Floats are added up in 64 bits, part by part: there is no order of elements to agree
on with others any more.  The median and the mode are counted for types of up to 16 bits; those of larger
types need all elements at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.dtype.data_type import DataType

__all__ = ["Accumulator", "open_accumulator"]

Array: TypeAlias = npt.NDArray[Any]


class Accumulator(Protocol):
    """What is known of a cell so far."""

    @abstractmethod
    def add(self, part: Array) -> None:
        """Take in further elements, of any shape."""

    @abstractmethod
    def result(self) -> Any:
        """Return the element that stands for the cell."""


def open_accumulator(method: str, dtype: DataType) -> Callable[[], Accumulator] | None:
    """Return what makes accumulators for `method`; None if there is no way to do without all elements."""
    kind, memory = dtype.kind, dtype.memory_dtype
    if method == "mean" and kind in ("bool", "int"):
        return lambda: _IntegerMean(kind == "bool")
    if method == "mean" and kind in ("float", "complex"):
        return lambda: _FloatMean(np.dtype(np.complex128 if kind == "complex" else np.float64))
    if method in ("min", "max") and kind in ("bool", "int", "float"):
        return lambda: _Extreme(method == "min", memory)
    small = kind == "bool" or (kind == "int" and memory.itemsize <= 2)
    if method in ("median", "mode") and small:
        return lambda: _Counts(method == "median")
    return None


def _plain(part: Array) -> Array:
    """Return small integers and booleans as a type that NumPy computes with."""
    if part.dtype.kind == "b":
        return part.view(np.uint8)
    return part if part.dtype.kind in "iu" else part.astype(np.int8)


class _IntegerMean(Accumulator):
    def __init__(self, majority: bool) -> None:
        self._total = self._n = 0
        self._majority = majority

    def add(self, part: Array) -> None:
        values = _plain(part)
        self._n += part.size
        if values.dtype.itemsize < 8:
            self._total += int(values.sum(dtype=np.int64))
            return
        self._total += int((values >> 32).sum()) << 32
        self._total += int((values & 0xFFFFFFFF).sum())

    def result(self) -> Any:
        if self._majority:
            return 2 * self._total > self._n
        quotient, rest = divmod(self._total, self._n)
        return quotient + (2 * rest > self._n or (2 * rest == self._n and quotient % 2 == 1))


class _FloatMean(Accumulator):
    def __init__(self, work: np.dtype[Any]) -> None:
        self._total = work.type(0)
        self._n = 0

    def add(self, part: Array) -> None:
        if part.dtype.kind not in "fc":
            part = part.astype(np.float32)
        self._total += part.sum(dtype=self._total.dtype)
        self._n += part.size

    def result(self) -> Any:
        return self._total / self._n


class _Extreme(Accumulator):
    def __init__(self, least: bool, memory: np.dtype[Any]) -> None:
        self._memory = memory
        self._of = np.fmin if least else np.fmax
        self._value: Any = None

    def add(self, part: Array) -> None:
        if part.dtype.kind not in "fiub":
            part = part.astype(
                np.float32 if self._memory.itemsize > 1 or _is_float(self._memory) else np.int8
            )
        value = self._of.reduce(part, axis=None)
        self._value = value if self._value is None else self._of(self._value, value)

    def result(self) -> Any:
        if self._value != self._value and self._memory.kind == "f":
            return np.inf if self._of is np.fmin else -np.inf
        return self._value


def _is_float(memory: np.dtype[Any]) -> bool:
    return "float" in memory.name


class _Counts(Accumulator):
    def __init__(self, median: bool) -> None:
        self._median = median
        self._lowest = 0
        self._counts = np.zeros(0, np.int64)

    def add(self, part: Array) -> None:
        values = _plain(part)
        if not self._counts.size:
            info = np.iinfo(values.dtype)
            self._lowest = int(info.min)
            self._counts = np.zeros(int(info.max) - self._lowest + 1, np.int64)
        shifted = values.ravel().astype(np.int64) - self._lowest
        self._counts += np.bincount(shifted, minlength=len(self._counts))

    def result(self) -> Any:
        if not self._median:
            return int(self._counts.argmax()) + self._lowest
        below = np.cumsum(self._counts)
        return int(np.searchsorted(below, (int(below[-1]) - 1) // 2, "right")) + self._lowest
