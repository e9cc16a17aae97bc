"""Partial writes inside a transaction, done to each object when it is committed.

Then the object is what it is at that time, so what others have stored meanwhile is not lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chunkwise.kvstore.atomic import Modifiable
from chunkwise.kvstore.protocol import MISSING_GENERATION, Buffer, ByteRange, Reader, Stamped
from chunkwise.kvstore.traits import DEFAULT_TRAITS, StoreTraits, traits_of

__all__ = ["OneValue", "defer"]

_GENERATION = b"\0"


class OneValue:
    """A store of one key, whichever it is called, that is changed by one thread.

    Parameters
    ----------
    value : bytes-like or None
    conditional_deletes : bool
        Whether the value may be deleted: at the commit that depends on what others write meanwhile.
    """

    def __init__(self, value: Buffer | None, *, conditional_deletes: bool) -> None:
        self.value = value
        self.traits: StoreTraits = DEFAULT_TRAITS._replace(conditional_deletes=conditional_deletes)

    @property
    def identity(self) -> Any:
        """Equal only for this very store."""
        return "one value", id(self)

    def describe(self, key: str) -> str:
        """Return the quoted key."""
        return f'"{key}"'

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value; parts of it are never asked for."""
        assert byte_range is None and if_not_equal is None, "an object is changed as a whole"
        return Stamped(self.value, MISSING_GENERATION if self.value is None else _GENERATION, 0.0)

    def open_reader(self) -> Reader:
        """Return a reader of the whole value."""
        return lambda key: self.value

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes:
        """Replace the value; nobody else has changed it."""
        self.value = bytes(value)
        return _GENERATION

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes:
        """Delete the value."""
        self.value = None
        return MISSING_GENERATION

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete the value."""
        self.value = None


def defer(kv: Modifiable, key: str, change: Callable[[OneValue], None]) -> None:
    """Have `change` done to the value of `key`; it is given a store that holds just that."""
    # It may be done several times, by any thread, each time to what is stored then.

    conditional_deletes = traits_of(kv).conditional_deletes

    def modification(stored: Buffer | None) -> Buffer | None:
        store = OneValue(stored, conditional_deletes=conditional_deletes)
        change(store)
        return store.value

    kv.modify(key, modification)
