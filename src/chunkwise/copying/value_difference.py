"""Differences of the values of two arrays, compared block by block, chunk by chunk; NaN equals NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.copying.node_arrays import check_array_visible
from chunkwise.copying.plain_read import read_plainly
from chunkwise.copying.work import TaskRunner, Work
from chunkwise.core.api.copy import BLOCK_NBYTES, divide, item_nbytes
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import JSON
from chunkwise.core.dtypes.fill_value import same_fill, same_object
from chunkwise.core.plan.blocks import Blocks
from chunkwise.errors import UnsupportedError

__all__ = [
    "FirstDifference",
    "ValueDifferences",
    "as_json",
    "compare_small",
    "compare_values",
    "different",
    "same_json",
]

_SMALL = 1 << 22  # bytes of an array, of which many are compared at the same time


class FirstDifference(NamedTuple):
    """First place where two arrays differ, and both values."""

    where: list[int]
    left: JSON
    right: JSON


class ValueDifferences(NamedTuple):
    """Differences in some blocks of two arrays."""

    nbytes: int
    n_different: int
    first: FirstDifference | None


def compare_values(
    left: TensorStore, right: TensorStore, runner: TaskRunner, progress: Callable[[int], object]
) -> ValueDifferences:
    """Return how many elements of two arrays of the same shape and type differ, and the first that do."""
    nbytes = n_different = 0
    firsts: list[FirstDifference] = []

    def done(start: int, stop: int, found: ValueDifferences) -> None:
        nonlocal nbytes, n_different
        nbytes += found.nbytes
        n_different += found.n_different
        if found.first is not None:
            firsts[:] = [min([*firsts, found.first], key=lambda first: first.where)]
        progress(found.nbytes)

    workers, nbytes_at_once = runner.workers, BLOCK_NBYTES
    if workers.memory is not None:  # a block of each, the comparison, and what codecs take
        nbytes_at_once = max(1, min(nbytes_at_once, workers.memory // (4 * workers.n_at_once)))
    blocks = divide(left, right, nbytes_at_once)
    runner.run(Work("diff", [_DiffStep(left, right, blocks)]), 0, [(0, blocks.n_blocks)], done)
    return ValueDifferences(nbytes, n_different, firsts[0] if firsts else None)


def compare_small(left: TensorStore, right: TensorStore, n_at_once: int) -> ValueDifferences | None:
    """Compare two arrays, if both are small, with `n_at_once` requests at most; None for larger ones."""
    if left.size * max(map(item_nbytes, (left, right))) > _SMALL:
        return None
    blocks = divide(left, right)
    return _DiffStep(left, right, blocks, n_at_once).run(range(blocks.n_blocks))


@dataclass
class _DiffStep:
    """Blocks of two arrays that are compared."""

    left: TensorStore
    right: TensorStore
    blocks: Blocks
    n_at_once: int = 32  # requests of a task to a server

    @property
    def is_remote(self) -> bool:
        """False: a task reads one chunk after the other."""
        return False

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless this worker sees the same arrays as the driver."""
        for store in (self.left, self.right):
            check_array_visible(store, "the array")

    def run(self, tasks: Iterable[int]) -> ValueDifferences:
        """Compare some blocks."""
        nbytes = n_different = 0
        first: FirstDifference | None = None
        fills = [s.dtype.zero() if s.fill_value is None else s.fill_value for s in (self.left, self.right)]
        same_fills = same_fill(*fills)
        for number in tasks:
            block = self.blocks.block(number)
            views = self.left[block], self.right[block]
            if same_fills and self.blocks.n_blocks > 1 and all(map(_is_not_stored, views)):
                continue
            x, y = (read_plainly(view, self.n_at_once) for view in views)
            nbytes += x.nbytes
            found = different(x, y)
            n = int(np.count_nonzero(found))
            if not n:
                continue
            n_different += n
            at = np.unravel_index(int(np.argmax(found)), found.shape)
            where = [int(i) + lo for i, lo in zip(at, block.inclusive_min, strict=True)]
            if first is None or where < first.where:
                first = FirstDifference(where, as_json(x[at]), as_json(y[at]))
        return ValueDifferences(nbytes, n_different, first)


def _is_not_stored(view: TensorStore) -> bool:
    try:
        return bool(view.storage_statistics(query_not_stored=True).result().not_stored)
    except UnsupportedError:  # a stack, or pictures
        return False


def different(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which elements of two arrays of the same shape and type differ; NaN is NaN."""
    if x.dtype.names is not None or (x.dtype.kind == "V" and not _is_number(x.dtype)):
        bits = [np.ascontiguousarray(v).reshape(-1).view(np.uint8).reshape(v.size, -1) for v in (x, y)]
        return np.asarray((bits[0] != bits[1]).any(axis=1)).reshape(x.shape)
    if x.dtype.hasobject and y.dtype.hasobject:
        pairs = zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)
        return np.array([not same_json(a, b) for a, b in pairs], bool).reshape(x.shape)
    unequal = np.asarray(x != y, bool).reshape(x.shape)
    if x.dtype.kind in "fcmMV":
        unequal &= ~(np.asarray(x != x) & np.asarray(y != y))
    return unequal


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Return True if a type that NumPy itself doesn't have compares its values, as bfloat16 does."""
    return dtype.isbuiltin == 2


def as_json(value: object) -> JSON:
    """Return an element as JSON, or as text if JSON can't hold it."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, bool | int | float | str | list | dict | None) else str(value)


def same_json(a: object, b: object) -> bool:
    """Return True if two JSON values are the same: 1 is 1.0, but not true; NaN is NaN."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_json(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return same_object(a, b)
    return bool(a == b or (a != a and b != b))
