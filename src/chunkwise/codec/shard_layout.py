"""The layout of shards: the chunks in one, and its index.

Source: Zarr v3 codec *sharding_indexed*, "Binary shard format".
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from chunkwise.codec.protocol import Buffer, PreparedChain
from chunkwise.errors import DataCorruptionError, InvalidArgumentError, braced

__all__ = ["MISSING", "ShardBody", "ShardLayout"]

MISSING = 2**64 - 1
"""Offset and length, in the index, of an inner chunk that is not stored."""
_LARGEST = 2**63 - 1


class ShardLayout(NamedTuple):
    """The layout that all shards of an array have in common."""

    chunks_per_shard: tuple[int, ...]  # inner chunks along each dimension
    n_chunks: int  # their product
    index_chain: PreparedChain
    index_nbytes: int  # encoded size of the index
    at_end: bool  # True if the index is the end of the shard, else it is the start

    @classmethod
    def of(
        cls, chunks_per_shard: tuple[int, ...], index_chain: PreparedChain, *, at_end: bool
    ) -> ShardLayout:
        """Return the layout of shards with that index; raise if its encoded size is not fixed."""
        nbytes = index_chain.encoded_nbytes
        if nbytes is None:
            raise InvalidArgumentError("The codecs of the shard index do not have a fixed encoded size")
        return cls(chunks_per_shard, prod(chunks_per_shard), index_chain, nbytes, at_end)

    def decode(self, encoded: Buffer) -> npt.NDArray[np.uint64]:
        """Return offsets and lengths, shape ``(n_chunks, 2)``, from the encoded index, or raise."""
        index = np.empty((*self.chunks_per_shard, 2), np.uint64)
        self.index_chain.open_decoder()(encoded, index)
        index = index.reshape(-1, 2)
        offsets, lengths = index[:, 0], index[:, 1]
        missing = (offsets == MISSING) & (lengths == MISSING)
        wrong = ~missing & ((offsets > _LARGEST) | (lengths > _LARGEST) | (offsets + lengths > _LARGEST))
        if wrong.any():
            entry = int(np.argmax(wrong))
            raise DataCorruptionError(
                f"Invalid shard index entry {entry} with offset={offsets[entry]}, length={lengths[entry]}"
            )
        return index

    def decode_shard(self, shard: memoryview) -> npt.NDArray[np.uint64]:
        """Return offsets and lengths from a complete shard, all of them inside it, or raise."""
        size = len(shard)
        if size < self.index_nbytes:
            raise DataCorruptionError(
                f"Existing shard has size of {size} bytes, but expected at least {self.index_nbytes} bytes"
            )
        part = shard[size - self.index_nbytes :] if self.at_end else shard[: self.index_nbytes]
        index = self.decode(part)
        stops = index[:, 0] + index[:, 1]
        beyond = (index[:, 0] != MISSING) & (stops > size)
        if beyond.any():
            entry = int(np.argmax(beyond))
            raise DataCorruptionError(
                f"Shard index entry {entry} with byte range [{index[entry, 0]}, {stops[entry]}) "
                f"is invalid for shard of size {size}"
            )
        return index

    def encode(self, index: npt.NDArray[np.uint64]) -> bytes:
        """Return the encoded form of offsets and lengths."""
        return bytes(self.index_chain.open_encoder()(index.reshape(*self.chunks_per_shard, 2)))

    def entry(self, position: int) -> str:
        """Return how messages name an inner chunk: ``shard entry {1, 1}/{2, 2}``."""
        place = np.unravel_index(position, self.chunks_per_shard) if self.chunks_per_shard else ()
        return f"shard entry {braced([int(i) for i in place])}/{braced(self.chunks_per_shard)}"


_NONE = (MISSING, MISSING)


class ShardBody:
    """Inner chunks, one after the other, and the index."""

    def __init__(self, layout: ShardLayout) -> None:
        self._layout = layout
        self._memory = memoryview(bytearray())
        self._entries: list[tuple[int, int]] = []  # where each begins and ends
        self._end = 0

    def clear(self) -> None:
        """Begin a new shard, without any inner chunk."""
        layout = self._layout
        self._entries = [_NONE] * layout.n_chunks
        self._end = 0 if layout.at_end else layout.index_nbytes

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
        layout, end = self._layout, self._end
        index = np.array(self._entries, np.uint64)
        present = index[:, 0] != MISSING
        if not present.any():
            return None
        index[present, 1] -= index[present, 0]
        new_index = layout.encode(index)
        if layout.at_end:
            stop = end + layout.index_nbytes
            if stop > len(self._memory):
                self._grow(stop, layout.n_chunks)
            self._memory[end:stop] = new_index
            return self._memory[:stop]
        self._memory[: layout.index_nbytes] = new_index
        return self._memory[:end]

    def _grow(self, nbytes: int, n_before: int) -> None:
        """Make room for `nbytes`, and for all inner chunks if they take as much as the first `n_before`."""
        used = self._end
        # What is never written to takes no memory.
        expected = used * self._layout.n_chunks * 9 // 8 // max(1, n_before)
        larger = np.empty(max(nbytes, len(self._memory) * 3 // 2, expected), np.uint8).data
        kept = min(used, len(self._memory))  # an index in front is not there yet
        larger[:kept] = self._memory[:kept]
        self._memory = larger
