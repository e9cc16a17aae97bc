"""Files of the operating system: flags, locks, and the operations that are possible on open files.

On Windows, an open file can't be renamed, replaced or removed: such a call fails and is retried for a while.
Directories can't be opened, so they can't be synchronised.  Names allow fewer characters, and names that
differ only in case are the same, as on macOS, where the composed and decomposed forms of a letter are the
same too.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = [
    "CREATE",
    "DECOMPOSES_NAMES",
    "DIRECT",
    "FOLDS_NAMES",
    "HELD",
    "LOCK",
    "NO_FOLLOW",
    "READ",
    "TRAITS",
    "UNLOCK",
    "VECTORED_READS",
    "WINDOWS",
    "WRITE",
    "extended_path",
    "key_name",
    "name_fault",
    "open_file",
    "read_at",
    "remove",
    "replace",
    "set_lock",
    "sync_directory",
    "sync_file",
    "sync_path",
]

T = TypeVar("T")

WINDOWS = sys.platform == "win32"
FOLDS_NAMES = WINDOWS or sys.platform == "darwin"
DECOMPOSES_NAMES = sys.platform == "darwin"

# Without O_BINARY Windows changes line ends.
# Opening a FIFO in the place of a file must not wait for its other end; regular files are not affected.
_COMMON = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOINHERIT", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
)
VECTORED_READS = hasattr(os, "readv") and hasattr(os, "preadv")
READ = os.O_RDONLY | _COMMON
WRITE = os.O_WRONLY | _COMMON
CREATE = WRITE | os.O_CREAT
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
DIRECT = getattr(os, "O_DIRECT", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)

HELD = (errno.EAGAIN, errno.EACCES)
_IN_USE = (5, 32, 33)  # Windows' ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION
_PATIENCE = 10.0  # seconds to wait until a file that is open elsewhere can be moved or removed
_OPEN_PATIENCE = 1.0  # replacing a file only takes a moment
_LONG = 240  # characters; paths from 260 and directories from 248 need a prefix, and lock files add 7
_RESERVED = frozenset(
    ["CON", "PRN", "AUX", "NUL", *(f"{name}{n}" for name in ("COM", "LPT") for n in "123456789¹²³")]
)
_FORBIDDEN = frozenset('<>:"\\|?*') | frozenset(map(chr, range(32)))

# -- locks, which belong to the descriptor and exclude threads too -----------------------------------------

if sys.platform == "win32":
    import msvcrt

    def set_lock(fd: int, how: int) -> None:
        os.lseek(fd, 0, os.SEEK_SET)
        msvcrt.locking(fd, how, 1)

    LOCK, UNLOCK = (msvcrt.LK_NBLCK,), (msvcrt.LK_UNLCK,)
    _FULL_SYNC = None
else:
    try:
        import fcntl
    except ImportError:
        wanted = "expected Linux, macOS or Windows"
        raise ImportError(f"chunkwise can't lock files on {sys.platform}; {wanted}") from None

    _set_option: Callable[..., object] = fcntl.fcntl
    _FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)

    if sys.platform == "linux":
        import struct

        # struct flock: l_type, l_whence, l_start, l_len, l_pid; from 0 with length 0 is the whole file.
        set_lock: Callable[..., object] = fcntl.fcntl
        LOCK = (fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        UNLOCK = (fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
    else:
        set_lock = fcntl.flock
        LOCK = (fcntl.LOCK_EX | fcntl.LOCK_NB,)
        UNLOCK = (fcntl.LOCK_UN,)


TRAITS = {
    "locks": {"win32": "msvcrt.locking", "linux": "fcntl.F_OFD_SETLK"}.get(sys.platform, "fcntl.flock"),
    "rename": "replaces a file that no process has open"
    if WINDOWS
    else "replaces a file that others have open",
    "names": "upper and lower case are one" if FOLDS_NAMES else "upper and lower case differ",
}
"""Abilities of the platform's files, for messages."""


# -- calls that fail for a moment while a file is open elsewhere ------------------------------------------


def _open_on_windows(path: str, flags: int, mode: int = 0o666) -> int:
    def attempt() -> int:
        try:
            return os.open(path, flags, mode)
        except PermissionError:
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from None
            raise

    return _patiently(attempt, patience=_OPEN_PATIENCE)


