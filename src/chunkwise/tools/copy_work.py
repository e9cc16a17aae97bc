"""``CopyWork``: what a worker does of a copy, in this process or in another.

A worker of another process is sent what opens the arrays, and opens them once.  Before it does anything it
makes sure that it has the same version of the library, and sees the same source and destination.
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from chunkwise.api.tensorstore import TensorStore
from chunkwise.dtypes.conversion import implicit_converter
from chunkwise.engine.pool import work_here
from chunkwise.errors import AbortedError, FailedPreconditionError, prefix
from chunkwise.fork import new_lock
from chunkwise.index_space import IndexDomain
from chunkwise.kvstore.protocol import KvStoreDriver
from chunkwise.plan.blocks import Blocks
from chunkwise.tools.copy_check import compare, read_plainly
from chunkwise.tools.fingerprint import fingerprint
from chunkwise.tools.narrowing import MisfitError, Narrowing
from chunkwise.version import __version__

__all__ = ["CopyStep", "CopyWork", "StepResult", "Stop"]

_MOST_KEPT = 4
_MASK = (1 << 64) - 1


class StepResult(NamedTuple):
    """What became of some tasks."""

    nbytes: int
    fingerprint: int
    n_changed: int


class Stop(threading.Event):
    """Says in this process that no more tasks are wanted; is not set in others."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Stop, ()


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
    )  # what is missing in the source may be missing in the target: both read as it
    summed: bool

    def __post_init__(self) -> None:
        self._convert = self.narrowing or implicit_converter(self.source.dtype, self.target.dtype)
        self._remote = self.source.spec()._driver.is_remote

    def __reduce__(self) -> tuple[Any, ...]:
        return CopyStep, tuple(getattr(self, f.name) for f in fields(self))  # functions can't be pickled

    def do(self, number: int) -> tuple[int, int]:
        """Do one task; return its bytes and its fingerprint."""
        block = self.blocks.block(number)
        nbytes = int(block.size) * self.itemsize
        views = [self.source[block], self.target[block]] if self.kind == "compare" else [self.source[block]]
        # Of a remote store each chunk would be asked for twice.
        if self.fill is not None and not self._remote and all(map(_is_missing, views)):
            return nbytes, self._sum(np.broadcast_to(self.fill, block.shape), block)
        try:
            read = _read if self.kind == "copy" else read_plainly
            values = self._convert(read(views[0]))
        except MisfitError as e:
            where = f"{list(block.inclusive_min)} to {list(block.exclusive_max)}"
            raise prefix(e, f"Between {where}") from None
        total = self._sum(values, block)
        if self.kind == "copy":
            if not (self._remote and self.fill is not None and _is_filled(values, self.fill)):
                self.target[block].write(values).result()
        elif self.kind == "compare":
            compare(values, read_plainly(views[1]), block)
        return nbytes, total

    def _sum(self, values: npt.NDArray[Any], block: IndexDomain) -> int:
        return fingerprint(values, block.inclusive_min) if self.summed else 0


def _read(view: TensorStore) -> npt.NDArray[Any]:
    return view.read().result()


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


@dataclass(repr=False)
class CopyWork:
    """The steps of a copy, called with the number of a step and a range of its tasks.

    A pickle is loaded by the first call in a process, and kept: an executor can't tell of a failure before.
    """

    steps: list[CopyStep]
    kv: KvStoreDriver
    journal: str  # the key that says that the copy is under way
    owner: str | None  # of the journal; None if the copy is whole, and there is none
    stop: Stop = field(default_factory=Stop)
    name: str = field(default_factory=lambda: uuid4().hex)
    _blob: bytes = b""

    __name__ = "chunkwise-copy"  # what a dashboard shows

    def __repr__(self) -> str:
        return f"CopyWork({self.journal!r})"

    def __call__(self, step: int, start: int, stop: int) -> StepResult:
        """Do some tasks of a step; in this process, raise AbortedError when no more are wanted."""
        current = self.steps[step]
        total = nbytes = 0
        for number in range(start, stop):
            if self.stop.is_set():
                raise AbortedError("the copy was stopped")
            done, part = current.do(number)
            nbytes += done
            total += part
        changed = 0 if current.narrowing is None else current.narrowing.take_changed()
        return StepResult(nbytes, total & _MASK, changed)

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._blob:
            state = {"steps": self.steps, "kv": self.kv, "journal": self.journal, "owner": self.owner}
            self._blob = pickle.dumps(state)
        return _SentWork, (__version__, self.name, self._blob)


class _SentWork:
    """A :class:`CopyWork` as it arrives in another process."""

    def __init__(self, version: str, name: str, blob: bytes) -> None:
        self._version, self._name, self._blob = version, name, blob

    def __reduce__(self) -> tuple[Any, ...]:
        return _SentWork, (self._version, self._name, self._blob)

    def __call__(self, step: int, start: int, stop: int) -> StepResult:
        if self._version != __version__:
            raise FailedPreconditionError(
                f"a worker has version {__version__} of chunkwise, and {self._version} has sent it work"
            )
        return _loaded(self._name, self._blob)(step, start, stop)


_lock = new_lock()
_kept: OrderedDict[str, CopyWork] = OrderedDict()


def _loaded(name: str, blob: bytes) -> CopyWork:
    with _lock:
        work = _kept.get(name)
        if work is None:
            work = CopyWork(**pickle.loads(blob), name=name)
            _check_visible(work)
            _kept[name] = work
        _kept.move_to_end(name)
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    stores = [store for step in work.steps for store in (step.source, step.target)]
    if not any(store.spec()._driver.is_remote for store in stores):
        work_here()  # a task has one thread: the executor decides how many there are
    return work


def _check_visible(work: CopyWork) -> None:
    """Raise unless source and destination are here what they are where the copy was begun."""
    value = work.kv.read(work.journal).value
    if work.owner is not None and (value is None or work.owner.encode() not in bytes(value)):
        raise FailedPreconditionError(
            f"a worker doesn't see the destination: {work.kv.describe(work.journal)} isn't there, or is "
            "another's; it has to be on storage that all workers see under the same name"
        )
    try:
        work.steps[0].source.resolve().result()
    except ValueError as e:
        raise FailedPreconditionError(f"a worker doesn't see the source: {e}") from None
