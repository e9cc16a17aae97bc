"""``Batch``: reads that start together, and share requests.

1. While a batch is submitted, its reads register their requests to a slow store.
2. The first read to reach a shard fetches the wanted parts for all, so that close ranges share a request; the
   others wait.
3. Fetched data is kept until all reads have taken their parts.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, ParamSpec, Self, TypeAlias, TypeVar

from chunkwise.core.base.threads import Lock, new_lock
from chunkwise.core.engine.concurrent_requests import map_requests
from chunkwise.core.engine.derived_futures import link
from chunkwise.core.engine.future import Future, Promise
from chunkwise.core.kvstore.protocol import ByteRange, KvStoreDriver, Stamped
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.value import coalesce_ranges, slice_range
from chunkwise.errors import ChunkwiseError, InvalidArgumentError

__all__ = ["Batch", "SharedReads", "as_batched", "batch_of_thread", "batched", "check_batch", "shared_range"]

Q = TypeVar("Q", int, tuple[int, int])
T = TypeVar("T")
_NOT_IN_SHARD = 0  # the position in a value that isn't a shard
# Reads are planned in microseconds; a read that waits for metadata must not delay the others.
_LONGEST_WAIT = 1.0  # seconds


class _Wanted:
    """The wanted parts of one key."""

    __slots__ = ("found", "left", "lock", "positions")

    def __init__(self) -> None:
        self.lock = new_lock()
        self.positions: set[Any] = set()
        self.left = 0  # parts not yet taken
        self.found: dict[Any, Any] | None = None


class SharedReads:
    """The parts that the reads of one batch want."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._wanted: dict[tuple[Hashable, str], _Wanted] = {}
        self._complete = threading.Event()
        self._submitter = threading.get_ident()

    def expect(self, array: Hashable, key: str, positions: Sequence[Hashable] = (_NOT_IN_SHARD,)) -> None:
        """Register that a read will take some positions of an array's key."""
        with self._lock:
            wanted = self._wanted.setdefault((array, key), _Wanted())
            wanted.positions.update(positions)
            wanted.left += len(positions)

    def complete(self) -> None:
        """Record that all reads have registered."""
        self._complete.set()

    def take(
        self,
        array: Hashable,
        key: str,
        positions: Sequence[Q],
        fetch: Callable[[Sequence[Q]], Sequence[T]],
    ) -> Sequence[T]:
        """Return the result of `fetch` for positions of a key, fetched together with other reads'."""
        # Otherwise the submitting thread would wait for itself.
        if threading.get_ident() != self._submitter and not self._complete.wait(_LONGEST_WAIT):
            self._complete.set()
        wanted = self._wanted.get((array, key))
        if wanted is None:
            return fetch(positions)
        with wanted.lock:
            if wanted.found is None and wanted.left > len(positions):
                together = sorted(wanted.positions)
                try:
                    wanted.found = dict(zip(together, fetch(together), strict=True))
                except ChunkwiseError:  # perhaps by a part that another read wants
                    wanted.found = {}
            found = wanted.found or {}
            wanted.left -= len(positions)
            if wanted.left <= 0:
                with self._lock:
                    self._wanted.pop((array, key), None)
        if all(position in found for position in positions):
            return [found[position] for position in positions]
        return fetch(positions)

    def value(self, array: Hashable, read: Callable[[str], T]) -> Callable[[str], T]:
        """Return `read` as a shared read of whole values."""
        return lambda key: self.take(array, key, (_NOT_IN_SHARD,), lambda _: (read(key),))[0]


P = ParamSpec("P")

_thread = threading.local()


