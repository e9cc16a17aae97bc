"""Writing many files without a look at what was there: the inner loop of every write of whole chunks.

It follows the protocol of :mod:`chunkwise.kvstore.file_write` to the letter, lock included, so that no
conditional writer loses an update; what it saves is work around it.  The generation of the new value
is not computed.  A directory is waited for once, when the writer is flushed, and not after each file in
it; the data of a file is still on disk before it gets its name.  Whatever is unusual, such as a missing
directory or a key that somebody else is writing, is done by ``replace_file``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chunkwise.errors import ChunkwiseError
from chunkwise.kvstore import file_lock
from chunkwise.kvstore.file_error import file_error
from chunkwise.kvstore.file_generation import stamp_only
from chunkwise.kvstore.file_path import LOCK_SUFFIX, check_key, is_suspect
from chunkwise.kvstore.file_write import Writing, delete_file, fsync_directory, replace_file, write_all
from chunkwise.kvstore.protocol import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FileWriter"]


class FileWriter:
    """Unconditional writes of one worker to the files below a directory.

    Parameters
    ----------
    root : str
        The directory, ending in ``/``.
    how : Writing
        How files are written.
    """

    def __init__(self, root: str, how: Writing) -> None:
        self._root = root
        self._how = how
        # Directories are waited for by flush().
        self._one = how._replace(sync_directory=False)
        self._touched: set[str] = set()
        self.write: Callable[[str, Buffer], None] = self._write_locked if how.locking == "os" else self._write

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

    def _write_locked(self, key: str, value: Buffer) -> None:
        """The same for ``os`` locking, if nothing is in the way."""
        rooted = "/" + key  # is_suspect, without the call
        if "/." in rooted or "//" in rooted or rooted[-1] == "/" or "__lock" in key or "\0" in key:
            return self._write(key, value)
        path = self._root + key
        lock = path + LOCK_SUFFIX
        renamed = False
        try:
            fd = file_lock.try_acquire(lock)
            if fd is None:
                return self._write(key, value)
            try:
                size = len(value) if type(value) is bytes else memoryview(value).nbytes
                if os.write(fd, value) != size:
                    os.ftruncate(fd, 0)
                    os.lseek(fd, 0, os.SEEK_SET)
                    write_all(fd, value)
                stamp_only(fd)
                if self._how.sync:
                    os.fsync(fd)
                os.rename(lock, path)
                renamed = True
            except FileNotFoundError:  # the file has gone, and is not ours to remove
                renamed = True
                raise
            finally:
                try:
                    if not renamed:
                        os.unlink(lock)
                finally:
                    file_lock.release(fd)
        except FileNotFoundError:  # no directory, or it was removed by delete_range
            return self._write(key, value)
        except OSError as e:
            raise file_error(e, "write", path) from e
        if self._how.sync:
            self._touched.add(os.path.dirname(path))
        return None

    def _path(self, key: str) -> str:
        if is_suspect(key):
            check_key(self._root, key)
        return self._root + key
