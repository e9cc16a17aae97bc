"""Keys of a file store and their paths.

A key is a relative path, its components separated by ``/``.  No component may be empty, ``.`` or ``..``,
contain a NUL, or end in ``.__lock`` like lock files.  So no key leads out of the root directory, or to a file
that is being written.  Names that the operating system changes are not allowed either.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.platform import FOLDS_NAMES, WINDOWS, extended_path, key_name, name_fault
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError

__all__ = [
    "LOCK_SUFFIX",
    "check_case",
    "check_key",
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
