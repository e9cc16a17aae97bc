"""Parts of values in files of a directory, which any number of processes use at the same time.

A file is written under another name and renamed when complete, with a checksum; damaged files are ignored.
Reading a file makes it the most recently used.  After writing a tenth of the limit, a process checks the
directory's size, and removes the least recently used files if it is too large.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress

from chunkwise.core.kvstore.adapter.read_through_memory import Entry, Part
from chunkwise.core.kvstore.file_error import file_error
from chunkwise.core.kvstore.file_path import root_directory
from chunkwise.core.kvstore.key_range import encode_key

__all__ = ["DiskEntries"]

_HEAD = struct.Struct("<8sIIdQ")
_MAGIC = b"cwcache1"
_TEMPORARY = ".part"
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

    def evict(self, key: str) -> None:
        """Forget all parts of a value."""
        shutil.rmtree(self._of_key(key), ignore_errors=True)

    def clear(self) -> None:
        """Forget everything, other namespaces too."""
        for file in self._files():
            with suppress(OSError):
                os.unlink(file.path)

    def _files(self) -> Iterator[os.DirEntry[str]]:
        waiting = [self.directory]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as found:
                    for entry in found:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        else:
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
