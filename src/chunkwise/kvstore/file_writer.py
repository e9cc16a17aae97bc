"""Writing many files without a look at what was there: the inner loop of every write of whole chunks.

It follows the protocol of :mod:`chunkwise.kvstore.file_write` to the letter, lock included, so that no
conditional writer loses an update; what it saves is work around it.  The generation of the new value
is not computed.  A directory is waited for once, when the writer is flushed, and not after each file in
it; the data of a file is still on disk before it gets its name.  Whatever is unusual, such as a missing
directory or a key that somebody else is writing, is done by ``replace_file``.

Workers take turns at small files.  Each of the system calls of a write gives up the interpreter lock, and
two threads that are both in the middle of one would wake each other at every call; so one encodes while the
other writes.  Who waits long for a turn takes none any more: where files are slow, several are written at
the same time.
"""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING

from chunkwise.errors import ChunkwiseError
from chunkwise.fork import Lock
from chunkwise.kvstore import file_lock
from chunkwise.kvstore.file_error import file_error
from chunkwise.kvstore.file_path import LOCK_SUFFIX, check_key, is_suspect
from chunkwise.kvstore.file_write import (
    Writing,
    delete_file,
    fsync_directory,
    make_directories,
    replace_file,
    write_all,
)
from chunkwise.kvstore.protocol import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FileWriter"]

_HELD = (errno.EAGAIN, errno.EACCES)
_SMALL = 1 << 17  # bytes; copying more takes longer than waking a thread
_PATIENCE = 0.002  # seconds
_MODE = (0o666,)


class FileWriter:
    """Unconditional writes of one worker to the files below a directory.

    Parameters
    ----------
    root : str
        The directory, ending in ``/``.
    how : Writing
        How files are written.
    turn : Lock, optional
        Shared with the other workers.
    """

    def __init__(self, root: str, how: Writing, turn: Lock | None = None) -> None:
        self._root = root
        self._how = how
        # Directories are waited for by flush().
        self._one = how._replace(sync_directory=False)
        self._touched: set[str] = set()
        self.write: Callable[[str, Buffer], None] = self._write
        if how.locking == "os":
            self.write = _open_locked_write(
                root, how.sync, None if how.sync else turn, self._touched, self._write
            )

    def flush(self) -> None:
        """Wait until all that was written or deleted is on disk, if the store is to do so."""
        try:
            while self._touched:
                fsync_directory(self._touched.pop())
        except OSError as e:
            raise file_error(e, "write", self._root) from e

    def delete(self, key: str) -> None:
        """Delete `key` if it is there."""
        path = self._path(key)
        try:
            delete_file(path, None, self._one)
        except ChunkwiseError:
            raise
        except OSError as e:
            raise file_error(e, "delete", path) from e
        if self._how.sync:
            self._touched.add(os.path.dirname(path))

    def _write(self, key: str, value: Buffer) -> None:
        """Replace the value of `key`; errors are those of :meth:`FileStore.write`."""
        path = self._path(key)
        try:
            replace_file(path, value, None, self._one)
        except ChunkwiseError:
            raise
        except OSError as e:
            raise file_error(e, "write", path) from e
        if self._how.sync:
            self._touched.add(os.path.dirname(path))

    def _path(self, key: str) -> str:
        if is_suspect(key):
            check_key(self._root, key)
        return self._root + key


def _open_locked_write(
    root: str,
    sync: bool,
    turn: Lock | None,
    touched: set[str],
    general: Callable[[str, Buffer], None],
) -> Callable[[str, Buffer], None]:
    """Return a function that replaces a value under an ``os`` lock, leaving what is unusual to `general`.

    The steps are those of :func:`chunkwise.kvstore.file_lock.finish_under_lock`, of ``replace_file`` and
    of ``stamp_only``, without the calls.
    """
    os_open, os_fstat, os_lstat, os_write, os_utime = os.open, os.fstat, os.lstat, os.write, os.utime
    os_rename, os_close, now_ns = os.rename, os.close, time.time_ns
    set_lock, flags = file_lock.set_lock, (file_lock.OPEN_FLAGS,)

    def replace(fd: int, lock: str, path: str, value: Buffer) -> bool:
        """Write `value` to the lock file and rename that; return False if the lock can't be had at once.

        A file that was renamed is nobody's lock any more, so its lock need not be dropped.
        """
        left: bool | None = False  # whether the lock file is ours to be removed; None if it was renamed
        try:
            try:
                set_lock(fd, *file_lock.LOCK)
            except OSError as e:
                if e.errno in _HELD:
                    return False
                raise
            mine, named = os_fstat(fd), os_lstat(lock)
            if mine.st_ino != named.st_ino or mine.st_dev != named.st_dev:
                return False
            left = True
            try:
                if mine.st_size:
                    os.ftruncate(fd, 0)
                if os_write(fd, value) != (value.nbytes if type(value) is memoryview else len(value)):
                    os.ftruncate(fd, 0)
                    os.lseek(fd, 0, os.SEEK_SET)
                    write_all(fd, value)
                now = now_ns()
                os_utime(fd, ns=(now, now))
                if sync:
                    os.fsync(fd)
                [left] = map(os_rename, (lock,), (path,))
                return True
            except FileNotFoundError:  # the file has gone, and is not ours to remove
                left = False
                raise
            finally:
                if left:
                    try:  # noqa: SIM105  (suppress() would be a call before the one that counts)
                        os.unlink(lock)
                    except FileNotFoundError:
                        pass
        finally:
            if left is not None:
                set_lock(fd, *file_lock.UNLOCK)

    def write(key: str, value: Buffer) -> None:
        nonlocal turn
        rooted = "/" + key  # is_suspect, without the call
        if "/." in rooted or "//" in rooted or rooted[-1] == "/" or "__lock" in key or "\0" in key:
            return general(key, value)
        path = root + key
        lock = path + LOCK_SUFFIX
        replaced = mine = False
        try:
            if turn is not None and len(value) <= _SMALL:
                [mine] = map(turn.acquire, (True,), (_PATIENCE,))
                if not mine:
                    turn = None
            try:
                [fd] = map(os_open, (lock,), flags, _MODE)
            except FileNotFoundError:
                make_directories(os.path.dirname(path), sync=sync)
                [fd] = map(os_open, (lock,), flags, _MODE)
            try:
                replaced = replace(fd, lock, path, value)
            finally:
                os_close(fd)
        except FileNotFoundError:
            pass  # the directory was removed by delete_range
        except OSError as e:
            raise file_error(e, "write", path) from e
        finally:
            if mine and turn is not None:  # which is the one that was acquired
                turn.release()
        if not replaced:
            return general(key, value)
        if sync:
            touched.add(os.path.dirname(path))
        return None

    return write
