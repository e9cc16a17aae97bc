"""The steps in which a file is replaced or deleted: lock, compare generations, write, stamp, rename.

The lock of a key is the file ``<key>.__lock``, used as in TensorStore, so that both can write.  If a process
is killed in the middle of a write, the old value stays.

``os``: the file is opened, created if necessary, and locked with an open file description lock (on systems
without them, ``flock``).  The new value is written to it, and it is renamed over the key or removed.  So a
writer that gets the lock must check that the file still has its name, and otherwise start again.  The kernel
releases the locks of a process that dies; a file left behind is harmless, as it is truncated before use.

``lockfile``: the writer that creates the file holds the lock.  This works without system locks, which some
network file systems lack, but a process that dies leaves the key locked until the file is removed.

``none``: the file has a unique name, so it excludes no other writer.

The generation of a file is 25 bytes, the same as in TensorStore: a zero byte, then device, inode and
modification time in nanoseconds, each a 64-bit little-endian integer.  Kernels take the time of a write from
a clock with ticks of some milliseconds, and reuse the inode of a deleted file, so two versions within a tick
could look the same.  The time is therefore set from the precise clock: an inode can only be reused after the
write that made it is over, so the next time differs.

On Windows, where an open file can't be renamed, the lock file is only locked.  The new value is written to a
file beside it, which is closed and then renamed; TensorStore works differently there.

A lock belongs to its file descriptor, not to the process: threads exclude each other too, and the lock must
be released explicitly, since a child forked meanwhile also has the descriptor.

Ctrl-C never leaves a lock behind.  Python raises KeyboardInterrupt after a call has returned, before the
result has a name, and when a function written in Python begins.  A result that must not be lost is therefore
unpacked from ``map``, as in ``[fd] = map(os.open, ...)``: nothing comes between that call and the name.  The
first call in a ``finally`` undoes what must be undone, by a function written in C.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

from chunkwise.core.base.binding import dump
from chunkwise.core.base.threads import is_within
from chunkwise.core.kvstore.files.path import LOCK_SUFFIX
from chunkwise.core.kvstore.files.platform import (
    CREATE,
    HELD,
    LOCK,
    NO_FOLLOW,
    UNLOCK,
    WINDOWS,
    WRITE,
    open_file,
    remove,
    replace,
    set_lock,
    sync_file,
)
from chunkwise.core.kvstore.protocol import MISSING_GENERATION
from chunkwise.errors import DeadlineExceededError, FailedPreconditionError

__all__ = [
    "attempt_under_lock",
    "current_generation",
    "generation_of",
    "lock_flags",
    "remove_stale",
    "under_lock",
    "write_in_place",
]

T = TypeVar("T")


class _NoLocksError(OSError):
    """The file system can't lock the file."""


_SHARED = CREATE | NO_FOLLOW
_EXCLUSIVE = _SHARED | os.O_EXCL
_MODE = 0o666
_pack = struct.Struct("<xQQq").pack
_MASK = 2**64 - 1


def lock_flags(locking: str) -> int:
    """Return the flags for opening a lock file: ``os`` shares it, the other modes must create it."""
    return _SHARED if locking == "os" else _EXCLUSIVE


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
    """Call `attempt_under_lock`; wait for other holders at most `timeout` seconds."""
    # Raises DeadlineExceededError if another holds the lock for longer, FileNotFoundError if the directory is
    # missing, or was removed together with the lock file.
    lock = path + (LOCK_SUFFIX if locking != "none" else f"_{os.urandom(8).hex()}{LOCK_SUFFIX}")
    flags, pauses = lock_flags(locking), _pauses(lock, timeout)
    while not attempt_under_lock(path, lock, flags, work, value, sync, stamped):
        if is_within(attempt_under_lock, lock=lock):
            raise FailedPreconditionError(
                f"Failed to write {dump(path)}: this thread is writing it already, and was interrupted by a "
                "signal handler that writes it too; have the handler leave that to the program"
            )
        next(pauses)


def _attempt_by_renaming_the_lock(
    path: str,
    lock: str,
    flags: int,
    work: Callable[[int, T], bool],
    value: T,
    sync: bool,
    stamped: Callable[[bytes], None] | None,
) -> bool:
    # True if we must remove the lock file; None if there is no lock to release.
    mine: bool | None = flags == _EXCLUSIVE
    made = True
    try:
        [fd] = map(os.open, (lock,), (_EXCLUSIVE,), (_MODE,))
    except FileExistsError:
        if mine:
            return False
        made = False
        [fd] = map(os.open, (lock,), (_SHARED,), (_MODE,))
    try:
        try:
            if not mine:
                try:
                    size = _lock(fd, lock)
                except _NoLocksError:
                    mine = None
                    if made:  # otherwise a writer with ``lockfile`` may hold it
                        os.unlink(lock)
                    raise
                if size is None:
                    return False
                mine = True
                if size:
                    os.ftruncate(fd, 0)
            if work(fd, value):
                now = time.time_ns()
                try:
                    os.utime(fd, ns=(now, now))
                except PermissionError:
                    if made:
                        raise
                    return False  # another user made the file, and was killed or has not locked it yet
                if stamped is not None:
                    stamped(generation_of(os.fstat(fd)))
                if sync:
                    sync_file(fd)
                try:
                    [mine] = map(os.rename, (lock,), (path,))
                except FileNotFoundError:  # the lock file is gone, so not ours to remove
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
            if flags != _EXCLUSIVE and mine is not None:  # a renamed file is no longer a lock
                set_lock(fd, *UNLOCK)
        finally:
            os.close(fd)


