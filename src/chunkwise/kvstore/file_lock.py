"""Locks of keys: the file ``<key>.__lock``, used the way TensorStore uses it, so that both can write.

``os``: the file is opened, made if need be, and locked with an open file description lock (on
systems without them, ``flock``).  The holder renames it over the key or removes it, so whoever gets
the lock has to see if the file still has its name, and start again if not.  The kernel drops the
locks of a process that dies; a file left behind is harmless, as it is truncated before use.

``lockfile``: making the file is holding the lock.  It works where locks don't, on some network file
systems, but a process that dies leaves the key locked until somebody removes the file.

``none``: the file has a name that nobody else uses, so it excludes nobody.

A lock belongs to its file descriptor, not to the process: threads exclude each other too, and it has
to be dropped explicitly, since a child forked meanwhile has the descriptor as well.

Ctrl-C leaves no lock behind, whenever it comes.  Python raises it when a call has returned, before the
result has a name, and when a function begins that is written in Python.  A result that must not be lost
is therefore unpacked from ``map``, as in ``[fd] = map(os.open, ...)``: there is nothing between that call
and the name.  What must be undone is undone by the first call in a ``finally``, and that is of a
function written in C.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator

from chunkwise.binding import dump
from chunkwise.errors import DeadlineExceededError
from chunkwise.kvstore.file_path import LOCK_SUFFIX

__all__ = ["LOCK", "OPEN_FLAGS", "UNLOCK", "finish_under_lock", "remove_stale", "set_lock"]

OPEN_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_EXCLUSIVE = OPEN_FLAGS | os.O_EXCL
_HELD = (errno.EAGAIN, errno.EACCES)

if sys.platform == "linux":
    # struct flock: l_type, l_whence, l_start, l_len, l_pid; from 0 with length 0 is the whole file.
    set_lock: Callable[..., object] = fcntl.fcntl
    LOCK = (fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    UNLOCK = (fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
else:
    set_lock = fcntl.flock
    LOCK = (fcntl.LOCK_EX | fcntl.LOCK_NB,)
    UNLOCK = (fcntl.LOCK_UN,)


def finish_under_lock(path: str, locking: str, timeout: float, work: Callable[[int], bool]) -> None:
    """Lock the key whose file is `path` and call `work` with the descriptor of the lock file, which is empty.

    The lock file becomes the file `path` if `work` returns True; else it is removed.

    Parameters
    ----------
    path : str
    locking : {"os", "lockfile", "none"}
    timeout : float
        Seconds to wait for another holder.
    work : callable

    Raises
    ------
    DeadlineExceededError
        If another holds the lock for too long.
    FileNotFoundError
        If the directory is missing, or was removed together with the lock file.
    """
    if locking == "none":
        lock, flags = f"{path}_{os.urandom(8).hex()}{LOCK_SUFFIX}", _EXCLUSIVE
    else:
        lock, flags = path + LOCK_SUFFIX, OPEN_FLAGS if locking == "os" else _EXCLUSIVE
    pauses = _pauses(lock, timeout)
    while not _finish(path, lock, flags, work):
        next(pauses)


def _finish(path: str, lock: str, flags: int, work: Callable[[int], bool]) -> bool:
    """Do it once; return False if the lock can't be had at once."""
    mine: bool | None = flags == _EXCLUSIVE  # whether the lock file is ours to be renamed or removed
    try:
        [fd] = map(os.open, [lock], [flags], [0o666])
    except FileExistsError:
        return False
    try:
        try:
            if not mine:
                size = _lock_if_current(fd, lock)
                if size is None:
                    return False
                mine = True
                if size:
                    os.ftruncate(fd, 0)
            if work(fd):
                [mine] = map(os.rename, [lock], [path])
            return True
        except FileNotFoundError:  # the file has gone, and is not ours to remove
            mine = False
            raise
        finally:
            if mine:
                try:  # noqa: SIM105  (suppress() would be a call before the one that counts)
                    os.unlink(lock)
                except FileNotFoundError:
                    pass
    finally:
        try:
            if flags != _EXCLUSIVE:
                set_lock(fd, *UNLOCK)
        finally:
            os.close(fd)


def _lock_if_current(fd: int, lock: str) -> int | None:
    """Lock `fd` and return the file's size; None if it is locked or no longer `lock`."""
    try:
        set_lock(fd, *LOCK)
    except OSError as e:
        if e.errno in _HELD:
            return None
        raise
    try:
        mine, named = os.fstat(fd), os.lstat(lock)
    except FileNotFoundError:
        return None
    return mine.st_size if mine.st_ino == named.st_ino and mine.st_dev == named.st_dev else None


def remove_stale(lock: str) -> None:
    """Remove the lock file `lock` unless somebody holds it."""
    try:
        [fd] = map(os.open, [lock], [os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC])
    except FileNotFoundError:
        return
    try:
        try:
            if _lock_if_current(fd, lock) is not None:
                os.unlink(lock)
        finally:
            set_lock(fd, *UNLOCK)
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
