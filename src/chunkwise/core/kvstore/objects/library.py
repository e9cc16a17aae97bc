"""The library for object stores, loaded when the first one is opened.

obstore runs its requests on its own threads.  A forked process lacks these, so a request there would wait for
ever.  The library is therefore loaded a second time in a fork, which starts new threads.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing import parent_process
from types import ModuleType

from chunkwise.core.base.extras import needs
from chunkwise.core.base.fork import new_lock
from chunkwise.errors import UnsupportedError

__all__ = ["object_library"]

_lock = new_lock()
# The process in which the imported library was first used.
_owner: list[int] = []


def object_library() -> ModuleType:
    """Return obstore's extension module for this process; raise UnsupportedError if not installed."""
    with _lock:
        return _library(os.getpid())


@cache
def _library(pid: int) -> ModuleType:
    before = "obstore._obstore" in sys.modules
    try:
        from obstore import _obstore
    except ImportError as e:
        raise UnsupportedError(needs("an object store", "obstore")) from e
    module: ModuleType = _obstore
    if not _owner and not (before and parent_process() is not None):  # otherwise other code may have used it
        _owner.append(pid)
    return module if _owner == [pid] else _second_copy(module)


def _second_copy(module: ModuleType) -> ModuleType:
    """Load the extension again from a copy of its file, since the loader knows the original."""
    assert module.__file__ is not None
    with open(module.__file__, "rb") as original:
        if hasattr(os, "memfd_create"):
            number = os.memfd_create("obstore")
            os.sendfile(number, original.fileno(), 0, os.fstat(original.fileno()).st_size)
            path = f"/proc/self/fd/{number}"
        else:
            number, path = tempfile.mkstemp(suffix=os.path.basename(module.__file__))
            with open(number, "wb", closefd=False) as copy:
                copy.write(original.read())
    try:
        loader = ExtensionFileLoader(module.__name__, path)
        spec = spec_from_file_location(module.__name__, path, loader=loader)
        assert spec is not None
        again = module_from_spec(spec)
        loader.exec_module(again)
        return again
    finally:
        os.close(number)
        if not path.startswith("/proc/"):
            os.unlink(path)
