"""The files below a directory, read-only, without those that symbolic links lead to outside."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from chunkwise.errors import PermissionDeniedError, UnsupportedError
from chunkwise.extension import DEFAULT_TRAITS, Buffer, ByteRange, Children, Stamped, StoreTraits
from chunkwise.extension.inside import MISSING_GENERATION, FileStore, ListEntry, Reader, extended_path

__all__ = ["ConfinedStore"]


class ConfinedStore:
    """The files below `directory`, read-only; files outside, after links are resolved, are missing."""

    def __init__(self, directory: str) -> None:
        real = os.path.realpath(directory)
        self.files = FileStore(real)
        self._real = real
        self._inside = real.rstrip(os.sep) + os.sep

    def __reduce__(self) -> tuple[Any, ...]:
        return ConfinedStore, (self._real,)

    @property
    def identity(self) -> Any:
        """Identity of the files."""
        return self.files.identity

    @property
    def traits(self) -> StoreTraits:
        """Those of a store that answers at once; nothing goes past the check of a key."""
        return DEFAULT_TRAITS

    def describe(self, key: str) -> str:
        """Return how the files are named."""
        return self.files.describe(key)

    def leads_inside(self, key: str) -> bool:
        """Return True if the path of `key` stays below the directory when its links are resolved."""
        real = os.path.realpath(self.files.root + key)
        return real == self._real or real.startswith(self._inside)

    def size(self, key: str) -> int | None:
        """Return the size of a value in bytes, None if it is missing."""
        path = extended_path(self.files.root + key)
        return os.path.getsize(path) if self.leads_inside(key) and os.path.isfile(path) else None

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Read a file, which is missing if it lies outside."""
        if not self.leads_inside(key):
            return Stamped(None, MISSING_GENERATION, 0.0)
        return self.files.read(key, byte_range=byte_range, if_not_equal=if_not_equal)

    def open_reader(self) -> Reader:
        """Return a reader for one worker."""
        fetch, leads_inside = self.files.open_reader(), self.leads_inside

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            return fetch(key, start, stop) if leads_inside(key) else None

        return read

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys of files that lie inside."""
        return (key for key in self.files.list(start, stop) if self.leads_inside(key))

    def list_entries(self, start: str = "", stop: str = "") -> Iterator[ListEntry]:
        """Yield keys and sizes of files that lie inside."""
        for key in self.list(start, stop):
            size = self.size(key)
            if size is not None:
                yield ListEntry(key, size, None)

    def list_children(self, prefix: str) -> Children:
        """List one level, without links that lead elsewhere."""
        if not self.leads_inside(prefix):
            return Children([], [])
        keys, prefixes = self.files.list_children(prefix)
        return Children(
            [key for key in keys if self.leads_inside(key)],
            [below for below in prefixes if self.leads_inside(below)],
        )

    def linked_directories(self, prefix: str) -> Sequence[str]:
        """Return the links to directories that lie inside."""
        links = self.files.linked_directories(prefix) if self.leads_inside(prefix) else []
        return [key for key in links if self.leads_inside(key)]

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Refuse."""
        raise _read_only(key)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Refuse."""
        raise _read_only(key)

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Refuse."""
        raise UnsupportedError("served data is read-only")


def _read_only(key: str) -> PermissionDeniedError:
    return PermissionDeniedError(f"served data is read-only: {key!r}")
