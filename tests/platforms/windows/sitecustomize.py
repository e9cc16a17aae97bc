"""A process that finds files as Windows has them: a directory to put in front of ``PYTHONPATH``.

Functions and flags that Windows lacks are absent. A file that anybody has open can't be renamed, replaced or
removed, nor opened while that happens. Descriptors are in text mode unless ``O_BINARY`` is given. Names that
differ in case only are one, and some can't be had. A program that calls `use_drives` has Windows' paths.
"""

from __future__ import annotations

import asyncio  # noqa: F401  (what is imported here finds the functions that are taken away below)
import builtins
import errno
import fcntl
import importlib.abc
import importlib.machinery
import multiprocessing.connection
import multiprocessing.util  # noqa: F401
import ntpath
import os
import posixpath
import shutil
import stat
import struct
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
from types import ModuleType
from typing import Any

_BINARY = 1 << 29
_ABSENT_FLAGS = ("O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "O_DIRECT", "O_SYNC", "O_DSYNC")
_ABSENT = (
    "fork",
    "register_at_fork",
    "readv",
    "writev",
    "pread",
    "pwrite",
    "preadv",
    "pwritev",
    "sched_getaffinity",
    "fdatasync",
    "memfd_create",
    "sendfile",
)
_DEVICES = ("con", "prn", "aux", "nul", "com1", "lpt1")
_MAX_PATH = 260
_drives: dict[str, str] = {}  # directories of the drives and shares
_text: dict[int, tuple[int, int]] = {}  # descriptors in text mode, with what they are of
_real = {name: getattr(os, name) for name in dir(os) if callable(getattr(os, name))}


def _in_use(path: Any, winerror: int = 32) -> PermissionError:
    error = PermissionError(errno.EACCES, "The process cannot access the file", path)
    error.winerror = winerror  # type: ignore[attr-defined]
    return error


def use_drives(drives: dict[str, str]) -> None:
    """Have Windows' paths from now on: `drives` has the directory of each ``C:`` or ``//server/share``."""
    open_ = builtins.open
    system, modules = os, sys.modules  # type: Any, Any
    _drives.update({drive.lower(): directory for drive, directory in drives.items()})
    system.path = modules["os.path"] = ntpath
    system.sep, system.altsep = "\\", "/"
    system.getcwd = lambda: "C:\\"
    builtins.open = lambda file, *rest, **named: open_(_find(file), *rest, **named)  # type: ignore[assignment]


def _on_drive(path: str) -> str:
    """Return the real path of one on a drive or share; one without may have backslashes."""
    plain = path.replace("\\", "/")
    if extended := plain.startswith("//?/"):
        plain = plain[4:] if plain[4:8].upper() != "UNC/" else "//" + plain[8:]
    for drive, directory in _drives.items():
        if plain.lower().startswith(drive + "/"):
            if len(path) >= _MAX_PATH and not extended:
                raise FileNotFoundError(errno.ENOENT, "The filename or extension is too long", path)
            return directory + plain[len(drive) :]
    return plain


def _find(path: Any) -> Any:
    """Return the path as it is spelt on disk, of whatever case it is asked for."""
    if not isinstance(path, str | os.PathLike):
        return path
    text = os.fspath(path)
    if isinstance(text, str) and _drives:
        path = text = _on_drive(text)
    if not isinstance(text, str) or _exists(text):
        return path
    _refuse(text)
    head, tail = posixpath.split(text)
    if not tail or head == text:
        return path
    head = _find(head) if head else head
    try:
        names = _real["listdir"](head or ".")
    except OSError:
        return posixpath.join(head, tail)
    same = [name for name in names if name.casefold() == tail.casefold()]
    return posixpath.join(head, tail if tail in names or not same else same[0])


def _exists(path: str) -> bool:
    try:
        _real["lstat"](path)
    except (OSError, ValueError):
        return False
    return True


def _refuse(path: str) -> None:
    name = posixpath.basename(path)
    if any(c in '<>:"\\|?*' or ord(c) < 32 for c in name) or name.partition(".")[0].lower() in _DEVICES:
        raise OSError(errno.EINVAL, "The filename, directory name, or volume label syntax is incorrect", path)


def _without_not_a_directory(error: OSError, path: Any) -> OSError:
    return FileNotFoundError(errno.ENOENT, "The system cannot find the path specified", path)


def _open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    path = _find(path)
    binary = flags & _BINARY
    try:
        fd: int = _real["open"](path, flags & ~_BINARY | 0o2000000, mode, dir_fd=dir_fd)
    except (NotADirectoryError, IsADirectoryError) as e:
        if isinstance(e, IsADirectoryError):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path) from None
        raise _without_not_a_directory(e, path) from None
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        _real["close"](fd)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    if stat.S_ISREG(status.st_mode):
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # kept as long as it is open
        except BlockingIOError:
            _real["close"](fd)
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path) from None
        if not binary:
            _text[fd] = status.st_dev, status.st_ino
        else:
            _text.pop(fd, None)
    return fd


