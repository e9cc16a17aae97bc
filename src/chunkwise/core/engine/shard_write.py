"""Writes of inner chunks of shards; the unit is the shard.

1. The plan is made on the grid of inner chunks and grouped by shard.
2. If every inner chunk of a shard is overwritten entirely, the shard is made from the source alone.  Any
   other shard is read first, and stored on condition that it is unchanged.
3. Untouched inner chunks are copied undecoded; those touched in part are decoded and changed.  Inner chunks
   that equal the fill value are left out, and an empty shard is deleted.
4. The shard is written once, with inner chunks in C order.  A worker holds one shard at a time, as read and
   as it is being composed.
5. If there is only one shard, workers encode pieces of it, and the one that adds the last piece writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.threads import new_lock
from chunkwise.core.codec.sharding import MISSING, ShardBody, ShardLayout
from chunkwise.core.driver.stored_array import ShardLevel, StoredArray, shard_layout
from chunkwise.core.engine.chunk_codec import CodecLimit, Coder, open_fill_test
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool, Stop
from chunkwise.core.engine.strategy import write_strategy
from chunkwise.core.engine.update import (
    SingleValueStore,
    aligned,
    as_transactional,
    can_delete,
    change_alone,
    check_promise,
    defer,
    open_writer,
    replaceable,
)
from chunkwise.core.engine.write_batches import WriteBatches, write_chunks
from chunkwise.core.kvstore.protocol import Buffer, Readable, Writable, describe
from chunkwise.core.plan.partition import PlanAxis, Transform, is_indexed
from chunkwise.core.plan.plan import (
    ShardAxis,
    ShardRequest,
    chunk_order,
    plan_shards,
    plan_write,
    selections,
    shard_requests,
    split,
    split_shards,
    wholes,
)
from chunkwise.errors import DataCorruptionError, OutOfRangeError, UnsafeWriteError, prefix

__all__ = ["write_shards_from"]

Batch: TypeAlias = "tuple[ShardAxis, ...]"
Index: TypeAlias = "npt.NDArray[np.uint64]"


class _Store(Readable, Writable, Protocol):
    @property
    def identity(self) -> Hashable: ...


def write_shards_from(
    array: StoredArray,
    shard: ShardLevel,
    store: _Store,
    transform: Transform,
    source: npt.NDArray[Any],
    *,
    pool: Pool,
    store_fill: bool,
) -> Future[None]:
    """Store `source` in a sharded array, like `chunkwise.core.engine.write.write_from`."""
    plan = plan_write(transform, shard.grid)
    if plan.n_chunks == 0:
        return Future.ready(None)
    if as_transactional(store) is not None:
        source = source.copy()  # it is read again when the transaction is committed
    layout = shard_layout(array, shard)
    view = plan.layout.view(source, last=True)
    axes = plan_shards(plan.axes, layout.chunks_per_shard)
    n_shards = 1
    for axis in axes:
        n_shards *= axis.n_entries
    strategy = write_strategy(pool, store, shard.chain, n_shards, layout.n_chunks)
    pieces: list[Batch] = []
    if strategy.n_pieces > 1 and _all_in_order([axis.parts[0] for axis in axes], layout):
        pieces = split_shards(axes, strategy.n_pieces)
    limit = pool.codec_limit(0 if strategy.inline else strategy.n_workers)
    whole = _Pieces(layout, len(pieces)) if pieces else None

    def open_worker(stop: Stop) -> Callable[[Any], None]:
        writer = _ShardWriter(array, shard, layout, store, view, store_fill, stop, limit)
        return writer.write if whole is None else partial(writer.write_piece, whole)

    return pool.run(
        list(enumerate(pieces)) or split(axes, strategy.n_batches),
        open_worker,
        _nothing,
        n_workers=min(pool.n_workers, len(pieces)) or strategy.n_workers,
        n_threads=strategy.n_threads,
        inline=strategy.inline,
        writes=store.identity,
    )


def _all_in_order(axes: Sequence[PlanAxis], layout: ShardLayout) -> bool:
    """Return True if a plan overwrites all inner chunks of one shard entirely, in C order."""
    return prod(axis.n_entries for axis in axes) == layout.n_chunks and all(
        axis.dims == (dim,) and not axis.indexed and all(axis.whole) for dim, axis in enumerate(axes)
    )


def _nothing() -> None:
    return None


def _never(_: npt.NDArray[Any]) -> bool:
    return False


class _Pieces:
    """The pieces of a shard that several workers encode, joined in C order."""

    def __init__(self, layout: ShardLayout, n_pieces: int) -> None:
        self.body = ShardBody(layout)
        self._n_pieces = n_pieces
        self._early: dict[int, ShardBody] = {}  # pieces before which another one is missing
        self._next = 0
        self._lock = new_lock()
        self.body.clear()

    def add(self, number: int, piece: ShardBody) -> bool:
        """Add an encoded piece; return True if the shard is complete."""
        with self._lock:
            self._early[number] = piece
            while (found := self._early.pop(self._next, None)) is not None:
                self.body.extend(found)
                self._next += 1
            return self._next == self._n_pieces


class _ShardWriter:
    """Writes shards of one array, for one worker."""

    def __init__(
        self,
        array: StoredArray,
        shard: ShardLevel,
        layout: ShardLayout,
        store: _Store,
        view: npt.NDArray[Any],
        store_fill: bool,
        stop: Stop,
        limit: CodecLimit = None,
    ) -> None:
        self.array = array
        self.shard = shard
        self.chain = shard.chain
        self.layout = layout
        self.store = store
        self.identity = store.identity
        self.view = view
        self.stop = stop
        self.store_fill = store_fill
        self.later = as_transactional(store)
        self.coders: dict[tuple[int, ...], Coder] = {}
        self.body = ShardBody(layout)
        self.is_fill = _never if store_fill else open_fill_test(array.fill_value)
        self.context = ""
        self.position: int | None = None  # number of the current inner chunk, for messages
        self.batches = WriteBatches(shard.chain, view, regular=True, limit=limit)
        self.limit = limit
        self.writer = open_writer(store)

    def write(self, axes: Batch) -> None:
        """Write a product of shards."""
        for request in shard_requests(axes, self.array.keys):
            if self.stop:
                return
            with self.errors(request.key):
                self.write_shard(request)
        if self.writer is not None:
            self.writer.flush()

    def write_piece(self, whole: _Pieces, piece: tuple[int, Batch]) -> None:
        """Encode a piece of the only shard; write the shard if no other piece is missing."""
        number, axes = piece
        (request,) = shard_requests(axes, self.array.keys)
        with self.errors(request.key):
            body = ShardBody(self.layout)
            self.encode_whole(request, request.positions(), body, self.stop)
            if not self.stop and whole.add(number, body):
                self.put(request.key, whole.body.finish())
        if self.writer is not None:
            self.writer.flush()

    @contextmanager
    def errors(self, key: str) -> Iterator[None]:
        """Prefix errors with what was done, with the inner chunk, and with the shard."""
        try:
            yield
        except Exception as e:
            context = self.context
            if self.position is not None:
                context += f" {self.layout.entry(self.position)} in"
            raise prefix(e, f"Error {context} {describe(self.store, key)}") from e.__cause__

    def write_shard(self, request: ShardRequest) -> None:
        layout = self.layout
        positions = request.positions()
        is_whole = list(wholes(request.axes))
        if len(positions) == layout.n_chunks and all(is_whole):
            value = self.put_together(request, positions, is_whole, None, None)
            self.put(request.key, value)
            return
        if self.later is None:
            self.change(request, positions, is_whole)
            return

        def do(store: SingleValueStore) -> None:
            writer = _ShardWriter(self.array, self.shard, layout, store, self.view, self.store_fill, [])
            writer.change(request, positions, is_whole)

        self.context, self.position = "writing", None
        defer(self.later, request.key, do)

    def put(self, key: str, value: Buffer | None) -> None:
        """Store a shard that replaces whatever is there; None if it has no inner chunks."""
        self.context, self.position = "writing", None
        target = self.store if self.writer is None else self.writer
        if value is None:
            target.delete(key)
        else:
            target.write(key, value)

    def encode_whole(
        self, request: ShardRequest, positions: npt.NDArray[np.int64], body: ShardBody, stop: Stop
    ) -> None:
        """Encode inner chunks that are overwritten entirely, in C order, to a new `body`."""
        self.context = "writing"
        body.clear()
        sink = _BodySink(body, self.is_fill)
        try:
            write_chunks(self.batches.batches(request.axes, positions.tolist()), sink, stop)
        finally:
            self.position = sink.position

    def change(self, request: ShardRequest, positions: npt.NDArray[np.int64], is_whole: list[bool]) -> None:
        """Overwrite a part of a stored shard; other writers' simultaneous changes are not lost."""
        store, layout = self.store, self.layout

        def attempt() -> bytes | None:
            self.context, self.position = "reading", None
            stored = store.read(request.key)
            old = index = None
            if stored.value is not None:
                old = memoryview(stored.value).cast("B")
                try:
                    index = layout.decode_shard(old)
                except (DataCorruptionError, OutOfRangeError) as e:
                    if not self.covers(request, positions):
                        raise replaceable(DataCorruptionError(e.message)) from e.__cause__
                    old = None
            value = self.put_together(request, positions, is_whole, old, index)
            self.context, self.position = "writing", None
            if value is None and old is not None and not can_delete(store):
                value = layout.encode(np.full((layout.n_chunks, 2), MISSING, np.uint64))
            if value is None:
                done = old is None or store.delete(request.key, if_equal=stored.generation) is not None
            else:
                check_promise(store, request.key)
                done = store.write(request.key, value, if_equal=stored.generation) is not None
            return None if done else stored.generation

        try:
            change_alone(store, self.identity, request.key, attempt)
        except UnsafeWriteError as e:
            raise aligned(e, self.array.grid.chunk_shape) from e.__cause__

    def covers(self, request: ShardRequest, positions: npt.NDArray[np.int64]) -> bool:
        """Return True if all elements of a shard that are in the array are overwritten."""
        shape, grid = self.array.shape, self.shard.grid
        coder = self.coder(request)
        parts = dict(zip(positions.tolist(), selections(request.axes)[0], strict=True))
        for position in range(self.layout.n_chunks):
            cell = self.cell(request.key, position)
            if all(grid.bounds(dim, number)[0] < shape[dim] for dim, number in enumerate(cell)):
                inside = parts.get(position)
                if inside is None or not coder.covers(inside, grid, cell, shape):
                    return False
        return True

    def cell(self, key: str, position: int) -> list[int]:
        """Return the cell of an inner chunk in the grid of inner chunks."""
        per_shard = self.layout.chunks_per_shard
        outer = self.array.keys.cell(key, len(per_shard))
        assert outer is not None, "it is the key of a shard"
        within = np.unravel_index(position, per_shard)
        return [o * n + int(i) for o, n, i in zip(outer, per_shard, within, strict=True)]

    def coder(self, request: ShardRequest) -> Coder:
        """Return the coder for inner chunks in the order of a plan."""
        order = chunk_order(request.axes)
        return self.coders.get(order) or self.coders.setdefault(
            order, Coder(self.chain, order, limit=self.limit)
        )

    def put_together(
        self,
        request: ShardRequest,
        positions: npt.NDArray[np.int64],
        is_whole: list[bool],
        old: memoryview | None,
        index: Index | None,
    ) -> Buffer | None:
        """Return the new shard, valid until the next call, or None if all inner chunks are missing."""
        layout = self.layout
        self.context = "writing"
        if old is None and _all_in_order(request.axes, layout):
            self.encode_whole(request, positions, self.body, [])
            return self.body.finish()
        chunk_at, out_at = map(list, selections(request.axes))
        coder = self.coder(request)
        indexed = is_indexed(request.axes)
        numbers = dict(zip(positions.tolist(), range(len(positions)), strict=True))
        body = self.body
        body.clear()
        stored = [(MISSING, MISSING)] * layout.n_chunks if index is None else index.tolist()
        for position, (offset, length) in enumerate(stored):
            number = numbers.get(position)
            encoded: Buffer | None = None
            if old is not None and offset != MISSING:
                encoded = old[offset : offset + length]
            if number is not None:
                encoded = self.encode(
                    coder,
                    request.key,
                    position,
                    encoded,
                    chunk_at[number],
                    self.view[out_at[number]],
                    whole=is_whole[number],
                    indexed=indexed,
                )
            if encoded is not None:
                body.append(position, encoded)
        return body.finish()

    def encode(
        self,
        coder: Coder,
        key: str,
        position: int,
        before: Buffer | None,
        inside: tuple[Any, ...],
        values: npt.NDArray[Any],
        *,
        whole: bool,
        indexed: bool,
    ) -> Buffer | None:
        """Return an inner chunk with `values` inserted, or None if it need not be stored."""
        self.position = position
        if whole and not indexed:
            chunk = values
        else:
            chunk = coder.scratch
            if not whole:
                if before is None:
                    chunk[...] = self.array.fill_value
                else:
                    self.context = "reading"
                    try:
                        coder.decode(before, chunk)
                    except DataCorruptionError as e:
                        cell = self.cell(key, position)
                        if not coder.covers(inside, self.shard.grid, cell, self.array.shape):
                            raise replaceable(e) from e.__cause__
                        chunk[...] = self.array.fill_value
                    self.context = "writing"
            coder.ordered[inside] = values
        if self.is_fill(chunk):
            return None
        return coder.encode(chunk)


class _BodySink:
    """The body of a shard whose inner chunks are all overwritten, in ascending order."""

    def __init__(self, body: ShardBody, is_fill: Callable[[npt.NDArray[Any]], bool]) -> None:
        self._body = body
        self.is_fill = is_fill
        self.position: int | None = None  # number of the inner chunk that failed

    def write(self, name: int, encoded: Buffer) -> None:
        """Append an inner chunk."""
        self._body.append(name, encoded)

    def delete(self, name: int) -> None:
        """Leave an inner chunk out."""

    def change(self, name: int, coder: Coder, inside: tuple[Any, ...], values: npt.NDArray[Any]) -> None:
        """Never called, since each inner chunk is whole."""
        raise AssertionError("a whole shard has no inner chunk that is changed in part")

    def failed(self, error: Exception, name: int) -> Exception:
        """Remember which inner chunk failed."""
        self.position = name
        return error
