"""A process that finds files as macOS has them: a directory to put in front of ``PYTHONPATH``.

Names are stored with their letters decomposed, and those that differ in case only are one. There are no locks
of open file descriptions, no ``preadv`` and no ``O_DIRECT``. ``F_FULLFSYNC`` is there, and is counted.
"""

from __future__ import annotations

import asyncio  # noqa: F401  (what is imported here finds the functions that are taken away below)
import errno
import fcntl
import importlib.abc
import importlib.machinery
import os
import shutil
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import unicodedata
from types import ModuleType
from typing import Any

_FULL_SYNC = 51
_real = {name: getattr(os, name) for name in dir(os) if callable(getattr(os, name))}
_fcntl = fcntl.fcntl


def _find(path: Any) -> Any:
    """Return the path as it is spelt on disk, of whatever case it is asked for."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        return path
    text = unicodedata.normalize("NFD", os.fspath(path))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, "Illegal byte sequence", path) from None
    head, tail = os.path.split(text)
    try:
        _real["lstat"](text)
        return text
    except (OSError, ValueError):
        if not tail or head == text:
            return text
    head = _find(head) if head else head
    try:
        names = _real["listdir"](head or ".")
    except OSError:
        names = []
    same = [name for name in names if name.casefold() == tail.casefold()]
    return os.path.join(head, tail if tail in names or not same else same[0])


def _by_any_name(name: str, n_paths: int) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        return _real[name](*map(_find, arguments[:n_paths]), *arguments[n_paths:], **options)

    return call


def _counted(fd: Any, command: int, *arguments: Any) -> Any:
    if command == _FULL_SYNC:
        system.n_full_syncs += 1
        return 0
    return _fcntl(fd, command, *arguments)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module that asks for the platform, and tells it another one."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "chunkwise.core.kvstore.files.platform":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            platform, sys.platform = sys.platform, "darwin"
            try:
                execute(module)
            finally:
                sys.platform = platform

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


system: Any = os
locks: Any = fcntl
for flag in ("O_DIRECT", "preadv", "pwritev", "sched_getaffinity", "memfd_create", "fdatasync"):
    if hasattr(os, flag):
        delattr(os, flag)
if hasattr(os, "process_cpu_count"):  # on Linux it asks sched_getaffinity
    system.process_cpu_count = os.cpu_count
del locks.F_OFD_SETLK, locks.F_OFD_GETLK, locks.F_OFD_SETLKW
locks.F_FULLFSYNC, locks.fcntl = _FULL_SYNC, _counted
system.n_full_syncs = 0
for name in ("open", "stat", "lstat", "mkdir", "rmdir", "scandir", "listdir", "utime", "unlink", "remove"):
    setattr(os, name, _by_any_name(name, 1))
for name in ("rename", "replace", "link"):
    setattr(os, name, _by_any_name(name, 2))
shutil._use_fd_functions = False  # type: ignore[attr-defined]
if hasattr(shutil, "_rmtree_impl"):  # of Python 3.14
    shutil._rmtree_impl = shutil._rmtree_unsafe
sys.meta_path.insert(0, _Finder())
