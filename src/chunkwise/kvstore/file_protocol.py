"""The steps in which a file is replaced or deleted: lock, write, rename.

The lock of a key is the file ``<key>.__lock``, used the way TensorStore uses it, so that both can write.

``os``: the file is opened, made if need be, and locked with an open file description lock (on systems without
them, ``flock``).  The new value is written to it, and it is renamed over the key or removed.  So whoever gets
the lock has to see if the file still has its name, and starts again if not.  The kernel drops the locks of a
process that dies; a file left behind is harmless, as it is truncated before use.

``lockfile``: making the file is holding the lock.  It works where locks don't, on some network file systems,
but a process that dies leaves the key locked until somebody removes the file.

``none``: the file has a name that nobody else uses, so it excludes nobody.

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
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from chunkwise.binding import dump
from chunkwise.errors import DeadlineExceededError
from chunkwise.kvstore.file_path import LOCK_SUFFIX

__all__ = ["attempt_under_lock", "lock_flags", "remove_stale", "under_lock"]

T = TypeVar("T")

_OPEN = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = _OPEN | os.O_EXCL
_HELD = (errno.EAGAIN, errno.EACCES)

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


def under_lock(path: str, locking: str, timeout: float, work: Callable[[int, T], bool], value: T) -> None:
    """Lock the key whose file is `path`, waiting for others, and do what :func:`attempt_under_lock` does.

    Parameters
    ----------
    path : str
    locking : {"os", "lockfile", "none"}
    timeout : float
        Seconds to wait for another holder.
    work : callable
    value : object

    Raises
    ------
    DeadlineExceededError
        If another holds the lock for too long.
    FileNotFoundError
        If the directory is missing, or was removed together with the lock file.
    """
    lock = path + (LOCK_SUFFIX if locking != "none" else f"_{os.urandom(8).hex()}{LOCK_SUFFIX}")
    flags, pauses = lock_flags(locking), _pauses(lock, timeout)
    while not attempt_under_lock(path, lock, flags, work, value):
        next(pauses)


def attempt_under_lock(path: str, lock: str, flags: int, work: Callable[[int, T], bool], value: T) -> bool:
    """Call ``work(fd, value)`` with the descriptor of the lock file, or return False if another holds it.

    The file is empty.  It becomes the file `path` if `work` returns True, and is removed if not.
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
