"""The store of a session of Icechunk, which holds Zarr v3 nodes alone, and is itself a transaction.

No other process sees written data before the caller commits.  So keys that only chunkwise writes, such as the
document of an append, are kept beside the session in the memory of this process, and so are chunks beyond the
end of an array, until it has grown.  Documents that Icechunk would store, but whose chunks it couldn't, are
refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from chunkwise.core.base.binding import load_json
from chunkwise.core.base.threads import new_lock
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.libraries.zarr_python import ZarrPythonStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import Buffer, ByteRange, Children, Reader, Stamped
from chunkwise.core.kvstore.traits import StoreTraits
from chunkwise.errors import InvalidArgumentError, UnsupportedError

__all__ = ["IcechunkStore"]

_DOCUMENT = "zarr.json"
_OTHER_DOCUMENTS = (".zarray", ".zgroup", ".zattrs", ".zmetadata", "attributes.json", "meta", "attrs")
_BEYOND = "invalid chunk index"
_lock = new_lock()
_asides: list[tuple[weakref.ref[Any], MemoryStore]] = []  # a session gives another object at each request


def _aside_of(store: Any) -> MemoryStore:
    """Return the state that belongs to a session while one of its store objects is in use."""
    with _lock:
        _asides[:] = [pair for pair in _asides if pair[0]() is not None]
        found = next((aside for known, aside in _asides if known() == store), None) or MemoryStore()
        _asides.append((weakref.ref(store), found))
        return found


class IcechunkStore(ZarrPythonStore):
    """The keys of a session."""

    def __init__(self, store: Any, *, single_writer: bool = False) -> None:
        super().__init__(store, single_writer=single_writer)
        self._aside = _aside_of(store)

    def __reduce__(self) -> tuple[object, ...]:
        return IcechunkStore, (self.store,)

    @property
    def traits(self) -> StoreTraits:
        """Those of the store of zarr-python; only nodes have keys."""
        return super().traits._replace(nodes_only=True)

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with its generation."""
        read = self._aside.read if self._is_aside(key) else super().read
        return read(key, byte_range=byte_range, if_not_equal=if_not_equal)

    def open_reader(self) -> Reader:
        """Return a reader of values; its results stay valid."""
        nodes, aside = super().open_reader(), self._aside.open_reader()

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            return (aside if self._is_aside(key) else nodes)(key, start, stop)

        return read

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`; return its new generation, None if the current is not `if_equal`."""
        self._check_writable("write", key)
        if self._is_aside(key):
            return self._aside.write(key, value, if_equal=if_equal)
        if key.rpartition("/")[2] in (_DOCUMENT, *_OTHER_DOCUMENTS):
            self._check_document(key, value)
        try:
            written = super().write(key, value, if_equal=if_equal)
        except InvalidArgumentError as e:
            if _BEYOND not in str(e):
                raise
            return self._aside.write(key, value, if_equal=if_equal)
        for chunk in self._waiting(key) if written is not None else ():
            found = self._aside.read(chunk).value
            self._aside.delete(chunk)
            if found is not None:
                self.write(chunk, found)
        return written

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`; return MISSING_GENERATION, None if `if_equal` is not the current generation."""
        if self._is_aside(key):
            return self._aside.delete(key, if_equal=if_equal)
        deleted = super().delete(key, if_equal=if_equal)
        for chunk in self._waiting(key) if deleted is not None else ():
            self._aside.delete(chunk)
        return deleted

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete the keys in ``[start, stop)``, documents first, since chunks go with them."""
        keys = list(super().list(start, stop))
        nodes = {key for key in keys if key.rpartition("/")[2] == _DOCUMENT}
        for key in nodes:
            self.delete(key)
        for key in keys:
            array, _, _ = f"/{key}".rpartition("/c")
            if key not in nodes and f"{array}/{_DOCUMENT}"[1:] not in nodes:
                self.delete(key)
        self._aside.delete_range(start, stop)

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        yield from super().list(start, stop)
        yield from self._aside.list(start, stop)

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`; keys and prefixes are complete."""
        keys, prefixes = super().list_children(prefix)
        more = self._aside.list_children(prefix)
        return Children([*keys, *more.keys], sorted({*prefixes, *more.prefixes}))

    def _is_aside(self, key: str) -> bool:
        name = key.rpartition("/")[2]
        return name.startswith(".chunkwise") or self._aside.read(key).value is not None

    def _waiting(self, key: str) -> Iterator[str]:
        """Return the chunks that wait until the array has grown whose document is `key`."""
        array, _, name = key.rpartition("/")
        chunks = KeyRange.of_prefix(f"{array}/c/" if array else "c/")
        return self._aside.list(chunks.start, chunks.stop) if name == _DOCUMENT else iter(())

    def _check_document(self, key: str, value: Buffer) -> None:
        """Raise UnsupportedError for a document of another format, or of an array with other keys.

        Chunks that a new shape leaves outside are deleted: afterwards, the session would refuse it.
        """
        prefix = key.removesuffix(_DOCUMENT)
        try:
            document: Any = load_json(bytes(value))
            encoding = document.get("chunk_key_encoding", "default")
            if isinstance(encoding, dict):
                separator = encoding.get("configuration", {}).get("separator", "/")
                encoding = encoding["name"] if separator == "/" else f"separator {separator}"
            if prefix == key or encoding != "default":
                raise UnsupportedError(
                    f"Failed to write {self.describe(key)}: a session of Icechunk holds groups and arrays of "
                    'Zarr v3 alone, whose chunks have keys like "c/0/1": format="zarr3" with the default '
                    "chunk_key_encoding"
                )
            if "shape" not in document or (stored := super().read(key).value) is None:
                return
            before: Any = load_json(bytes(stored))
            if not any(new < old for new, old in zip(document["shape"], before["shape"], strict=True)):
                return
            sizes = document["chunk_grid"]["configuration"]["chunk_shape"]
            n_cells = [-(-size // chunk) for size, chunk in zip(document["shape"], sizes, strict=True)]
        except (InvalidArgumentError, AttributeError, LookupError, TypeError, ValueError, ZeroDivisionError):
            return  # the session itself refuses it
        chunks = KeyRange.of_prefix(prefix + "c/")
        for chunk in list(super().list(chunks.start, chunks.stop)):
            cell = chunk.removeprefix(prefix + "c/").split("/")
            if any(int(index) >= n for index, n in zip(cell, n_cells, strict=True)):
                super().delete(chunk)
