"""``KvStore``: a kvstore with TensorStore's Python API; keys are bytes, relative to a prefix."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from chunkwise.core.api import kvstore_values as values
from chunkwise.core.api.kvstore_values import (
    Key,
    as_byte_range,
    as_bytes,
    as_range,
    as_text,
    check_staleness,
    read_result,
)
from chunkwise.core.api.transaction import Transaction, check_rebind, check_transaction, not_open, overlay
from chunkwise.core.base.binding import JSON, not_too_deep
from chunkwise.core.engine.batch import Batch, batch_of_thread, check_batch, shared_range
from chunkwise.core.engine.concurrent_requests import is_slow
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import pool_of
from chunkwise.core.engine.unasked import in_background, in_foreground, watches
from chunkwise.core.kvstore.atomic import RangeCopies, ReferenceWritable, answers_at_once
from chunkwise.core.kvstore.key_range import encode_key
from chunkwise.core.kvstore.protocol import UNKNOWN_GENERATION, ByteRange, KvStoreDriver, offers
from chunkwise.core.specs.context import Context, as_context
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, Locatable
from chunkwise.core.specs.pretty import pretty_repr
from chunkwise.core.specs.public_kvstore_spec import Spec, as_kvstore_spec
from chunkwise.core.specs.resources import ConcurrencyLimit
from chunkwise.errors import InvalidArgumentError, UnsupportedError

__all__ = ["KvStore"]

T = TypeVar("T")


class KvStore(Locatable):
    """Keys and values under a prefix, `path`, of a kvstore.

    The prefix is prepended to a key unchanged, so it matters whether it ends in "/".  Two handles are equal
    only if they are the same object.

    Examples
    --------
    >>> import chunkwise
    >>> store = chunkwise.KvStore.open("memory://").result()
    >>> store["a/b"] = b"value"
    >>> store["a/b"], store.list().result()
    (b'value', [b'a/b'])
    """

    Spec: TypeAlias = Spec
    KeyRange: TypeAlias = values.KeyRange
    ReadResult: TypeAlias = values.ReadResult
    TimestampedStorageGeneration: TypeAlias = values.TimestampedStorageGeneration

    __slots__ = ("__weakref__", "_driver", "_in_memory", "_prefix", "_spec", "_transaction")

    _spec: KvStoreSpec  # bound
    _driver: KvStoreDriver
    _in_memory: bool  # whether an operation takes only microseconds
    _prefix: str
    _transaction: Transaction | None

    def __init__(self) -> None:
        raise TypeError("cannot create 'KvStore' instances; use KvStore.open")

    @classmethod
    def _make(cls, spec: KvStoreSpec, transaction: Transaction | None = None) -> KvStore:
        self = cls.__new__(cls)
        self._transaction = transaction
        self._bind(spec)
        return self

    def _bound_spec(self) -> KvStoreSpec:
        if self._transaction is not None:
            raise UnsupportedError("hierarchies take no part in transactions; use the kvstore without one")
        return self._spec

    def _bind(self, spec: KvStoreSpec) -> None:
        driver, self._prefix = spec.open_driver()
        if self._transaction is not None:
            driver = overlay(self._transaction, driver, atomic=getattr(spec, "atomic", True))
        self._driver = driver
        self._in_memory = answers_at_once(driver)
        self._spec = spec

    @classmethod
    @watches
    def open(
        cls,
        spec: Spec | JSON,
        *,
        context: Context | None = None,
        transaction: Transaction | None = None,
    ) -> Future[KvStore]:
        """Open the kvstore of a spec, its JSON or a URL.

        Parameters
        ----------
        spec : KvStore.Spec, JSON or str
        context : Context, optional
            Source of shared resources; by default new ones.
        transaction : Transaction, optional
            Transaction of the operations.

        Raises
        ------
        ValueError, TypeError
            At once if the spec is malformed; later errors come through the future.
        """
        found = as_context(context)
        check_transaction(transaction)
        parsed = as_kvstore_spec(spec)
        return in_foreground(not_too_deep(lambda: cls._make(parsed.bind(found), transaction)))

    # -- properties -------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Prefix of all keys; can be set."""
        return self._spec.path

    @path.setter
    def path(self, value: Key) -> None:
        self._bind(self._spec.with_path(as_text(value, "path")))

    @property
    def url(self) -> str:
        """URL of the store; raises ValueError or NotImplementedError if it has none."""
        return self._spec.url

    @property
    def base(self) -> KvStore | None:
        """The store that this one adapts, if any."""
        base = self._spec.base
        return None if base is None else KvStore._make(base, self._transaction)

    @property
    def transaction(self) -> Transaction | None:
        """The transaction that operations belong to; can be set."""
        return self._transaction

    @transaction.setter
    def transaction(self, value: Transaction | None) -> None:
        check_transaction(value)
        self._transaction = value
        self._bind(self._spec)

    def with_transaction(self, transaction: Transaction | None) -> KvStore:
        """Return the same store with operations in `transaction`, or in none.

        Parameters
        ----------
        transaction : Transaction, optional
            None for a store without one.

        Raises
        ------
        ValueError
            If its current transaction has not been committed.
        """
        check_transaction(transaction)
        check_rebind(self._transaction)
        return KvStore._make(self._spec, transaction)

    def spec(self, *, retain_context: bool | None = None, unbind_context: bool | None = None) -> Spec:
        """Return a spec that opens this store again.

        Parameters
        ----------
        retain_context : bool, optional
            Keep the live resources.
        unbind_context : bool, optional
            Describe them in the member ``context``.  Without either option they are left out.
        """
        spec = self._spec.as_opened(self._driver)
        if unbind_context:
            return Spec._of(spec.unbound())
        return Spec._of(spec if retain_context else spec.strip())

    def copy(self) -> KvStore:
        """Return an independent handle."""
        return KvStore._make(self._spec, self._transaction)

    __copy__ = copy

    def __truediv__(self, component: Key) -> KvStore:
        return KvStore._make(self._spec / as_text(component, "component"), self._transaction)

    def __add__(self, suffix: Key) -> KvStore:
        return KvStore._make(self._spec + as_text(suffix, "suffix"), self._transaction)

    def __repr__(self) -> str:
        return pretty_repr("KvStore", self._spec.unbound().to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        if self._transaction is not None:
            raise InvalidArgumentError("Cannot serialize bound transaction")
        return KvStore._make, (self._spec,)

    # -- one key ----------------------------------------------------------------------------------

    def _key(self, key: Key) -> str:
        return self._prefix + as_text(key, "key")

    @watches
    def read(
        self,
        key: Key,
        *,
        if_not_equal: Key | None = None,
        staleness_bound: float | None = None,
        batch: Batch | None = None,
        byte_range: slice | None = None,
    ) -> Future[values.ReadResult]:
        """Read the value of a key, or a part of it.

        Parameters
        ----------
        key : bytes or str
        if_not_equal : bytes, optional
            A generation: if it is the current one, no value is returned.
        staleness_bound : float, optional
            Earliest time, in seconds since the epoch, at which the result must have been current.  Nothing is
            cached here, so it always is.
        batch : Batch, optional
            Begin when the batch is submitted; values in memory are read at once.
        byte_range : slice, optional
            A slice without a step; a negative start counts from the end, and allows no stop.
        """
        part = None if byte_range is None else as_byte_range(byte_range)
        known = as_bytes(if_not_equal, "if_not_equal") if if_not_equal is not None else b""
        check_staleness(staleness_bound)
        name = self._key(key)

        def start() -> Future[values.ReadResult]:
            shared = batch_of_thread()
            if shared is None or not is_slow(self._driver):
                return self._run(lambda: self._read(name, part, known))
            take = shared_range(shared, self._driver, name, part, known)
            return self._run(lambda: read_result(take(), known))

        check_batch(batch)
        return start() if batch is None else batch.defer(start, at_once=self._in_memory)

    def _read(self, name: str, part: ByteRange | None, known: bytes) -> values.ReadResult:
        found = self._driver.read(name, byte_range=part, if_not_equal=known or None)
        return read_result(found, known)

    @watches
    def write(
        self, key: Key, value: Key | None, *, if_equal: Key | None = None
    ) -> Future[values.TimestampedStorageGeneration]:
        """Write a value, or delete it if None, perhaps conditionally.

        Parameters
        ----------
        key : bytes or str
        value : bytes, str or None
        if_equal : bytes, optional
            The generation that the key must have; ``b"\\x02"`` means a missing key.

        Returns
        -------
        Future of TimestampedStorageGeneration
            With an empty generation if the condition failed and nothing was written.
        """
        name = self._key(key)
        data = None if value is None else as_bytes(value, "value")
        known = as_bytes(if_equal, "if_equal") if if_equal is not None else b""
        return self._run(lambda: self._write(name, data, known), changes=True)

    def _write(self, name: str, data: bytes | None, known: bytes) -> values.TimestampedStorageGeneration:
        if data is None:
            generation = self._driver.delete(name, if_equal=known or None)
        else:
            generation = self._driver.write(name, data, if_equal=known or None)
        return values.TimestampedStorageGeneration(generation or UNKNOWN_GENERATION, time.time())

    def __getitem__(self, key: Key) -> bytes:
        value = self._driver.read(self._key(key)).value
        if value is None:
            raise KeyError("")
        return bytes(value)

    def __setitem__(self, key: Key, value: Key | None) -> None:
        self._write(self._key(key), None if value is None else as_bytes(value, "value"), b"")

    def __delitem__(self, key: Key) -> None:
        self._write(self._key(key), None, b"")

    def __contains__(self, key: Key) -> bool:
        return self._driver.read(self._key(key), byte_range=ByteRange(0, 0)).value is not None

    __iter__ = None

    # -- many keys --------------------------------------------------------------------------------

    @watches
    def list(self, range: values.KeyRange | None = None, strip_prefix_length: int = 0) -> Future[list[bytes]]:
        """List the keys in a range, relative to the prefix; the order is not specified.

        Parameters
        ----------
        range : KvStore.KeyRange, optional
        strip_prefix_length : int
            Number of bytes to leave out at the start of each key; shorter keys become empty.
        """
        keys = as_range(values.KeyRange() if range is None else range).shifted(self._prefix)
        if isinstance(strip_prefix_length, bool) or not hasattr(strip_prefix_length, "__index__"):
            raise TypeError(f"strip_prefix_length must be an integer, got {strip_prefix_length!r}")
        if strip_prefix_length < 0:
            raise TypeError(f"strip_prefix_length must not be negative, got {strip_prefix_length}")
        skip = len(encode_key(self._prefix)) + strip_prefix_length
        if keys.empty:
            return self._nothing_to_do([])
        return self._run(
            lambda: [encode_key(key)[skip:] for key in self._driver.list(keys.start, keys.stop)], slow=True
        )

    @watches
    def delete_range(self, range: values.KeyRange) -> Future[None]:
        """Delete all keys in a range.

        Parameters
        ----------
        range : KvStore.KeyRange
            Keys from its ``inclusive_min`` to before its ``exclusive_max``, relative to the prefix.

        Returns
        -------
        Future of None
        """
        keys = as_range(range).shifted(self._prefix)
        if keys.empty:
            return self._nothing_to_do(None)
        return self._run(lambda: self._driver.delete_range(keys.start, keys.stop), changes=True)

    @watches
    def experimental_copy_range_to(
        self,
        target: KvStore,
        source_range: values.KeyRange | None = None,
        source_staleness_bound: float | None = None,
    ) -> Future[None]:
        """Give keys of an OCDBT database the values of keys in a range, without copying their data.

        Parameters
        ----------
        target : KvStore
            The same database, or one whose directory contains this one's.  Its prefix replaces this store's.
        source_range : KvStore.KeyRange, optional
            All keys by default.
        source_staleness_bound : float, optional
            As for `read`.

        Raises
        ------
        NotImplementedError
            Through the future, for other kvstores, and if this store is in a transaction.
        """
        if not isinstance(target, KvStore):
            raise TypeError(f"target must be a KvStore, got {type(target).__name__}")
        keys = as_range(values.KeyRange() if source_range is None else source_range).shifted(self._prefix)
        check_staleness(source_staleness_bound)
        source, into = self._spec.open_driver()[0], target._spec.open_driver()[0]
        base: object = into
        error = not_open(self._transaction) or not_open(target._transaction)
        if error is not None:
            return Future.failed(error)
        if not offers(base, RangeCopies) or not base.can_refer_to(source):
            return Future.failed(UnsupportedError("CopyRange not supported"))
        if self._transaction is not None:
            return Future.failed(UnsupportedError("Source transactions not supported"))
        changed: object = target._driver  # with the changes of a transaction
        assert offers(changed, ReferenceWritable)

        def copy() -> None:
            found = base.references(source, keys)
            changed.write_references(
                {target._prefix + key[len(self._prefix) :]: value for key, value in found.items()}
            )

        return Future.ready(None) if keys.empty else self._run(copy, changes=True)

    def _nothing_to_do(self, result: T) -> Future[T]:
        """Return a result without using a store, unless the transaction is over."""
        error = not_open(self._transaction)
        return Future.ready(result) if error is None else Future.failed(error)

    def _run(self, work: Callable[[], T], *, changes: bool = False, slow: bool = False) -> Future[T]:
        """Do `work` now if that is fast, otherwise in a thread; `changes` if it changes stored data."""
        if self._in_memory or (not changes and not slow and self._spec.driver == "file"):
            return in_foreground(work)
        writes = self._driver.identity if changes else None
        if self._spec.is_remote:
            return in_background(work, writes=writes)
        out: list[T] = []
        limit = self._spec.live("file_io_concurrency") or _shared
        return pool_of(limit).run(
            [work], lambda _: lambda do: out.append(do()), out.pop, n_workers=1, writes=writes
        )


_shared = ConcurrencyLimit(None)
