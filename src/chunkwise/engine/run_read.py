"""Whole chunks of many arrays, read one after the other: little more Python than their three system calls.

Chunks that come to lie next to each other are copied together, as those of one array are
(:mod:`chunkwise.engine.runs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

from chunkwise.codec.decode import Packed
from chunkwise.codec.rows import open_paste
from chunkwise.engine.encoded_row import EncodedRow, FetchInto, take_together
from chunkwise.engine.listed_boxes import ListedBoxes
from chunkwise.engine.runs import Run
from chunkwise.kvstore.protocol import Reader

__all__ = ["LARGEST_RUN", "RunReader"]

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
        fetch_into: FetchInto | None,
    ) -> None:
        self._shape = shape
        self._packed = packed
        self._fetch, self._fetch_into = fetch, fetch_into
        self._together = take_together(packed)
        self._encoded = EncodedRow(packed, fetch, fetch_into)
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
        groups = _groups(pieces, self._together)
        paste = self._open(out, max((end - begin for begin, end in groups), default=0))
        keys, starts = [boxes.keys[i] for i in numbers], boxes.starts
        runs = iter(pieces)
        for begin, end in groups:
            if unwanted:
                return
            self._fill(keys[begin:end], numbers[begin:end], read_other)
            at = begin
            while at < end:
                first, at = next(runs)
                paste(starts[numbers[first]], first - begin, at - begin)

    def _fill(
        self, keys: Sequence[str], numbers: Sequence[int], read_other: Callable[[int, Array], None]
    ) -> None:
        """Read chunks to the run."""
        run, packed, encoded_row = self._run, self._packed, self._encoded
        together = len(keys) if self._together > 1 else 1
        nbytes, fill = packed.nbytes, packed.fill
        if together > 1:
            encoded_row.clear(together)
            for key in keys:
                try:
                    encoded_row.append(key)
                except Exception:  # whatever it is, the other way meets it too, and says so
                    encoded_row.skip()
            if encoded_row.decode_all(run.memory[: together * nbytes]):
                return
        fetch, fetch_into = self._fetch, self._fetch_into
        for i, (key, buffer) in enumerate(zip(keys, run.buffers, strict=False)):
            try:
                if together > 1:
                    if encoded_row.decode(i, buffer):
                        continue
                elif fill is None:
                    if fetch_into is not None and fetch_into(key, buffer) == nbytes:
                        continue
                elif (encoded := fetch(key)) is not None:
                    fill(encoded, buffer)
                    continue
            except Exception:  # as above
                pass
            read_other(numbers[i], run.chunks[i])

    def _open(self, out: Array, length: int) -> Paste:
        """Return what copies from the run, which has room for `length` chunks from now on, to `out`."""
        if len(self._run.chunks) < length:
            self._run, self._paste = Run(self._shape, self._packed.stored, length), None
        if self._paste is None or self._paste[0] is not out:
            self._paste = out, open_paste(out, self._run.elements)
        return self._paste[1]


def _groups(pieces: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Return where pieces, each of which follows the one before, begin and end, up to `most` together."""
    groups: list[tuple[int, int]] = []
    for begin, end in pieces:
        if groups and end - groups[-1][0] <= most:
            groups[-1] = groups[-1][0], end
        else:
            groups.append((begin, end))
    return groups
