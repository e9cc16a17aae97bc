"""A process in which chunkwise lacks some packages: a directory to put in front of ``PYTHONPATH``.

``CHUNKWISE_TEST_ABSENT`` names the packages, separated by commas, which tests can import all the same;
"direct" among them means extension modules that export no functions of their C libraries, as on Windows.
Before Python 3.14 its ``compression.zstd`` is the backport.
"""

from __future__ import annotations

import builtins
import ctypes
import os
import sys
import types
from typing import Any

_absent = set(os.environ["CHUNKWISE_TEST_ABSENT"].split(","))
_import, _cdll = builtins.__import__, ctypes.CDLL


def _import_some(name: str, globals: Any = None, *args: Any, **kwargs: Any) -> Any:
    importer = (globals or {}).get("__name__", "")
    if name.partition(".")[0] in _absent and importer.startswith("chunkwise."):
        raise ImportError(f"{name} is absent")
    return _import(name, globals, *args, **kwargs)


def _load(name: Any, *args: Any, **kwargs: Any) -> Any:
    if name is not None and any(f"{os.sep}{package}{os.sep}" in name for package in ("deflate", "numcodecs")):
        return object()
    return _cdll(name, *args, **kwargs)


builtins.__import__ = _import_some
if "direct" in _absent:
    ctypes.CDLL = _load  # type: ignore[assignment,misc]
if sys.version_info < (3, 14):
    compression = sys.modules["compression"] = types.ModuleType("compression")
    compression.zstd = _import("backports.zstd", fromlist=["zstd"])  # type: ignore[attr-defined]
