"""Keys of a file store and their paths.

A key is a relative path, its components separated by ``/``.  No component may be empty, ``.`` or
``..``, hold a NUL, or end in ``.__lock``, the names of lock files; so no key leads out of the root
directory, or to a file that a writer is busy with.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from chunkwise.binding import dump
from chunkwise.errors import InvalidArgumentError

__all__ = ["LOCK_SUFFIX", "check_key", "is_suspect", "is_valid", "real_directory", "root_directory"]

LOCK_SUFFIX = ".__lock"


def is_suspect(key: str) -> bool:
    """Return False if `key` is certainly valid; a cheap test for the many keys that are."""
    rooted = "/" + key
    return "/." in rooted or "//" in rooted or rooted[-1] == "/" or "__lock" in key or "\0" in key


def is_valid(key: str) -> bool:
    """Return whether `key` can be a key of a file store."""
    if not is_suspect(key):
        return True
    if "\0" in key:
        return False
    return not any(part in ("", ".", "..") or part.endswith(LOCK_SUFFIX) for part in key.split("/"))


def check_key(root: str, key: str) -> None:
    """Raise InvalidArgumentError unless `key` can be a key of the file store at `root`."""
    if not is_valid(key):
        raise InvalidArgumentError(
            f"Invalid key: {dump(root + key)}: expected path components that are not empty, "
            f'"." or "..", have no NUL and do not end in "{LOCK_SUFFIX}"'
        )


def real_directory(root: str) -> str:
    """Return `root`, absolute and ending in ``/``, with symbolic links resolved and without that ``/``."""
    if "//" in root:
        return os.path.realpath(root)
    at = 0
    try:
        while (at := root.find("/", at + 1)) > 0:
            if stat.S_ISLNK(os.lstat(root[:at]).st_mode):
                return os.path.realpath(root)
    except OSError:
        return os.path.realpath(root)
    return root[:-1] or "/"


def root_directory(path: str | os.PathLike[Any]) -> str:
    """Return the absolute path of the directory `path`, ending in ``/``.

    Raises
    ------
    InvalidArgumentError
        If `path` has a component ``..`` or a NUL.
    """
    text = os.fspath(path)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if "\0" in text or ".." in text.split("/"):
        raise InvalidArgumentError(f'Invalid path: {dump(text)}: expected no NUL and no component ".."')
    tidy = text.startswith("/") and "//" not in text and "/." not in text
    absolute = text if tidy else os.path.abspath(text)
    return absolute if absolute.endswith("/") else absolute + "/"
