"""Tasks of a copy: a worker reads a block of the source, and writes it or compares it bit for bit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from chunkwise.copying.fence import guard_of
from chunkwise.copying.fingerprint import fingerprint
from chunkwise.copying.narrowing import MisfitError, Narrowing
from chunkwise.copying.plain_read import read_plainly
from chunkwise.copying.stored_node import check_array_visible
from chunkwise.copying.work import Step
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.dtypes.conversion import implicit_converter
from chunkwise.core.dtypes.fill_value import same_object
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.plan.blocks import Blocks
from chunkwise.errors import CodecError, DataCorruptionError, NotFoundError, OutOfRangeError, prefix

__all__ = ["CopyStep", "LostBlockError", "Pass", "StepResult"]

_MASK = (1 << 64) - 1


class LostBlockError(DataCorruptionError):
    """A part of an intermediate array is not what was written."""


class StepResult(NamedTuple):
    """Result of some tasks."""

    nbytes: int
    fingerprint: int
    n_changed: int


class Pass(Step, Protocol):
    """A pass over an array in blocks, each of which is a task."""

    blocks: Blocks
    narrowing: Narrowing | None

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        ...

    def run(self, tasks: Iterable[int]) -> StepResult:
        """Do tasks; return their bytes, fingerprint and number of changed values."""
        ...

    def nbytes_of(self, tasks: Iterable[tuple[int, int]]) -> int:
        """Return the number of bytes in some ranges of tasks."""
        ...


@dataclass
class CopyStep:
    """A pass over an array in blocks: reads each, and writes or checks it."""

    source: TensorStore
    target: TensorStore
    blocks: Blocks
    kind: str  # "copy", "compare", or "sum" of what the source holds
    narrowing: Narrowing | None
    itemsize: int
    fill: (
        npt.NDArray[Any] | None
    )  # chunks missing in the source may be missing in the target: both read as this value
    summed: bool
    between: Literal["from", "to"] | None = None  # which of the arrays is the one between two passes

    def __post_init__(self) -> None:
        self._convert = self.narrowing or implicit_converter(self.source.dtype, self.target.dtype)
        self._remote = _is_remote(self.source)
        self.is_remote = self._remote or _is_remote(self.target)

    def __reduce__(self) -> tuple[object, ...]:
        return CopyStep, tuple(getattr(self, f.name) for f in fields(self))  # functions can't be pickled

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless this worker sees the same source as the driver."""
        check_array_visible(self.source, "the source")

    def run(self, tasks: Iterable[int]) -> StepResult:
        """Do tasks; return their bytes, fingerprint and number of changed values."""
        total = nbytes = 0
        guard = guard_of(tasks)
        target = self.target
        if guard is not None and self.kind == "copy":
            target = guard.guarded(target, passing=self.between == "to")
        for number in tasks:
            try:
                done, part = self.do(number, target)
            except LostBlockError:
                if guard is not None:
                    guard.check()
                raise
            nbytes += done
            total += part
        changed = 0 if self.narrowing is None else self.narrowing.take_changed()
        return StepResult(nbytes, total & _MASK, changed)

    def do(self, number: int, target: TensorStore) -> tuple[int, int]:
        """Do one task; return its bytes and its fingerprint."""
        block = self.blocks.block(number)
        nbytes = int(block.size) * self.itemsize
        views = [self.source[block], target[block]] if self.kind == "compare" else [self.source[block]]
        # In a remote store, each chunk would be requested twice.
        if self.fill is not None and not self._remote and not self.between and all(map(_is_missing, views)):
            return nbytes, self._sum(np.broadcast_to(self.fill, block.shape), block)
        try:
            values = self._convert(self._read(views[0]))
        except MisfitError as e:
            where = f"{list(block.inclusive_min)} to {list(block.exclusive_max)}"
            raise prefix(e, f"Between {where}") from None
        total = self._sum(values, block)
        if self.kind == "copy":
            fill = self.fill if self._remote and self.between != "to" else None
            if fill is None or not _is_filled(values, fill):
                target[block].write(values).result()
        elif self.kind == "compare":
            _compare(values, read_plainly(views[1]), block)
        return nbytes, total

    def nbytes_of(self, tasks: Iterable[tuple[int, int]]) -> int:
        """Return the number of bytes in some ranges of tasks."""
        numbers = (number for start, stop in tasks for number in range(start, stop))
        return sum(int(self.blocks.block(number).size) for number in numbers) * self.itemsize

    def _read(self, view: TensorStore) -> npt.NDArray[Any]:
        try:
            return view.read().result() if self.kind == "copy" else read_plainly(view)
        except (NotFoundError, CodecError, OutOfRangeError) as e:  # missing, or empty, cut off, or garbage
            if self.between != "from":
                raise
            text = f"the intermediate array was not read as it was written: {e.message}"
            raise LostBlockError(text) from e

    def _sum(self, values: npt.NDArray[Any], block: IndexDomain) -> int:
        return fingerprint(values, block.inclusive_min) if self.summed else 0


def _is_remote(store: TensorStore) -> bool:
    """Return True if an operation on an array may wait for a network."""
    remote = getattr(store._array, "is_remote", None)  # a spec takes long to make
    return bool(store._array.spec().is_remote if remote is None else remote)


def _is_missing(view: TensorStore) -> bool:
    """Return True if no chunk of a view is stored, so that all of it reads as the fill value."""
    return bool(view.storage_statistics(query_not_stored=True).result().not_stored)


def _is_filled(values: npt.NDArray[Any], fill: npt.NDArray[Any]) -> bool:
    """Return True if all elements are the same bits as `fill`."""
    if values.dtype.hasobject or not values.dtype.itemsize or not values.size:
        return False
    one = np.frombuffer(fill.astype(values.dtype).tobytes(), np.uint8)
    bits = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(-1, len(one))
    return bool((bits[0] == one).all() and (bits == one).all())


def _compare(wanted: npt.NDArray[Any], found: npt.NDArray[Any], block: IndexDomain) -> None:
    """Raise DataCorruptionError unless two arrays over the domain `block` are the same bits."""
    different = _different(wanted, found)
    if not different.any():
        return
    first = np.unravel_index(int(np.argmax(different)), different.shape)
    at = [int(i) + lo for i, lo in zip(first, block.inclusive_min, strict=True)]
    raise DataCorruptionError(
        f"the copy differs from the source at {at}: {found[first]!r} instead of {wanted[first]!r} "
        f"({int(different.sum())} of {different.size} elements of the block {block} differ)"
    )


def _different(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if a.dtype.hasobject:
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        return np.array([not same_object(x, y) for x, y in pairs], bool).reshape(a.shape)
    if a.dtype.itemsize == 0:
        return np.asarray(a != b, bool).reshape(a.shape)
    bits = [np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(a.size, -1) for x in (a, b)]
    return np.asarray((bits[0] != bits[1]).any(axis=1)).reshape(a.shape)
