"""Packages that only parts of chunkwise need: the extra that installs each, the error if one is missing."""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from types import ModuleType

__all__ = ["MissingPackageError", "check_shortage", "is_of", "load", "needs"]

_EXTRAS = {
    "Pillow": "codecs",
    "anywidget": "notebook",
    "anyio": "serve",
    "boto3": "aws",
    "dask": "dask",
    "h5py": "hdf5",
    "hdmf": "nwb",
    "imagecodecs": "codecs",
    "cryptography": "cloud",
    "pyarrow": "parquet",
    "pynwb": "nwb",
    "neuroglancer": "view",
    "shtab": "cli",
    "starlette": "serve",
    "tifffile": "tiff",
    "uvicorn": "serve",
    "xarray": "xarray",
    "zarr": "zarr",
}


class MissingPackageError(ImportError):
    """A package of an extra is not installed, or can't be imported."""


def is_of(value: object, package: str) -> bool:
    """Return True if an object's class belongs to a package; doesn't import the package."""
    return type(value).__module__.partition(".")[0] == package


def check_shortage(error: BaseException | None) -> None:
    """Raise MemoryError or OSError if a library that is there failed to load for want of memory or files."""
    text = str(error) if isinstance(error, ImportError) else ""
    if "Too many open files" in text:
        raise OSError(errno.EMFILE, text) from error
    if "map segment" in text or "llocate memory" in text or "Out of memory" in text:
        raise MemoryError(text) from error


def needs(what: str, package: str, extra: str | None = None) -> str:
    """Return the text of an error: which feature needs a package, and the command that installs it."""
    check_shortage(sys.exception())
    extra = extra or _EXTRAS.get(package)
    command = f"pip install {package}" if extra is None else f'pip install "chunkwise[{extra}]"'
    return f"{what} needs {package}: {command}"


def load(module: str, what: str) -> ModuleType:
    """Return a module whose package has the same name."""
    try:
        return import_module(module)
    except ImportError as e:
        raise MissingPackageError(f"{needs(what, module.partition('.')[0])} ({e})") from e
