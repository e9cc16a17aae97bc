"""The version of a file: 25 bytes, the same that TensorStore computes.

A zero byte, then device, inode and modification time in nanoseconds, each a 64-bit little-endian
integer.  Kernels take the time of a write from a clock with ticks of some milliseconds, and give the
inode of a deleted file to the next one, so that two versions within a tick could look the same.
:func:`stamp` therefore sets the time to that of the precise clock: an inode is free for reuse only
after the write that made it is over, hence the next time is another one.
"""

from __future__ import annotations

import os
import stat
import time
from struct import Struct

from chunkwise.kvstore.protocol import MISSING_GENERATION

__all__ = ["current_generation", "generation_of", "stamp", "stamp_only"]

_pack = Struct("<xQQq").pack
_MASK = 2**64 - 1


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


def stamp(fd: int) -> bytes:
    """Give the open file `fd` a modification time of its own; return its generation."""
    stamp_only(fd)
    return generation_of(os.fstat(fd))


def stamp_only(fd: int) -> None:
    """Do what :func:`stamp` does, where nobody asks for the generation."""
    now = time.time_ns()
    os.utime(fd, ns=(now, now))