def _is_text(fd: int) -> bool:
    if fd not in _text:
        return False
    status = os.fstat(fd)
    return _text[fd] == (status.st_dev, status.st_ino)


def _write(fd: int, data: Any) -> int:
    if not _is_text(fd):
        return int(_real["write"](fd, data))
    plain = bytes(data)
    _real["write"](fd, plain.replace(b"\n", b"\r\n"))
    return len(plain)


def _read(fd: int, n: int) -> bytes:
    data: bytes = _real["read"](fd, n)
    return data.replace(b"\r\n", b"\n").partition(b"\x1a")[0] if _is_text(fd) else data


class _Alone:
    """Files that nobody has open, and nobody can open meanwhile."""

    def __init__(self, *paths: Any) -> None:
        self._fds: list[int] = []
        for path in paths:
            if not _exists(os.fspath(path)) or os.path.islink(path):
                continue
            fd = _real["open"](path, os.O_RDONLY | 0o2000000)
            self._fds.append(fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.__exit__()
                raise _in_use(path) from None
            opened = os.fstat(fd)
            try:  # another file may have got the name before the lock was there
                named = os.lstat(path)
            except FileNotFoundError:
                named = None
            if named is None or (named.st_ino, named.st_dev) != (opened.st_ino, opened.st_dev):
                self.__exit__()
                raise _in_use(path)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        for fd in self._fds:
            _real["close"](fd)


def _rename(source: Any, target: Any, **options: Any) -> None:
    source, found = _find(source), _find(target)
    if _exists(os.fspath(found)) and not os.path.samefile(source, found):
        raise FileExistsError(errno.EEXIST, "Cannot create a file when that file already exists", target)
    with _Alone(source):
        _real["rename"](source, target, **options)


def _replace(source: Any, target: Any, **options: Any) -> None:
    source, target = _find(source), _find(target)
    if os.path.isdir(target):
        raise _in_use(target, 5)
    with _Alone(source, target):
        _real["replace"](source, target, **options)


def _unlink(path: Any, **options: Any) -> None:
    path = _find(path)
    if os.path.isdir(path) and not os.path.islink(path):
        raise _in_use(path, 5)
    with _Alone(path):
        _real["unlink"](path, **options)


def _by_any_case(name: str) -> Any:
    def call(path: Any = ".", *arguments: Any, **options: Any) -> Any:
        if name == "mkdir" and isinstance(path, str):
            _refuse(_on_drive(path) if _drives else path)
        if name == "utime" and isinstance(path, int):
            raise TypeError("utime: path should be string, bytes or os.PathLike, not int")
        try:
            return _real[name](_find(path), *arguments, **options)
        except NotADirectoryError as e:
            if name in ("scandir", "listdir"):
                raise
            raise _without_not_a_directory(e, path) from None

    return call


def locking(fd: int, mode: int, n_bytes: int) -> None:
    """Do what `msvcrt.locking` does; a program may put something else in its place."""
    kind = fcntl.F_UNLCK if mode == 0 else fcntl.F_WRLCK
    at = os.lseek(fd, 0, os.SEEK_CUR)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi", kind, os.SEEK_SET, at, n_bytes, 0))
    except BlockingIOError:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None


def _msvcrt() -> ModuleType:
    module: Any = ModuleType("msvcrt")
    module.LK_NBLCK, module.LK_UNLCK = 2, 0
    module.locking = lambda *arguments: locking(*arguments)
    return module  # type: ignore[no-any-return]


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module that asks for the platform, and tells it another one."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "chunkwise.core.kvstore.files.platform":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            platform, sys.platform = sys.platform, "win32"
            sys.modules["msvcrt"] = _msvcrt()
            try:
                execute(module)
            finally:
                sys.platform = platform
                del sys.modules["msvcrt"]

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _install() -> None:
    for name in (*_ABSENT, *_ABSENT_FLAGS):
        if hasattr(os, name):
            delattr(os, name)
    system: Any = os
    if hasattr(os, "process_cpu_count"):  # on Linux it asks sched_getaffinity
        system.process_cpu_count = os.cpu_count
    system.O_BINARY = _BINARY
    system.O_NOINHERIT = 0
    system.open, system.write, system.read = _open, _write, _read
    system.rename, system.replace = _rename, _replace
    system.unlink = system.remove = _unlink
    for name in ("stat", "lstat", "mkdir", "rmdir", "scandir", "listdir", "utime"):
        setattr(os, name, _by_any_case(name))
    for functions in (os.supports_fd, os.supports_dir_fd):
        functions.clear()
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    if hasattr(shutil, "_rmtree_impl"):  # of Python 3.14
        shutil._rmtree_impl = shutil._rmtree_unsafe
    sys.modules["fcntl"] = None  # type: ignore[assignment]
    sys.meta_path.insert(0, _Finder())


_install()