def _attempt_beside(
    path: str,
    lock: str,
    flags: int,
    work: Callable[[int, T], bool],
    value: T,
    sync: bool,
    stamped: Callable[[bytes], None] | None,
) -> bool:
    mine = flags == _EXCLUSIVE
    made = True
    try:
        fd = open_file(lock, _EXCLUSIVE, _MODE)
    except FileExistsError:
        if mine:
            return False
        made = False
        fd = open_file(lock, _SHARED, _MODE)
    try:
        mine = mine or _lock(fd, lock) is not None
        if not mine:
            return False
        beside = f"{path}_{os.urandom(8).hex()}{LOCK_SUFFIX}"
        try:
            if _write_beside(beside, work, value, sync, stamped):
                replace(beside, path)
        finally:
            if os.path.lexists(beside):
                remove(beside)
        return True
    finally:
        if mine and flags != _EXCLUSIVE:
            set_lock(fd, *UNLOCK)
        os.close(fd)
        if flags == _EXCLUSIVE:
            remove(lock)
        elif mine or made:
            _remove_unless_open(lock)


attempt_under_lock = _attempt_beside if WINDOWS else _attempt_by_renaming_the_lock
"""Lock a key and call ``work(fd, value)`` with an empty file; return False if another holds the lock.

If `work` returns True, the file becomes `path`, with `sync` once it is on disk; `stamped` gets its generation
before that.
"""


def _write_beside(
    beside: str,
    work: Callable[[int, T], bool],
    value: T,
    sync: bool,
    stamped: Callable[[bytes], None] | None,
) -> bool:
    fd = open_file(beside, _EXCLUSIVE, _MODE)
    try:
        done = work(fd, value)
        if done and sync:
            sync_file(fd)
    finally:
        os.close(fd)
    if done:
        generation = _set_time(beside)
        if stamped is not None:
            stamped(generation)
    return done


def _set_time(file: int | str) -> bytes:
    """Give a file a unique modification time, on Windows once it is closed; return its generation."""
    now = time.time_ns()
    os.utime(file, ns=(now, now))
    return generation_of(os.stat(file))


def _remove_unless_open(lock: str) -> None:
    """Remove a lock file, or leave that to a writer that waits with the file open."""
    with suppress(FileNotFoundError, PermissionError):
        os.unlink(lock)


def _lock(fd: int, lock: str) -> int | None:
    """Lock `fd` and return the file's size; None if it is locked or no longer `lock`."""
    try:
        set_lock(fd, *LOCK)
    except OSError as e:
        if e.errno in HELD:
            return None
        # Windows, and some kernels, report EINVAL if they can't lock such a file.
        code = errno.ENOLCK if e.errno == errno.EINVAL else e.errno
        raise _NoLocksError(code, os.strerror(code or 0), lock) from None
    try:
        opened, named = os.fstat(fd), os.lstat(lock)
    except FileNotFoundError:
        return None
    return opened.st_size if opened.st_ino == named.st_ino and opened.st_dev == named.st_dev else None


def remove_stale(lock: str) -> None:
    """Remove the lock file `lock` unless a writer holds it."""
    stale = False
    try:
        [fd] = map(open_file, [lock], [WRITE | NO_FOLLOW], [_MODE])
    except FileNotFoundError:
        return
    try:
        stale = _lock(fd, lock) is not None
        try:
            if stale and not WINDOWS:
                os.unlink(lock)
        finally:
            if stale:
                set_lock(fd, *UNLOCK)
    finally:
        os.close(fd)
    if stale and WINDOWS:
        _remove_unless_open(lock)


def _pauses(lock: str, timeout: float) -> Iterator[None]:
    """Sleep longer with each step; raise after `timeout` seconds."""
    yield  # the first retry is immediate: usually the lock file has just become the value
    # From about the processor time of a small write, 0.15 ms, to the time of a write that waits for the disk:
    # see the measurement in chunkwise.core.kvstore.files.file_store.
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
    """Return the generation of the file with this `status`."""
    return _pack(status.st_dev & _MASK, status.st_ino & _MASK, status.st_mtime_ns)


def current_generation(path: str) -> bytes:
    """Return the generation of the file `path`; MISSING_GENERATION if it is missing or a directory."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return MISSING_GENERATION
    return MISSING_GENERATION if stat.S_ISDIR(status.st_mode) else generation_of(status)


def write_in_place(path: str, fill: Callable[[int, T], object], value: T, *, sync: bool) -> bytes:
    """Write to the file `path` itself, without a lock; return its generation."""
    [fd] = map(open_file, [path], [CREATE | os.O_TRUNC], [_MODE])
    try:
        fill(fd, value)
        generation = b"" if WINDOWS else _set_time(fd)
        if sync:
            sync_file(fd)
    finally:
        os.close(fd)
    return generation or _set_time(path)
