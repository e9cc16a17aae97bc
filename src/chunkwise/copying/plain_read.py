"""A plain reader of chunks: one key after the other, one codec after the other.

`verify` uses it.  It shares codecs and shard indexes with the fast readers, but none of their shortcuts, so a
mistake in those can't hide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.arrays.chunked import ChunkedArray
from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.decode import Stages, open_general_decoder
from chunkwise.core.codec.protocol import (
    Buffer,
    DecodeInto,
    PreparedChain,
    byte_view,
    compressors_have_checksum,
)
from chunkwise.core.codec.sharding import MISSING, ShardLayout
from chunkwise.core.driver.stored_array import ShardLevel, StoredArray, failed, missing_chunk, shard_layout
from chunkwise.core.grid import ChunkGrid
from chunkwise.core.index_space import IndexTransform, OutputIndexMap
from chunkwise.core.kvstore.protocol import Readable, describe
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.plan.ndarray_view import strided_view
from chunkwise.extension.inside import hold, release

__all__ = ["Piece", "PlainReader", "read_plainly"]

Array = npt.NDArray[Any]

_INDEX = "shard index"
_AT_ONCE = 32  # values that are kept at a time; as many as a server is asked for, unless told otherwise


class Piece(NamedTuple):
    """A stored chunk, an inner chunk of a shard, or the index of a shard if that is damaged."""

    name: str  # of an inner chunk, or ``"shard index"``; empty for a chunk that is a value by itself
    at: tuple[slice, ...]  # its box in the cell
    elements: Array | None  # None if it can't be decoded
    covered: bool  # True if it has a checksum, which matched
    error: Exception | None

    @property
    def is_chunk(self) -> bool:
        """True unless it is the index of a shard."""
        return self.name != _INDEX


class PlainReader:
    """Reads chunks of one array; for one thread."""

    def __init__(self, array: StoredArray, store: Readable, n_at_once: int = _AT_ONCE) -> None:
        self._array, self._store, self._n_at_once = array, store, n_at_once
        self._layout: ShardLayout | None = None
        self._decoders: dict[tuple[int, ...], tuple[Stages, DecodeInto]] = {}
        if array.shard is not None:
            self._layout = shard_layout(array, array.shard)

    def fetch(self, key: str) -> Buffer | None:
        """Return the stored value, or None."""
        array = self._array
        [before] = map(hold, (array.chain.bound if array.grid.chunk_shape is not None else None,))
        try:
            return self._store.read(key).value
        finally:
            release(before)

    def pieces(self, cell: Sequence[int], value: Buffer) -> Iterator[Piece]:
        """Yield the parts of a stored value at `cell`: one chunk, or the inner chunks of a shard."""
        bounds = [self._array.grid.bounds(dim, number) for dim, number in enumerate(cell)]
        shape = tuple(stop - start for start, stop in bounds)
        shard = self._array.shard
        if shard is None:
            n_inner = 0 if self._array.field is None else len(self._array.field.shape)
            chain = self._array.chain
            inner = shape[: len(shape) - n_inner]
            yield self._piece("", tuple(slice(0, n) for n in shape), chain, inner, value)
        else:
            yield from self._inner(shard, shape, byte_view(value))

    def _inner(self, shard: ShardLevel, shape: tuple[int, ...], value: memoryview) -> Iterator[Piece]:
        layout, size = self._layout, shard.grid.chunk_shape
        assert layout is not None and size is not None, "it was opened for shards"
        try:
            index = layout.decode_shard(value)
        except Exception as e:
            yield Piece(_INDEX, tuple(slice(0, n) for n in shape), None, False, e)
            return
        for position in np.flatnonzero(index[:, 0] != MISSING).tolist():
            offset, length = map(int, index[position])
            place = np.unravel_index(position, layout.chunks_per_shard) if shape else ()
            at = tuple(slice(int(i) * n, (int(i) + 1) * n) for i, n in zip(place, size, strict=True))
            yield self._piece(layout.entry(position), at, shard.chain, size, value[offset : offset + length])

    def _piece(
        self, name: str, at: tuple[slice, ...], chain: PreparedChain, shape: tuple[int, ...], value: Buffer
    ) -> Piece:
        try:
            known = self._decoders.get(shape)
            if known is None:
                stages = prepare_chain(chain.codecs, chain.item._replace(shape=shape)).stages
                known = self._decoders[shape] = stages, open_general_decoder(stages)
            stages, decode = known
            elements = np.empty(shape, chain.item.dtype)
            decode(value, elements)
            covered = _has_checksum(stages, value)
        except Exception as e:
            return Piece(name, at, None, False, e)
        field = self._array.field
        return Piece(name, at, elements if field is None else field.select(elements), covered, None)

    def _values(
        self, cells: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[tuple[int, ...], str, Buffer | None]]:
        """Yield cells with their keys and stored values; a slow store is asked for several at a time."""
        for first in range(0, len(cells), self._n_at_once):
            batch = cells[first : first + self._n_at_once]
            keys = [self._array.keys.key(cell[: self._array.grid.rank]) for cell in batch]
            yield from zip(batch, keys, self._fetched(keys), strict=True)

    def _fetched(self, keys: Sequence[str]) -> Iterable[Buffer | None]:
        # Python's own threads, since the engine's belong to the code under test.
        concurrency = traits_of(self._store).request_concurrency
        if concurrency is None or len(keys) < 2:
            return map(self.fetch, keys)
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(concurrency, len(keys))) as threads:
            return list(threads.map(self.fetch, keys))

    def read(self, start: Sequence[int], stop: Sequence[int], *, fill_missing: bool = True) -> Array:
        """Return the elements of a box of storage coordinates in the array; raise if a chunk is damaged."""
        array, grid = self._array, self._array.grid
        shape = tuple(b - a for a, b in zip(start, stop, strict=True))
        out = np.empty(shape, array.numpy_dtype)
        out[...] = array.fill_value
        along = [_cells(grid, dim, a, b) for dim, (a, b) in enumerate(zip(start, stop, strict=True))]
        for cell, key, value in self._values(list(product(*along))):
            if value is None:
                if not fill_missing:
                    raise missing_chunk(cell, describe(self._store, key))
                continue
            lows = [grid.bounds(dim, number)[0] for dim, number in enumerate(cell)]
            for piece in self.pieces(cell, value):
                if piece.elements is None:
                    assert piece.error is not None
                    raise failed(piece.error, "reading", self._store, array, key) from piece.error.__cause__
                inside, place = _overlap(lows, piece.at, start, stop)
                out[place] = piece.elements[inside]
        return out


def _has_checksum(stages: Stages, encoded: Buffer) -> bool:
    """Return True if a checksum in `encoded` covers all values of the chunk."""
    view = byte_view(encoded)
    if stages.compressors:
        return compressors_have_checksum(stages.compressors, view)
    return stages.serializer.has_checksum(view)


def _cells(grid: ChunkGrid, dim: int, start: int, stop: int) -> range:
    return range(grid.cell(dim, start)[0], grid.cell(dim, stop - 1)[0] + 1) if stop > start else range(0)


def _overlap(
    lows: Sequence[int], at: Sequence[slice], start: Sequence[int], stop: Sequence[int]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the part of a piece that lies in a box, and its position there."""
    inside, place = [], []
    for low, part, a, b in zip(lows, at, start, stop, strict=True):
        first, last = low + part.start, low + part.stop
        begin = max(first, a)
        end = max(begin, min(last, b))
        inside.append(slice(begin - first, end - first))
        place.append(slice(begin - a, end - a))
    return (*inside, ...), (*place, ...)


