"""Encoded chunks in memory, one right after the other: fetched some at a time, then decoded.

A processor that goes from the system's code to Python's to the codec's and back for each chunk finds its
caches and branch predictors full of what the others left there: apart, decoding 16³ chunks of uint16 takes
two thirds of the time.  Where the store fills memory, none of the encoded bytes is copied.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chunkwise.codec.decode import Packed
from chunkwise.kvstore.protocol import Reader

__all__ = ["MISSING", "TOGETHER", "EncodedRow", "FetchInto", "take_together"]

FetchInto = Callable[[str, memoryview], "int | None"]
"""Fills memory with a value; see :func:`chunkwise.kvstore.file_read.open_into_reader`."""

TOGETHER = 1 << 18
"""Bytes of decoded chunks that are fetched before anything else is done with them."""
_MOST = 256  # chunks; what each may take is more than it takes as a rule

MISSING = -1
"""The length of a chunk that is not stored."""
_UNKNOWN = -2  # that of one that has to be looked at alone


def take_together(packed: Packed) -> int:
    """Return how many chunks are to be fetched before they are decoded."""
    return 1 if packed.fill is None else min(_MOST, TOGETHER // max(1, packed.nbytes))


class EncodedRow:
    """Memory of one worker for encoded chunks.

    Parameters
    ----------
    packed : Packed
        How they are decoded; with `fill`.
    fetch : callable
        A reader of the store.
    fetch_into : callable or None
        One that fills memory, if the store has that.

    Attributes
    ----------
    lengths : list of int
        Of each chunk in bytes, :data:`MISSING` if it isn't stored; negative, too, if it has to be read alone.
    """

    def __init__(self, packed: Packed, fetch: Reader, fetch_into: FetchInto | None) -> None:
        self._fill, self._fill_row = packed.fill, packed.fill_row
        # What an encoded chunk takes at most: the codecs of small chunks add a header and little else.
        self._room = packed.nbytes + (packed.nbytes >> 6) + 128
        self._fetch_into = fetch_into or _copying(fetch)
        self._memory = memoryview(b"")
        self._ends = [0]
        self.lengths: list[int] = []

    def clear(self, n_chunks: int) -> None:
        """Forget all chunks, and have room for so many."""
        if len(self._memory) < n_chunks * self._room:
            self._memory = np.empty(n_chunks * self._room, np.uint8).data
        self._ends = [0]
        self.lengths = []

    def append(self, key: str) -> None:
        """Fetch a chunk behind the others; raise what the store raises."""
        start = self._ends[-1]
        n = self._fetch_into(key, self._memory[start : start + self._room])
        if n is None or n > self._room:
            self.lengths.append(MISSING if n is None else _UNKNOWN)
            self._ends.append(start)
        else:
            self.lengths.append(n)
            self._ends.append(start + n)

    def skip(self) -> None:
        """Put in the place of a chunk that it has to be read alone."""
        self.lengths.append(_UNKNOWN)
        self._ends.append(self._ends[-1])

    def decode_all(self, memory: memoryview) -> bool:
        """Decode the chunks with one call if that can be done; return whether `memory` has been filled."""
        if self._fill_row is None or len(self.lengths) < 2 or min(self.lengths) <= 0:
            return False
        return self._fill_row(self._memory[: self._ends[-1]], self.lengths, memory)

    def decode(self, number: int, memory: memoryview) -> bool:
        """Decode one chunk; return False, and have it read again, if it is not as expected."""
        if self.lengths[number] < 0:
            return False
        assert self._fill is not None, "they are encoded"
        try:
            self._fill(self._memory[self._ends[number] : self._ends[number + 1]], memory)
        except Exception:  # what reads it again meets it too, and says what it is
            return False
        return True


def _copying(fetch: Reader) -> FetchInto:
    """Return what fills memory by a reader of values."""

    def fetch_into(key: str, out: memoryview) -> int | None:
        value = fetch(key)
        if value is None:
            return None
        n = len(value)
        if n <= len(out):
            out[:n] = value
        return n

    return fetch_into
