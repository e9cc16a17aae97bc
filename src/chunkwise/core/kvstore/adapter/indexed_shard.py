"""A shard of Zarr v3 with a key for each cell of its grid of inner chunks.

Specification
-------------
Zarr v3 codec *sharding_indexed*, "Binary shard format".  A key has the cell's index along each dimension as
4 bytes, most significant first, as in TensorStore.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.adapter.sharded import Place, ShardReader
from chunkwise.core.kvstore.key_range import decode_key, encode_key
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.errors import DataCorruptionError, InvalidArgumentError, braced

__all__ = ["IndexedShard", "Layout"]


class Layout(Protocol):
    """The layout of the shard: `chunkwise.core.codec.sharding.ShardLayout`."""

    @property
    def chunks_per_shard(self) -> tuple[int, ...]: ...
    @property
    def index_nbytes(self) -> int: ...
    @property
    def at_end(self) -> bool: ...
    def decode(self, encoded: Buffer) -> npt.NDArray[np.uint64]: ...
    def decode_shard(self, shard: memoryview) -> npt.NDArray[np.uint64]: ...
    def present(self, index: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]: ...
    def bounds(self, index: npt.NDArray[np.uint64], position: int) -> tuple[int, int] | None: ...
    def encode_shard(self, chunks: Mapping[int, Buffer]) -> Buffer: ...
    def entry(self, position: int) -> str: ...


class _Index(NamedTuple):
    layout: Layout
    table: npt.NDArray[np.uint64]  # offsets and lengths

    @property
    def nbytes(self) -> int:
        return self.table.nbytes

    def find(self, entry: int) -> tuple[int, int] | None:
        return self.layout.bounds(self.table, entry)


@dataclass(frozen=True)
class IndexedShard:
    """A `chunkwise.core.kvstore.adapter.sharded.ShardFormat` of a single shard, whose name is empty.

    The entries are the cells of the grid, in C order.
    """

    layout: Layout = field(compare=False)
    members: str  # the spec as JSON: equal for equal layouts

    stored_as_is: ClassVar[bool] = True

    def place(self, key: str) -> Place:
        """Return the place of the cell; there is one shard, with one index."""
        raw, cells = encode_key(key), self.layout.chunks_per_shard
        index = struct.unpack(f">{len(cells)}I", raw) if len(raw) == 4 * len(cells) else None
        if index is None or any(i >= n for i, n in zip(index, cells, strict=True)):
            raise InvalidArgumentError(
                f"Invalid key (grid_shape={braced(cells)}): {dump(key)}; expected the index of a cell "
                "along each dimension, as 4 bytes, most significant first"
            )
        entry = 0
        for i, n in zip(index, cells, strict=True):
            entry = entry * n + i
        return Place("", 0, entry)

    def key(self, entry: int) -> str:
        """Return the key of a cell."""
        cells = self.layout.chunks_per_shard
        index = np.unravel_index(entry, cells) if cells else ()
        return decode_key(struct.pack(f">{len(cells)}I", *index))

    def describe(self, place: Place) -> str:
        """Name the cell."""
        return self.layout.entry(place.entry)

    def shards(self, names: Callable[[], Iterable[str]]) -> Iterable[str]:
        """Return the one name."""
        return ("",)

    def read_index(self, part: int, read: ShardReader) -> _Index | None:
        """Return the index.

        If the index is at the end, a second request, of no bytes, checks that no entry overlaps it.
        """
        layout, nbytes = self.layout, self.layout.index_nbytes
        encoded = read(-nbytes, None) if layout.at_end else read(0, nbytes)
        if encoded is None:
            return None
        table = layout.decode(encoded)
        with_bytes = layout.present(table)
        with_bytes = with_bytes[table[with_bytes, 1] > 0]
        if not len(with_bytes):
            return _Index(layout, table)
        starts = table[with_bytes, 0]
        if layout.at_end:
            stops = starts + table[with_bytes, 1]
            last = int(stops.max())
            try:
                read(last + nbytes, last + nbytes)
            except DataCorruptionError:
                where = layout.entry(int(with_bytes[np.argmax(stops)]))
                raise DataCorruptionError(
                    f"{where} ends at byte {last}, in the index or beyond the shard"
                ) from None
        elif int(starts.min()) < nbytes:
            where = layout.entry(int(with_bytes[np.argmin(starts)]))
            raise DataCorruptionError(
                f"{where} begins at byte {starts.min()}, in the index of {nbytes} bytes"
            )
        return _Index(layout, table)

    def read_entries(self, read: ShardReader) -> Iterable[int]:
        """Return the cells that have a value, in order."""
        index = self.read_index(0, read)
        return () if index is None else self.layout.present(index.table).tolist()

    def decode_shard(self, shard: Buffer) -> dict[int, Buffer]:
        """Return all values."""
        view = memoryview(shard)
        table = self.layout.decode_shard(view)
        entries: dict[int, Buffer] = {}
        for position in self.layout.present(table).tolist():
            start, size = table[position].tolist()
            entries[position] = view[start : start + size]
        return entries

    def encode_shard(self, entries: Mapping[int, Buffer]) -> Buffer:
        """Return the shard with the given values."""
        return self.layout.encode_shard(entries)

    def decode(self, stored: Buffer) -> Buffer:
        """Return the value, which is stored unchanged."""
        return stored

    def encode(self, value: Buffer) -> bytes:
        """Return a copy of the value."""
        return bytes(value)
