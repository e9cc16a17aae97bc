"""Reading what a plan names into the caller's memory.

1. The plan is made, and the result looked at in its order.
2. The plan is cut into batches of neighbours; each is a product of parts of the connected sets.
3. A worker opens its reader and decoder once, and chooses one of four loops for each batch: runs of
   chunks, whole chunks, slices, or anything (index arrays, chunks of several shapes).
4. Small chunks are decoded to memory of the worker, and what is selected of them is copied to the result
   a run at a time.  A larger one is decoded straight into the result if it is whole, which the decoder may
   find strided; else the selected part is copied from scratch memory.
5. What no storage dimension depends on is repeated at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy.typing as npt

from chunkwise.codec.decode import open_raw_view
from chunkwise.driver.stored_array import StoredArray
from chunkwise.engine.chunk_codec import open_coders
from chunkwise.engine.failure import describe, failed, missing_chunk
from chunkwise.engine.future import Future
from chunkwise.engine.kept_chunks import keeps_chunks, open_kept_worker
from chunkwise.engine.pool import Pool, Stop
from chunkwise.engine.result_memory import with_pages
from chunkwise.engine.row_read import read_rows
from chunkwise.engine.scatter import Scatter
from chunkwise.engine.selected import selected_runs
from chunkwise.engine.shard_read import read_shards_into
from chunkwise.engine.workers import read_load
from chunkwise.errors import NotFoundError
from chunkwise.kvstore.protocol import Readable
from chunkwise.plan.axis import PlanAxis
from chunkwise.plan.partition import Transform
from chunkwise.plan.plan import extents, keys, plan_read, selections, wholes
from chunkwise.plan.split import split

__all__ = ["read_into"]

Batch: TypeAlias = "tuple[PlanAxis, ...]"


def read_into(
    array: StoredArray,
    kv: Readable,
    transform: Transform,
    out: npt.NDArray[Any],
    *,
    pool: Pool,
    fill_missing: bool = True,
) -> Future[npt.NDArray[Any]]:
    """Fill `out` with what `transform` selects; the future gives `out`, perhaps at once.

    Parameters
    ----------
    array : StoredArray
        The array, as it lies in `kv`.
    kv : Readable
        Where its keys are.
    transform : Transform
        From the domain of the request to storage coordinates, none of which is outside the array.
    out : ndarray
        Of the shape of the domain and the dtype of the array, with any strides, not overlapping itself.
        It must not be looked at before the future is done.
    pool : Pool
        Who works on it, unless it is small.
    fill_missing : bool
        Whether a chunk that is not stored reads as the fill value; if not, it is an error.

    Raises
    ------
    OutOfRangeError
        If a rectilinear grid ends before the coordinates that are asked for.

    The future fails with what the store or a codec raised, with ``Error reading <key>`` in front, or
    with NotFoundError for a missing chunk.
    """
    assert out.dtype == array.numpy_dtype, f"result of {out.dtype} for an array of {array.numpy_dtype}"
    assert out.shape == tuple(transform.input_shape), f"result of shape {out.shape} for {transform}"
    if array.shard is not None:
        return read_shards_into(array, array.shard, kv, transform, out, pool=pool, fill_missing=fill_missing)
    plan = plan_read(transform, array.grid)
    if plan.n_chunks == 0:
        return Future.ready(out)
    view = plan.layout.view(out)
    load = read_load(pool, kv, array.chain, plan.n_chunks, view)
    open_one: Any = open_kept_worker if keeps_chunks(array, kv) else _open_worker

    def open_worker(stop: Stop) -> Any:
        return open_one(array, kv, view, fill_missing, stop)

    def finish() -> npt.NDArray[Any]:
        plan.layout.broadcast(out)
        return out

    open_prepared = with_pages(open_worker, view, array.grid)
    batches = split(plan.axes, load.n_batches)
    return pool.run(batches, open_prepared, finish, n_workers=load.n_workers, inline=load.inline)


def _open_worker(
    array: StoredArray,
    kv: Readable,
    view: npt.NDArray[Any],
    fill_missing: bool,
    stop: Stop,
) -> Callable[[Batch], None]:
    """Open what one worker needs; return the function that reads a batch into `view`."""
    fetch = kv.open_reader()
    fill, encoding, part = array.fill_value, array.keys, array.part
    shape = array.grid.chunk_shape
    coder_for = open_coders(array.chain, tuple(range(array.grid.rank)), part)

    # small chunks that lie next to each other
    scatter = None if part is not None else Scatter(array.chain, view)
    packed = None if scatter is None else scatter.packed
    fetch_into = None
    if packed is not None:
        open_into = getattr(type(kv), "open_into_reader", None)  # not that of a store behind an adapter
        fetch_into = None if open_into is None else open_into(kv)
        if fetch_into is None and packed.fill is None:
            scatter = None  # raw chunks that are in memory are better copied from there

    # raw chunks of which a part is wanted
    stages = getattr(array.chain, "stages", None)
    as_stored = None if stages is None else open_raw_view(stages)

    def missing(key: str) -> NotFoundError:
        return missing_chunk(encoding.cell(key, array.grid.rank) or (), describe(kv, key))

    def fill_in(key: str, chunk: npt.NDArray[Any]) -> None:
        if not fill_missing:
            raise missing(key)
        assert packed is not None
        chunk[...] = fill.view(packed.memory)

    def work(axes: Batch) -> None:
        key = ""
        try:
            rows = None if scatter is None or shape is None else scatter.rows(axes)
            if rows is not None and packed is not None:
                all_keys = keys(axes, encoding)
                for key in read_rows(rows, all_keys, packed, fetch, fetch_into, fill_in):  # noqa: B007
                    if stop:
                        return
                return
            chunk_at, out_at = selections(axes)
            if shape is None or part is not None or any(axis.indexed for axis in axes):
                for key, extent, at, (_, copy) in zip(
                    keys(axes, encoding), extents(axes), out_at, selected_runs(axes, view), strict=True
                ):
                    if stop:
                        return
                    encoded = fetch(key)
                    if encoded is not None and as_stored is not None and extent == shape and part is None:
                        copy(as_stored(encoded)[None])
                    elif encoded is not None:
                        coder = coder_for(extent)
                        coder.fill_scratch(encoded)
                        copy(coder.ordered[None])
                    elif not fill_missing:
                        raise missing(key)
                    elif part is None:
                        view[at] = fill
                    else:
                        coder = coder_for(extent)
                        coder.scratch[...] = part.fill_value
                        copy(coder.ordered[None])
                return
            all_whole = all(map(all, (axis.whole for axis in axes)))
            coder = coder_for(shape)
            decode = coder.decode
            if all_whole:
                for key, at in zip(keys(axes, encoding), out_at, strict=True):
                    if stop:
                        return
                    encoded = fetch(key)
                    if encoded is not None:
                        decode(encoded, view[at])
                    elif fill_missing:
                        view[at] = fill
                    else:
                        raise missing(key)
                return
            scratch, fill_scratch = coder.scratch, coder.fill_scratch
            for key, inside, at, whole in zip(
                keys(axes, encoding), chunk_at, out_at, wholes(axes), strict=True
            ):
                if stop:
                    return
                encoded = fetch(key)
                if encoded is None:
                    if not fill_missing:
                        raise missing(key)
                    view[at] = fill
                elif whole:
                    decode(encoded, view[at])
                elif as_stored is not None:
                    view[at] = as_stored(encoded)[inside]
                else:
                    fill_scratch(encoded)
                    view[at] = scratch[inside]
        except NotFoundError:
            raise
        except Exception as e:
            raise failed(e, "reading", kv, array, key) from e.__cause__

    return work