def read_plainly(view: TensorStore, n_at_once: int = _AT_ONCE) -> npt.NDArray[Any]:
    """Return the elements of `view`; a slow store is asked for `n_at_once` values."""
    # A virtual array has no chunks that could be read one by one; what index arrays select has no box.
    array = view._array
    if not isinstance(array, ChunkedArray) or any(m.index_array is not None for m in view._transform.output):
        return view.read().result()
    transform = array.in_grid(array.bounded(view._transform))
    low, shape = transform.input_inclusive_min, transform.input_shape
    start, stop, shifted = [], [], []
    for m in transform.output:
        first = last = m.offset
        if m.input_dimension is not None and m.stride is not None:
            lowest, n = low[m.input_dimension], shape[m.input_dimension]
            first, last = sorted(m.offset + m.stride * i for i in (lowest, lowest + n - 1))
        start.append(first)
        stop.append(max(first, last + 1))
        shifted.append(_shifted(m, first))
    reader = PlainReader(array.stored, array.store, n_at_once)
    box = reader.read(start, stop, fill_missing=array.fill_missing)
    inside = IndexTransform(input_inclusive_min=low, input_shape=shape, output=shifted)
    found = strided_view(box, inside)
    assert found is not None, "there are no index arrays"
    return found


def _shifted(m: OutputIndexMap, by: int) -> OutputIndexMap:
    """Return `m` for an array that begins at `by`."""
    if m.stride is None or m.input_dimension is None:
        return OutputIndexMap(offset=m.offset - by)
    return OutputIndexMap(offset=m.offset - by, stride=m.stride, input_dimension=m.input_dimension)
