"""Reading files into memory that the reader owns and reuses.

This is the innermost loop of every read of local data, so every system call counts: open, read, close.  The
size of the file is not requested beforehand.  A read asks for as much as the buffer holds; if the buffer
isn't filled, the file has ended.  After an I/O error in the middle of a file, the kernel returns the bytes
before it, which end at a sector.  So only such lengths are compared with the size, to find the error in the
rest.

There are other ways to load a value.  ``memmap`` costs page faults instead of a copy; it pays if little of a
large value is used.  If another process truncates a mapped file, this process is killed, so it is not for
stores with writers that don't rename.  ``direct`` reads whole pages with ``O_DIRECT``, for data that is read
once; file systems that refuse it are read normally.

An interrupt leaves no file open: see `chunkwise.core.kvstore.files.protocol`.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from chunkwise.core.kvstore.files.path import MISSING, check_key, file_error, is_suspect
from chunkwise.core.kvstore.files.platform import DIRECT, READ, VECTORED_READS, open_file, read_at
from chunkwise.core.kvstore.protocol import Buffer, Reader
from chunkwise.core.kvstore.value import check_range, check_size, resolve_range
from chunkwise.errors import ChunkwiseError

__all__ = [
    "LOADERS",
    "OpenFile",
    "load_range",
    "open_file_reader",
    "open_for_reading",
    "open_into_reader",
    "read_file_ranges",
    "regular_status",
]

_FLAGS = (READ,)
_MODE = (0o666,)
_SEEK_END = os.SEEK_END
_MAX_OFFSET = 2**63 - 1
_SECTOR = 512
_SETTLED = 2_000_000_000  # nanoseconds, more than the resolution of any file system's clock
_INITIAL = (1 << 16) + _SECTOR  # a file of 64 KiB fits, with room to notice its end

# Returns bytes of an open file from start to end; fewer if the file ends before.
_Loader: TypeAlias = Callable[[int, int, int], Buffer]


def open_file_reader(root: str) -> Reader:
    """Return a reader of the files below `root`, for one worker."""
    # ``reader(key, start=0, stop=None)`` returns a view that is valid until the next call, or None if the
    # file is missing or a directory.
    view = np.empty(_INITIAL, np.uint8).data
    buffers, capacity = [view], _INITIAL
    os_open, os_readv, os_lseek, os_close = os.open, os.readv, os.lseek, os.close

    def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
        if is_suspect(key):
            check_key(root, key)
        try:
            [fd] = map(os_open, (root + key,), _FLAGS)
        except MISSING:
            return None
        except OSError as e:
            raise file_error(e, "open", root + key) from e
        try:
            try:
                if start == 0 and stop is None:
                    n = os_readv(fd, buffers)
                    if n % _SECTOR or (n < capacity and n == os_lseek(fd, 0, _SEEK_END)):
                        return view[:n]
                    return read_rest(fd, n, key)
                return read_range(fd, start, stop, key)
            finally:
                os_close(fd)
        except IsADirectoryError:
            return None
        except ChunkwiseError:
            raise
        except OSError as e:
            raise file_error(e, "read", root + key) from e

    def grow(size: int) -> None:
        nonlocal view, capacity
        if size > capacity:
            # The smaller buffer is freed before the larger one is allocated; chunk sizes differ a little.
            # If there is no memory for it, the next read begins with an empty one.
            view, buffers[0], capacity = memoryview(bytearray()), memoryview(bytearray()), 0
            # Whole sectors, since a read that ends within a sector has reached the end.
            view = np.empty(-(-(size + (size >> 3)) // _SECTOR) * _SECTOR, np.uint8).data
            buffers[0], capacity = view, len(view)

    def read_rest(fd: int, n: int, key: str) -> Buffer:
        size = regular_status(fd).st_size
        if size > capacity:
            check_size(size, root + key)
            grow(size + 1)  # with room for one more byte, one read suffices for the next file of this size
            n = 0
        return view[: n + read_fully(fd, view[n:size], n)]

    def read_range(fd: int, start: int, stop: int | None, key: str) -> Buffer:
        check_range(start, stop)
        if stop is None or stop == start or stop - start > capacity or stop > _MAX_OFFSET:
            # So no memory is allocated for sizes from a damaged index.
            begin, end = resolve_range(start, stop, regular_status(fd).st_size)
            check_size(end - begin, root + key, start, stop)
            grow(end - begin)
        else:
            begin, end = start, stop
        n = read_fully(fd, view[: end - begin], begin)
        if n < end - begin:
            resolve_range(start, stop, begin + n)
        return view[:n]

    return read


def open_into_reader(root: str) -> Callable[[str, memoryview], int | None]:
    """Return a reader for one worker that fills the caller's memory with files of a known size."""
    # ``reader(key, out)`` returns the number of bytes, one more than `out` holds if the file is longer; None
    # if the file is missing or a directory.  A number other than ``len(out)`` may also come from an
    # interrupted system call: the other reader finds out.
    spare = memoryview(bytearray(1))
    buffers = [spare, spare]
    os_open, os_readv, os_close = os.open, os.readv, os.close

    def read(key: str, out: memoryview) -> int | None:
        if is_suspect(key):
            check_key(root, key)
        try:
            [fd] = map(os_open, (root + key,), _FLAGS)
        except MISSING:
            return None
        except OSError as e:
            raise file_error(e, "open", root + key) from e
        try:
            try:
                buffers[0] = out
                return os_readv(fd, buffers)
            finally:
                os_close(fd)
        except IsADirectoryError:
            return None
        except OSError as e:
            raise file_error(e, "read", root + key) from e

    return read


