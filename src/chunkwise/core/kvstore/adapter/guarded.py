"""``GuardedStore``: a store that is written only while its caller may write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    MOST_LOST,
    Buffer,
    ByteRange,
    KvStoreDriver,
    Reader,
    Stamped,
    offers,
)
from chunkwise.core.kvstore.store_base import SameKeysStore
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.core.kvstore.value import read_ranges

__all__ = ["GuardedStore", "Written"]


class Written(NamedTuple):
    """A value that was written to an empty key."""

    kv: KvStoreDriver
    key: str
    generation: bytes

    def undo(self) -> None:
        """Delete the value, unless it was replaced."""
        if self.generation and traits_of(self.kv).conditional_deletes:
            self.kv.delete(self.key, if_equal=self.generation)


class _ConditionalWriter(Protocol):
    def write_if(self, key: str, value: Buffer, if_equal: bytes) -> bytes | None: ...
    def flush(self) -> None: ...


class GuardedStore(SameKeysStore):
    """Store over `base` that writes to empty keys, and replaces values only while `check` allows it.

    `check` raises unless the caller may write.  It is called between the read of the old value and its
    replacement, which is conditional on that value: a value that another process has stored since is not
    replaced. With `check_new` it is called before an empty key is written, too.
    """

    def __init__(
        self,
        base: KvStoreDriver,
        check: Callable[[], None],
        note: Callable[[Written], object],
        *,
        check_new: bool = False,
    ) -> None:
        super().__init__(base)
        self._check, self._note, self._check_new = check, note, check_new
        self._traits = super().traits
        opener = traits_of(base).open_writer
        if opener is not None and offers(opener(), _ConditionalWriter):
            self._traits = self._traits._replace(open_writer=lambda: _Writer(self, opener()))

    @property
    def traits(self) -> StoreTraits:
        """Those of the base, with a writer that guards too."""
        return self._traits

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Read from the base."""
        return self.base.read(key, byte_range=byte_range, if_not_equal=if_not_equal)

    def open_reader(self) -> Reader:
        """Return a reader of the base."""
        return self.base.open_reader()

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Read from the base."""
        return read_ranges(self.base, key, starts, stops)

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`; raise AbortedError if it no longer belongs to the work."""
        return self.replace(key, value, if_equal, self._write_if)

    def _write_if(self, key: str, value: Buffer, if_equal: bytes) -> bytes | None:
        return self.base.write(key, value, if_equal=if_equal)

    def replace(
        self,
        key: str,
        value: Buffer,
        if_equal: bytes | None,
        write: Callable[[str, Buffer, bytes], bytes | None],
    ) -> bytes | None:
        """Write with a function that takes a condition."""
        if not traits_of(self.base).conditional_writes(key):
            self._check()
            return self.base.write(key, value, if_equal=if_equal)
        expected = if_equal or MISSING_GENERATION
        for _ in range(MOST_LOST):
            if self._check_new or expected != MISSING_GENERATION:
                self._check()
            generation = write(key, value, expected)
            if generation is not None:
                if expected == MISSING_GENERATION:
                    self._note(Written(self.base, key, generation))
                return generation
            if if_equal:
                self._check()
                return None
            expected = self.base.read(key).generation
        return self.base.write(key, value, if_equal=expected)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`; raise AbortedError if it no longer belongs to the work."""
        for _ in range(MOST_LOST):
            expected = if_equal or self.base.read(key).generation
            if expected == MISSING_GENERATION:
                return MISSING_GENERATION
            self._check()
            if not traits_of(self.base).conditional_deletes:
                return self.base.delete(key, if_equal=if_equal)
            generation = self.base.delete(key, if_equal=expected)
            if generation is not None or if_equal:
                return generation
        return None

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Refuse: no task deletes ranges."""
        raise AssertionError("a task deletes no range of keys")


class _Writer:
    """The writer of a guarded store, for one worker."""

    def __init__(self, store: GuardedStore, writer: Any) -> None:
        self._store, self._write_if = store, writer.write_if
        self.flush: Callable[[], None] = writer.flush

    def write(self, key: str, value: Buffer) -> None:
        """Replace the value of `key`, as the store does."""
        self._store.replace(key, value, None, self._write_if)

    def delete(self, key: str) -> None:
        """Delete `key`, as the store does."""
        self._store.delete(key)
