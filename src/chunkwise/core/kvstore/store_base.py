"""What a store derives from `read`, `list` and `delete`, unless it has a better way."""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.byte_range import slice_ranges
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.protocol import Buffer, ByteRange, Children, KvStoreDriver, Reader, delete_where

__all__ = ["StoreBase"]


class StoreBase:
    """Base of stores; each overrides what its storage does faster than this."""

    def describe(self, key: str) -> str:
        """Return the quoted key."""
        return dump(key)

    def open_reader(self: KvStoreDriver) -> Reader:
        """Return a reader of values; its results stay valid."""

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            part = None if (start, stop) == (0, None) else ByteRange(start, stop)
            return self.read(key, byte_range=part).value

        return read

    def read_ranges(
        self: KvStoreDriver, key: str, starts: Sequence[int], stops: Sequence[int]
    ) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`, None if that is missing."""
        value = self.open_reader()(key)
        return None if value is None else slice_ranges(value, starts, stops)

    def delete_range(self: KvStoreDriver, start: str = "", stop: str = "") -> None:
        """Delete the keys in ``[start, stop)`` that exist now."""
        delete_where(self, start, stop, lambda key: True)

    def list_children(self: KvStoreDriver, prefix: str) -> Children:
        """List one level below `prefix`, in order; keys and prefixes are complete."""
        below = KeyRange.of_prefix(prefix)
        return Children.of(prefix, sorted(self.list(below.start, below.stop), key=encode_key))
