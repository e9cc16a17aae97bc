"""Reading files by mapping them, or past the page cache.

``memmap`` costs page faults instead of a copy; it pays where little of a large value is looked at.
A file that another process cuts off while it is mapped ends this process, so it is not for stores
with writers that don't rename.  ``direct`` reads in whole pages with ``O_DIRECT``, for data that are
read once; a file system that refuses that is read normally.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from typing import TypeAlias

from chunkwise.kvstore.file_read import read_fully
from chunkwise.kvstore.protocol import Buffer

__all__ = ["LOADERS", "Loader", "open_for_reading"]

Loader: TypeAlias = Callable[[int, int, int], Buffer]
"""``loader(fd, begin, end)``: the bytes of the open file; fewer if it ends before."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC
_DIRECT = getattr(os, "O_DIRECT", 0)


def open_for_reading(path: str, direct: bool) -> int:
    """Open the file `path`, for direct I/O if asked to and the file system can; return the descriptor."""
    if direct and _DIRECT:
        try:
            [fd] = map(os.open, [path], [_FLAGS | _DIRECT])
            return fd
        except OSError as e:
            if e.errno != errno.EINVAL:
                raise
    [fd] = map(os.open, [path], [_FLAGS])
    return fd


def _load(fd: int, begin: int, end: int) -> Buffer:
    data = os.pread(fd, end - begin, begin)
    if len(data) in (0, end - begin):
        return data
    memory = bytearray(end - begin)  # a signal, or more than 2 GiB
    n = read_fully(fd, memoryview(memory), begin)
    return bytes(memory[:n])


def _load_mapped(fd: int, begin: int, end: int) -> Buffer:
    if begin == end:
        return b""
    base = begin - begin % mmap.ALLOCATIONGRANULARITY
    try:
        mapped = mmap.mmap(fd, end - base, access=mmap.ACCESS_READ, offset=base)
    except ValueError:  # the file has become shorter since its size was looked at
        return b""
    return memoryview(mapped)[begin - base :]


def _load_direct(fd: int, begin: int, end: int) -> Buffer:
    if begin == end:
        return b""
    page = mmap.PAGESIZE
    base = begin - begin % page
    # An anonymous mapping begins at a page, as O_DIRECT demands of memory, offset and length.
    memory = memoryview(mmap.mmap(-1, -(-(end - base) // page) * page))
    n = 0
    while n < end - base:
        got = os.preadv(fd, [memory[n:]], base + n)
        n += got
        if not got or got % page:
            break
    return memory[begin - base : min(n, end - base)]


LOADERS: dict[str, Loader] = {"default": _load, "memmap": _load_mapped, "direct": _load_direct}
