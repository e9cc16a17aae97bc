"""Sources of the chunks of a read.

Each source yields a chunk in the form that it has: encoded bytes, a decoded array that belongs to a cache,
None if it is missing, or `FILLED` if its slot already contains it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.codec.protocol import Buffer, PreparedChain
from chunkwise.core.driver.stored_array import StoredArray, failed, missing_chunk
from chunkwise.core.engine.batch import SharedReads
from chunkwise.core.engine.chunk_codec import StagingBuffer
from chunkwise.core.engine.targets import Batch
from chunkwise.core.kvstore.adapter.cache import CacheStore
from chunkwise.core.kvstore.caches import CacheEntry
from chunkwise.core.kvstore.protocol import ManyReadable, Readable, describe, offers
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import NotFoundError

__all__ = [
    "FILLED",
    "CacheSource",
    "Fetched",
    "ManySource",
    "Source",
    "StoreSource",
    "cache_source",
    "decoding_of",
    "store_source",
]

Array: TypeAlias = "npt.NDArray[Any]"


class _Filled(Enum):
    FILLED = "the chunk is in its slot"


FILLED: Final = _Filled.FILLED
Fetched: TypeAlias = "Buffer | Array | Literal[_Filled.FILLED] | None"


class Source(Protocol):
    """Yields chunks to one worker."""

    def fetch(self, batch: Batch) -> Iterator[Fetched]:
        """Yield the chunks of a batch in its order, each valid until the next one is taken."""
        ...

    def failed(self, error: Exception, name: Any) -> Exception:
        """Return `error` with the read operation before its message."""
        ...

    def missing(self, name: Any) -> NotFoundError:
        """Return the error for a missing chunk that must exist."""
        ...


class StoreSource:
    """Chunks of one array, each one value of a store; for one worker."""

    def __init__(self, array: StoredArray, store: Readable) -> None:
        self._array = array
        self._store = store
        self._read = store.open_reader()
        open_into = traits_of(store).open_into_reader if array.chain.is_raw else None
        self._read_into = None if open_into is None else open_into()

    def share(self, shared: SharedReads, owner: Hashable) -> None:
        """Read values that several reads of a batch of `owner` want only once."""
        self._read = shared.value(owner, self._store.open_reader())
        self._read_into = None

    def fetch(self, batch: Batch) -> Iterator[Fetched]:
        """Yield the chunks stored under the names of `batch`, which are keys."""
        read, read_into, memory = self._read, self._read_into, batch.memory
        if read_into is None:
            view = memory.view if len(batch.names) == 1 else None
            for key in batch.names:
                encoded = read(key)
                yield encoded if view is None or encoded is None else view(encoded)
            return
        for key, slot in zip(batch.names, batch.slots or memory.slots, strict=False):
            if slot.flags.c_contiguous:
                raw = slot.reshape(-1).view(np.uint8).data
                if read_into(key, raw) == len(raw):
                    yield FILLED
                    continue
            yield read(key)

    def failed(self, error: Exception, name: Any) -> Exception:
        """Return `error` with key and cell."""
        return failed(error, "reading", self._store, self._array, name)

    def missing(self, name: Any) -> NotFoundError:
        """Return the error for a missing chunk."""
        cell = self._array.keys.cell(name, self._array.grid.rank) or ()
        return missing_chunk(cell, describe(self._store, name))


_MOST_AHEAD = 256  # chunks to request together; the store limits their bytes


class ManySource(StoreSource):
    """Chunks of a store that reads many keys at once."""

    def __init__(self, array: StoredArray, store: Readable) -> None:
        super().__init__(array, store)
        self._read_into = None
        self._expected: list[str] = []
        self._next = 0  # of the expected keys
        self._ahead: dict[str, Buffer | None] = {}

    def expect(self, keys: Iterable[str]) -> list[str]:
        """Return `keys`; their batches will follow in this order."""
        self._expected, self._next, self._ahead = list(keys), 0, {}
        return self._expected

    def fetch(self, batch: Batch) -> Iterator[Fetched]:
        """Yield the chunks of `batch`, read together with the following ones."""
        store: Any = self._store
        for key in batch.names:
            while key not in self._ahead:
                keys = self._expected[self._next : self._next + _MOST_AHEAD]
                found = store.read_many(keys)
                self._next += len(found)
                self._ahead = dict(zip(keys, found, strict=False))
            yield self._ahead.pop(key)


def store_source(array: StoredArray, store: Readable) -> StoreSource:
    """Return the source of a store: one request for each chunk, or for many from a slow store."""
    many = traits_of(store).request_concurrency is not None and offers(store, ManyReadable)
    return (ManySource if many else StoreSource)(array, store)


@lru_cache(maxsize=1024)
def _one_for(*_: Hashable) -> object:
    """Return the same object, which is fast to hash, for equal arguments."""
    return object()


def decoding_of(chain: PreparedChain) -> object | None:
    """Return an object that is the same for chains that decode equally; None if unknown."""
    item = chain.item
    if item.dtype.hasobject:  # the bytes of the fill value are a pointer
        return None
    try:
        return _one_for(chain.codecs, item.shape, item.dtype, item.fill_value.tobytes())
    except TypeError:  # a codec with arbitrary JSON as configuration
        return None


class CacheSource(StoreSource):
    """Decoded chunks in a cache pool, beside their encoded values."""

    # Arrays with the same key in the same kvstore share a chunk if codecs, shape, type and fill value are
    # equal.

    def __init__(self, array: StoredArray, store: CacheStore, decoding: object) -> None:
        self._array = array
        self._store = self._cache = store
        self._decodings: dict[int, tuple[PreparedChain, object]] = {id(array.chain): (array.chain, decoding)}

    def fetch(self, batch: Batch) -> Iterator[Fetched]:
        """Yield chunks, which must not be written to."""
        for key in batch.names:
            found = self._cache.find_chunk(key, self.decoding(batch.memory.chain))
            assert found is not None, "it was asked for"
            yield self._decoded(key, found[0], found[1], batch.memory)

    def holds(self, key: str) -> bool:
        """Return True if the cached chunk is fresh, so that it need not be fetched or decoded."""
        found = self._cache.find_chunk(key, self.decoding(self._array.chain), ask=False)
        return found is not None and (found[1] is not None or found[0].value is None)

    def holds_all(self, keys: Iterable[str]) -> bool:
        """Return True if the cache has the chunks of all `keys`, none of which the grid cuts off."""
        return all(map(self.holds, keys))

    def decoding(self, chain: PreparedChain) -> object:
        """Return the identity of the decoding, which arrays with equal chunks share."""
        known = self._decodings.get(id(chain))
        if known is None:
            known = self._decodings[id(chain)] = chain, decoding_of(chain)
        return known[1]

    def _decoded(
        self, key: str, entry: CacheEntry, chunk: Array | None, memory: StagingBuffer
    ) -> Array | None:
        if chunk is not None or entry.value is None:
            return chunk
        view = memory.view
        if view is not None:
            chunk = view(entry.value)
        else:
            chunk = StagingBuffer(memory.chain, 1).slots[0]
            memory.decode(entry.value, chunk)
            chunk.flags.writeable = False
        is_value = view is not None and memory.chain.codecs[-1].kind == "array->bytes"  # not a copy
        self._cache.put_chunk(key, entry, self.decoding(memory.chain), chunk, 0 if is_value else chunk.nbytes)
        return chunk


def cache_source(array: StoredArray, store: Readable) -> CacheSource | None:
    """Return the source of decoded chunks, for all workers; None if decoded chunks aren't cached."""
    if not isinstance(store, CacheStore) or array.shard is not None:
        return None
    decoding = decoding_of(array.chain)  # None for objects, where encoded values are cached
    return None if decoding is None else CacheSource(array, store, decoding)
