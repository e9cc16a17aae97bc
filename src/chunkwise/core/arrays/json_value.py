"""An open JSON value: an array of rank 0 and data type json.

All handles of a document with the same cache pool share the bytes that were read, for as long as the
staleness bound allows.  A write reads the whole value, changes its part, and stores it on condition that it
is unchanged; otherwise it starts again.  In a transaction, this happens at the commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import numpy.typing as npt

from chunkwise.core.arrays.protocol import FixedArray, WrapStore
from chunkwise.core.arrays.resources import pool_under
from chunkwise.core.base.binding import JSON, dump, parse_json
from chunkwise.core.base.threads import new_lock
from chunkwise.core.driver.single_value import MISSING_VALUE, JsonSpec, read_at, written_at
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.derived_futures import WriteFutures
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.kvstore.atomic import Modifiable
from chunkwise.core.kvstore.compare_and_swap import compare_and_swap
from chunkwise.core.kvstore.protocol import Buffer, KvStoreDriver, Stamped, offers
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.core.specs.kvstore_spec import kvstore_missing
from chunkwise.core.specs.resources import CachePool
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    prefixed,
)

__all__ = ["JsonArray", "open_json"]

T = TypeVar("T")


class _SharedDocument:
    """The known state of a document, for all its handles with the same cache pool."""

    __slots__ = ("__weakref__", "stamped")

    def __init__(self) -> None:
        self.stamped: Stamped | None = None


_documents: WeakKeyDictionary[CachePool, WeakValueDictionary[Hashable, _SharedDocument]] = WeakKeyDictionary()
_known_lock = new_lock()


def _document_of(pool: CachePool, store: KvStoreDriver, key: str) -> _SharedDocument:
    with _known_lock:
        documents = _documents.setdefault(pool, WeakValueDictionary())
        return documents.setdefault((store.identity, key), _SharedDocument())


class JsonArray(FixedArray):
    """A JSON value, or a part of one, in a key of a kvstore; `outside` is the same outside a transaction."""

    __slots__ = ("_document", "_key", "_opened", "_outside", "_spec", "_store", "_tokens", "pool")

    def __init__(
        self,
        spec: JsonSpec,
        store: KvStoreDriver,
        key: str,
        pool: Pool,
        *,
        readable: bool,
        writable: bool,
        outside: JsonArray | None = None,
    ) -> None:
        self._spec = spec
        self._store = store
        self._key = key
        self.pool = pool
        self._tokens = spec.tokens
        self._domain = IndexDomain(rank=0)
        self._opened = time.time()
        self._document: _SharedDocument = (
            outside._document if outside else _document_of(spec.resource("cache_pool"), store, key)
        )
        self._outside = outside
        self.readable = readable
        self.writable = writable

    def in_transaction(self, wrap: WrapStore | None) -> JsonArray:
        """Return the array as a transaction sees it, or as it is outside any if None."""
        outside = self._outside or self
        if wrap is None:
            return outside
        store = wrap(outside._store, getattr(self._spec.kvstore, "atomic", True))
        return JsonArray(
            self._spec,
            store,
            self._key,
            self.pool,
            readable=self.readable,
            writable=self.writable,
            outside=outside,
        )

    @property
    def dtype(self) -> DataType:
        """The type json."""
        return DataType("json")

    @property
    def store(self) -> KvStoreDriver:
        """The kvstore."""
        return self._store

    def read_into(self, transform: IndexTransform, out: npt.NDArray[Any]) -> Future[npt.NDArray[Any]]:
        """Fill `out` with the value; return a future of `out`."""

        def read(_: None) -> None:
            value = self._read()
            for index in np.ndindex(*out.shape):
                out[index] = value

        return self._run(read, lambda: out)

    def write_from(self, transform: IndexTransform, source: npt.NDArray[Any]) -> WriteFutures:
        """Write the last element of `source`."""
        if source.size == 0:
            done: Future[None] = Future.ready(None)
            return WriteFutures.of(done, done)
        value = source[(-1,) * source.ndim]
        done = self._run(lambda _: self._write(value), lambda: None, writes=self._store.identity)
        return WriteFutures.of(done, done)

    def _run(
        self, work: Callable[[None], None], finish: Callable[[], T], *, writes: Hashable = None
    ) -> Future[T]:
        # A local store answers faster than another thread can take over.
        inline = traits_of(self._store).request_concurrency is None
        return self.pool.run([None], lambda _: work, finish, n_workers=1, inline=inline, writes=writes)

    def _read(self) -> JSON:
        where = self._store.describe(self._key)
        known = self._current()
        if known.value is None:
            raise NotFoundError(f"Error reading {where}")
        with prefixed(f"Error reading {where}", ChunkwiseError):
            return read_at(_decode(known.value), self._tokens)

    def _current(self) -> Stamped:
        """Return the stored bytes, read again if the known ones are too old."""
        if self._outside is not None:
            return read_bounded(self._store, self._key)
        bound = self._spec.recheck_cached_data
        known = self._document.stamped
        if known is not None:
            if bound is False:
                return known
            if known.time >= (
                self._opened if bound == "open" else time.time() if bound is True else float(bound)
            ):
                return known
        found = read_bounded(
            self._store, self._key, if_not_equal=known.generation if known is not None else None
        )
        if known is not None and found.value is None and found.generation == known.generation:
            found = known._replace(time=found.time)
        self._keep(found)
        return found

    def _keep(self, stamped: Stamped) -> None:
        value = None if stamped.value is None else bytes(stamped.value)
        self._document.stamped = stamped._replace(value=value)

    def _write(self, new: JSON) -> None:
        if self._outside is not None:
            assert offers(self._store, Modifiable)
            self._store.modify(self._key, partial(self._written_in_transaction, new))
            return
        compare_and_swap(self._store, self._key, lambda: self._attempt(new), idempotent=True)

    def _attempt(self, new: JSON) -> bytes | None:
        """Write once; return the generation that another writer has replaced, None if done."""
        stored = read_bounded(self._store, self._key) if self._tokens else None
        value = self._decoded(None if stored is None else stored.value)
        with prefixed(f"Error writing {self._store.describe(self._key)}", ChunkwiseError):
            raw = _encode(written_at(value, self._tokens, new))
        if_equal = None if stored is None else stored.generation
        written = self._store.write(self._key, raw, if_equal=if_equal)
        if written is None:
            return if_equal
        self._keep(Stamped(raw, written, time.time()))
        return None

    def _decoded(self, stored: Buffer | None) -> Any:
        """Return the document in which a value will be replaced."""
        if not self._tokens or stored is None:
            return MISSING_VALUE
        with prefixed(f"Error reading {self._store.describe(self._key)}", ChunkwiseError):
            return _decode(stored)

    def _written_in_transaction(self, new: Any, stored: Buffer | None) -> bytes:
        self._document.stamped = None  # the last call is the one that is committed
        return _encode(written_at(self._decoded(stored), self._tokens, new))

    def schema(self) -> Schema:
        """Type and domain."""
        return self._spec.effective_schema()

    def spec(self) -> JsonSpec:
        """Return a spec that opens this value again."""
        return replace(self._spec, schema=Schema(dtype=self.dtype, rank=0))


def open_json(spec: JsonSpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None) -> JsonArray:
    """Open the value of a bound spec, without reading anything."""
    if spec.kvstore is None:
        raise kvstore_missing()
    store, key = spec.kvstore.open_driver()
    pool = pool_under(spec)
    array = JsonArray(spec, store, key, pool, readable=readable, writable=writable)
    return array.in_transaction(wrap)


def _decode(raw: bytes | bytearray | memoryview) -> JSON:
    """Return the value of UTF-8 text; the last of members with the same name counts."""
    try:
        text = bytes(raw).decode("utf-8-sig")
        return parse_json(text, parse_constant=_refuse, parse_int=_integer, parse_float=_number)
    except ValueError:
        raise FailedPreconditionError("Invalid JSON") from None


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def _number(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _integer(text: str) -> int | float:
    # Integers beyond 64 bits are floating-point numbers for other readers.
    if len(text) > 20:
        return _number(text)
    number = int(text)
    return number if -(2**63) <= number < 2**64 else float(text)


def _encode(value: JSON) -> bytes:
    """Return compact UTF-8 text with sorted members; numbers that JSON lacks become null."""
    try:
        return dump(_plain(value)).encode()
    except (TypeError, ValueError) as e:
        raise InvalidArgumentError(f"Not a JSON value: {e}") from None


def _plain(value: Any) -> JSON:
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise ValueError(f"{value} is beyond 64 bits")  # it would be read as another number
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
