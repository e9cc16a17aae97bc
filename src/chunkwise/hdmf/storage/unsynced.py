"""A kvstore during the writing of a new HDMF store, which waits for the disk once, at the end."""

# A new store can't be opened before the documents of its root exist, which are written last.  So the files
# below may reach the disk at any time before that, and thousands of small files wait for it together.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chunkwise.core.kvstore.protocol import SyncedLater
from chunkwise.core.kvstore.traits import Writer
from chunkwise.extension import Buffer, KvStoreDriver, StoreTraits
from chunkwise.extension.inside import Pool, Stop, offers, traits_of

__all__ = ["UnsyncedStore"]

_CONCURRENCY = 16
"""Files that are waited for at the same time: they share the wait."""


class UnsyncedStore:
    """Store over `base` whose writes don't wait for the disk until `settle`."""

    def __init__(self, base: KvStoreDriver) -> None:
        later: object = base
        self.base = base
        self._fast = later.unsynced() if offers(later, SyncedLater) else None
        self._changed: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    @property
    def traits(self) -> StoreTraits:
        """Those of the store that is written to."""
        if self._fast is None:
            return traits_of(self.base)
        return traits_of(self._fast)._replace(open_writer=lambda: _Recorder(self))

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`, as the store does."""
        if self._fast is None:
            return self.base.write(key, value, if_equal=if_equal)
        self._changed.add(key)
        return self._fast.write(key, value, if_equal=if_equal)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`, as the store does."""
        if self._fast is None:
            return self.base.delete(key, if_equal=if_equal)
        self._changed.add(key)
        return self._fast.delete(key, if_equal=if_equal)

    def settle(self, prefix: str, pool: Pool) -> None:
        """Wait until everything written below `prefix` is on disk; afterwards each write waits again."""
        store: object = self.base
        if self._fast is None or not offers(store, SyncedLater):
            return
        n = pool.n_workers if pool.bounded else _CONCURRENCY

        def each(function: Callable[[str], None], arguments: Sequence[str]) -> None:
            def open_worker(stop: Stop) -> Callable[[str], None]:
                return lambda argument: None if stop else function(argument)

            pool.run(arguments, open_worker, lambda: None, n_workers=n).result()

        store.sync(self._changed, prefix, each)
        self._fast = None
        self._changed.clear()


class _Recorder:
    """The writer of an unsynced store, for one worker."""

    def __init__(self, store: UnsyncedStore) -> None:
        assert store._fast is not None
        opener = traits_of(store._fast).open_writer
        writer: Writer | KvStoreDriver = store._fast if opener is None else opener()
        self._changed = store._changed
        self._write, self._delete = writer.write, writer.delete

    def write(self, key: str, value: Buffer) -> None:
        self._changed.add(key)
        self._write(key, value)

    def delete(self, key: str) -> None:
        self._changed.add(key)
        self._delete(key)

    def flush(self) -> None:
        """Do nothing: `UnsyncedStore.settle` waits."""
