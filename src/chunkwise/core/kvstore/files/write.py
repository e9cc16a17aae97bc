"""Replacing and deleting files, one way for each mode of locking.

With ``os`` and ``lockfile``, each write, conditional or not, holds the key's lock from before the generation
is compared until the new value has its name.  The value is written to the lock file itself, which is then
renamed over the key: readers see the old value or the new one.  With ``sync`` this holds even after a crash,
because the data is on disk before the name is.

``none`` renames a file with a unique name, so values are whole, but a conditional write can lose a
race.  ``non_atomic`` writes in place, for file systems that can't rename; readers may see parts.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from chunkwise.core.kvstore.files.path import (
    LOCK_SUFFIX,
    check_case,
    file_error,
    file_errors,
    is_suspect,
    path_of,
)
from chunkwise.core.kvstore.files.platform import FOLDS_NAMES, WINDOWS, remove, sync_directory
from chunkwise.core.kvstore.files.protocol import (
    attempt_under_lock,
    current_generation,
    lock_flags,
    under_lock,
    write_in_place,
)
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, MOST_LOST, Buffer
from chunkwise.errors import ChunkwiseError

__all__ = ["FileWriter", "Writing", "delete_file", "replace_file", "write_all"]

T = TypeVar("T")


class Writing(NamedTuple):
    """Options of writing files."""

    locking: str  # ``os``, ``lockfile``, ``none`` or ``non_atomic``
    sync: bool  # a write returns once it is on disk
    timeout: float  # seconds to wait for a lock
    sync_directory: bool = True  # as is its name; otherwise the caller syncs the directory


def replace_file(
    path: str, fill: Callable[[int, T], object], value: T, if_equal: bytes | None, how: Writing
) -> bytes | None:
    """Replace the file `path` by the output of ``fill(fd, value)``; return its generation."""
    # Returns None, writing nothing, if `if_equal` is neither empty nor the current generation.
    replace = _replace_in_place if how.locking == "non_atomic" else _replace_by_rename
    made: list[str] = []
    try:
        for attempt in range(MOST_LOST):
            try:
                generation = replace(path, fill, value, if_equal, how)
                break
            except FileNotFoundError as e:
                # The directory is missing, or was removed together with the lock file by delete_range.
                if attempt == MOST_LOST - 1 or isinstance(e, ChunkwiseError):
                    raise
                make_directories(os.path.dirname(path), made, sync=how.sync)
    except BaseException:  # an interrupt too: in N5, an empty directory is a group
        _remove_empty(made)
        raise
    if how.sync and how.sync_directory and generation is not None:
        sync_directory(os.path.dirname(path))
    return generation


def delete_file(path: str, if_equal: bytes | None, how: Writing) -> bytes | None:
    """Delete the file `path` if it is there; return MISSING_GENERATION."""
    # Returns None, deleting nothing, if `if_equal` is neither empty nor the current generation.
    matches = removed = False

    def work(_: int | None, __: None) -> bool:
        nonlocal matches, removed
        matches = not if_equal or current_generation(path) == if_equal
        removed = matches and _unlink(path)
        return False

    if how.locking in ("os", "lockfile"):
        try:
            under_lock(path, how.locking, how.timeout, work, None, sync=how.sync, stamped=None)
        except FileNotFoundError:  # without its directory, the file is missing too
            return MISSING_GENERATION if not if_equal or if_equal == MISSING_GENERATION else None
    else:
        work(None, None)
    if not matches:
        return None
    if removed and how.sync and how.sync_directory:
        sync_directory(os.path.dirname(path))
    return MISSING_GENERATION


def _replace_by_rename(
    path: str, fill: Callable[[int, T], object], value: T, if_equal: bytes | None, how: Writing
) -> bytes | None:
    generation: bytes | None = None

    def work(fd: int, value: T) -> bool:
        if if_equal and current_generation(path) != if_equal:
            return False
        fill(fd, value)
        return True

    def stamped(new: bytes) -> None:
        nonlocal generation
        generation = new

    under_lock(path, how.locking, how.timeout, work, value, sync=how.sync, stamped=stamped)
    return generation


def _replace_in_place(
    path: str, fill: Callable[[int, T], object], value: T, if_equal: bytes | None, how: Writing
) -> bytes | None:
    if if_equal and current_generation(path) != if_equal:
        return None
    return write_in_place(path, fill, value, sync=how.sync)


def write_all(fd: int, value: Buffer) -> None:
    """Write the whole of `value` at the position of the open file `fd`."""
    size = len(value) if isinstance(value, bytes) else memoryview(value).nbytes
    written = os.write(fd, value)
    while written < size:  # a signal, a nearly full disk or more than 2 GiB
        written += os.write(fd, memoryview(value).cast("B")[written:])


def _unlink(path: str) -> bool:
    """Remove the file `path`; return True if there was one."""
    try:
        remove(path)
    except FileNotFoundError:
        return False
    return True


def _remove_empty(directories: list[str]) -> None:
    """Remove empty directories, from the last on; other writers make them again."""
    with suppress(OSError):
        for directory in reversed(directories):
            os.rmdir(directory)


def make_directories(directory: str, made: list[str], *, sync: bool, attempts: int = MOST_LOST) -> None:
    """Create `directory` and missing parents, and append them to `made`; with `sync`, names are on disk."""
    # Others may delete a new directory at once, hence `attempts`; but a file system that allows no new
    # directories, such as /proc, fails each time.
    try:
        os.mkdir(directory)
    except FileExistsError:
        if WINDOWS and not os.path.isdir(directory):  # the next call wouldn't report this
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory) from None
        return  # or a file or dangling link, which the next write reports better
    except FileNotFoundError:
        if not attempts:
            raise
        make_directories(os.path.dirname(directory), made, sync=sync)
        make_directories(directory, made, sync=sync, attempts=attempts - 1)
        return
    made.append(directory)
    if sync:
        sync_directory(os.path.dirname(directory))


class FileWriter:
    """Unconditional writes of one worker to the files below a directory, for whole chunks."""

    # Generations are not computed.  A directory is synced once, when the writer is flushed, not after each of
    # its files; the data of a file is on disk before it gets its name.

    def __init__(self, root: str, how: Writing) -> None:
        self._root = root
        self._how = how
        # flush() waits for directories.
        self._one = how._replace(sync_directory=False)
        self._touched: set[str] = set()
        self.write: Callable[[str, Buffer], None] = self._write
        if how.locking == "os" and not FOLDS_NAMES:
            self.write = _open_write(root, how.sync, self._touched, self._write)

    def flush(self) -> None:
        """Wait until all writes and deletions are on disk, if the store's options say so."""
        with file_errors("write", self._root):
            while self._touched:
                sync_directory(self._touched.pop())

    def delete(self, key: str) -> None:
        """Delete `key` if it exists."""
        path = self._path(key)
        with file_errors("delete", path):
            delete_file(path, None, self._one)
        if self._how.sync:
            self._touched.add(os.path.dirname(path))

    def write_if(self, key: str, value: Buffer, if_equal: bytes | None) -> bytes | None:
        """Replace the value of `key`; return its new generation, None if the current is not `if_equal`."""
        path = self._path(key)
        with file_errors("write", path):
            generation = replace_file(path, write_all, value, if_equal, self._one)
        if self._how.sync:
            self._touched.add(os.path.dirname(path))
        return generation

    def _write(self, key: str, value: Buffer) -> None:
        """Replace the value of `key`; errors are those of `FileStore.write`."""
        self.write_if(key, value, None)

    def _path(self, key: str) -> str:
        path = path_of(self._root, key)
        if FOLDS_NAMES:
            check_case(self._root, key)
        return path


def _open_write(
    root: str, sync: bool, touched: set[str], general: Callable[[str, Buffer], None]
) -> Callable[[str, Buffer], None]:
    """Return a function that replaces a value in few steps, and leaves unusual cases to `general`."""
    flags = lock_flags("os")

    def work(fd: int, value: Buffer) -> bool:
        if os.write(fd, value) != (value.nbytes if type(value) is memoryview else len(value)):
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            write_all(fd, value)
        return True

    def write(key: str, value: Buffer) -> None:
        if is_suspect(key):
            return general(key, value)
        path = root + key
        replaced = False
        try:
            replaced = attempt_under_lock(path, path + LOCK_SUFFIX, flags, work, value, sync, None)
        except FileNotFoundError:
            pass  # the directory doesn't exist yet, or no longer
        except OSError as e:
            raise file_error(e, "write", path) from e
        if not replaced:
            return general(key, value)
        if sync:
            touched.add(os.path.dirname(path))
        return None

    return write
