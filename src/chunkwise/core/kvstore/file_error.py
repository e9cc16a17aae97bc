"""Errors of the operating system as exceptions of a file store."""

from __future__ import annotations

import errno
import os

from chunkwise.core.base.binding import dump
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    PermissionDeniedError,
    StorageError,
)

__all__ = ["MISSING", "NOT_EMPTY", "file_error"]

MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors of opening or reading a file that mean that the key is missing."""

NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)
"""Error numbers for a directory that isn't empty."""

_ENOTSUPP = 524  # Linux' error of some network file systems; Python has no name for it

_DENIED = {
    errno.EACCES: "check the permissions of the file and its directories",
    errno.EPERM: "check the permissions and attributes of the file and its directories",
    errno.EROFS: "the file system is read-only; mount it for writing or write elsewhere",
}
_FAILED = {
    errno.ENOSPC: "the disk is full; free some space or write elsewhere",
    errno.EDQUOT: "the disk quota is used up; free some space or write elsewhere",
    errno.EFBIG: "larger than the file system or the process limit (ulimit -f) allows",
    errno.EIO: "the device failed; look at the system log before trusting it again",
    errno.ENXIO: "a FIFO, a device or a socket is in the place of a file",
    errno.EMFILE: "too many open files in this process; raise the limit (ulimit -n)",
    errno.ENFILE: "too many open files in the system",
    **dict.fromkeys(
        (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, _ENOTSUPP),
        'the file system may have no locks, as some network ones; with "file_io_locking" of '
        '{"mode": "lockfile"} none are needed',
    ),
    errno.ELOOP: "a symbolic link leads back to itself, or a lock file is one",
}
_PRECONDITION = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY)


def file_error(error: OSError, operation: str, path: str) -> ChunkwiseError:
    """Return the exception for the failure of `operation` on the file `path`, with the same ``errno``."""
    code = error.errno
    text = f"Failed to {operation}: {dump(path)}: {os.strerror(code) if code else error}"
    if code is not None:
        text += f" [os_error_code='{code}']"
    if code == errno.ENAMETOOLONG:
        return InvalidArgumentError(text)
    if code in _PRECONDITION:
        return FailedPreconditionError(text)
    if code in _DENIED:
        return PermissionDeniedError(f"{text}; {_DENIED[code]}", code)
    hint = _FAILED.get(code or 0)
    return StorageError(f"{text}; {hint}" if hint else text, code)
