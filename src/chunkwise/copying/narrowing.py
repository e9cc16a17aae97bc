"""Conversion of numbers to a data type that can't hold all of their values, by a rule that the user
chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.api.copy import divide
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.threads import new_lock
from chunkwise.core.codec.cast_value import cast_values, holds, is_integer, value_range
from chunkwise.core.dtypes.conversion import Conversion, convertible, times_as
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.concurrent_requests import work_through
from chunkwise.core.index_space import IndexDomain
from chunkwise.errors import InvalidArgumentError, OutOfRangeError

__all__ = ["CASTS", "Cast", "MisfitError", "Narrowing", "measure", "narrowing"]

Cast: TypeAlias = Literal["error", "clamp", "wrap", "scale"]
CASTS: tuple[Cast, ...] = ("error", "clamp", "wrap", "scale")
"""Treatment of values that the new type can't hold.

``error`` raises; ``clamp`` takes the nearest value; ``wrap`` wraps integers around.  ``scale`` maps all
values so that the minimum and maximum become those of an integer type, or 0 and 1 for floating-point types.
Fractions are rounded unless the rule is ``error``, and so are whole numbers in a floating-point type.
"""

Array: TypeAlias = npt.NDArray[Any]


class MisfitError(OutOfRangeError):
    """The new data type can't hold some values."""


class Narrowing:
    """A conversion of real numbers that counts misfits; called with an array of any shape, in any thread."""

    def __init__(self, target: DataType, rule: Cast, extent: tuple[float, float] | None = None) -> None:
        self._target = target
        self.rule = rule
        self.extent = extent
        self.n_changed = 0
        self._lock = new_lock()

    def __reduce__(self) -> tuple[object, ...]:
        return Narrowing, (self._target, self.rule, self.extent)

    def take_changed(self) -> int:
        """Return the number of values that didn't fit since the last call."""
        with self._lock:
            taken, self.n_changed = self.n_changed, 0
        return taken

    def add_changed(self, n: int) -> None:
        """Count values that didn't fit."""
        with self._lock:
            self.n_changed += n

    def __call__(self, values: Array) -> Array:
        """Return values in the new type; raise MisfitError for those that the rule doesn't cover."""
        memory = self._target.memory_dtype
        if memory.kind in "mM":
            try:
                return times_as(values, memory)
            except InvalidArgumentError as e:
                raise MisfitError(e.message) from None
        values = values.astype(np.uint8) if values.dtype.kind == "b" else values
        if self.rule == "scale":
            values = self._scaled(values)
        misfits = _misfits(values, memory)
        refused = _specials(values, memory)
        if self.rule == "error":
            refused |= misfits
            refused |= _fractions(values) if is_integer(memory) else _inexact(values, memory)
        self._refuse(values, refused)
        rule = "wrap" if self.rule == "wrap" else "clamp"
        if self.rule != "scale":  # otherwise the rounded extremes
            with self._lock:
                self.n_changed += int(np.count_nonzero(misfits))
        out = cast_values(values, memory, "nearest-even", rule)
        if not is_integer(memory) and misfits.any():  # the codec makes them infinities
            low, high = value_range(memory)
            np.copyto(out, np.where(values < 0, low, high).astype(memory), where=misfits)
        return out

    def text(self, n_changed: int) -> str:
        """Return how values were changed, of which so many didn't fit; empty if none were."""
        if self.rule == "scale" and self.extent is not None:
            low, high = value_range(self._target.memory_dtype) if self._target.kind == "int" else (0, 1)
            return f"values from {self.extent[0]:.6g} to {self.extent[1]:.6g} became {low} to {high}"
        how = {"clamp": "became the nearest value that does", "wrap": "wrapped around"}.get(self.rule)
        if not n_changed or how is None:
            return ""
        what = "value that doesn't" if n_changed == 1 else "values that don't"
        return f"{n_changed:,} {what} fit {self._target.name} {how}"

    def _scaled(self, values: Array) -> Array:
        assert self.extent is not None
        (least, greatest), memory = self.extent, self._target.memory_dtype
        low, high = value_range(memory) if is_integer(memory) else (0.0, 1.0)
        factor = (high - low) / (greatest - least) if greatest > least else 0.0
        scaled: Array = (values.astype(np.float64) - least) * factor + low
        return scaled

    def _refuse(self, values: Array, misfits: npt.NDArray[np.bool_]) -> None:
        n = int(np.count_nonzero(misfits))
        if n:
            first = values[misfits].flat[0]
            what = "value doesn't" if n == 1 else "values don't"
            raise MisfitError(f"{n:,} {what} fit {self._target.name}, such as {first}")


