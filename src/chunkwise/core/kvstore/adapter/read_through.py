"""A store that keeps values read from another one, in memory or on disk.

Kept values are used without a request for `max_age` seconds; after that the other store is asked whether they
are current, which costs a request but no transfer.  A missing key is not remembered.

Parts of values in memory; the least recently used are forgotten first.

Parts of values in files of a directory, which any number of processes use at the same time.

A file is written under another name and renamed when complete, with a checksum; damaged files are ignored.
Reading a file makes it the most recently used.  After writing a tenth of the limit, a process checks the
directory's size, and removes the least recently used files if it is too large.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import tempfile
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from chunkwise.core.base.threads import new_lock, put_in_order_in_child
from chunkwise.core.kvstore.caches import ENTRY_OVERHEAD
from chunkwise.core.kvstore.files.path import file_error, root_directory
from chunkwise.core.kvstore.key_range import encode_key
from chunkwise.core.kvstore.protocol import Buffer, ByteRange, KvStoreDriver, Stamped, delete_where
from chunkwise.core.kvstore.store_base import SameKeysStore
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.core.kvstore.value import read_ranges

__all__ = ["DiskEntries", "Entries", "Entry", "MemoryEntries", "Part", "ReadThroughStore"]


class Part(NamedTuple):
    """A range of bytes of a value, as it was requested."""

    key: str
    start: int
    stop: int | None


class Entry(NamedTuple):
    """Bytes that were read."""

    value: bytes
    generation: bytes  # generation of the whole value
    time: float  # time at which it was current, in seconds since the epoch


class Entries(Protocol):
    """The storage of a cache."""

    def get(self, part: Part) -> Entry | None:
        """Return the entry, None if there is none."""
        ...

    def put(self, part: Part, entry: Entry) -> None:
        """Keep an entry, if there is room; forget what is kept of another generation of the value."""
        ...

    def evict(self, key: str) -> None:
        """Forget all parts of a value."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...


