"""Whole chunks of many arrays, read one after the other: little more Python than their three system calls.

Chunks that come to lie next to each other are copied together, as those of one array are
(:mod:`chunkwise.execute.runs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.codec.decode import Packed
from chunkwise.codec.rows import open_paste
from chunkwise.driver.stored_array import StoredArray
from chunkwise.errors import NotFoundError
from chunkwise.execute.listed_boxes import ListedBoxes
from chunkwise.execute.packed import PackedReader
from chunkwise.execute.row_read import decoded_together, read_rows
from chunkwise.execute.runs import TOGETHER, Run
from chunkwise.kvstore.protocol import Readable, Reader

__all__ = ["LARGEST_RUN", "RunReader", "read_packed_keys"]

Array = npt.NDArray[Any]
Paste: TypeAlias = Callable[[Sequence[int], int, int], None]

LARGEST_RUN = 1 << 20
"""Bytes of chunks that are copied together."""


class RunReader:
    """Reads whole chunks of one codec chain, for one worker.

    Parameters
    ----------
    shape : tuple of int
        Of a chunk.
    packed : Packed
        How it is decoded to its bytes, which are its elements in native byte order.
    fetch : callable
        A reader of the store.
    fetch_into : callable or None
        One that fills memory, if the store has that.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        packed: Packed,
        fetch: Reader,
        fetch_into: Callable[[str, memoryview], int | None] | None,
    ) -> None:
        self._shape = shape
        self._packed = packed
        self._fetch, self._fetch_into = fetch, fetch_into
        self._most = max(1, LARGEST_RUN // packed.nbytes)
        self._run = Run(shape, packed.stored, 1)
        self._paste: tuple[Array, Paste] | None = None

    def read(
        self,
        boxes: ListedBoxes,
        numbers: Sequence[int],
        out: Array,
        read_other: Callable[[int, Array], None],
        unwanted: Sequence[object],
    ) -> None:
        """Set parts of `out` to chunks.

        Parameters
        ----------
        boxes : ListedBoxes
        numbers : sequence of int
            Which boxes are read, ascending; each is a whole chunk.
        out : ndarray
        read_other : callable
            ``read_other(number, chunk)`` reads what is not as expected: it is missing, or damaged.
        unwanted : sequence
            True as soon as nothing more is to be read.
        """
        pieces = boxes.runs(numbers, self._most)
        paste = self._open(out, max((end - begin for begin, end in pieces), default=0))
        keys, starts = [boxes.keys[i] for i in numbers], boxes.starts
        chunks, buffers, memory = self._run.chunks, self._run.buffers, self._run.memory
        fetch, fetch_into = self._fetch, self._fetch_into
        packed = self._packed
        nbytes, fill = packed.nbytes, packed.fill
        together = 0 if fill is None else TOGETHER // max(1, nbytes)
        some: list[bytes | None] = []
        first = fetched = 0  # what is in `some`: these chunks
        for begin, end in pieces:
            if unwanted:
                return
            if together > 1:
                if end > fetched:
                    first, fetched = begin, min(len(keys), begin + max(together, end - begin))
                    some = [_fetched(fetch, key) for key in keys[first:fetched]]
                row = memory[: (end - begin) * nbytes]
                if decoded_together(some[begin - first : end - first], packed, row):
                    paste(starts[numbers[begin]], 0, end - begin)
                    continue
            for i, buffer in zip(range(begin, end), buffers, strict=False):
                try:
                    if fill is None:
                        if fetch_into is not None and fetch_into(keys[i], buffer) == nbytes:
                            continue
                    else:
                        encoded = some[i - first] if together > 1 else fetch(keys[i])
                        if encoded is not None:
                            fill(encoded, buffer)
                            continue
                except Exception:  # whatever it is, the other way meets it too, and says so
                    pass
                read_other(numbers[i], chunks[i - begin])
            paste(starts[numbers[begin]], 0, end - begin)

    def _open(self, out: Array, length: int) -> Paste:
        """Return what copies from the run, which has room for `length` chunks from now on, to `out`."""
        if len(self._run.chunks) < length:
            self._run, self._paste = Run(self._shape, self._packed.stored, length), None
        if self._paste is None or self._paste[0] is not out:
            self._paste = out, open_paste(out, self._run.elements)
        return self._paste[1]


def read_packed_keys(
    array: StoredArray,
    kv: Readable,
    keys: Sequence[str],
    memory: npt.NDArray[np.uint8],
    *,
    fill_missing: bool,
) -> None:
    """Decode whole chunks, of `array` or of others like it, one after the other to `memory`."""
    reader = PackedReader(array.chain, memory)
    packed = reader.packed
    open_into = getattr(type(kv), "open_into_reader", None)  # not that of a store behind an adapter
    fetch_into = None if open_into is None else open_into(kv)

    def missing(key: str, chunk: Array) -> None:
        if not fill_missing:
            raise NotFoundError(f"{key} is missing")
        chunk[...] = array.fill_value.view(packed.memory)

    rows = reader.next_rows(len(keys))
    for _ in read_rows(rows, iter(keys), packed, kv.open_reader(), fetch_into, missing):
        pass


def _fetched(fetch: Reader, key: str) -> bytes | None:
    """Return a value that lasts; None if it is missing, or can't be had, as who decodes it finds out."""
    try:
        encoded = fetch(key)
    except Exception:  # whatever it is, the other way meets it too, and says so
        return None
    return None if encoded is None else bytes(encoded)