class Batch:
    """Collects requests; none is made before `submit` or the end of the ``with`` block.

    Reads that use no store, such as of an array in memory, are done at once.  A batch is submitted when its
    last reference is dropped.

    Examples
    --------
    >>> with Batch() as batch:
    ...     futures = [store[i].read(batch=batch) for i in range(3)]  # doctest: +SKIP
    """

    __slots__ = ("__weakref__", "_lock", "_starts")

    _lock: Lock
    _starts: list[Callable[[], None]] | None

    def __new__(cls) -> Self:
        self = super().__new__(cls)
        self._lock = new_lock()
        self._starts = []
        return self

    def defer(self, start: Callable[[], Future[T]], *, at_once: bool = False) -> Future[T]:
        """Return the future of work that `start` begins when the batch is submitted.

        Parameters
        ----------
        start : function
        at_once : bool
            Start now, because waiting for other requests gains nothing without a store.

        Raises
        ------
        InvalidArgumentError
            If the batch was already submitted.
        """
        if at_once:
            self._check()
            return start()
        promise, future = Promise[T].new()

        def run() -> None:
            if promise.done():  # it was cancelled meanwhile
                return
            try:
                link(start(), promise)
            except Exception as e:
                promise.set_exception(e)

        with self._lock:
            self._check().append(run)
        return future

    def _check(self) -> list[Callable[[], None]]:
        if self._starts is None:
            raise InvalidArgumentError("batch was already submitted")
        return self._starts

    def submit(self) -> None:
        """Start all collected requests; calling it again does nothing."""
        with self._lock:
            starts, self._starts = self._starts, None
        shared = SharedReads()
        with batched(shared):
            for start in starts or ():
                start()
        shared.complete()

    def __del__(self) -> None:
        if self._starts:
            self.submit()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.submit()


def check_batch(batch: object) -> None:
    """Raise TypeError if an argument ``batch`` is not a batch."""
    if batch is not None and not isinstance(batch, Batch):
        raise TypeError("Invalid batch")


def batch_of_thread() -> SharedReads | None:
    """Return the shared state of the batch whose reads this thread is starting; None without one."""
    shared: SharedReads | None = getattr(_thread, "shared", None)
    return shared


def as_batched(function: Callable[P, T]) -> Callable[P, T]:
    """Return `function` for another thread, where its reads belong to this thread's batch, if any."""
    shared = batch_of_thread()
    if shared is None:
        return function

    def run(*arguments: P.args, **keywords: P.kwargs) -> T:
        with batched(shared):
            return function(*arguments, **keywords)

    return run


@contextmanager
def batched(shared: SharedReads | None) -> Iterator[None]:
    """Make reads that this thread starts in the block belong to a batch, or to none."""
    before = batch_of_thread()
    _thread.shared = shared
    try:
        yield
    finally:
        _thread.shared = before


_Bounds: TypeAlias = tuple[int, int]
_END = sys.maxsize  # end of a value with unknown size; sorts after all others
_WHOLE = (0, _END)


def shared_range(
    shared: SharedReads, store: KvStoreDriver, key: str, part: ByteRange | None, known: bytes
) -> Callable[[], Stamped]:
    """Register that a read of a batch will take a part of a value; return the function that takes it.

    `known` is a generation whose value is not needed, or empty.
    """
    bounds = _WHOLE if part is None else (part.start, _END if part.stop is None else part.stop)
    owner = (id(store), known)
    shared.expect(owner, key, (bounds,))
    return lambda: shared.take(owner, key, (bounds,), lambda wanted: _read(store, key, wanted, known))[0]


def _read(store: KvStoreDriver, key: str, wanted: Sequence[_Bounds], known: bytes) -> list[Stamped]:
    """Return the given sorted, distinct parts of a value."""
    runs = [list(wanted)] if _WHOLE in wanted else _runs(store, wanted)
    spans = [_WHOLE if _WHOLE in run else (run[0][0], max(stop for _, stop in run)) for run in runs]

    def read(span: _Bounds) -> Stamped:
        return store.read(key, byte_range=_byte_range(span), if_not_equal=known or None)

    out: list[Stamped] = []
    for run, (first, _), found in zip(runs, spans, map_requests(store, read, spans), strict=True):
        for start, stop in run:
            value = found.value
            if value is not None and len(run) > 1:
                begin, end = start if start < 0 else start - first, None if stop == _END else stop - first
                value = slice_range(memoryview(value), begin, end)
            out.append(found._replace(value=value))
    return out


def _runs(store: KvStoreDriver, wanted: Sequence[_Bounds]) -> list[list[_Bounds]]:
    """Return the parts that share requests; ranges from the end of the value share none."""
    suffixes = [bounds for bounds in wanted if bounds[0] < 0]
    others = wanted[len(suffixes) :]
    gap, largest = traits_of(store).coalescing or (0, 0)
    starts, lengths = [start for start, _ in others], [stop - start for start, stop in others]
    runs = coalesce_ranges(starts, lengths, gap=gap, largest=largest)
    return [[bounds] for bounds in suffixes] + [list(others[run]) for run in runs]


def _byte_range(bounds: _Bounds) -> ByteRange | None:
    start, stop = bounds
    return None if bounds == _WHOLE else ByteRange(start, None if stop == _END else stop)