def narrowing(
    source: TensorStore, target: DataType, rule: Cast, extent: tuple[float, float] | None = None
) -> Narrowing | None:
    """Return the conversion of the elements of `source` to `target`; None if no value can be lost."""
    if rule not in CASTS:
        raise InvalidArgumentError(f"cast: expected one of {', '.join(CASTS)}, not {rule!r}")
    numbers = source.dtype.kind in ("bool", "int", "float") and target.kind in ("int", "float")
    lossless = convertible(source.dtype, target) is not Conversion.EXPLICIT
    if not numbers and rule != "error":
        raise InvalidArgumentError(
            f'cast "{rule}" is for real numbers, not for {source.dtype.name} to {target.name}'
        )
    if source.dtype.kind == target.kind == "datetime" and source.dtype != target:
        return Narrowing(target, rule)
    if not numbers or (lossless and rule != "scale"):
        return None
    if rule == "wrap" and target.kind != "int":
        raise InvalidArgumentError(f'cast "wrap" needs an integer type, not {target.name}')
    if rule == "scale" and extent is None:
        extent = measure(source)
    return Narrowing(target, rule, extent)


def measure(
    source: TensorStore, progress: Callable[[int], None] = lambda nbytes: None
) -> tuple[float, float]:
    """Return the least and the greatest finite value of an array, which is read block by block."""
    found: list[tuple[float, float]] = []

    def work(block: IndexDomain) -> None:
        values = source[block].read().result()
        progress(values.nbytes)
        real = values.reshape(-1) if is_integer(values.dtype) else values.astype(np.float64).reshape(-1)
        real = real[np.isfinite(real)] if real.dtype.kind == "f" else real
        if real.size:
            found.append((float(real.min()), float(real.max())))

    work_through(divide(source, source).domains(), work).result()
    if not found:
        return 0.0, 0.0
    return min(low for low, _ in found), max(high for _, high in found)


def _misfits(values: Array, target: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    low, high = value_range(target)
    if is_integer(values.dtype):
        if not is_integer(target):
            return np.asarray(np.abs(values.astype(np.float64)) > high, bool)
        own_low, own_high = value_range(values.dtype)
        exact = values.astype(np.int64) if values.dtype.isbuiltin == 2 else values
        below = exact < low if own_low < low else np.zeros(values.shape, bool)
        return np.asarray(below | (exact > high) if own_high > high else below, bool)
    real = values.astype(np.float64)
    if is_integer(target):
        whole = np.rint(real)
        return np.asarray(~((whole >= float(low)) & (whole < float(high + 1))), bool)
    with np.errstate(all="ignore"):
        rounded = real.astype(target).astype(np.float64)
        return np.asarray(np.isfinite(real) & ~(np.abs(rounded) <= high), bool)


def _specials(values: Array, target: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    """Return where there are infinities, or NaN, that `target` lacks."""
    found = np.zeros(values.shape, bool)
    if not is_integer(values.dtype):
        for value, is_it in ((np.inf, np.isinf), (np.nan, np.isnan)):
            if is_integer(target) or not holds(value, target):
                found |= is_it(values)
    return found


def _inexact(values: Array, target: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    """Return which whole numbers a floating-point type rounds; fractions are rounded anyway."""
    if not is_integer(values.dtype):
        return np.zeros(values.shape, bool)
    whole = values.astype(np.int64) if values.dtype.isbuiltin == 2 else values
    with np.errstate(all="ignore"):
        rounded = whole.astype(target).astype(np.float64)
        is_below = rounded < float(value_range(whole.dtype)[1] + 1)
        return np.asarray(~is_below | (np.where(is_below, rounded, 0).astype(whole.dtype) != whole), bool)


def _fractions(values: Array) -> npt.NDArray[np.bool_]:
    if is_integer(values.dtype):
        return np.zeros(values.shape, bool)
    real = values.astype(np.float64)
    return np.asarray(np.rint(real) != real, bool)
