"""Ranges of values that several reads of a batch want: close ones share one request."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

from chunkwise.core.engine.concurrent_requests import map_requests
from chunkwise.core.engine.shared_reads import SharedReads
from chunkwise.core.kvstore.byte_range import coalesce_ranges, slice_range
from chunkwise.core.kvstore.protocol import ByteRange, KvStoreDriver, Stamped
from chunkwise.core.kvstore.traits import traits_of

__all__ = ["shared_range"]

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