class MemoryEntries:
    """Entries in memory, up to a limit in bytes that counts their overhead."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.n_bytes = 0
        self._entries: OrderedDict[Part, Entry] = OrderedDict()
        self._parts: dict[str, set[Part]] = {}
        self._lock = new_lock()
        put_in_order_in_child(self)

    def after_fork(self) -> None:
        """Forget everything: another thread may have been in the middle of a change."""
        self.clear()

    def __reduce__(self) -> tuple[object, ...]:
        return MemoryEntries, (self.limit,)

    def get(self, part: Part) -> Entry | None:
        """Return the entry, None if there is none."""
        with self._lock:
            found = self._entries.get(part)
            if found is not None:
                self._entries.move_to_end(part)
            return found

    def put(self, part: Part, entry: Entry) -> None:
        """Keep an entry, unless it is larger than the whole cache."""
        with self._lock:
            self._remove(part)
            others = self._parts.get(part.key, ())
            if any(self._entries[other].generation != entry.generation for other in tuple(others)[:1]):
                for other in tuple(others):
                    self._remove(other)
            if _size(part, entry) > self.limit:
                return
            self._entries[part] = entry
            self._parts.setdefault(part.key, set()).add(part)
            self.n_bytes += _size(part, entry)
            while self.n_bytes > self.limit:
                self._remove(next(iter(self._entries)))

    def evict(self, key: str) -> None:
        """Forget all parts of a value."""
        with self._lock:
            for part in list(self._parts.get(key, ())):
                self._remove(part)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._parts.clear()
            self.n_bytes = 0

    def _remove(self, part: Part) -> None:
        entry = self._entries.pop(part, None)
        if entry is None:
            return
        self.n_bytes -= _size(part, entry)
        parts = self._parts[part.key]
        parts.discard(part)
        if not parts:
            del self._parts[part.key]


def _size(part: Part, entry: Entry) -> int:
    return len(entry.value) + len(entry.generation) + len(part.key) + ENTRY_OVERHEAD


_HEAD = struct.Struct("<8sIIdQ")
_MAGIC = b"cwcache1"
_TEMPORARY = ".part"
# Names of the cache's own files and directories, by depth. The directory may hold others.
_OWN = tuple(
    map(re.compile, ("[0-9a-f]{2}", "[0-9a-f]{62}", rf"-?[0-9]+_[0-9]*|tmp\w+{re.escape(_TEMPORARY)}"))
)
_KEEP = 0.9  # fraction of the limit to leave after a clean-up, so that not every entry scans the directory


class DiskEntries:
    """Entries in files of a directory, which is created; raises StorageError on failure."""

    def __init__(self, directory: str, limit: int, namespace: str) -> None:
        self.directory = os.path.abspath(os.path.expanduser(directory))
        self.limit = limit  # limit for the bytes of all files; may be exceeded by a tenth for a while
        self.namespace = namespace  # caches with different namespaces can share a directory
        self._unchecked = limit  # so that the first write checks the directory
        try:
            os.makedirs(root_directory(self.directory), exist_ok=True)
        except OSError as e:
            raise file_error(e, "make cache directory", self.directory) from e

    def __reduce__(self) -> tuple[object, ...]:
        return DiskEntries, (self.directory, self.limit, self.namespace)

    def _of_key(self, key: str) -> str:
        name = hashlib.sha256(encode_key(f"{self.namespace}\0{key}")).hexdigest()
        return os.path.join(self.directory, name[:2], name[2:])

    def _path(self, part: Part) -> str:
        stop = "" if part.stop is None else part.stop
        return os.path.join(self._of_key(part.key), f"{part.start}_{stop}")

    def get(self, part: Part) -> Entry | None:
        """Return the entry; None if there is none, or if it is damaged."""
        path = self._path(part)
        try:
            with open(path, "rb") as file:
                raw = file.read()
            os.utime(path)
        except OSError:
            return None
        if len(raw) < _HEAD.size:
            return None
        magic, crc, n_generation, time, n_value = _HEAD.unpack_from(raw)
        at = _HEAD.size + n_generation
        if magic != _MAGIC or at + n_value != len(raw) or zlib.crc32(raw[_HEAD.size :]) != crc:
            return None
        return Entry(raw[at:], raw[_HEAD.size : at], time)

    def put(self, part: Part, entry: Entry) -> None:
        """Keep an entry if it is not too large; a full disk is not an error."""
        if self._kept_generation(part.key) not in (None, entry.generation):
            self.evict(part.key)
        body = entry.generation + entry.value
        head = _HEAD.pack(_MAGIC, zlib.crc32(body), len(entry.generation), entry.time, len(entry.value))
        if len(head) + len(body) > self.limit * _KEEP:
            return
        path = self._path(part)
        temporary = ""
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            number, temporary = tempfile.mkstemp(suffix=_TEMPORARY, dir=os.path.dirname(path))
            with open(number, "wb") as file:
                file.write(head)
                file.write(body)
            os.replace(temporary, path)
        except OSError:
            if temporary:
                with suppress(OSError):
                    os.unlink(temporary)
            return
        self._unchecked += len(head) + len(body)
        if self._unchecked > self.limit / 10:
            self._unchecked = 0
            self._shrink()

    def _kept_generation(self, key: str) -> bytes | None:
        """Return the generation of the parts of a value, which all have the same; None if none is kept."""
        with suppress(OSError, StopIteration), os.scandir(self._of_key(key)) as found:
            path = next(file.path for file in found if not file.name.endswith(_TEMPORARY))
            with open(path, "rb") as file:
                head = file.read(_HEAD.size)
                return file.read(_HEAD.unpack(head)[2]) if len(head) == _HEAD.size else b""
        return None

    def evict(self, key: str) -> None:
        """Forget all parts of a value."""
        shutil.rmtree(self._of_key(key), ignore_errors=True)

    def clear(self) -> None:
        """Forget everything, other namespaces too."""
        for file in self._files():
            with suppress(OSError):
                os.unlink(file.path)

    def _files(self) -> Iterator[os.DirEntry[str]]:
        waiting = [(self.directory, 0)]
        while waiting:
            path, depth = waiting.pop()
            try:
                with os.scandir(path) as found:
                    for entry in found:
                        if not _OWN[depth].fullmatch(entry.name):
                            continue
                        is_directory = entry.is_dir(follow_symlinks=False)
                        if is_directory and depth < 2:
                            waiting.append((entry.path, depth + 1))
                        elif not is_directory and depth == 2:
                            yield entry
            except OSError:  # another process removed it
                continue

    def _shrink(self) -> None:
        ages = []
        total = 0
        for file in self._files():
            with suppress(OSError):
                status = file.stat(follow_symlinks=False)
                total += status.st_size
                ages.append((status.st_mtime_ns, status.st_size, file.path))
        if total <= self.limit:
            return
        for _, size, path in sorted(ages):
            with suppress(OSError):
                os.unlink(path)
            with suppress(OSError):
                os.rmdir(os.path.dirname(path))
            total -= size
            if total <= self.limit * _KEEP:
                return


class ReadThroughStore(SameKeysStore):
    """A store whose values are kept in `entries`, in memory or on disk, once read."""

    def __init__(self, base: KvStoreDriver, entries: Entries, *, max_age: float = 0.0) -> None:
        super().__init__(base)
        self.entries = entries
        self.max_age = max_age  # seconds; with 0 the base is asked every time, with infinity never again
        # Number of reads without a request, with a request but no transfer, and others.
        self.n_hits = self.n_confirmed = self.n_misses = 0
        self._last_change = object()

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, (self.base, self.entries, self.max_age)

    def __repr__(self) -> str:
        return f"ReadThroughStore({self.base!r}, {type(self.entries).__name__}, max_age={self.max_age:g})"

    @property
    def traits(self) -> StoreTraits:
        """Those of the base; readers and writers go through the cache."""
        return super().traits._replace(is_cached=self._is_cached)

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, from the cache if that is current."""
        start, stop = byte_range or (0, None)
        part = Part(key, start, stop)
        last_change, known = self._last_change, self.entries.get(part)
        if known is None:
            found = self.base.read(key, byte_range=byte_range, if_not_equal=if_not_equal)
        elif time.time() - known.time <= self.max_age:
            self.n_hits += 1
            return _answer(known, known.time, if_not_equal)
        else:
            found = self.base.read(key, byte_range=byte_range, if_not_equal=known.generation)
            if found.value is None and found.generation == known.generation:
                self.n_confirmed += 1
                if self.max_age > 0:
                    self._keep(part, known._replace(time=found.time), last_change)
                return _answer(known, found.time, if_not_equal)
        self.n_misses += 1
        if found.value is None:
            if known is not None:
                self.entries.evict(key)
            return found
        entry = Entry(bytes(found.value), found.generation, found.time)
        self._keep(part, entry, last_change)
        return _answer(entry, found.time, if_not_equal)

    def _keep(self, part: Part, entry: Entry, last_change: object) -> None:
        self.entries.put(part, entry)
        if self._last_change is not last_change:  # the value read may be older than the change
            self.entries.evict(part.key)

    def _is_cached(self, key: str, start: int = 0, stop: int | None = None) -> bool:
        known = self.entries.get(Part(key, start, stop)) if self.max_age > 0 else None
        if known is not None and time.time() - known.time <= self.max_age:
            return True
        base = traits_of(self.base).is_cached
        return base is not None and base(key, start, stop)

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range, from the cache if it has all of them in one generation."""
        pairs = list(zip(starts, stops, strict=True))
        now = time.time()
        known = [self.entries.get(Part(key, *pair)) for pair in pairs] if self.max_age > 0 else []
        fresh = [entry for entry in known if entry is not None and now - entry.time <= self.max_age]
        if pairs and len(fresh) == len(pairs) and len({entry.generation for entry in fresh}) == 1:
            self.n_hits += 1
            return [entry.value for entry in fresh]
        self.n_misses += 1
        return read_ranges(self.base, key, starts, stops)

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Write to the base, and forget the old value."""
        try:
            return self.base.write(key, value, if_equal=if_equal)
        finally:
            self._last_change = object()  # not a counter: two threads could count once
            self.entries.evict(key)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete from the base, and forget the old value."""
        try:
            return self.base.delete(key, if_equal=if_equal)
        finally:
            self._last_change = object()
            self.entries.evict(key)

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete from the base, and forget everything."""
        try:
            self.base.delete_range(start, stop)
        finally:
            self._last_change = object()
            self.entries.clear()

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        """Delete the keys that are `wanted` from the base, and forget everything."""
        try:
            delete_where(self.base, start, stop, wanted)
        finally:
            self._last_change = object()
            self.entries.clear()


def _answer(entry: Entry, now: float, if_not_equal: bytes | None) -> Stamped:
    value = None if entry.generation == if_not_equal else entry.value
    return Stamped(value, entry.generation, now)


def _unpickle(base: KvStoreDriver, entries: Entries, max_age: float) -> ReadThroughStore:
    return ReadThroughStore(base, entries, max_age=max_age)
