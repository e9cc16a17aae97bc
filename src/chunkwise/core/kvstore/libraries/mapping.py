"""A mutable mapping from text to bytes, used as a kvstore.

Other code may change the mapping too, so the generation of a value is its digest.  Conditional writes exclude
each other in one process.  A pickle names the store and is usable only in the same process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterator, MutableMapping
from typing import ClassVar

from chunkwise.core.base.threads import new_lock
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    Reader,
    Stamped,
    digest_generation,
)
from chunkwise.core.kvstore.store_base import StoreBase
from chunkwise.core.kvstore.this_process import held_by, itself, reduced
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS, StoreTraits
from chunkwise.core.kvstore.value import slice_range

__all__ = ["MappingStore"]

_lock = new_lock()  # shared by all mappings, since two stores may have the same one


class MappingStore(StoreBase):
    """The items of a mapping from text to bytes."""

    traits: ClassVar[StoreTraits] = DEFAULT_TRAITS

    def __init__(self, mapping: MutableMapping[str, bytes]) -> None:
        self._mapping = mapping
        self._held = held_by(mapping)
        self._name = os.urandom(16).hex()

    def __reduce__(self) -> tuple[object, ...]:
        return reduced(self, self._name, "a mapping that is a store", itself)

    def _get(self, key: str) -> bytes | None:
        value = self._mapping.get(key)
        # Some mappings of zarr-python 2 hold arrays.
        return value if value is None or isinstance(value, bytes) else memoryview(value).tobytes()

    @property
    def identity(self) -> Hashable:
        """A value that is equal only for this mapping."""
        return "mapping", self._held.name

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with its generation."""
        now = time.time()
        value = self._get(key)
        generation = digest_generation(value)
        if value is None or generation == if_not_equal:
            return Stamped(None, generation, now)
        part = value if byte_range is None else slice_range(value, *byte_range)
        return Stamped(part, generation, now)

    def open_reader(self) -> Reader:
        """Return a reader of values; its results stay valid."""

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            value = self._get(key)
            if value is None or (start == 0 and stop is None):
                return value
            return slice_range(value, start, stop)

        return read

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`; return its new generation, None if the current is not `if_equal`."""
        new = bytes(value)
        with _lock:
            if if_equal and digest_generation(self._get(key)) != if_equal:
                return None
            self._mapping[key] = new
        return digest_generation(new)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`; return MISSING_GENERATION, None if `if_equal` is not the current generation."""
        with _lock:
            if if_equal and digest_generation(self._get(key)) != if_equal:
                return None
            self._mapping.pop(key, None)
        return MISSING_GENERATION

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete the keys in ``[start, stop)`` that exist now."""
        with _lock:
            for key in list(self.list(start, stop)):
                self._mapping.pop(key, None)

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)`` that exist now, in order."""
        keys = KeyRange.between(start, stop)
        return iter(sorted((key for key in list(self._mapping) if key in keys), key=encode_key))
