"""Reading chunks that a cache pool keeps decoded.

A chunk is decoded into memory of its own, which the pool keeps beside the encoded value for as long as it
keeps that; what is read is copied from there.  A chunk of unencoded bytes is a view of its value.  Arrays
with the same key of the same kvstore share a decoded chunk if codecs, shape, type and fill value are equal.

Shards, and elements that are Python objects, are not kept decoded: their values are, encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.codec.decode import open_raw_view
from chunkwise.codec.protocol import PreparedChain
from chunkwise.driver.stored_array import StoredArray
from chunkwise.engine.chunk_codec import chain_for
from chunkwise.engine.failure import describe, failed, missing_chunk
from chunkwise.engine.future import Future
from chunkwise.engine.place_in_chunks import place_in_chunks
from chunkwise.engine.pool import Pool, Stop
from chunkwise.engine.selected import selected_runs
from chunkwise.engine.workers import read_load
from chunkwise.errors import NotFoundError, TooLargeError
from chunkwise.kvstore.adapter.cache import CacheStore
from chunkwise.kvstore.adapter.value_cache import Kept
from chunkwise.plan.axis import PlanAxis
from chunkwise.plan.partition import Transform
from chunkwise.plan.plan import extents, keys

__all__ = ["KeptChunkReader", "keeps_chunks", "open_kept_worker"]

# What is copied by the caller's thread, in bytes and chunks.
_LARGEST = 1 << 20
_MOST_CHUNKS = 32


@lru_cache(maxsize=1024)
def _form(*_: Hashable) -> object:
    """Return one object, quickly hashed, for equal arguments."""
    return object()


class _Chunks:
    """Decoded chunks of one shape."""

    def __init__(self, chain: PreparedChain, store: CacheStore) -> None:
        item = chain.item
        self._chain = chain
        self._store = store
        self._stages = getattr(chain, "stages", None)
        self.form = _form(chain.codecs, item.shape, item.dtype, item.fill_value.tobytes())

    def get(self, key: str) -> npt.NDArray[Any] | None:
        """Return a chunk, not to be written to; None if it is not stored."""
        found = self._store.find_chunk(key, self.form)
        assert found is not None, "it was asked for"
        kept, chunk = found
        return self.decode(key, kept) if chunk is None and kept.value is not None else chunk

    def decode(self, key: str, kept: Kept) -> npt.NDArray[Any]:
        """Return the chunk that a value is, which is kept from now on."""
        value, item, chain = kept.value, self._chain.item, self._chain
        assert value is not None, "the key is there"
        view = None if self._stages is None else open_raw_view(self._stages)
        if view is not None:
            chunk = view(value)
        else:
            order = "F" if chain.codecs[0].name in ("n5_block", "transpose") else "C"
            try:
                chunk = np.empty(item.shape, item.dtype, order)  # type: ignore[call-overload]
            except (MemoryError, ValueError) as e:
                raise TooLargeError(
                    f"a chunk of shape {list(item.shape)} and {item.nbytes} bytes does not fit into memory"
                ) from e
            chain.open_decoder()(value, chunk)
            chunk.flags.writeable = False
        self._store.keep_chunk(key, kept, self.form, chunk, 0 if view is not None else chunk.nbytes)
        return chunk


def keeps_chunks(array: StoredArray, kv: Any) -> bool:
    """Whether chunks of `array` are kept decoded, `kv` being what they are read from."""
    if not isinstance(kv, CacheStore) or array.shard is not None or array.chain.item.dtype.hasobject:
        return False
    try:
        hash(array.chain.codecs)
    except TypeError:  # a codec whose configuration is any JSON
        return False
    return True


def open_kept_worker(
    array: StoredArray, kv: CacheStore, view: npt.NDArray[Any], fill_missing: bool, stop: Stop
) -> Callable[[tuple[PlanAxis, ...]], None]:
    """Return the function that reads a batch of a plan into `view`."""
    part, fill, encoding = array.part, array.fill_value, array.keys
    n_inner = 0 if part is None else len(part.shape)
    opened: dict[tuple[int, ...], _Chunks] = {}
    empty: npt.NDArray[Any] = fill if part is None else part.select(part.fill_value)

    def open_chunks(extent: tuple[int, ...]) -> _Chunks:
        shape = extent[: len(extent) - n_inner]
        chunks = opened[extent] = _Chunks(chain_for(array.chain, shape), kv)
        return chunks

    def work(axes: tuple[PlanAxis, ...]) -> None:
        key = ""
        try:
            for key, extent, (_, copy) in zip(
                keys(axes, encoding), extents(axes), selected_runs(axes, view), strict=True
            ):
                if stop:
                    return
                chunk = (opened.get(extent) or open_chunks(extent)).get(key)
                if chunk is not None:
                    elements = chunk if part is None else part.select(chunk)
                elif fill_missing:
                    elements = np.broadcast_to(empty, extent)
                else:
                    raise missing_chunk(encoding.cell(key, array.grid.rank) or (), describe(kv, key))
                copy(elements[None])
        except NotFoundError:
            raise
        except Exception as e:
            raise failed(e, "reading", kv, array, key) from e.__cause__

    return work


class KeptChunkReader:
    """The short way for a small read of chunks that are kept decoded: no plan, and no other thread.

    Parameters
    ----------
    array : StoredArray
        One of which `keeps_chunks` is true, with a regular grid and without parts.
    kv : CacheStore
    pool : Pool
        Who would work on what is too large to be done by the caller.
    """

    def __init__(self, array: StoredArray, kv: CacheStore, pool: Pool) -> None:
        self._array = array
        self._kv = kv
        self._pool = pool
        self._key = array.keys.key
        self._sizes = tuple(array.grid.chunk_shape or ())
        self._chunks = _Chunks(array.chain, kv)
        self._ask = getattr(kv, "request_concurrency", None) is None  # not if it would take long to answer

    @classmethod
    def of(cls, array: StoredArray, kv: Any, pool: Pool) -> KeptChunkReader | None:
        """Return a reader, or None if the array is not of the kind that it can read."""
        if array.part is not None or array.grid.chunk_shape is None or not keeps_chunks(array, kv):
            return None
        return cls(array, kv, pool)

    def read_into(
        self, transform: Transform, out: npt.NDArray[Any], *, fill_missing: bool
    ) -> Future[npt.NDArray[Any]] | None:
        """Fill `out` as `read_into` does; None if the request is not of the kind that is read here."""
        if out.nbytes > _LARGEST:
            return None
        place = place_in_chunks(transform, out.shape, self._sizes)
        if place is None:
            return None
        cell, inside, n_chunks = place
        if n_chunks > _MOST_CHUNKS:
            return None
        if n_chunks == 1:
            done = self._copy(cell, (*inside, ...), out, n_chunks, fill_missing)
        else:
            done = self._copy_several(cell, inside, out, n_chunks, fill_missing)
        return Future.ready(out) if done is True else done

    def _copy(
        self, cell: Any, inside: tuple[Any, ...], out: npt.NDArray[Any], n_chunks: int, fill_missing: bool
    ) -> Any:
        """Copy a part of a chunk; return True, a future that failed, or None if others are to do it."""
        key = self._key(cell)
        try:
            found = self._kv.find_chunk(key, self._chunks.form, ask=self._ask)
            if found is None:
                return None
            kept, chunk = found
            if chunk is None:
                if kept.value is None:
                    if not fill_missing:
                        return Future.failed(missing_chunk(tuple(cell), describe(self._kv, key)))
                    out[...] = self._array.fill_value
                    return True
                if not read_load(self._pool, self._kv, self._array.chain, n_chunks).inline:
                    return None
                chunk = self._chunks.decode(key, kept)
            out[...] = chunk[inside]
        except Exception as e:
            error = failed(e, "reading", self._kv, self._array, key)
            error.__cause__ = e.__cause__
            return Future.failed(error)
        return True

    def _copy_several(
        self, cell: list[int], inside: list[Any], out: npt.NDArray[Any], n_chunks: int, fill_missing: bool
    ) -> Any:
        along: list[list[tuple[Any, Any, Any]]] = []
        for number, part, size in zip(cell, inside, self._sizes, strict=True):
            if isinstance(part, int):
                along.append([(number, part, None)])
                continue
            first, stop = part.start, part.stop
            along.append(
                [
                    (
                        number + n,
                        slice(max(first - n * size, 0), min(stop - n * size, size)),
                        slice(max(n * size - first, 0), min((n + 1) * size, stop) - first),
                    )
                    for n in range(-(-stop // size))
                ]
            )
        for pieces in product(*along):
            numbers, parts, places = zip(*pieces, strict=True)
            at = out[(*(place for place in places if place is not None), ...)]
            done = self._copy(numbers, (*parts, ...), at, n_chunks, fill_missing)
            if done is not True:
                return done
        return True
