"""Replacing and deleting files, one way for each mode of locking.

With ``os`` and ``lockfile`` each write, conditional or not, holds the key's lock from before the
generation is compared until the new value has its name.  The value is written to the lock file
itself, which is then renamed over the key: readers see the old value or the new one, and so does
who looks after a crash if ``sync`` is on, because the data is on disk before the name is.

``none`` renames a file with a unique name, so values are whole, but a conditional write can lose a
race.  ``non_atomic`` writes in place, for file systems that can't rename; readers may see parts.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from chunkwise.kvstore.file_generation import current_generation, stamp
from chunkwise.kvstore.file_lock import finish_under_lock
from chunkwise.kvstore.protocol import MISSING_GENERATION, Buffer

__all__ = ["Writing", "delete_file", "fsync_directory", "make_directories", "replace_file", "write_all"]

_ATTEMPTS = 100


class Writing(NamedTuple):
    """How files are written.

    Attributes
    ----------
    locking : str
        ``os``, ``lockfile``, ``none`` or ``non_atomic``.
    sync : bool
        Whether a write is on disk when it returns.
    timeout : float
        Seconds to wait for a lock.
    sync_directory : bool
        Whether the name is on disk too then; if not, the caller sees to it.
    """

    locking: str
    sync: bool
    timeout: float
    sync_directory: bool = True


def replace_file(path: str, value: Buffer, if_equal: bytes | None, how: Writing) -> bytes | None:
    """Write `value` to the file `path`, making directories as needed; return its new generation.

    Returns None, writing nothing, if `if_equal` is neither empty nor the current generation.
    """
    replace = _replace_in_place if how.locking == "non_atomic" else _replace_by_rename
    for attempt in range(_ATTEMPTS):
        try:
            generation = replace(path, value, if_equal, how)
            break
        except FileNotFoundError:
            # The directory is missing, or was removed together with the lock file by delete_range.
            if attempt == _ATTEMPTS - 1:
                raise
            make_directories(os.path.dirname(path), sync=how.sync)
    if how.sync and how.sync_directory and generation is not None:
        fsync_directory(os.path.dirname(path))
    return generation


def delete_file(path: str, if_equal: bytes | None, how: Writing) -> bytes | None:
    """Delete the file `path` if it is there; return MISSING_GENERATION.

    Returns None, deleting nothing, if `if_equal` is neither empty nor the current generation.
    """
    matches = removed = False

    def work(_: int | None) -> bool:
        nonlocal matches, removed
        matches = not if_equal or current_generation(path) == if_equal
        removed = matches and _unlink(path)
        return False

    if how.locking in ("os", "lockfile"):
        try:
            finish_under_lock(path, how.locking, how.timeout, work)
        except FileNotFoundError:  # no directory, hence no file
            return MISSING_GENERATION if not if_equal or if_equal == MISSING_GENERATION else None
    else:
        work(None)
    if not matches:
        return None
    if removed and how.sync and how.sync_directory:
        fsync_directory(os.path.dirname(path))
    return MISSING_GENERATION


def _replace_by_rename(path: str, value: Buffer, if_equal: bytes | None, how: Writing) -> bytes | None:
    generation: bytes | None = None

    def work(fd: int) -> bool:
        nonlocal generation
        if if_equal and current_generation(path) != if_equal:
            return False
        write_all(fd, value)
        generation = stamp(fd)
        if how.sync:
            os.fsync(fd)
        return True

    finish_under_lock(path, how.locking, how.timeout, work)
    return generation


def _replace_in_place(path: str, value: Buffer, if_equal: bytes | None, how: Writing) -> bytes | None:
    if if_equal and current_generation(path) != if_equal:
        return None
    [fd] = map(os.open, [path], [os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC], [0o666])
    try:
        write_all(fd, value)
        generation = stamp(fd)
        if how.sync:
            os.fsync(fd)
        return generation
    finally:
        os.close(fd)


def write_all(fd: int, value: Buffer) -> None:
    """Write the whole of `value` at the position of the open file `fd`."""
    size = len(value) if isinstance(value, bytes) else memoryview(value).nbytes
    written = os.write(fd, value)
    while written < size:  # a signal, a nearly full disk or more than 2 GiB
        written += os.write(fd, memoryview(value).cast("B")[written:])


def _unlink(path: str) -> bool:
    """Remove the file `path`; return whether there was one."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def make_directories(directory: str, *, sync: bool, attempts: int = 16) -> None:
    """Make `directory` and those above it that are missing; with `sync` also their names are on disk.

    Others may delete what was just made, hence `attempts`; but a file system that takes no new directories,
    as /proc, says the same each time.
    """
    try:
        os.mkdir(directory)
    except FileExistsError:
        return  # or a file or dangling link, which the next attempt to write says better
    except FileNotFoundError:
        if not attempts:
            raise
        make_directories(os.path.dirname(directory), sync=sync)
        make_directories(directory, sync=sync, attempts=attempts - 1)
        return
    if sync:
        fsync_directory(os.path.dirname(directory))


def fsync_directory(directory: str) -> None:
    """Wait until the names in `directory` are on disk; a directory that has gone needs no waiting."""
    try:
        [fd] = map(os.open, [directory], [os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC])
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
