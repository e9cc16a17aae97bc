"""Paths, URLs, kvstores and stores of zarr-python as one record, and the names that builders carry."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from chunkwise import Context, KvStore
from chunkwise.core.kvstore.libraries.fsspec import synchronous
from chunkwise.core.kvstore.libraries.mapping import MappingStore
from chunkwise.core.kvstore.libraries.zarr_python import is_zarr_python
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import is_of, is_url, shown_text
from chunkwise.extension.inside import with_storage_options as spec_with_options
from chunkwise.extension.trees import Location, locate

__all__ = [
    "STORE_NAMES",
    "Place",
    "canonical_source",
    "is_absolute",
    "is_nested",
    "is_read_only",
    "is_store_of_zarr2",
    "join_source",
    "kvstore_of",
    "name_of",
    "named_place",
    "path_of_store",
    "place_of",
    "relative_source",
    "source_name",
    "with_login",
    "with_storage_options",
]

# -- stores of zarr-python ----------------------------------------------------------------------------

_DIRECTORIES_OF_2 = ("DirectoryStore", "NestedDirectoryStore", "TempStore")
_PATHS = {
    **dict.fromkeys(_DIRECTORIES_OF_2, ("path", "")),
    "LocalStore": ("root", ""),
    "ZipStore": ("path", "|zip:"),
}
"""Attribute that is the path of a store in local files, and the rest of its URL."""

_FSSPEC = ("FsspecStore", "FSStore")
_MAPPINGS = ("MemoryStore", "KVStore")

STORE_NAMES = (
    "DirectoryStore",
    "NestedDirectoryStore",
    "LocalStore",
    "ZipStore",
    "MemoryStore",
    "FsspecStore",
)


def _kind(place: Any) -> str:
    """Return the name of the class of a store; empty for anything else."""
    name = type(place).__name__
    return name if is_of(place, "zarr") and name in (*_PATHS, *_FSSPEC, *_MAPPINGS) else ""


def is_store_of_zarr2(place: Any) -> bool:
    """Return True if a place is a store object of zarr-python 2, which knows nothing but Zarr v2."""
    # Those of zarr-python 3 have a member that says whether they may be written to.
    return bool(_kind(place)) and not hasattr(place, "read_only")


def is_nested(place: Any) -> bool:
    """Return True if a place is a store object in which each chunk index is a directory."""
    kind = _kind(place)
    return kind == "NestedDirectoryStore" or (kind == "FSStore" and place.key_separator == "/")


def is_read_only(place: Any) -> bool:
    """Return True if a place is a store object that must not be written to."""
    return bool(_kind(place)) and bool(getattr(place, "read_only", False))


def path_of_store(place: Any) -> str | None:
    """Return the path, or URL, of a store in local files; None for anything else."""
    kind = _kind(place)
    if kind in _PATHS:
        member, suffix = _PATHS[kind]
        return str(os.path.realpath(getattr(place, member))) + suffix
    if kind in _FSSPEC:
        fs = synchronous(place.fs)
        names = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
        return str(os.path.realpath(place.path)) if "file" in names else None
    return None


def kvstore_of(place: Any) -> KvStore | None:
    """Return the kvstore that a store in memory or in a file system of fsspec is; None for anything else."""
    kind = _kind(place)
    if kind in _MAPPINGS:
        store = place if is_zarr_python(place) else MappingStore(place)
        return KvStore.open({"driver": "object", "object": store}).result()
    if kind in _FSSPEC:
        spec = {"driver": "object", "object": synchronous(place.fs), "single_writer": True}
        return KvStore.open({**spec, "path": place.path.rstrip("/") + "/" if place.path else ""}).result()
    return None


def name_of(place: Any) -> str:
    """Return the name of a store that `kvstore_of` knows, for messages and links."""
    if _kind(place) in _FSSPEC:
        return str(synchronous(place.fs).unstrip_protocol(place.path)).rstrip("/")
    return f"memory://{id(getattr(place, '_store_dict', place))}"


# -- places -------------------------------------------------------------------------------------------

Place: TypeAlias = "str | os.PathLike[str] | KvStore | Location"
"""A local path, a URL, or a kvstore whose prefix is the store; a store object of zarr-python, too."""

_FEW_RETRIES = {
    f"{protocol}_request_retries": {"max_retries": 1, "initial_delay": "100ms"}
    for protocol in ("http", "s3", "gcs", "azure")
}

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def place_of(place: Place, *, patient: bool = True) -> Location:
    """Return the location of a store; symbolic links in local paths are resolved."""
    if isinstance(place, Location):
        return place
    if isinstance(place, KvStore):
        return locate(place)
    text = _text(place)
    if text is None:
        held = kvstore_of(place)
        assert held is not None
        return locate(held)
    if not is_url(text):
        return locate(os.path.realpath(text))
    return locate(text, None if patient else Context(_FEW_RETRIES))


def named_place(place: Place) -> Location:
    """Return the location of a store as it was named; the group above it decides the format of a new one."""
    is_local = isinstance(place, str | os.PathLike) and not is_url(os.fspath(place))
    return locate(place) if is_local else place_of(place)


def _text(place: Place) -> str | None:
    """Return the path or URL that a place is; None for a store object that has none."""
    if isinstance(place, str | os.PathLike):
        text = os.fspath(place)
        # The scheme of fsspec for Google's buckets.
        return "gs://" + text[6:] if text.startswith("gcs://") else text
    found = path_of_store(place)
    if found is None and kvstore_of(place) is None:
        raise TypeError(
            f"path is {type(place).__name__}, but expected a local path, a URL, a chunkwise.KvStore or one "
            f"of zarr-python's {', '.join(STORE_NAMES)}"
        )
    return found


def source_name(place: Place) -> str:
    """Return the name of a store that builders and containers have as ``source``."""
    if isinstance(place, Location):
        return place.text
    if isinstance(place, KvStore):
        try:
            return place.url.rstrip("/")
        except (ValueError, NotImplementedError):
            return f"kvstore-{id(place)}"
    text = _text(place)
    if text is None:
        return name_of(place)
    if not text:
        raise InvalidArgumentError("the path is empty")
    if isinstance(place, Path) or not is_url(text):
        return os.path.realpath(text)
    return shown_text(text).rstrip("/")


def with_login(name: str, place: Any) -> str:
    """Return the URL of a store with user and password of `place`, if that is on the same server."""
    if not (isinstance(place, str) and is_url(place) and is_url(name)):
        return name
    there, known = urlsplit(name), urlsplit(place)
    same = (there.scheme, there.netloc) == (known.scheme, known.netloc.rpartition("@")[2])
    return urlunsplit(there._replace(netloc=known.netloc)) if same else name


def join_source(base: str, source: str, *, from_parent: bool = False) -> str | None:
    """Return the store that `source` names, seen from `base`; None above the root of a URL."""
    if is_url(source):
        return source
    source = source.replace("\\", "/") if not _DRIVE.match(source) else source
    if not is_url(base):
        start = os.path.dirname(base) if from_parent else base
        return os.path.normpath(os.path.join(start, source))
    if source.startswith("/"):
        return source
    # A chain such as "zip+…|…" has its path in the last part only; what follows "?" is kept.
    head, bar, last = base.rpartition("|")
    parts = urlsplit(last)
    names = [name for name in parts.path.split("/") if name]
    if from_parent:
        names = names[:-1]
    for name in source.split("/"):
        if name == "..":
            if not names:
                return None
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return head + bar + urlunsplit(parts._replace(path="/" + "/".join(names)))


def canonical_source(source: str) -> str:
    """Return the form of a store's name that all names of one store share."""
    return source.rstrip("/") if is_url(source) else os.path.realpath(source)


def relative_source(target: str, holder: str) -> str | None:
    """Return the name of the store `target` for a link in `holder`; None if only an absolute name could."""
    if target == holder:
        return "."
    if is_url(target) != is_url(holder):
        return None
    if not is_url(target):
        if os.path.splitdrive(target)[0] != os.path.splitdrive(holder)[0]:
            return None
        return os.path.relpath(target, holder).replace(os.sep, "/")
    a, b = urlsplit(target), urlsplit(holder)
    if (a.scheme, a.netloc, a.query) != (b.scheme, b.netloc, b.query):
        return None
    there = os.path.relpath("/" + a.path.strip("/"), "/" + b.path.strip("/"))
    return there.replace(os.sep, "/")


def is_absolute(source: str) -> bool:
    """Return True if a stored source is an absolute path or a URL."""
    return is_url(source) or source.startswith(("/", "\\")) or _DRIVE.match(source) is not None


def with_storage_options(path: Place, options: Mapping[str, Any] | None) -> Place:
    """Return the place that a URL and options name."""
    text = _text(path) if isinstance(path, str | os.PathLike) else None
    found = spec_with_options(path if text is None else text, options)
    if found is path or found == text:
        return path
    return KvStore.open(found.get("kvstore", found)).result()
