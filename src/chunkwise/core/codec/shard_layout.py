"""The layout of shards: their inner chunks and index.

Source: Zarr v3 codec *sharding_indexed*, "Binary shard format".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.codec.chain import Chain, prepare_chain
from chunkwise.core.codec.protocol import Buffer, ChunkSpec, Codec, PreparedChain
from chunkwise.errors import DataCorruptionError, InvalidArgumentError, braced

__all__ = ["MISSING", "ShardBody", "ShardLayout", "index_chain"]

MISSING = 2**64 - 1
"""Offset and length in the index of an inner chunk that is not stored."""
_LARGEST = 2**63 - 1


class ShardLayout(NamedTuple):
    """The layout that all shards of an array share."""

    chunks_per_shard: tuple[int, ...]  # inner chunks along each dimension
    n_chunks: int  # their product
    index_chain: PreparedChain
    index_nbytes: int  # encoded size of the index
    at_end: bool  # True if the index is at the end of the shard, otherwise at the start

    @classmethod
    def of(cls, cells: tuple[int, ...], index_codecs: PreparedChain, *, at_end: bool) -> Self:
        """Return the layout with `cells` inner chunks for each dimension; raise if the index size varies."""
        nbytes = index_codecs.encoded_nbytes
        if nbytes is None:
            raise InvalidArgumentError(
                "Invalid index_codecs specified: only fixed-size encodings are supported"
            )
        return cls(cells, prod(cells), index_codecs, nbytes, at_end)

    def decode(self, encoded: Buffer) -> npt.NDArray[np.uint64]:
        """Return offsets and lengths, shape ``(n_chunks, 2)``, from the encoded index, or raise."""
        return self.open_index_decoder()(encoded)

    def open_index_decoder(self) -> Callable[[Buffer], npt.NDArray[np.uint64]]:
        """Return `decode` as a function for one worker."""
        decode_index, shape = self.index_chain.open_decoder(), (*self.chunks_per_shard, 2)

        def decode(encoded: Buffer) -> npt.NDArray[np.uint64]:
            index = np.empty(shape, np.uint64)
            decode_index(encoded, index)
            index = index.reshape(-1, 2)
            if index.size and index.max() >= _LARGEST >> 1:  # otherwise all entries are present
                self._check(index)
            return index

        return decode

    def _check(self, index: npt.NDArray[np.uint64]) -> None:
        offsets, lengths = index[:, 0], index[:, 1]
        missing = (offsets == MISSING) & (lengths == MISSING)
        wrong = ~missing & ((offsets > _LARGEST) | (lengths > _LARGEST) | (offsets + lengths > _LARGEST))
        if wrong.any():
            entry = int(np.argmax(wrong))
            raise DataCorruptionError(
                f"Invalid shard index entry {entry} with offset={offsets[entry]}, length={lengths[entry]}"
            )

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
        first, last = (0, size - self.index_nbytes) if self.at_end else (self.index_nbytes, size)
        overlaps = (index[:, 0] != MISSING) & (index[:, 1] > 0) & ((index[:, 0] < first) | (stops > last))
        if overlaps.any():
            entry = int(np.argmax(overlaps))
            raise DataCorruptionError(
                f"Shard index entry {entry} with byte range [{index[entry, 0]}, {stops[entry]}) "
                f"overlaps the index, which leaves [{first}, {last})"
            )
        return index

    def place(self, cell: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """Return the shard's cell of an inner chunk, and the chunk's position in the shard."""
        shard, position = [], 0
        for number, count in zip(cell, self.chunks_per_shard, strict=True):
            outer, inner = divmod(number, count)
            shard.append(outer)
            position = position * count + inner
        return tuple(shard), position

    def present(self, index: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
        """Return the positions of the inner chunks that are stored, in order."""
        return np.flatnonzero(index[:, 0] != MISSING)

    def bounds(self, index: npt.NDArray[np.uint64], position: int) -> tuple[int, int] | None:
        """Return the byte range of an inner chunk in the shard; None if it is not stored."""
        start, size = index[position].tolist()
        return None if start == MISSING else (start, start + size)

    def encode_shard(self, chunks: Mapping[int, Buffer]) -> bytes:
        """Return the shard with the given encoded inner chunks, by position; others are missing."""
        index = np.full((self.n_chunks, 2), MISSING, np.uint64)
        end = 0 if self.at_end else self.index_nbytes
        parts = [chunks[position] for position in sorted(chunks)]
        for position, part in zip(sorted(chunks), parts, strict=True):
            index[position] = end, len(part)
            end += len(part)
        encoded = self.encode(index)
        return b"".join([*parts, encoded] if self.at_end else [encoded, *parts])

    def encode(self, index: npt.NDArray[np.uint64]) -> bytes:
        """Return the encoded form of offsets and lengths."""
        return bytes(self.index_chain.open_encoder()(index.reshape(*self.chunks_per_shard, 2)))

    def entry(self, position: int) -> str:
        """Return the name of an inner chunk in messages: ``shard entry {1, 1}/{2, 2}``."""
        place = np.unravel_index(position, self.chunks_per_shard) if self.chunks_per_shard else ()
        return f"shard entry {braced([int(i) for i in place])}/{braced(self.chunks_per_shard)}"


def index_chain(codecs: Sequence[Codec], cells: tuple[int, ...]) -> Chain:
    """Return the chain of the index, a uint64 array of shape ``(*cells, 2)``."""
    fill = np.array(MISSING, np.uint64)
    return prepare_chain(codecs, ChunkSpec((*cells, 2), fill.dtype, fill))


_NONE = (MISSING, MISSING)


class ShardBody:
    """Collects inner chunks, one after the other, and the index."""

    def __init__(self, layout: ShardLayout) -> None:
        self._layout = layout
        self._memory = memoryview(bytearray())
        self._entries: list[tuple[int, int]] = []  # start and end of each
        self._end = 0

    def clear(self) -> None:
        """Begin a new shard, without any inner chunk."""
        layout = self._layout
        self._entries = [_NONE] * layout.n_chunks
        self._end = 0 if layout.at_end else layout.index_nbytes

    def append(self, position: int, encoded: Buffer) -> None:
        """Append the inner chunk `position`; positions ascend."""
        end = self._end
        stop = end + (encoded.nbytes if type(encoded) is memoryview else len(encoded))
        if stop > len(self._memory):
            self._grow(stop, position)
        self._memory[end:stop] = encoded
        self._entries[position] = (end, stop)
        self._end = stop

    def extend(self, other: ShardBody) -> None:
        """Append the inner chunks of `other`, whose positions follow."""
        for position, (start, stop) in enumerate(other._entries):
            if start != MISSING:
                self.append(position, other._memory[start:stop])

    def finish(self) -> Buffer | None:
        """Return the shard with its index, valid until the next begins; None without inner chunks."""
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
        """Make room for `nbytes`, and for all inner chunks at the average size of the first `n_before`."""
        used = self._end
        # Pages that are never written to take no memory.
        expected = used * self._layout.n_chunks * 9 // 8 // max(1, n_before)
        larger = np.empty(max(nbytes, len(self._memory) * 3 // 2, expected), np.uint8).data
        kept = min(used, len(self._memory))  # an index at the start is not there yet
        larger[:kept] = self._memory[:kept]
        self._memory = larger
