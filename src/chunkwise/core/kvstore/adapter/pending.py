"""A store as a transaction sees it: its own changes on top of the stored values.

Nothing is written to the base until the changes are committed, by `.pending_commit`.  A change is a value, or
a function of the value stored at that time.  A conditional write is accepted, unless the transaction has
changed the same key; its condition is checked at the commit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import count
from typing import Protocol, Self

from chunkwise.core.base.threads import new_rlock
from chunkwise.core.kvstore.adapter.prefix import PrefixStore, whole_store
from chunkwise.core.kvstore.atomic import KeysChecked, Modification, Reference
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    Children,
    KvStoreDriver,
    Reader,
    Stamped,
    offers,
)
from chunkwise.core.kvstore.store_base import SameKeysStore
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.core.kvstore.value import read_ranges, slice_range, slice_ranges
from chunkwise.errors import AbortedError, UnsupportedError

__all__ = ["Change", "Document", "PendingPart", "PendingStore", "pending_under"]

_numbers = count()


class Change:
    """The change of one key."""

    __slots__ = ("condition", "from_base", "generation", "modifications", "start")

    def __init__(
        self,
        start: bytes | Reference | None,
        condition: bytes | None = None,
        *,
        from_base: bool = False,
        modifications: tuple[Modification, ...] = (),
    ) -> None:
        self.start = start  # value to start from; None is a missing key
        self.condition = condition  # generation that the base must have
        self.from_base = from_base  # start from the base's value at the commit instead
        self.modifications = modifications  # applied to that, in this order
        # Generation of the changed value inside the transaction.
        self.generation = b"\x04" + next(_numbers).to_bytes(8, "little")

    def apply(self, stored: Buffer | None) -> Buffer | None:
        """Return the new value of the key if the base has `stored`."""
        value = stored if self.from_base else self.start
        if isinstance(value, Reference):
            value = value.load()
        for modify in self.modifications:
            value = modify(value)
        return value

    @property
    def reference(self) -> Reference | None:
        """The value if it is a reference to a stored one and stays unchanged."""
        return self.start if isinstance(self.start, Reference) and not self.modifications else None


class Document(Protocol):
    """A value that gives other changes of a transaction their meaning, such as the metadata of an array."""

    def joined(self, later: Self) -> Self:
        """Return the condition to check; raise if the two contradict each other."""
        ...

    def check(self, store: PendingStore) -> bytes:
        """Return the current generation in the base; raise if the value means something else by now."""
        # It may drop changes of `store` that have lost their meaning.
        ...


class PendingStore(SameKeysStore):
    """A store with pending changes, for all threads of the transaction."""

    def __init__(
        self,
        base: KvStoreDriver,
        admit: Callable[[PendingStore, str | KeyRange, bool], None],
        *,
        repeatable_read: bool = False,
    ) -> None:
        super().__init__(base)
        self.changes: dict[str, Change] = {}
        self.deleted: list[KeyRange] = []  # deleted before the changes are made
        # Generations of everything read from the base, with `repeatable_read`.
        self.read_generations: dict[str, bytes] = {}
        # Documents of arrays whose chunks are changed, by their keys.
        self.documents: dict[str, Document] = {}
        self.made: set[str] = set()  # keys of documents of new arrays
        self.after_commit: list[Callable[[], object]] = []  # called when all changes have been made
        # Called before every operation; raises if the transaction is over or doesn't allow it.
        self._admit = admit
        self._repeatable_read = repeatable_read  # fail if a value that was read has changed since then
        self._lock = new_rlock()

    def __repr__(self) -> str:
        return f"PendingStore({self.base!r})"

    @property
    def identity(self) -> Hashable:
        """Equal only for this store of this transaction."""
        return "pending", id(self), self.base.identity

    @property
    def traits(self) -> StoreTraits:
        """The base's traits; the base is read now and written at the commit."""
        # Only this store knows the generation of a change.
        return super().traits._replace(is_cached=self._is_cached, shard_indexes=None)

    def _is_cached(self, key: str, start: int = 0, stop: int | None = None) -> bool:
        with self._lock:
            change = self._change_of(key)
        base = traits_of(self.base).is_cached
        if change is not None and not change.from_base:
            return True
        return base is not None and base(key, start, stop)

    # -- reading ----------------------------------------------------------------------------------

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it; the time of a changed one is infinite."""
        self._admit(self, key, False)
        with self._lock:
            change = self._change_of(key)
        if change is None:
            stamped = self.base.read(key, byte_range=byte_range, if_not_equal=if_not_equal)
            if self._repeatable_read:
                self._pin(key, stamped.generation)
            return stamped
        value = self._value_of(key, change)
        if value is None:
            return Stamped(None, MISSING_GENERATION, math.inf)
        if if_not_equal == change.generation:
            return Stamped(None, change.generation, math.inf)
        if byte_range is not None:
            value = slice_range(memoryview(value), *byte_range)
        return Stamped(value, change.generation, math.inf)

    def open_reader(self) -> Reader:
        """Return a reader for one worker."""
        read_base = self.base.open_reader()

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            if self._repeatable_read or key in self.changes or self.deleted:
                return self.read(key, byte_range=ByteRange(start, stop)).value
            self._admit(self, key, False)
            return read_base(key, start, stop)

        return read

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`, None if it is missing."""
        self._admit(self, key, False)
        with self._lock:
            change = self._change_of(key)
        if change is None and not self._repeatable_read:
            return read_ranges(self.base, key, starts, stops)
        value = self.read(key).value
        return None if value is None else slice_ranges(value, starts, stops)

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``, the base's first."""
        # Keys that a listing has not found can't be pinned, so repeatable reads exclude listings.
        if self._repeatable_read:
            self._admit(self, KeyRange.between(start, stop), False)
            raise UnsupportedError("repeatable_read mode not supported for transactional list operations")
        yield from self.list_unpinned(start, stop)

    def list_unpinned(self, start: str, stop: str) -> Iterator[str]:
        """Yield the keys in ``[start, stop)``, for a change that doesn't depend on which there are."""
        keys = KeyRange.between(start, stop)
        self._admit(self, keys, False)
        with self._lock:
            changes, deleted = dict(self.changes), tuple(self.deleted)
        for key in self.base.list(start, stop):
            if key not in changes and not any(key in gone for gone in deleted):
                yield key
        for key, change in changes.items():
            if key in keys and self._value_of(key, change) is not None:
                yield key

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`, with the changes."""
        below = KeyRange.of_prefix(prefix)
        with self._lock:
            changed = bool(self.deleted) or any(key in below for key in self.changes)
        if not changed and not self._repeatable_read:
            self._admit(self, below, False)
            return self.base.list_children(prefix)
        return Children.of(prefix, self.list(below.start, below.stop))

    # -- changing ---------------------------------------------------------------------------------

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Set the value of `key`; return a generation that is valid inside the transaction."""
        # A condition is compared with changes of this transaction now, with the base at the commit.
        return self._replace(key, bytes(value), if_equal)

    def write_references(self, references: Mapping[str, Reference]) -> None:
        """Record that keys are to have values that the base already stores."""
        for key, reference in references.items():
            self._replace(key, reference, None)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Record the deletion of `key`; conditions are as for `write`."""
        done = self._replace(key, None, if_equal)
        return None if done is None else MISSING_GENERATION

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Record the deletion of all keys in ``[start, stop)``."""
        keys = KeyRange.between(start, stop)
        self._admit(self, keys, True)
        if keys.empty:
            return
        with self._lock:
            for key in [k for k in self.changes if k in keys]:
                del self.changes[key]
            for key in [k for k in self.documents if k in keys]:
                del self.documents[key]
            self.deleted.append(keys)

    def modify(self, key: str, modification: Modification) -> None:
        """Record the change to apply to `key` at commit."""
        self._admit_change(key)
        with self._lock:
            change = self._change_of(key)
            if change is None:
                pinned = self.read_generations.get(key)
                change = Change(None, pinned, from_base=True)
            self.changes[key] = Change(
                change.start,
                change.condition,
                from_base=change.from_base,
                modifications=(*change.modifications, modification),
            )

    def changed_generation(self, key: str) -> bytes | None:
        """Return the generation of `key` if the transaction has changed it, otherwise None."""
        if key not in self.changes and not self.deleted:
            return None
        with self._lock:
            change = self._change_of(key)
        return None if change is None else change.generation

    def is_rebased(self, key: str) -> bool:
        """Return True if the transaction has changed a stored value of `key`, and not replaced or made it."""
        change = self.changes.get(key)
        return change is not None and change.condition not in (None, b"", MISSING_GENERATION)

    def depend(self, key: str, document: Document) -> None:
        """Make the commit fail if the value of `key` has changed, which changes of other keys depend on."""
        with self._lock:
            known = self.documents.get(key)
            self.documents[key] = document if known is None else known.joined(document)

    def drop(self, unneeded: Callable[[str], bool]) -> None:
        """Forget the changes of some keys."""
        with self._lock:
            for key in [k for k in self.changes if unneeded(k)]:
                del self.changes[key]

    def _admit_change(self, key: str) -> None:
        """Raise for an impossible change now, rather than at the commit."""
        self._admit(self, key, True)
        if offers(self.base, KeysChecked):
            self.base.check_key(key)

    def _replace(self, key: str, value: bytes | Reference | None, if_equal: bytes | None) -> bytes | None:
        self._admit_change(key)
        with self._lock:
            old = self._change_of(key)
            condition = self.read_generations.get(key) if old is None else old.condition
            if if_equal:
                if old is None:
                    condition = if_equal
                elif if_equal != self._generation_of(key, old):
                    return None
            change = self.changes[key] = Change(value, condition)
            return change.generation

    def _change_of(self, key: str) -> Change | None:
        change = self.changes.get(key)
        if change is None and any(key in gone for gone in self.deleted):
            return Change(None)
        return change

    def _generation_of(self, key: str, change: Change) -> bytes:
        return MISSING_GENERATION if self._value_of(key, change) is None else change.generation

    def _value_of(self, key: str, change: Change) -> Buffer | None:
        return change.apply(self.base.read(key).value if change.from_base else None)

    def _pin(self, key: str, generation: bytes) -> None:
        if self.read_generations.setdefault(key, generation) != generation:
            raise AbortedError("Generation mismatch in repeatable_read transaction")


class PendingPart(PrefixStore):
    """The keys of a PendingStore that begin with a prefix."""

    base: PendingStore

    def list_unpinned(self, start: str, stop: str) -> Iterator[str]:
        """Yield the keys in ``[start, stop)``; see `PendingStore.list_unpinned`."""
        below, n = KeyRange.between(start, stop).shifted(self.prefix), len(self.prefix)
        for key in self.base.list_unpinned(below.start, below.stop):
            yield key[n:]

    def modify(self, key: str, modification: Modification) -> None:
        """Record the change to apply to `key` at commit."""
        self.base.modify(self.prefix + key, modification)


def pending_under(store: KvStoreDriver) -> tuple[PendingStore, str] | None:
    """Return the store of a transaction that `store` is a part of, and its prefix there, if any."""
    whole, prefix = whole_store(store)
    return (whole, prefix) if isinstance(whole, PendingStore) else None
