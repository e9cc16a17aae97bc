"""``Transaction``: changes of arrays and kvstores that are stored together at a commit."""

from __future__ import annotations

from types import TracebackType
from typing import NoReturn, Self

from chunkwise.core.arrays.protocol import OpenArray, Transactional, WrapStore
from chunkwise.core.base.arguments import as_flag
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool, pool_of
from chunkwise.core.engine.unasked import watches
from chunkwise.core.kvstore.protocol import KvStoreDriver, offers
from chunkwise.core.specs.resources import ConcurrencyLimit
from chunkwise.errors import CancelledError, InvalidArgumentError, UnsupportedError

__all__ = [
    "Transaction",
    "check_open",
    "check_rebind",
    "check_transaction",
    "in_transaction",
    "not_open",
    "overlay",
    "wrap_of",
]


class Transaction:
    """Changes that others see after the commit, and reads in the transaction see at once.

    The end of its ``with`` or ``async with`` block commits; an exception aborts.  Dropping all references to
    it, its future and the handles bound to it aborts too.

    Parameters
    ----------
    atomic : bool
        Make all changes or none.  A store that can't change several keys at once, such as files, refuses a
        second key.
    repeatable_read : bool
        Fail if others have changed a value that was read before the commit.

    Examples
    --------
    >>> from chunkwise import KvStore, Transaction
    >>> store = KvStore.open("memory://").result()
    >>> with Transaction() as transaction:
    ...     inside = store.with_transaction(transaction)
    ...     inside["a"] = b"1"
    ...     "a" in inside, "a" in store
    (True, False)
    >>> store["a"]
    b'1'
    """

    __slots__ = ("__weakref__", "_state")

    def __init__(self, atomic: bool = False, repeatable_read: bool = False) -> None:
        from chunkwise.core.engine.transaction import TransactionState

        self._state = TransactionState(
            atomic=as_flag(atomic, "atomic"),
            repeatable_read=as_flag(repeatable_read, "repeatable_read"),
            pool=_shared_pool,
        )

    @property
    def atomic(self) -> bool:
        """True if all changes are made or none."""
        return self._state.atomic

    @property
    def open(self) -> bool:
        """True if changes can still be added."""
        return self._state.phase == "open"

    @property
    def commit_started(self) -> bool:
        """True if a commit was requested, whatever its outcome."""
        return self._state.phase == "committing"

    @property
    def aborted(self) -> bool:
        """True if the transaction ended without a commit."""
        return self._state.phase == "aborted"

    @property
    def future(self) -> Future[None]:
        """Done when the transaction has been committed or aborted; waiting for it commits."""
        return self._state.future()

    @watches
    def commit_async(self) -> Future[None]:
        """Start making all changes.

        Returns
        -------
        Future of None
            Fails with ``ABORTED`` if a condition no longer holds, or with the storage's error.  Some changes
            may have been made then, unless the transaction is atomic.
        """
        return self._state.commit()

    def commit_sync(self) -> None:
        """Make all changes and wait; errors are those of `commit_async`."""
        self._state.commit().result()

    def abort(self) -> None:
        """Drop all changes; does nothing if a commit has begun."""
        self._state.abort(CancelledError("Transaction aborted"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.commit_sync()
        else:
            self.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.commit_async()
        else:
            self.abort()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")


def overlay(transaction: Transaction, driver: KvStoreDriver, *, atomic: bool = True) -> KvStoreDriver:
    """Return `driver` as `transaction` sees it; `atomic` tells whether keys may change together."""
    return transaction._state.overlay(driver, atomic=atomic)


def check_transaction(transaction: object) -> None:
    """Raise TypeError if an argument ``transaction`` is not a transaction."""
    if transaction is not None and not isinstance(transaction, Transaction):
        raise TypeError("Invalid transaction")


def check_rebind(transaction: Transaction | None) -> None:
    """Raise if a handle can't be rebound, because its own `transaction` is not committed."""
    if transaction is not None and not transaction.commit_started:
        raise InvalidArgumentError("Cannot rebind transaction when existing transaction is uncommitted")


_limit = ConcurrencyLimit(None)


def _shared_pool() -> Pool:
    return pool_of(_limit)


def not_open(transaction: Transaction | None) -> InvalidArgumentError | None:
    """Return the error for using a handle whose transaction is over; None if it isn't."""
    if transaction is None or transaction.open:
        return None
    how = "aborted" if transaction.aborted else "commit already started"
    return InvalidArgumentError(f"Transaction not open ({how})")


def check_open(transaction: Transaction | None) -> None:
    """Raise InvalidArgumentError if a handle's transaction is over."""
    error = not_open(transaction)
    if error is not None:
        raise error


def wrap_of(transaction: Transaction) -> WrapStore:
    """Return the function from a kvstore to the kvstore as `transaction` sees it."""
    from chunkwise.core.kvstore.adapter.cache import CacheStore

    def wrap(kv: KvStoreDriver, atomic: bool) -> KvStoreDriver:
        if isinstance(kv, CacheStore):
            transaction._state.when_over(kv.evict_all)
            kv = kv.base  # a transaction reads the stored values, and keeps its own copies
        return overlay(transaction, kv, atomic=atomic)

    return wrap


def in_transaction(array: OpenArray, transaction: Transaction | None) -> OpenArray:
    """Return `array` as `transaction` sees it, or as it is outside any transaction."""
    if offers(array, Transactional):
        return array.in_transaction(None if transaction is None else wrap_of(transaction))
    if transaction is None:
        return array
    raise UnsupportedError(f'transaction not supported by the "{array.spec().driver}" driver')
