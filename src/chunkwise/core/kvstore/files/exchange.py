"""Exchange of two directories, by one system call if there is one."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from chunkwise.core.kvstore.files.path import file_error
from chunkwise.core.kvstore.files.platform import DECOMPOSES_NAMES, sync_directory
from chunkwise.errors import UnsupportedError

__all__ = ["can_exchange", "exchange_directories", "link_file"]

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # a flag of Linux' renameat2
_RENAME_SWAP = 2  # a flag of macOS' renamex_np
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


@cache
def _exchange_call() -> Callable[[bytes, bytes], int] | None:
    """Return the call that exchanges two names, None if this system has none."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "linux":
            renameat2 = library.renameat2
            renameat2.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
            return lambda a, b: int(renameat2(_AT_FDCWD, a, _AT_FDCWD, b, _RENAME_EXCHANGE))
        if DECOMPOSES_NAMES:
            renamex = library.renamex_np
            renamex.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint]
            return lambda a, b: int(renamex(a, b, _RENAME_SWAP))
    except (OSError, AttributeError, TypeError):  # another C library, or none that can be loaded
        pass
    return None


def exchange_paths(new: str, old: str, aside: str) -> None:
    """Exchange two directories; if the system can't, `old` is called `aside` for a moment."""
    call = _exchange_call()
    if call is not None:
        if call(os.fsencode(new), os.fsencode(old)) == 0:
            return
        code = ctypes.get_errno()
        if code not in _UNKNOWN:
            raise OSError(code, os.strerror(code), old)
    os.rename(old, aside)
    try:
        os.rename(new, old)
    except BaseException:
        os.rename(aside, old)
        raise
    os.rename(aside, new)


def can_exchange(path: str) -> bool:
    """Return True if the directory `path`, which need not exist, can be renamed."""
    # Links, mounted file systems and files are not renamed, nor is anything in another user's directory.
    if os.path.lexists(path) and (os.path.islink(path) or os.path.ismount(path) or not os.path.isdir(path)):
        return False
    above = os.path.dirname(path)
    while not os.path.lexists(above) and os.path.dirname(above) != above:
        above = os.path.dirname(above)
    return os.access(above, os.W_OK | os.X_OK)


def link_file(path: str, other: str) -> None:
    """Give a file, or a symbolic link, a second name, or copy it; an existing file of that name stays."""
    os.makedirs(os.path.dirname(other), exist_ok=True)
    try:
        os.link(path, other, follow_symlinks=False)
    except FileExistsError:
        return
    except (OSError, NotImplementedError) as e:
        if not os.path.lexists(path):
            return  # it was deleted meanwhile
        if isinstance(e, OSError) and e.errno == errno.ENOSPC:
            raise
        from shutil import copy2

        copy2(path, other, follow_symlinks=False)


def exchange_directories(new: str, old: str, aside: str, *, sync: bool) -> bool:
    """Exchange a directory and another, or a file, as `exchange_paths`; return False if `old` is missing."""
    from shutil import copymode

    try:
        if os.path.isdir(old):  # the new directory gets the old permissions
            with suppress(OSError):
                copymode(old, new)
        exchange_paths(new, old, aside)
        if sync:
            for directory in {os.path.dirname(old), os.path.dirname(new)}:
                sync_directory(directory)
    except FileNotFoundError as e:
        if not os.path.lexists(old):
            return False
        raise file_error(e, "move", new) from e
    except OSError as e:
        if e.errno in (errno.EXDEV, errno.EBUSY, errno.EPERM, errno.EACCES):
            raise UnsupportedError(file_error(e, "exchange", old).message) from e
        raise file_error(e, "exchange", old) from e
    return True
