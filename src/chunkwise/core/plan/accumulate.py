"""Reductions of cells that are too large for memory, from parts of a cell.

Integers stay exact.  Floats are added up in 64 bits, part by part, so the order of elements is not
TensorStore's.  For types of up to 16 bits, the median and the mode are found by counting.  For larger types,
the median is found 16 bits at a time, with one pass over the cell each; the mode, which is meant for labels,
takes memory for the distinct elements.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.dtypes.data_type import DataType

__all__ = ["Accumulator", "open_accumulator"]

Array: TypeAlias = npt.NDArray[Any]


class Accumulator(Protocol):
    """A reduction of the parts of a cell that were added so far."""

    @abstractmethod
    def add(self, part: Array) -> None:
        """Take in further elements, of any shape."""

    def again(self) -> bool:
        """Return True if all elements are needed once more; called after each pass over them."""
        return False

    @abstractmethod
    def result(self) -> Any:
        """Return the result for the cell."""


def open_accumulator(method: str, dtype: DataType) -> Callable[[], Accumulator] | None:
    """Return the function that makes accumulators for `method`; None if that needs all elements at once."""
    kind, memory = dtype.kind, dtype.memory_dtype
    if method == "mean" and kind in ("bool", "int"):
        return lambda: _IntegerMean(kind == "bool")
    if method == "mean" and kind in ("float", "complex"):
        return lambda: _FloatMean(np.dtype(np.complex128 if kind == "complex" else np.float64))
    if method in ("min", "max") and kind in ("bool", "int", "float"):
        return lambda: _Extreme(method == "min")
    small = kind == "bool" or (kind == "int" and memory.itemsize <= 2)
    if method in ("median", "mode") and small:
        return lambda: _Counts(method == "median", memory)
    native = memory.kind in "iuf" and kind in ("int", "float")
    if method == "median" and native:
        return lambda: _Median(memory)
    if method == "mode" and native:
        return lambda: _Mode(memory)
    return None


def _plain(part: Array) -> Array:
    """Return small integers and booleans in a type that NumPy computes with."""
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
        self._total += part.sum(dtype=self._total.dtype)
        self._n += part.size

    def result(self) -> Any:
        return self._total / self._n


class _Extreme(Accumulator):
    def __init__(self, least: bool) -> None:
        self._of = np.fmin if least else np.fmax
        self._value: Any = None

    def add(self, part: Array) -> None:
        value = self._of.reduce(part, axis=None)
        self._value = value if self._value is None else self._of(self._value, value)

    def result(self) -> Any:
        if self._value != self._value:  # a cell of only NaN
            return np.inf if self._of is np.fmin else -np.inf
        return self._value


class _Counts(Accumulator):
    def __init__(self, median: bool, memory: np.dtype[Any]) -> None:
        info = np.iinfo(_plain(np.empty(0, memory)).dtype)
        self._median = median
        self._lowest = int(info.min)
        self._counts = np.zeros(int(info.max) - self._lowest + 1, np.int64)

    def add(self, part: Array) -> None:
        shifted = _plain(part).ravel().astype(np.int64) - self._lowest
        self._counts += np.bincount(shifted, minlength=len(self._counts))

    def result(self) -> Any:
        if not self._median:
            return int(self._counts.argmax()) + self._lowest
        below = np.cumsum(self._counts)
        return int(np.searchsorted(below, (int(below[-1]) - 1) // 2, "right")) + self._lowest


class _Median(Accumulator):
    """The bits of the median, highest first; elements are taken as unsigned numbers in the same order."""

    def __init__(self, memory: np.dtype[Any]) -> None:
        self._memory = memory
        self._bits = np.dtype(f"u{memory.itemsize}")
        self._sign = 1 << (8 * memory.itemsize - 1)
        self._shift = 8 * memory.itemsize - 16
        self._high_bits = 0
        self._rank = -1
        self._counts = np.zeros(1 << 16, np.int64)

    def add(self, part: Array) -> None:
        keys = self._keys(part.reshape(-1))
        if self._rank >= 0:
            keys = keys[keys >> self._bits.type(self._shift + 16) == self._high_bits]
        digits = (keys >> self._bits.type(self._shift)) & self._bits.type(0xFFFF)
        self._counts += np.bincount(digits.astype(np.int64), minlength=len(self._counts))

    def again(self) -> bool:
        below = np.cumsum(self._counts)
        if self._rank < 0:
            self._rank = (int(below[-1]) - 1) // 2
        digit = int(np.searchsorted(below, self._rank, "right"))
        self._rank -= int(below[digit - 1]) if digit else 0
        self._high_bits = self._high_bits << 16 | digit
        self._counts[:] = 0
        self._shift -= 16
        return self._shift >= 0

    def result(self) -> Any:
        flip = self._sign
        if self._memory.kind == "u":
            flip = 0
        elif self._memory.kind == "f" and not self._high_bits & self._sign:
            flip = 2 * self._sign - 1
        return np.array(self._high_bits ^ flip, self._bits).view(self._memory)[()]

    def _keys(self, values: Array) -> Array:
        if self._memory.kind == "u":
            return values
        bits: Array = values.view(self._bits)
        if self._memory.kind == "i":
            bits = bits ^ self._bits.type(self._sign)
            return bits
        negative = bits >= self._bits.type(self._sign)
        keys: Array = np.where(negative, ~bits, bits | self._bits.type(self._sign))
        keys[np.isnan(values)] = np.array(np.nan, self._memory).view(self._bits) | self._bits.type(self._sign)
        return keys


class _Mode(Accumulator):
    """The distinct elements so far, and how often each occurs."""

    def __init__(self, memory: np.dtype[Any]) -> None:
        self._distinct: Array = np.empty(0, memory)
        self._counts = np.zeros(0, np.int64)

    def add(self, part: Array) -> None:
        distinct, counts = np.unique(part, return_counts=True)
        every = np.concatenate([self._distinct, distinct])
        counts = np.concatenate([self._counts, counts])
        self._distinct, places = np.unique(every, return_inverse=True)
        self._counts = np.bincount(places.reshape(-1), weights=counts).astype(np.int64)

    def result(self) -> Any:
        return self._distinct[int(self._counts.argmax())]
