"""Finding and deleting the keys of a file store, below a directory and in a range.

Lock files and directories are not keys.  A symbolic link is a key, whatever its target: links to directories
are not followed, so a walk ends and stays below the root.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.files.path import LOCK_SUFFIX, NOT_EMPTY, file_error, is_valid
from chunkwise.core.kvstore.files.platform import DECOMPOSES_NAMES, extended_path, key_name
from chunkwise.core.kvstore.files.platform import remove as remove_file
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import Children
from chunkwise.errors import NotFoundError

__all__ = ["delete_files", "is_directory", "linked_directories", "list_directory", "walk"]


def walk(root: str, keys: KeyRange) -> Iterator[str]:
    """Yield the keys in `keys` of the store at `root`; raise NotFoundError if the directory is a file."""
    # Only directories that can contain such keys are read.
    base = _base(keys)
    pending = [] if base is None else [(base, keys.covers(base))]
    while pending:
        directory, covered = pending.pop()
        for entry in _scan(root + directory, top=directory == base):
            key = directory + (key_name(entry.name) if DECOMPOSES_NAMES else entry.name)
            if entry.name.endswith(LOCK_SUFFIX):
                continue
            if entry.is_dir(follow_symlinks=False):
                below = key + "/"
                if covered or keys.overlaps(below):
                    pending.append((below, covered or keys.covers(below)))
            elif covered or key in keys:
                yield key


def list_directory(root: str, prefix: str) -> Children:
    """Return the keys and the directories directly below `prefix`, both as complete keys."""
    # A directory counts even without keys below it: finding out would mean walking it.  A prefix need not end
    # at a directory: "a/b" selects the names in "a" that begin with "b".
    directory = prefix[: prefix.rfind("/") + 1]
    stem = prefix[len(directory) :]
    keys: list[str] = []
    prefixes: list[str] = []
    if directory and not is_valid(directory[:-1]):
        return Children(keys, prefixes)
    for entry in _scan(root + directory, top=False):
        name = key_name(entry.name)
        if name.startswith(stem) and not name.endswith(LOCK_SUFFIX):
            (prefixes if entry.is_dir(follow_symlinks=False) else keys).append(directory + name)
    return Children(keys, prefixes)


def linked_directories(root: str, prefix: str) -> list[str]:
    """Return the links directly below a directory, whose prefix ends in ``/``, that lead to directories."""
    # Those that lead to a directory above them are left out, so that a walk ends.
    found = [entry for entry in _scan(root + prefix, top=False) if entry.is_symlink() and entry.is_dir()]
    if not found:
        return []
    names = prefix.split("/")
    above = {os.path.realpath(root + "/".join(names[:n])) for n in range(len(names))}
    inside = os.path.realpath(root + prefix) + os.sep
    out = []
    for entry in found:
        target = os.path.realpath(entry.path)
        if target not in above and not inside.startswith(os.path.join(target, "")):
            out.append(prefix + key_name(entry.name))
    return out


def is_directory(root: str, path: str) -> bool:
    """Return True if `path` is a directory that `list_directory` would list as one."""
    try:
        return is_valid(path) and stat.S_ISDIR(os.lstat(extended_path(root + path)).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def delete_files(
    root: str, keys: KeyRange, remove_lock: Callable[[str], None], wanted: Callable[[str], bool]
) -> set[str]:
    """Delete the `wanted` files and emptied directories in `keys`; return directories that lost names."""
    # `root` ends in ``/`` and stays.  A directory is removed if `keys` includes everything that begins with
    # its path, without a ``/``: ``[a/b, a/c)`` removes ``a/b``, ``[a/b/, a/b0)`` and ``[a/b, a/b0)`` empty
    # it.  `remove_lock` gets the path of each lock file in the range, and may leave it.
    touched: set[str] = set()

    def clear(directory: str, *, top: bool) -> None:
        for entry in _scan(root + directory, top=top):
            key = directory + (key_name(entry.name) if DECOMPOSES_NAMES else entry.name)
            if entry.is_dir(follow_symlinks=False):
                below = key + "/"
                if keys.overlaps(below):
                    clear(below, top=False)
                if keys.covers(key) and _remove(os.rmdir, entry.path):
                    touched.discard(root + below)
                    touched.add(root + directory)
            elif key in keys and wanted(key):
                if entry.name.endswith(LOCK_SUFFIX):
                    remove_lock(entry.path)
                elif _remove(remove_file, entry.path):
                    touched.add(root + directory)

    base = _base(keys)
    if base is not None:
        clear(base, top=True)
    return touched


def _remove(remove: Callable[[str], None], path: str) -> bool:
    try:
        remove(path)
    except FileNotFoundError:
        return False
    except OSError as e:
        if remove is os.rmdir and e.errno in NOT_EMPTY:
            return False  # it contains keys that are not to be deleted, or one that is being written
        raise
    return True


def _base(keys: KeyRange) -> str | None:
    """Return the directory, ending in ``/``, that contains the range; None if no valid key is in it."""
    if keys.empty:
        return None
    base = keys.common_directory()
    return base if not base or is_valid(base[:-1]) else None


def _scan(directory: str, *, top: bool) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(extended_path(directory)) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except NotADirectoryError as e:
        if top:
            path = directory.rstrip("/")
            if not os.path.lexists(path):  # a file is in the place of a parent directory
                raise file_error(e, "stat", path) from None
            raise NotFoundError(f"Cannot list non-directory: {dump(path)}") from None
        return []  # a file has replaced it meanwhile
