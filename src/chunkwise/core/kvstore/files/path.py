"""Keys of a file store, their paths, and exceptions for errors of the operating system.

A key is a relative path, its components separated by ``/``.  No component may be empty, ``.`` or ``..``,
contain a NUL, or end in ``.__lock`` like lock files.  So no key leads out of the root directory, or to a file
that is being written.  Names that the operating system changes are not allowed either.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.files.platform import FOLDS_NAMES, WINDOWS, extended_path, key_name, name_fault
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    PermissionDeniedError,
    StorageError,
)

__all__ = [
    "LOCK_SUFFIX",
    "MISSING",
    "NOT_EMPTY",
    "check_case",
    "check_key",
    "file_error",
    "file_errors",
    "is_suspect",
    "is_valid",
    "other_case",
    "path_of",
    "real_directory",
    "root_directory",
]


LOCK_SUFFIX = ".__lock"


def is_suspect(key: str) -> bool:
    """Return False if `key` is certainly valid, as most keys are; a cheap test."""
    rooted = "/" + key
    return (
        FOLDS_NAMES
        or "/." in rooted
        or "//" in rooted
        or rooted[-1] == "/"
        or "__lock" in key
        or "\0" in key
        or not key.isascii()
    )


def is_valid(key: str) -> bool:
    """Return True if `key` can be a key of a file store."""
    if not is_suspect(key):
        return True
    return not _fault(key)


def _fault(key: str) -> str:
    """Return the reason why `key` can't be a key; empty if it can."""
    parts = key.split("/")
    if "\0" in key or any(part in ("", ".", "..") or part.endswith(LOCK_SUFFIX) for part in parts):
        return (
            'expected path components that are not empty, "." or "..", have no NUL and do not end in '
            f'"{LOCK_SUFFIX}"'
        )
    if not _has_bytes(key):
        return "it has half of a surrogate pair, which no name of a file has"
    return next(filter(None, map(name_fault, parts)), "")


def _has_bytes(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def check_key(root: str, key: str) -> None:
    """Raise InvalidArgumentError unless `key` can be a key of the file store at `root`."""
    if fault := _fault(key):
        raise InvalidArgumentError(f"Invalid key: {dump(root + key)}: {fault}")


def path_of(root: str, key: str) -> str:
    """Return the path of the file of a valid `key` in the store at `root`."""
    if is_suspect(key):
        check_key(root, key)
    return extended_path(root + key)


def check_case(root: str, key: str) -> None:
    """Raise if writing `key` would change the value of another key."""
    if other := other_case(root, key):
        part = next((part for part in key.split("/") if part.casefold() == other.casefold()), other)
        taken = f"{dump(other)} is there, which the system takes for {dump(part)}"
        raise FailedPreconditionError(f"Can't change {dump(root + key)}: {taken}")


def other_case(root: str, key: str) -> str:
    """Return the different name of a file or directory that the system equates with one in `key`, if any."""
    if not FOLDS_NAMES:
        return ""
    at = root
    for part in key.split("/"):
        if part.isascii() and part.lower() == part.upper():  # digits, usually
            at += part + "/"
            continue
        try:
            os.lstat(at + part)
            names = list(map(key_name, os.listdir(at)))
        except OSError:
            return ""  # there is nothing to confuse it with
        if key_name(part) not in names:
            return next((name for name in names if name.casefold() == part.casefold()), part)
        at += part + "/"
    return ""


def real_directory(root: str) -> str:
    """Return `root`, absolute and ending in ``/``, without that ``/`` and with symbolic links resolved."""
    if "//" in root or WINDOWS:
        return os.path.realpath(root).replace(os.sep, "/")
    at = 0
    try:
        while (at := root.find("/", at + 1)) > 0:
            if stat.S_ISLNK(os.lstat(root[:at]).st_mode):
                return os.path.realpath(root)
    except OSError:
        return os.path.realpath(root)
    return root[:-1] or "/"


def root_directory(path: str | os.PathLike[Any]) -> str:
    """Return the absolute path of a directory, ending in ``/``; ``..`` and NUL are invalid."""
    text = os.fspath(path)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if "\0" in text or ".." in text.replace(os.sep, "/").split("/"):
        raise InvalidArgumentError(f'Invalid path: {dump(text)}: expected no NUL and no component ".."')
    if not (text.isascii() or _has_bytes(text)):
        raise InvalidArgumentError(f"Invalid path: {dump(text)}: expected no half of a surrogate pair")
    tidy = text.startswith("/") and "//" not in text and "/." not in text and not WINDOWS
    absolute = text if tidy else os.path.abspath(text).replace(os.sep, "/")
    return absolute if absolute.endswith("/") else absolute + "/"


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


@contextmanager
def file_errors(operation: str, path: str, *, named: bool = False) -> Iterator[None]:
    """Raise `file_error` for an OSError of the block; if `named`, of the file that the error names."""
    try:
        yield
    except ChunkwiseError:
        raise
    except OSError as e:
        raise file_error(e, operation, str(e.filename or path) if named else path) from e
