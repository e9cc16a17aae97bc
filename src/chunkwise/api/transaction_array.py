"""Arrays as transactions see them."""

from __future__ import annotations

from chunkwise.api.transaction import Transaction, overlay
from chunkwise.arrays.protocol import OpenArray, Transactional, WrapStore
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.kvstore.adapter.cache import CacheStore
from chunkwise.kvstore.protocol import KvStoreDriver, offers

__all__ = ["check_open", "in_transaction", "wrap_of"]


def check_open(transaction: Transaction | None) -> None:
    """Raise InvalidArgumentError if a handle's transaction is over."""
    if transaction is not None and not transaction.open:
        how = "aborted" if transaction.aborted else "commit already started"
        raise InvalidArgumentError(f"Transaction not open ({how})")


def wrap_of(transaction: Transaction) -> WrapStore:
    """Return the function that gives a kvstore as `transaction` sees it."""

    def wrap(kv: KvStoreDriver, atomic: bool) -> KvStoreDriver:
        if isinstance(kv, CacheStore):
            transaction._state.when_over(kv.forget_all)
            kv = kv.base  # a transaction looks at what is stored, and has a memory of its own
        return overlay(transaction, kv, atomic=atomic)

    return wrap


def in_transaction(array: OpenArray, transaction: Transaction | None) -> OpenArray:
    """Return `array` as `transaction` sees it, or as it is outside any.

    Raises
    ------
    UnsupportedError
        If its driver has nothing that could be kept back.
    """
    if offers(array, Transactional):
        return array.in_transaction(None if transaction is None else wrap_of(transaction))
    if transaction is None:
        return array
    raise UnsupportedError(f'transaction not supported by the "{array.spec().driver}" driver')