def read_fully(fd: int, out: memoryview, offset: int) -> int:
    """Fill `out` from the file, starting at byte `offset`; return the number of bytes read."""
    n = 0
    while n < len(out):
        rest, at = out[n:], offset + n
        got = os.preadv(fd, [rest], at) if VECTORED_READS else read_at(fd, rest, at)
        if not got:
            break
        n += got
    return n


def regular_status(fd: int) -> os.stat_result:
    """Return the status of the open file; raise IsADirectoryError or another OSError for non-files."""
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    return status


def read_file_ranges(path: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
    """Return the bytes of each range of the file `path`, None if it is missing."""
    for start, stop in zip(starts, stops, strict=True):
        check_range(start, stop)
    try:
        [fd] = map(open_file, (path,), _FLAGS, _MODE)
    except MISSING:
        return None
    except OSError as e:
        raise file_error(e, "open", path) from e
    try:
        try:
            size = regular_status(fd).st_size
            for start, stop in zip(starts, stops, strict=True):
                resolve_range(start, stop, size)
            memory = np.empty(sum(stops) - sum(starts), np.uint8).data
            out: list[Buffer] = []
            for start, stop in zip(starts, stops, strict=True):
                part, memory = memory[: stop - start], memory[stop - start :]
                n = read_fully(fd, part, start)
                if n < len(part):  # the file was truncated after its size was read
                    resolve_range(start, stop, min(start + n, size))
                out.append(part)
            return out
        finally:
            os.close(fd)
    except IsADirectoryError:
        return None
    except OSError as e:
        raise file_error(e, "read", path) from e


class OpenFile:
    """The open file at a path: all reads are of the same value, even if the file is replaced.

    Raises
    ------
    OSError
        If it is missing or can't be opened; IsADirectoryError if it is a directory.
    """

    # The stamp is None for a file that was written recently: otherwise a later write could get the same
    # times, if the clock of the file system is coarse.

    __slots__ = ("_fd", "_load", "_mtime", "_path", "size", "stamp")

    def __init__(self, path: str, io_mode: str) -> None:
        self._fd = -1
        self._path = path
        self._load = None if io_mode == "default" and VECTORED_READS else LOADERS[io_mode]
        if self._load is None:
            [self._fd] = map(open_file, (path,), _FLAGS, _MODE)
        else:
            [self._fd] = map(open_for_reading, (path,), (io_mode == "direct",))
        status = os.fstat(self._fd)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError
        self.size = status.st_size
        self._mtime = status.st_mtime_ns
        settled = time.time_ns() - max(self._mtime, status.st_ctime_ns) > _SETTLED
        self.stamp = (
            (status.st_dev, status.st_ino, self.size, self._mtime, status.st_ctime_ns) if settled else None
        )

    def read(
        self, starts: Sequence[int], stops: Sequence[int], memory: memoryview | None = None
    ) -> list[memoryview]:
        """Return the bytes of each range, in `memory` if that is large enough."""
        size, fd, load = self.size, self._fd, self._load
        for start, stop in zip(starts, stops, strict=True):
            if not 0 <= start <= stop <= size:
                resolve_range(start, stop, size)
        try:
            if load is not None:
                return [load_range(load, fd, *span) for span in zip(starts, stops, strict=True)]
            out, n_bytes = [], sum(stops) - sum(starts)
            if memory is None or len(memory) < n_bytes:
                memory = np.empty(n_bytes, np.uint8).data
            at, preadv = 0, os.preadv
            for start, stop in zip(starts, stops, strict=True):
                end = at + stop - start
                part = memory[at:end]
                n = preadv(fd, (part,), start)
                if n < stop - start and (n := n + read_fully(fd, part[n:], start + n)) < stop - start:
                    resolve_range(start, stop, start + n)  # the file was truncated
                out.append(part)
                at = end
        except OSError as e:
            raise file_error(e, "read", self._path) from e
        return out

    def changed(self) -> bool:
        """Return True if the file has been written to since it was opened."""
        status = os.fstat(self._fd)
        return status.st_mtime_ns != self._mtime or status.st_size != self.size

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def open_for_reading(path: str, direct: bool) -> int:
    """Open the file `path`, for direct I/O if requested and possible; return the descriptor."""
    if direct and DIRECT:
        try:
            [fd] = map(os.open, [path], [READ | DIRECT])
            return fd
        except OSError as e:
            if e.errno != errno.EINVAL:
                raise
    [fd] = map(open_file, (path,), _FLAGS, _MODE)
    return fd


def _load(fd: int, begin: int, end: int) -> Buffer:
    # Not bytes: ctypes gets the address of writable memory in a sixth of the time.
    memory = np.empty(end - begin, np.uint8).data
    return memory[: read_fully(fd, memory, begin)]


def _load_mapped(fd: int, begin: int, end: int) -> Buffer:
    if begin == end:
        return b""
    base = begin - begin % mmap.ALLOCATIONGRANULARITY
    try:
        mapped = mmap.mmap(fd, end - base, access=mmap.ACCESS_READ, offset=base)
    except ValueError:  # the file became shorter after its size was read
        return b""
    return memoryview(mapped)[begin - base :]


def _load_direct(fd: int, begin: int, end: int) -> Buffer:
    if begin == end:
        return b""
    page = mmap.PAGESIZE
    base = begin - begin % page
    # An anonymous mapping begins at a page; O_DIRECT requires aligned memory, offset and length.
    memory = memoryview(mmap.mmap(-1, -(-(end - base) // page) * page))
    n = 0
    while n < end - base:
        got = read_at(fd, memory[n:], base + n)
        n += got
        if not got or got % page:
            break
    return memory[begin - base : min(n, end - base)]


def load_range(load: _Loader, fd: int, start: int, stop: int) -> memoryview:
    """Return the bytes of a range of an open file; raise if the file has become shorter meanwhile."""
    found = memoryview(load(fd, start, stop))
    if len(found) < stop - start:
        resolve_range(start, stop, min(os.fstat(fd).st_size, stop - 1))
    return found


LOADERS: dict[str, _Loader] = {"default": _load, "memmap": _load_mapped, "direct": _load_direct}