def _remove_on_windows(path: str) -> None:
    _patiently(os.unlink, path, patience=_PATIENCE)


open_file: Callable[[str, int, int], int] = _open_on_windows if WINDOWS else os.open
"""Open a file with flags and mode, and return its descriptor."""

remove: Callable[[str], None] = _remove_on_windows if WINDOWS else os.unlink
"""Remove a file."""


def replace(source: str, target: str) -> None:
    """Rename a file that is not open to `target`, which is replaced."""
    _patiently(os.replace, source, target, patience=_PATIENCE)


def _patiently(call: Callable[..., T], *arguments: object, patience: float) -> T:
    # From below the finest tick of Windows' clock, 1 ms, to above the usual one, 15.6 ms.
    pause, end = 0.0005, time.monotonic() + patience
    while True:
        try:
            return call(*arguments)
        except PermissionError as e:
            # open() doesn't report Windows' error number.
            if getattr(e, "winerror", None) not in (None, *_IN_USE) or time.monotonic() > end:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


# -- reading and waiting for the disk ---------------------------------------------------------------------

if hasattr(os, "preadv"):

    def read_at(fd: int, out: memoryview, offset: int) -> int:
        """Fill `out` from byte `offset` of an open file on; return how many bytes came."""
        return os.preadv(fd, [out], offset)

elif hasattr(os, "pread"):

    def read_at(fd: int, out: memoryview, offset: int) -> int:
        """Fill `out` from byte `offset` of an open file on; return how many bytes came."""
        data = os.pread(fd, len(out), offset)
        out[: len(data)] = data
        return len(data)

else:

    def read_at(fd: int, out: memoryview, offset: int) -> int:
        """Fill `out` from byte `offset` of an open file, which no other thread uses."""
        os.lseek(fd, offset, os.SEEK_SET)
        data = os.read(fd, len(out))
        out[: len(data)] = data
        return len(data)


def sync_file(fd: int) -> None:
    """Wait until an open file is on disk; on macOS, until the drive has also written its own cache."""
    if _FULL_SYNC is not None:
        try:
            _set_option(fd, _FULL_SYNC)
            return
        except OSError as e:
            if e.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
    os.fsync(fd)


def sync_path(path: str) -> None:
    """Wait until the data of the file `path` is on disk; don't wait for a deleted file."""
    _sync_named(path, WRITE | NO_FOLLOW)


def sync_directory(directory: str) -> None:
    """Wait until the names in `directory` are on disk; don't wait for a deleted directory."""
    if _DIRECTORY:  # otherwise the file system's journal must suffice
        _sync_named(directory, READ | _DIRECTORY)


def _sync_named(path: str, flags: int) -> None:
    try:
        [fd] = map(open_file, [path], [flags], [0])
    except FileNotFoundError:
        return
    try:
        sync_file(fd)
    finally:
        os.close(fd)


# -- names ------------------------------------------------------------------------------------------------


def name_fault(name: str, *, system: str = sys.platform) -> str:
    """Return the reason why no file can be called `name`, a component of a path; empty if one can."""
    if system == "darwin" and any("\ud800" <= c <= "\udfff" for c in name):
        return "macOS takes names in UTF-8 only"
    if system != "win32":
        return ""
    if wrong := sorted(_FORBIDDEN.intersection(name)):
        return f"{wrong[0]!a} can't be in the name of a file on Windows"
    if name[-1:] in (".", " "):
        return "Windows drops a final dot or space"
    if name.partition(".")[0].rstrip().upper() in _RESERVED:
        return "Windows has reserved the name for a device"
    return ""


def key_name(name: str) -> str:
    """Return the name of a file as in keys: macOS may list it with decomposed letters."""
    if not DECOMPOSES_NAMES:
        return name
    from unicodedata import normalize

    return normalize("NFC", name)


def extended_path(path: str, *, windows: bool = WINDOWS) -> str:
    """Return `path`, absolute and with ``/``, in a form that the system accepts at any length."""
    if not windows or len(path) < _LONG or path.startswith("\\\\?\\"):
        return path
    path = path.replace("/", "\\")
    return "\\\\?\\UNC\\" + path[2:] if path.startswith("\\\\") else "\\\\?\\" + path
