"""The part of a store whose keys begin with a prefix, as a store; and the store that a part belongs to.

The prefix is prepended unchanged: with ``a/b`` the key ``c`` is ``a/bc`` in the base.  Generations, messages
and errors are the base's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from chunkwise.core.kvstore.caches import RenamedShardIndexes
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import (
    Buffer,
    ByteRange,
    Children,
    KvStoreDriver,
    Reader,
    Stamped,
    delete_where,
)
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.core.kvstore.value import read_ranges

__all__ = ["PrefixStore", "whole_store"]


class PrefixStore:
    """The keys of `base` that begin with `prefix`."""

    def __init__(self, base: KvStoreDriver, prefix: str) -> None:
        self.base = base
        self.prefix = prefix

    def __repr__(self) -> str:
        return f"PrefixStore({self.base!r}, {self.prefix!r})"

    @property
    def traits(self) -> StoreTraits:
        """The base's traits, for the keys of this store; whole chunks bypass neither."""
        base = traits_of(self.base)
        cached, indexes = base.is_cached, base.shard_indexes
        return base.adapted(
            rename=self.rename,
            is_cached=None if cached is None else lambda key, *span: cached(self.prefix + key, *span),
            shard_indexes=None if indexes is None else RenamedShardIndexes(indexes, self.rename),
            open_writer=None,
            open_into_reader=None,
        )._replace(current_readers=base.current_readers)

    def rename(self, key: str) -> str:
        """Return the key of the base."""
        return self.prefix + key

    @property
    def identity(self) -> Hashable:
        """The identity of the base, with the prefix."""
        return "prefix", self.base.identity, self.prefix

    def describe(self, key: str) -> str:
        """Name `key` like the base."""
        return self.base.describe(self.prefix + key)

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with its generation."""
        return self.base.read(self.prefix + key, byte_range=byte_range, if_not_equal=if_not_equal)

    def open_reader(self) -> Reader:
        """Return a reader of the base."""
        prefix, base = self.prefix, self.base.open_reader()

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            return base(prefix + key, start, stop)

        return read

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`, in one request if the base can."""
        return read_ranges(self.base, self.prefix + key, starts, stops)

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`; return its new generation, None if the current is not `if_equal`."""
        return self.base.write(self.prefix + key, value, if_equal=if_equal)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`."""
        return self.base.delete(self.prefix + key, if_equal=if_equal)

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete the keys in ``[start, stop)``; an empty range is empty in the base too."""
        keys = KeyRange.between(start, stop)
        if not keys.empty:
            below = keys.shifted(self.prefix)
            self.base.delete_range(below.start, below.stop)

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        """Delete the keys in ``[start, stop)`` that are `wanted`."""
        keys = KeyRange.between(start, stop)
        if not keys.empty:
            below, n = keys.shifted(self.prefix), len(self.prefix)
            delete_where(self.base, below.start, below.stop, lambda key: wanted(key[n:]))

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        keys = KeyRange.between(start, stop)
        if not keys.empty:
            below, n = keys.shifted(self.prefix), len(self.prefix)
            for key in self.base.list(below.start, below.stop):
                yield key[n:]

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`."""
        keys, prefixes = self.base.list_children(self.prefix + prefix)
        n = len(self.prefix)
        return Children([k[n:] for k in keys], [p[n:] for p in prefixes])


def whole_store(store: KvStoreDriver) -> tuple[KvStoreDriver, str]:
    """Return the largest store that `store` is a part of, and the prefix of its keys there."""
    # One directory may contain the other, so for files it is the whole file system.
    if isinstance(store, FileStore):
        drive, path = os.path.splitdrive(store.real_root)
        options: dict[str, Any] = {
            "sync": store.writing.sync,
            "locking": store.writing.locking,
            "acquire_timeout": store.writing.timeout,
            "io_mode": store.io_mode,
            "io_limit": store.io_limit,
        }
        below = path.replace(os.sep, "/").strip("/")
        return FileStore(drive + "/", **options), below + "/" if below else ""
    if isinstance(store, PrefixStore):
        whole, outer = whole_store(store.base)
        return whole, outer + store.prefix
    return store, ""
