"""A kvstore of local files: each value is a file, each key its path below the root.

Names
-----
TensorStore's ``file``, with its resources ``file_io_sync``, ``file_io_locking`` and ``file_io_mode``
as the arguments of `FileStore`.

Compatibility
-------------
Generations, lock files and the ways of locking are those of TensorStore 0.1.86, so processes of both may
write to one store at the same time.  There are these differences: a lock file that a killed process left
behind is truncated (TensorStore keeps the bytes beyond the new value); ``acquire_timeout`` limits the waiting
in mode ``os`` too; ``delete_range`` leaves the lock files of active writers alone; deleting a key makes no
directories.

Files and directories may be deleted while they are read or written.  A reader that has opened a file reads it
to the end; a writer whose lock file or directory disappears starts again.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import IO, Any, TypeVar

from chunkwise.core.base.binding import dump
from chunkwise.core.base.limits import held
from chunkwise.core.kvstore.files.list_files import (
    delete_files,
    is_directory,
    linked_directories,
    list_directory,
    walk,
)
from chunkwise.core.kvstore.files.path import (
    MISSING,
    NOT_EMPTY,
    check_case,
    check_key,
    file_error,
    file_errors,
    is_suspect,
    other_case,
    path_of,
    real_directory,
    root_directory,
)
from chunkwise.core.kvstore.files.platform import (
    FOLDS_NAMES,
    VECTORED_READS,
    WINDOWS,
    extended_path,
    sync_directory,
    sync_path,
)
from chunkwise.core.kvstore.files.protocol import generation_of, remove_stale
from chunkwise.core.kvstore.files.read import (
    LOADERS,
    OpenFile,
    load_range,
    open_file_reader,
    open_for_reading,
    open_into_reader,
    read_file_ranges,
    regular_status,
)
from chunkwise.core.kvstore.files.write import FileWriter, Writing, delete_file, replace_file, write_all
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, Buffer, ByteRange, Children, Reader, Stamped
from chunkwise.core.kvstore.store_base import StoreBase
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS, IntoReader, StoreTraits
from chunkwise.core.kvstore.value import check_size, resolve_range
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, InvalidArgumentError, UnsupportedError

__all__ = ["FileStore"]

R = TypeVar("R")
T = TypeVar("T")

_LOCKING = ("os", "lockfile", "none", "non_atomic")
# Simultaneous writes that wait for the disk share the wait: 512 chunks of 16³ on ext4 take 3.4 s one after
# the other, 0.3 s with 4 to 16 threads, 0.2 s with 64 (benchmarks/compare.py --operations sync).
_SYNC_CONCURRENCY = 16
_PAUSES = [0.001 * 2**n for n in range(9)]  # seconds, for writers that hold a lock in a deleted directory


class FileStore(StoreBase):
    """The files below a directory, which the first write creates."""

    def __init__(
        self,
        root: str | os.PathLike[Any],
        *,
        sync: bool = True,
        locking: str = "os",
        acquire_timeout: float = 60.0,
        io_mode: str = "default",
        io_limit: int | None = None,
    ) -> None:
        if locking not in _LOCKING:
            raise InvalidArgumentError(
                f"Expected locking to be one of {', '.join(_LOCKING)}, but received: {locking!r}"
            )
        if io_mode not in LOADERS:
            raise InvalidArgumentError(
                f"Expected io_mode to be one of {', '.join(LOADERS)}, but received: {io_mode!r}"
            )
        if io_mode == "memmap" and WINDOWS:
            raise UnsupportedError(
                "io_mode memmap is not supported on Windows, which replaces no mapped file"
            )
        if not acquire_timeout >= 0:
            raise InvalidArgumentError(
                f"Expected acquire_timeout to be seconds, not negative, but received: {acquire_timeout!r}"
            )
        # Absolute: a relative path is relative to the current working directory, not to a later one.
        self.root = root_directory(root)
        self.writing = Writing(locking, bool(sync), float(acquire_timeout))
        self.io_mode = io_mode  # see `chunkwise.core.kvstore.files.read`
        self.io_limit = io_limit
        self._real: str | None = None

    def __repr__(self) -> str:
        how = self.writing
        return (
            f"FileStore({self.root!r}, sync={how.sync}, locking={how.locking!r}, "
            f"acquire_timeout={how.timeout:g}, io_mode={self.io_mode!r})"
        )

    @property
    def identity(self) -> Hashable:
        """The directory with symbolic links resolved, once; the options are not part of it."""
        return "file", os.path.normcase(self.real_root)

    @property
    def real_root(self) -> str:
        """The directory with symbolic links resolved, once, and without a final ``/``."""
        if self._real is None:
            self._real = real_directory(self.root)
        return self._real

    @property
    def traits(self) -> StoreTraits:
        """Those of a local store; many writes that wait for the disk run at a time."""
        return DEFAULT_TRAITS._replace(
            write_concurrency=_SYNC_CONCURRENCY if self.writing.sync else None,
            io_limit=self.io_limit,
            open_writer=self.open_writer,
            open_into_reader=self.open_into_reader,
            current_readers=True,
        )

    def describe(self, key: str) -> str:
        """Return ``local file`` and the quoted path."""
        return f"local file {dump(self.root + key)}"

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with its generation; a directory counts as missing."""
        path, now = self._path(key), time.time()
        if FOLDS_NAMES and other_case(self.root, key):
            return Stamped(None, MISSING_GENERATION, now)
        try:
            [fd] = map(open_for_reading, [path], [self.io_mode == "direct"])
            try:
                status = regular_status(fd)
                size, generation = status.st_size, generation_of(status)
                if generation == if_not_equal:
                    return Stamped(None, generation, now)
                begin, end = (0, size) if byte_range is None else resolve_range(*byte_range, size)
                if self.io_mode != "memmap" or held() is not None:  # a map needs no memory
                    check_size(end - begin, path, *(byte_range or ()))
                load = LOADERS[self.io_mode]
                value = load(fd, begin, end) if byte_range is None else load_range(load, fd, begin, end)
                return Stamped(value, generation, now)
            finally:
                os.close(fd)
        except MISSING:
            return Stamped(None, MISSING_GENERATION, now)
        except ChunkwiseError:
            raise
        except OSError as e:
            raise file_error(e, "read", path) from e

    def open_reader(self) -> Reader:
        """Return a reader for one worker; its result is valid until its next call."""
        if self.io_mode == "default" and VECTORED_READS:
            return self._exact(open_file_reader(self.root))
        return super().open_reader()

    def open_into_reader(self) -> IntoReader | None:
        """Return a reader that fills the caller's memory, None if files are read differently."""
        if self.io_mode != "default" or not VECTORED_READS:
            return None
        return self._exact(open_into_reader(self.root))

    def _exact(self, read: Callable[..., R]) -> Callable[..., R | None]:
        """Return a reader that treats a key as missing if it differs in case from the file's name."""
        if not FOLDS_NAMES:
            return read
        return lambda key, *arguments: None if other_case(self.root, key) else read(key, *arguments)

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`, None if that is missing."""
        # Close ranges in ascending order share a system call.
        return None if other_case(self.root, key) else read_file_ranges(self._path(key), starts, stops)

    def open_value(self, key: str) -> OpenFile | None:
        """Open the file of `key`, for one worker; None if it is missing or a directory."""
        if is_suspect(key):
            check_key(self.root, key)
            if other_case(self.root, key):
                return None
        path = extended_path(self.root + key) if WINDOWS else self.root + key
        try:
            return OpenFile(path, self.io_mode)
        except MISSING:
            return None
        except OSError as e:
            raise file_error(e, "open", path) from e

    def read_size(self, key: str) -> int:
        """Return the size of the value of `key` in bytes; 0 if it is missing."""
        try:
            return os.path.getsize(self._path(key))
        except MISSING:
            return 0

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`; return its new generation, None if the current is not `if_equal`."""
        return self._replace(key, write_all, value, if_equal)

    def write_file(
        self, key: str, write: Callable[[IO[bytes]], object], *, if_equal: bytes | None = None
    ) -> bytes | None:
        """Replace the value of `key` by what `write` writes to a file; returns like `FileStore.write`."""
        # `write` may be called again, with another file.

        def fill(fd: int, write: Callable[[IO[bytes]], object]) -> None:
            with open(fd, "wb", closefd=False) as file:
                write(file)

        return self._replace(key, fill, write, if_equal)

    def _replace(
        self, key: str, fill: Callable[[int, T], object], value: T, if_equal: bytes | None
    ) -> bytes | None:
        path = self._path(key, changes=True)
        with file_errors("write", path):
            return replace_file(path, fill, value, if_equal, self.writing)

    def open_writer(self) -> FileWriter:
        """Return a writer for one worker that replaces values unconditionally."""
        return FileWriter(self.root, self.writing)

    def unsynced(self) -> FileStore | None:
        """Return the same store with writes that don't wait for the disk; None if its own don't wait."""
        if not self.writing.sync:
            return None
        other = copy(self)
        other.writing = self.writing._replace(sync=False)
        return other

    def sync(
        self, keys: Iterable[str], prefix: str, each: Callable[[Callable[[str], None], Sequence[str]], object]
    ) -> None:
        """Wait until the values of `keys` and all names below `prefix`, a directory, are on disk."""
        files = [self._path(key) for key in keys]
        directories = {os.path.dirname(self.root + prefix)}
        for path in files:
            while (path := os.path.dirname(path)) not in directories:
                directories.add(path)
        with file_errors("write", self.root, named=True):
            each(sync_path, files)
            each(sync_directory, sorted(directories))

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`; return MISSING_GENERATION, None if `if_equal` is not the current generation."""
        path = self._path(key, changes=True)
        with file_errors("delete", path):
            return delete_file(path, if_equal, self.writing)

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete the keys in ``[start, stop)``, and directories that contain nothing else."""
        # A directory is removed if the range includes all keys that begin with its path: ``[a/b, a/c)``
        # removes the directory ``a/b``, ``[a/b/, a/b0)`` leaves it empty.  Lock files are removed too, except
        # those that a writer holds; with ``lockfile`` they stay, since a living holder can't be told from a
        # dead one.
        self.delete_where(start, stop, lambda key: True)

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        """Delete the keys in ``[start, stop)`` that are `wanted`, like `delete_range`."""
        with file_errors("delete", self.root, named=True):
            touched = delete_files(self.root, KeyRange.between(start, stop), self._remove_lock, wanted)
            if self.writing.sync:
                for directory in touched:
                    sync_directory(directory)

    def move_directory(self, source: str, target: str) -> None:
        """Rename the directory of all keys in ``source/``; `target` may be an empty directory."""
        here, there = self._path(source, changes=True), self._path(target, changes=True)
        above = os.path.dirname(there)
        try:
            os.makedirs(above, exist_ok=True)
            os.rename(here, there)
            if self.writing.sync:
                for directory in {above, os.path.dirname(here)}:
                    sync_directory(directory)
        except OSError as e:
            if e.errno in (errno.ENOTDIR, *NOT_EMPTY):
                raise AlreadyExistsError(f"{self.describe(target)} exists already") from e
            raise file_error(e, "move", here) from e

    def delete_directory(self, path: str, wanted: Callable[[str], bool] = lambda key: True) -> None:
        """Delete all keys in ``path/``, or those that are `wanted`, and the directory if it is empty then."""
        keys = KeyRange.of_prefix(path + "/")
        directory = self._path(path)
        for pause in _PAUSES:
            self.delete_where(keys.start, keys.stop, wanted)
            try:
                os.rmdir(directory)
                if self.writing.sync:
                    sync_directory(os.path.dirname(directory))
            except OSError as e:
                if e.errno in NOT_EMPTY and not any(self.list(keys.start, keys.stop)):
                    time.sleep(pause)  # a writer that found the directory by another name holds a lock in it
                    continue
                if e.errno not in (errno.ENOENT, errno.ENOTDIR, *NOT_EMPTY):
                    raise file_error(e, "delete", directory) from e
            return

    def can_exchange(self, path: str) -> bool:
        """Return False if the directory, which need not exist, certainly can't be exchanged."""
        from chunkwise.core.kvstore.files.exchange import can_exchange

        return can_exchange(self._path(path))

    def exchange_directories(self, new: str, old: str, aside: str) -> bool:
        """Exchange the names of two directories; return False if `old` no longer exists."""
        paths = (self._path(path, changes=True) for path in (new, old, aside))
        from chunkwise.core.kvstore.files.exchange import exchange_directories

        return exchange_directories(*paths, sync=self.writing.sync)

    def link_keys(self, keys: Mapping[str, str]) -> None:
        """Share the value of each key with another key, too; an existing value of the other key stays."""
        from chunkwise.core.kvstore.files.exchange import link_file

        for key, other in keys.items():
            path = self._path(other, changes=True)
            with file_errors("write", path):
                link_file(self._path(key), path)
                if self.writing.sync:
                    sync_directory(os.path.dirname(path))

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        with file_errors("list", self.root, named=True):
            yield from walk(self.root, KeyRange.between(start, stop))

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`; keys and prefixes are complete, from the root."""
        # Empty directories are listed too; a symbolic link to a directory is a key, as in `list`.
        with file_errors("list", self.root + prefix):
            return list_directory(self.root, prefix)

    def linked_directories(self, prefix: str) -> Sequence[str]:
        """Return the links directly below `prefix` that lead to directories, but not to those above them."""
        with file_errors("list", self.root + prefix):
            return linked_directories(self.root, prefix)

    def is_directory(self, path: str) -> bool:
        """Return True if `path` is a directory."""
        with file_errors("stat", self.root + path):
            return is_directory(self.root, path)

    def _path(self, key: str, *, changes: bool = False) -> str:
        path = path_of(self.root, key)
        if changes and FOLDS_NAMES:
            check_case(self.root, key)
        return path

    def _remove_lock(self, path: str) -> None:
        if self.writing.locking == "os":
            remove_stale(path)
        elif self.writing.locking != "lockfile":
            with suppress(FileNotFoundError):
                os.unlink(path)
