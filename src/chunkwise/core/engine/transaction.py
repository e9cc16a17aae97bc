"""The state of a transaction: open, then committed or aborted."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from chunkwise.core.base.threads import new_rlock
from chunkwise.core.engine.abandoned_changes import EVERYWHERE, let_go_on
from chunkwise.core.engine.completion import go_on_until
from chunkwise.core.engine.derived_futures import map_future
from chunkwise.core.engine.future import Future, Promise, promise_of, waiting_future
from chunkwise.core.engine.pool import Pool, Stop, give_up_since, n_changes
from chunkwise.core.kvstore.adapter.pending import Change, PendingPart, PendingStore
from chunkwise.core.kvstore.adapter.pending_commit import (
    check_documents,
    check_reads,
    commit_all,
    commit_documents,
    commit_key,
    delete_ranges,
    take_places,
)
from chunkwise.core.kvstore.adapter.prefix import whole_store
from chunkwise.core.kvstore.atomic import AtomicWritable, answers_at_once
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.places.lease import Lease, end_turn
from chunkwise.core.kvstore.protocol import KvStoreDriver, offers
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import CancelledError, InvalidArgumentError

__all__ = ["TransactionState"]


class _OneChange(NamedTuple):
    store: PendingStore
    key: str
    change: Change


class TransactionState:
    """Pending changes of any number of stores."""

    # `phase` is open, committing (as soon as a commit is requested) or aborted.  `atomic` means all or
    # nothing: then only one store, and only one key of it unless the store can write several at once.

    def __init__(self, *, atomic: bool, repeatable_read: bool, pool: Callable[[], Pool]) -> None:
        self.atomic = atomic
        self.phase: Literal["open", "committing", "aborted"] = "open"
        self._repeatable_read = repeatable_read
        self._pool = pool
        self._lock = new_rlock()
        self._stores: dict[Any, PendingStore] = {}
        self._all_at_once: set[PendingStore] = set()
        self._first: tuple[PendingStore, str] | None = None
        self._done = False
        self._error: BaseException | None = None
        self._promise, self._ended = Promise[None].new()
        # A future keeps the state alive, because waiting for it commits; the state doesn't keep the future
        # alive.
        self._futures: weakref.WeakSet[Future[None]] = weakref.WeakSet()
        self._turns: list[Lease] = []
        self._waited_for: list[Future[None]] = []
        self._when_over: list[Callable[[], object]] = []

    # -- while it is open ---------------------------------------------------------------------------

    def overlay(self, base: KvStoreDriver, *, atomic: bool) -> KvStoreDriver:
        """Return `base` as this transaction sees it."""
        # `atomic` means that several keys may be changed at once, if the storage can do that.
        whole, prefix = whole_store(base)
        with self._lock:
            store = self._stores.get(whole.identity)
            if store is None:
                store = PendingStore(whole, _weakly(self), repeatable_read=self._repeatable_read)
                self._stores[whole.identity] = store
                if atomic and offers(whole, AtomicWritable):
                    self._all_at_once.add(store)
        return PendingPart(store, prefix) if prefix else store

    def admit(self, store: PendingStore, what: str | KeyRange, writes: bool) -> None:
        """Raise unless `store` may use a key or a range now."""
        if self.phase != "open":
            raise InvalidArgumentError(
                "Transaction not open (aborted)"
                if self.phase == "aborted"
                else "Transaction not open (commit already started)"
            )
        if not self.atomic or not (writes or self._repeatable_read):
            return
        error = self._not_atomic(store, what)
        if error is not None:
            self.abort(error)
            raise error

    def _not_atomic(self, store: PendingStore, what: str | KeyRange) -> InvalidArgumentError | None:
        key = what if isinstance(what, str) else what.start
        with self._lock:
            if self._first is None:
                self._first = store, key
        first, first_key = self._first
        if first is store and store in self._all_at_once:
            return None
        if isinstance(what, KeyRange):
            return InvalidArgumentError(
                f"Cannot delete range starting at {store.describe(key)} as single atomic transaction"
            )
        if first is store and first_key == key:
            return None
        return InvalidArgumentError(
            f"Cannot read/write {first.describe(first_key)} and read/write {store.describe(key)} "
            "as single atomic transaction"
        )

    def when_over(self, callback: Callable[[], object]) -> None:
        """Have `callback` called when no changes follow, whatever the outcome, before the future is done."""
        with self._lock:
            self._when_over.append(callback)

    # -- its end ------------------------------------------------------------------------------------

    def future(self) -> Future[None]:
        """Return a future of the outcome; waiting for it commits."""
        with self._lock:
            if self._done:
                return Future.ready(None) if self._error is None else Future.failed(self._error)
            future: Future[None] = waiting_future(self._commit_for)
            future._on_done(self._left_alone)
            self._futures.add(future)
            return future

    def _left_alone(self, future: Future[None]) -> None:
        """Make later writes begin only after the end of an abandoned commit."""
        # It isn't cancelled: a part of the changes would be worse than all or none.
        if future.cancelled() and self.phase == "committing" and not self._done:
            go_on_until(self._ended)
            let_go_on(self._ended, EVERYWHERE)

    def _commit_for(self, future: Future[None]) -> None:
        with self._lock:
            if not self._done:
                self._waited_for.append(future)  # it has callbacks to call, even without other references
        self.commit()

    def commit(self) -> Future[None]:
        """Start making all changes; later calls return a future of the same commit."""
        begins, n = False, n_changes()
        try:
            with self._lock:
                begins = self.phase == "open"
                if begins:
                    self.phase = "committing"
                future = self.future()
            if begins:
                self._make_changes().add_done_callback(lambda made: self._finish(made.exception()))
            return future
        except BaseException as e:  # Ctrl-C: waiting threads must be notified
            if begins:
                self.phase = "committing"
                give_up_since(n)
                interrupted = CancelledError("Transaction commit was interrupted")
                interrupted.__cause__ = e
                self._finish(interrupted)
            raise

    def abort(self, error: BaseException) -> None:
        """Drop all changes, unless a commit has begun; the outcome is `error`."""
        with self._lock:
            if self.phase != "open":
                return
            self.phase = "aborted"
        self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        with self._lock:
            self._error = error
            self._done = True
            futures = list(self._futures)
            callbacks = list(self._when_over)
            for store in self._stores.values():
                store.changes.clear()
                store.documents.clear()
                callbacks += store.after_commit if error is None else []
                store.after_commit.clear()
        for turn in self._turns:
            end_turn(turn)
        for callback in callbacks:
            callback()
        self._when_over.clear()
        self._waited_for.clear()
        self._promise.set_result(None)
        for future in futures:
            promise = promise_of(future)
            if error is None:
                promise.set_result(None)
            else:
                promise.set_exception(error)

    def _make_changes(self) -> Future[None]:
        stores = list(self._stores.values())
        singly = [store for store in stores if store not in self._all_at_once]
        quick = all(answers_at_once(store.base) for store in stores)

        def open_worker(_: Stop) -> Callable[[_OneChange], None]:
            return lambda one: commit_key(*one)

        def prepare(_: None) -> None:
            for store in singly:
                self._turns += take_places(store)
            for store in stores:
                check_reads(store)
            documents = {store: check_documents(store) for store in stores}
            for store in stores:
                if store not in singly:
                    assert offers(store.base, AtomicWritable)
                    commit_all(store, store.base, documents[store])
            for store in singly:
                commit_documents(store)
            for store in singly:
                delete_ranges(store)

        def write_rest(_: None) -> Future[None]:
            changes = [_OneChange(s, key, change) for s in singly for key, change in s.changes.items()]
            traits = [traits_of(store.base) for store in stores]
            n = max((t.request_concurrency or t.write_concurrency or 1 for t in traits), default=1)
            return pool.run(changes, open_worker, _nothing, n_workers=n, inline=quick, writes=EVERYWHERE)

        pool = self._pool()
        prepared = pool.run([None], lambda _: prepare, _nothing, n_workers=1, inline=quick, writes=EVERYWHERE)
        return map_future(write_rest, prepared)


def _weakly(state: TransactionState) -> Callable[[PendingStore, str | KeyRange, bool], None]:
    """Return `state.admit` for a store, which alone must not keep the transaction alive."""
    reference = weakref.ref(state)

    def admit(store: PendingStore, what: str | KeyRange, writes: bool) -> None:
        found = reference()
        if found is None:
            raise InvalidArgumentError("Transaction not open (aborted)")
        found.admit(store, what, writes)

    return admit


def _nothing() -> None:
    return None
