"""The body of a shard that is put together, in memory that is used again for the next."""

from __future__ import annotations

import numpy as np

from chunkwise.engine.shard_layout import MISSING, ShardLayout
from chunkwise.kvstore.protocol import Buffer

__all__ = ["ShardBody"]

_NONE = (MISSING, MISSING)


class ShardBody:
    """Inner chunks, one after the other, and the index."""

    def __init__(self, form: ShardLayout) -> None:
        self._form = form
        self._memory = memoryview(bytearray())
        self._entries: list[tuple[int, int]] = []  # where each begins and ends
        self._end = 0

    def clear(self) -> None:
        """Begin a new shard, without any inner chunk."""
        form = self._form
        self._entries = [_NONE] * form.n_chunks
        self._end = 0 if form.at_end else form.index_nbytes

    def append(self, position: int, encoded: Buffer) -> None:
        """Put the inner chunk `position` behind the others; positions ascend."""
        end = self._end
        stop = end + (encoded.nbytes if type(encoded) is memoryview else len(encoded))
        if stop > len(self._memory):
            self._grow(stop, position)
        self._memory[end:stop] = encoded
        self._entries[position] = (end, stop)
        self._end = stop

    def finish(self) -> Buffer | None:
        """Return the shard with its index, valid until the next is begun; None if it has no inner chunk."""
        form, end = self._form, self._end
        index = np.array(self._entries, np.uint64)
        present = index[:, 0] != MISSING
        if not present.any():
            return None
        index[present, 1] -= index[present, 0]
        new_index = form.encode(index)
        if form.at_end:
            stop = end + form.index_nbytes
            if stop > len(self._memory):
                self._grow(stop, form.n_chunks)
            self._memory[end:stop] = new_index
            return self._memory[:stop]
        self._memory[: form.index_nbytes] = new_index
        return self._memory[:end]

    def _grow(self, nbytes: int, n_before: int) -> None:
        """Make room for `nbytes`, and for all inner chunks if they take as much as the first `n_before`."""
        used = self._end
        # What is never written to takes no memory.
        expected = used * self._form.n_chunks * 9 // 8 // max(1, n_before)
        larger = np.empty(max(nbytes, len(self._memory) * 3 // 2, expected), np.uint8).data
        kept = min(used, len(self._memory))  # an index in front is not there yet
        larger[:kept] = self._memory[:kept]
        self._memory = larger
