"""The steps in which a file is replaced or deleted: lock, compare generations, write, stamp, rename.

The lock of a key is the file ``<key>.__lock``, used the way TensorStore uses it, so that both can write.

``os``: the file is opened, made if need be, and locked with an open file description lock (on systems without
them, ``flock``).  The new value is written to it, and it is renamed over the key or removed.  So whoever gets
the lock has to see if the file still has its name, and starts again if not.  The kernel drops the locks of a
process that dies; a file left behind is harmless, as it is truncated before use.

``lockfile``: making the file is holding the lock.  It works where locks don't, on some network file systems,
but a process that dies leaves the key locked until somebody removes the file.

``none``: the file has a name that nobody else uses, so it excludes nobody.

The generation of a file is 25 bytes, the same that TensorStore computes: a zero byte, then device, inode and
modification time in nanoseconds, each a 64-bit little-endian integer.  Kernels take the time of a write from
a clock with ticks of some milliseconds, and give the inode of a deleted file to the next one, so that two
versions within a tick could look the same.  :func:`stamp` therefore sets the time to that of the precise
clock: an inode is free for reuse only after the write that made it is over, hence the next time is another
one.

A lock belongs to its file descriptor, not to the process: threads exclude each other too, and it has to be
dropped explicitly, since a child forked meanwhile has the descriptor as well.

Ctrl-C leaves no lock behind, whenever it comes.  Python raises it when a call has returned, before the result
has a name, and when a function begins that is written in Python.  A result that must not be lost is therefore
unpacked from ``map``, as in ``[fd] = map(os.open, ...)``: there is nothing between that call and the name.
What must be undone is undone by the first call in a ``finally``, and that is of a function written in C.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from chunkwise.binding import dump
from chunkwise.errors import DeadlineExceededError
from chunkwise.kvstore.file_path import LOCK_SUFFIX
from chunkwise.kvstore.protocol import MISSING_GENERATION

__all__ = [
    "attempt_under_lock",
    "current_generation",
    "generation_of",
    "lock_flags",
    "remove_stale",
    "stamp",
    "under_lock",
]

T = TypeVar("T")

_OPEN = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = _OPEN | os.O_EXCL
_HELD = (errno.EAGAIN, errno.EACCES)
_pack = struct.Struct("<xQQq").pack
_MASK = 2**64 - 1

if sys.platform == "linux":
    # struct flock: l_type, l_whence, l_start, l_len, l_pid; from 0 with length 0 is the whole file.
    _set_lock: Callable[..., object] = fcntl.fcntl
    _LOCK = (fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    _UNLOCK = (fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
else:
    _set_lock = fcntl.flock
    _LOCK = (fcntl.LOCK_EX | fcntl.LOCK_NB,)
    _UNLOCK = (fcntl.LOCK_UN,)


def lock_flags(locking: str) -> int:
    """Return the flags that a lock file is opened with: ``os`` shares it, the others have to make it."""
    return _OPEN if locking == "os" else _CREATE


def under_lock(
    path: str,
    locking: str,
    timeout: float,
    work: Callable[[int, T], bool],
    value: T,
    *,
    sync: bool,
    stamped: Callable[[bytes], None] | None,
) -> None:
    """Do what :func:`attempt_under_lock` does, waiting for other holders of the lock.

    Parameters
    ----------
    path : str
    locking : {"os", "lockfile", "none"}
    timeout : float
        Seconds to wait.
    work : callable
    value : object
    sync : bool
    stamped : callable, optional

    Raises
    ------
    DeadlineExceededError
        If another holds the lock for too long.
    FileNotFoundError
        If the directory is missing, or was removed together with the lock file.
    """
    lock = path + (LOCK_SUFFIX if locking != "none" else f"_{os.urandom(8).hex()}{LOCK_SUFFIX}")
    flags, pauses = lock_flags(locking), _pauses(lock, timeout)
    while not attempt_under_lock(path, lock, flags, work, value, sync, stamped):
        next(pauses)


def attempt_under_lock(
    path: str,
    lock: str,
    flags: int,
    work: Callable[[int, T], bool],
    value: T,
    sync: bool,
    stamped: Callable[[bytes], None] | None,
) -> bool:
    """Lock a key and call ``work(fd, value)`` with an empty file; return False if another holds the lock.

    If `work` returns True, the file becomes the file `path`, with `sync` once it is on disk; `stamped` is
    told its generation before.
    """
    mine: bool | None = (
        flags == _CREATE
    )  # whether the lock file is ours to be removed; None if it was renamed
    try:
        [fd] = map(os.open, (lock,), (flags,), (0o666,))
    except FileExistsError:
        return False
    try:
        try:
            if not mine:
                size = _lock(fd, lock)
                if size is None:
                    return False
                mine = True
                if size:
                    os.ftruncate(fd, 0)
            if work(fd, value):
                stamp(fd)
                if stamped is not None:
                    stamped(generation_of(os.fstat(fd)))
                if sync:
                    os.fsync(fd)
                try:
                    [mine] = map(os.rename, (lock,), (path,))
                except FileNotFoundError:  # the lock file has gone, and is not ours to remove
                    mine = False
                    raise
            return True
        finally:
            if mine:
                try:  # noqa: SIM105  (suppress() would be a call before the one that counts)
                    os.unlink(lock)
                except FileNotFoundError:
                    pass
    finally:
        try:
            if flags != _CREATE and mine is not None:  # a file that was renamed is nobody's lock any more
                _set_lock(fd, *_UNLOCK)
        finally:
            os.close(fd)


def _lock(fd: int, lock: str) -> int | None:
    """Lock `fd` and return the file's size; None if it is locked or no longer `lock`."""
    try:
        _set_lock(fd, *_LOCK)
    except OSError as e:
        if e.errno in _HELD:
            return None
        raise
    try:
        opened, named = os.fstat(fd), os.lstat(lock)
    except FileNotFoundError:
        return None
    return opened.st_size if opened.st_ino == named.st_ino and opened.st_dev == named.st_dev else None


def remove_stale(lock: str) -> None:
    """Remove the lock file `lock` unless somebody holds it."""
    try:
        [fd] = map(os.open, [lock], [os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC])
    except FileNotFoundError:
        return
    try:
        try:
            if _lock(fd, lock) is not None:
                os.unlink(lock)
        finally:
            _set_lock(fd, *_UNLOCK)
    finally:
        os.close(fd)


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


def generation_of(status: os.stat_result) -> bytes:
    """Return the generation of the file that `status` is of."""
    return _pack(status.st_dev & _MASK, status.st_ino & _MASK, status.st_mtime_ns)


def current_generation(path: str) -> bytes:
    """Return the generation of the file `path`; MISSING_GENERATION if it is missing or a directory."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return MISSING_GENERATION
    return MISSING_GENERATION if stat.S_ISDIR(status.st_mode) else generation_of(status)


def stamp(fd: int) -> None:
    """Give the open file `fd` a modification time of its own."""
    now = time.time_ns()
    os.utime(fd, ns=(now, now))
