"""Locks of keys: the file ``<key>.__lock``, used the way TensorStore uses it, so that both can write.

``os``: the file is opened, made if need be, and locked with an open file description lock (on
systems without them, ``flock``).  The holder renames it over the key or removes it, so whoever gets
the lock has to see if the file still has its name, and start again if not.  The kernel drops the
locks of a process that dies; a file left behind is harmless, as it is truncated before use.

``lockfile``: making the file is holding the lock.  It works where locks don't, on some network file
systems, but a process that dies leaves the key locked until somebody removes the file.

A lock belongs to its file descriptor, not to the process: threads exclude each other too, and it has
to be dropped explicitly, since a child forked meanwhile has the descriptor as well.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import time
from collections.abc import Iterator

from chunkwise.binding import dump
from chunkwise.errors import DeadlineExceededError
from chunkwise.kvstore.file_path import LOCK_SUFFIX

__all__ = [
    "OPEN_FLAGS",
    "acquire",
    "create_exclusively",
    "release",
    "remove_stale",
    "try_acquire",
    "try_lock",
    "unlock",
]

OPEN_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_EXCLUSIVE = OPEN_FLAGS | os.O_EXCL

if sys.platform == "linux":
    # struct flock: l_type, l_whence, l_start, l_len, l_pid; from 0 with length 0 is the whole file.
    _WRITE_LOCK = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    _UNLOCK = struct.pack("hhqqi", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)

    def try_lock(fd: int) -> None:
        """Lock the open file `fd`; raise OSError with EAGAIN or EACCES if another has locked it."""
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _WRITE_LOCK)

    def unlock(fd: int) -> None:
        """Drop the lock."""
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _UNLOCK)

else:

    def try_lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


def acquire(path: str, timeout: float) -> int:
    """Lock the key whose file is `path`; return the descriptor of the lock file, which is empty.

    Raises
    ------
    DeadlineExceededError
        If another holds the lock for longer than `timeout` seconds.
    FileNotFoundError
        If the directory is missing.
    """
    lock = path + LOCK_SUFFIX
    pauses = _pauses(lock, timeout)
    while (fd := try_acquire(lock)) is None:
        next(pauses)
    return fd


def try_acquire(lock: str) -> int | None:
    """Return the descriptor of the lock file `lock`, locked and empty; None if it can't be had at once."""
    fd = os.open(lock, OPEN_FLAGS, 0o666)
    if (size := _lock_if_current(fd, lock)) is None:
        return None
    if size:
        try:
            os.ftruncate(fd, 0)
        except OSError:
            release(fd)
            raise
    return fd


def _lock_if_current(fd: int, lock: str) -> int | None:
    """Lock `fd` and return the file's size; None, with `fd` closed, if it is locked or no longer `lock`."""
    try:
        try_lock(fd)
    except OSError as e:
        os.close(fd)
        if e.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise
    try:
        mine, named = os.fstat(fd), os.lstat(lock)
        if mine.st_ino == named.st_ino and mine.st_dev == named.st_dev:
            return mine.st_size
    except FileNotFoundError:
        pass
    except OSError:
        release(fd)
        raise
    release(fd)
    return None


def release(fd: int) -> None:
    """Drop the lock and close its descriptor."""
    try:
        unlock(fd)
    finally:
        os.close(fd)


def create_exclusively(path: str, timeout: float) -> int:
    """Make the lock file of `path`, waiting while there is one; return its descriptor.

    Raises
    ------
    DeadlineExceededError
        If the file does not go away within `timeout` seconds.
    FileNotFoundError
        If the directory is missing.
    """
    lock = path + LOCK_SUFFIX
    pauses = _pauses(lock, timeout)
    while True:
        try:
            return os.open(lock, _EXCLUSIVE, 0o666)
        except FileExistsError:
            next(pauses)


def remove_stale(lock: str) -> None:
    """Remove the lock file `lock` unless somebody holds it."""
    try:
        fd = os.open(lock, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if _lock_if_current(fd, lock) is not None:
        try:
            os.unlink(lock)
        finally:
            release(fd)


def _pauses(lock: str, timeout: float) -> Iterator[None]:
    """Sleep for longer and longer with each step; raise after `timeout` seconds."""
    yield  # the first retry comes at once: mostly, the lock file has just become the value
    pause, deadline = 0.0001, time.monotonic() + timeout
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeadlineExceededError(
                f"Failed to acquire lock file: {dump(lock)} within {timeout:g} s: another writer "
                "holds it or, with file_io_locking mode lockfile, one that died has left it behind",
                errno.ETIMEDOUT,
            )
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, 0.01)
        yield
