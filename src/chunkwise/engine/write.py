"""Writing the caller's memory to the chunks that a plan names.

1. The plan is made, and the source looked at in its order.
2. A chunk of which every element is overwritten is encoded straight from the source and stored, without
   a look at what was there; corrupt data is replaced that way.
3. Any other chunk is read, decoded, changed and stored on condition that its generation is still the
   one that was read; otherwise it is done again.  So writers of different elements lose nothing.  What
   lies in a chunk beyond the bounds of the array is kept, and counts as not overwritten.
4. A chunk that equals the fill value everywhere is deleted, unless it must be stored, or was changed in a
   store that can't promise to delete only what was read.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

import numpy.typing as npt

from chunkwise.driver.stored_array import StoredArray
from chunkwise.engine.change import Changer, ReadWritable, as_modifiable, open_writer
from chunkwise.engine.chunk_codec import Coder, open_coders
from chunkwise.engine.deferred import OneValue, defer
from chunkwise.engine.failure import failed
from chunkwise.engine.future import Future
from chunkwise.engine.pool import Pool, Stop
from chunkwise.engine.row_write import write_rows
from chunkwise.engine.runs import Gather
from chunkwise.engine.sent_writes import SentWrites, open_sent_writes
from chunkwise.engine.shard_write import write_shards_from
from chunkwise.engine.turns import Turns, in_turn, open_turns
from chunkwise.engine.workers import sent_load, write_load
from chunkwise.kvstore.protocol import Buffer, Writer
from chunkwise.plan.axis import PlanAxis
from chunkwise.plan.partition import Transform
from chunkwise.plan.plan import chunk_order, extents, keys, plan_write, selections, wholes
from chunkwise.plan.split import split

__all__ = ["ReadWritable", "write_from"]

Batch: TypeAlias = "tuple[PlanAxis, ...]"


def write_from(
    array: StoredArray,
    kv: ReadWritable,
    transform: Transform,
    source: npt.NDArray[Any],
    *,
    pool: Pool,
    store_data_equal_to_fill_value: bool = False,
) -> Future[None]:
    """Store `source` where `transform` says; the future is done when all of it is stored.

    Parameters
    ----------
    array : StoredArray
        The array, as it lies in `kv`.
    kv : ReadWritable
        Where its keys are.
    transform : Transform
        From the domain of the request to storage coordinates, none of which is outside the array.
        Of several values for one element the last, in C order of the domain, is stored.
    source : ndarray
        Of the shape of the domain and the dtype of the array, with any strides, broadcast ones too.
        It must not change before the future is done.
    pool : Pool
        Who works on it, unless it is small.
    store_data_equal_to_fill_value : bool
        Whether chunks without anything but the fill value are stored too.

    Raises
    ------
    OutOfRangeError
        If a rectilinear grid ends before the coordinates that are written.

    The future fails with what the store or a codec raised, with ``Error writing <key>`` in front, or
    ``Error reading <key>`` for a chunk that can't be read to be changed.  Other chunks may be stored then.
    """
    assert source.dtype == array.numpy_dtype, f"source of {source.dtype} for an array of {array.numpy_dtype}"
    assert source.shape == tuple(transform.input_shape), f"source of shape {source.shape} for {transform}"
    store_fill = store_data_equal_to_fill_value or array.store_fill_chunks
    if array.shard is not None:
        return write_shards_from(array, array.shard, kv, transform, source, pool=pool, store_fill=store_fill)
    plan = plan_write(transform, array.grid)
    if plan.n_chunks == 0:
        return Future.ready(None)
    if as_modifiable(kv) is not None:
        source = source.copy()  # it is looked at again when the transaction is committed
    view = plan.layout.view(source, last=True)
    sent = open_sent_writes(array, kv, plan.axes, plan.n_chunks, pool.n_workers)
    if sent is not None:
        return _write_sent(array, kv, plan.axes, view, sent, pool, store_fill=store_fill)
    load = write_load(pool, kv, array.chain, plan.n_chunks, view=view)

    turns = open_turns(load.n_workers, pool.n_workers)

    def open_worker(stop: Stop) -> Callable[[Batch], None]:
        return _Writer(array, kv, view, store_fill, stop, turns=turns).write

    batches = split(plan.axes, load.n_batches, load.n_workers, load.smaller)
    return pool.run(batches, open_worker, _nothing, n_workers=load.n_workers, inline=load.inline)


def _write_sent(
    array: StoredArray,
    kv: ReadWritable,
    axes: Batch,
    view: npt.NDArray[Any],
    sent: SentWrites,
    pool: Pool,
    *,
    store_fill: bool,
) -> Future[None]:
    """Encode whole chunks here and have them stored meanwhile."""

    def open_worker(stop: Stop) -> Callable[[Batch], None]:
        return _Writer(array, kv, view, store_fill, stop, writer=sent).write

    load = sent_load(pool, array.chain, prod(axis.n_entries for axis in axes), view)
    batches = split(axes, load.n_batches)
    return pool.run(batches, open_worker, sent.finish, n_workers=load.n_workers, settle=sent.settle)


def _nothing() -> None:
    return None


class _Writer:
    """One worker."""

    def __init__(
        self,
        array: StoredArray,
        kv: ReadWritable,
        view: npt.NDArray[Any],
        store_fill: bool,
        stop: Stop,
        *,
        turns: Turns | None = None,
        writer: Writer | None = None,
    ) -> None:
        self.array = array
        self.kv = kv
        self.view = view
        self.stop = stop
        self.turns = turns
        self.store_fill = store_fill
        self.changer = Changer(array, kv, store_fill=store_fill)
        self.is_fill = self.changer.is_fill
        self.later = as_modifiable(kv)
        self.coders: dict[tuple[int, ...], Callable[[tuple[int, ...]], Coder]] = {}
        self.gather = Gather(array.chain, view)
        # chunks that are overwritten entirely; the rest needs generations
        writer = writer or open_writer(kv)
        self.store: Callable[[str, Buffer], Any] = kv.write if writer is None else writer.write
        self.delete: Callable[[str], Any] = kv.delete if writer is None else writer.delete
        self.flush: Callable[[], None] = _nothing if writer is None else writer.flush

    def write(self, axes: Batch) -> None:
        """Write a product of parts of the connected sets."""
        array, kv, view, is_fill, stop = self.array, self.kv, self.view, self.is_fill, self.stop
        store, delete = self.store, self.delete
        order = chunk_order(axes)
        coder_for = self.coders.get(order) or self.coders.setdefault(
            order, open_coders(array.chain, order, array.part)
        )
        chunk_at, out_at = selections(axes)
        shapes, all_keys = extents(axes), keys(axes, array.keys)
        in_order = not any(axis.indexed for axis in axes)
        entire = array.part is None  # of a record there is always something that stays
        key = ""
        try:
            if entire and array.grid.chunk_shape is not None and in_order and all(all(a.whole) for a in axes):
                shape = array.grid.chunk_shape
                runs = self.gather.chunks(axes)
                if runs is not None:
                    compress, chunks = runs
                    nbytes = array.chain.item.nbytes
                    for key in write_rows(chunks, all_keys, compress, nbytes, is_fill, store, delete):  # noqa: B007
                        if stop:
                            return
                    self.flush()
                    return
                encode = in_turn(coder_for(shape).encode, self.turns)
                for key, at in zip(all_keys, out_at, strict=True):
                    if stop:
                        return
                    chunk = view[at]
                    if is_fill(chunk):
                        delete(key)
                    else:
                        store(key, encode(chunk))
                self.flush()
                return
            for key, shape, inside, at, whole in zip(
                all_keys, shapes, chunk_at, out_at, wholes(axes), strict=True
            ):
                if stop:
                    return
                coder = coder_for(shape)
                if not (whole and entire):
                    self.change(key, coder, inside, view[at])
                    continue
                if in_order:
                    chunk = view[at]
                else:
                    coder.ordered[inside] = view[at]
                    chunk = coder.scratch
                if is_fill(chunk):
                    delete(key)
                else:
                    store(key, coder.encode(chunk))
            self.flush()
        except Exception as e:
            raise failed(e, self.changer.operation, kv, array, key) from e.__cause__

    def change(self, key: str, coder: Coder, inside: tuple[Any, ...], values: npt.NDArray[Any]) -> None:
        """Overwrite a part of a stored chunk; what another writer stores meanwhile is not lost."""
        if self.later is not None:

            def do(store: OneValue) -> None:
                _Writer(self.array, store, self.view, self.store_fill, []).change(
                    key, coder.again(), inside, values
                )

            defer(self.later, key, do)
            return
        self.changer.change(key, coder, inside, values)
