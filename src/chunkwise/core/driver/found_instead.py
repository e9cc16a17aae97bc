"""Messages about paths with something other than an array or group."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from chunkwise.core.base.binding import parse_json
from chunkwise.core.driver.auto import is_references
from chunkwise.core.kvstore.places.staging import COMPLETE, JOURNAL, is_staging
from chunkwise.core.kvstore.protocol import ByteRange, KvStoreDriver
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.errors import ChunkwiseError

__all__ = [
    "PICTURE_SUFFIXES",
    "database_instead",
    "directory_kind",
    "file_kind",
    "found_instead",
    "group_instead",
    "interrupted_instead",
]

T = TypeVar("T")

_KINDS = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",  # the end of an archive without members
    b"\x89HDF": "hdf5",
    b"II*\0": "tiff_images",
    b"MM\0*": "tiff_images",
    b"II+\0": "tiff_images",  # BigTIFF
    b"MM\0+": "tiff_images",
}
_CALLED = {
    "zip": "a ZIP archive",
    "hdf5": "an HDF5 file",
    "tiff_images": "a TIFF file",
    "reference": "a file of references",
}
_UNREAD = {
    **dict.fromkeys(
        (b"CDF\1", b"CDF\2", b"CDF\5"),
        "it is a NetCDF-3 file, which is not read here; `nccopy -k nc4` makes NetCDF-4 of it, which is",
    ),
    b"GRIB": "it is a GRIB file, which is not read here",
    b"\x93NUM": "it is a NumPy file; create_array and copy take numpy.load(file, mmap_mode='r')",
    b"PAR1": "it is a table in Parquet; pandas reads it, and create_array takes its columns",
    b"SIMP": "it is a FITS file, which astropy reads; create_array takes its arrays",
    b"NRRD": "it is an NRRD file, which pynrrd reads; create_array takes its arrays",
    **dict.fromkeys((b"<?xm", b"<Spi"), "it is an XML file; open_multiscale opens those of BigDataViewer"),
}
PICTURE_SUFFIXES = (".tif", ".tiff", ".png", ".jpg", ".jpeg", ".bmp", ".webp", ".avif")
"""Extensions of picture files, in lower case."""

_SHOWN = 3


def file_kind(head: bytes, name: str, read: Callable[[], Any] = lambda: None) -> str | None:
    """Return the kvstore for the content of a file with this name and first bytes, or None.

    `read` returns the whole content of the file; it is called for a file ``*.json`` alone.
    """
    kind = _KINDS.get(head[:4])
    if kind is None and head[:1] == b"{" and name.lower().endswith(".json"):
        return "reference" if is_references(bytes(read() or b"")) else None
    if kind is None and len(head) >= 4 and name.lower().endswith(".zip"):
        return "zip"  # an archive with a self-extracting program in front
    return kind


def directory_kind(kv: KvStoreDriver, path: str) -> str | None:
    """Return the kvstore for the content of a directory that is a database or has references, or None."""
    head = _attempt(lambda: read_bounded(kv, f"{path}manifest.ocdbt", byte_range=ByteRange(0, 4)).value)
    if head is not None:
        return "ocdbt"
    raw = _attempt(lambda: read_bounded(kv, f"{path}.zmetadata").value)
    return "reference" if raw is not None and is_references(bytes(raw)) else None


def found_instead(kv: KvStoreDriver, path: str, text: str) -> str:
    """Return the kind of node at `path`, which is empty or ends in "/" and has no document."""
    head = _attempt(lambda: read_bounded(kv, path[:-1], byte_range=ByteRange(0, 4)).value) if path else None
    kind = None if head is None else file_kind(bytes(head), path[:-1], lambda: kv.read(path[:-1]).value)
    if kind is not None:
        scheme = kind.replace("_", "-")
        return f'it is {_CALLED[kind]}, whose content is "{text.rstrip("/")}|{scheme}:"'
    if head is not None and path[:-1].endswith(".companion.ome"):
        text = bytes(_attempt(lambda: read_bounded(kv, path[:-1]).value) or b"").decode(errors="replace")
        files = list(dict.fromkeys(re.findall(r'FileName="([^"]+)"', text))) or ["…"]
        return (
            f"it is the metadata of OME-TIFF files, which are not read here; open the files: {_some(files)}; "
            "chunkwise.stack puts their planes together"
        )
    if head is not None and bytes(head) in _UNREAD:
        return _UNREAD[bytes(head)]
    if head is not None or (path and _attempt(lambda: kv.read(path[:-1]).value) is not None):
        return "it is a file, expected a directory"
    database = database_instead(kv, path, text)
    if database:
        return database
    children = _attempt(lambda: kv.list_children(path))
    if children is None:
        return ""
    names = [name[len(path) :].rstrip("/") for name in (*children.prefixes, *children.keys)]
    if interrupted := interrupted_instead(kv, path, text):
        return interrupted
    if not names:
        return _inside_file(kv, path, text) or f"nothing is there{_near(kv, path)}{_of_glob(text)}"
    if JOURNAL in names:
        return "it is an unfinished copy: its command goes on with --resume"
    suffixes = [f".{name.rpartition('.')[2]}" for name in names if name.lower().endswith(PICTURE_SUFFIXES)]
    hint = "; open_multiscale opens pictures as a stack" if len(suffixes) == len(names) else ""
    if suffixes and not hint and "://" not in text:
        pattern = f"{text.rstrip('/')}/*{max(suffixes, key=suffixes.count)}"
        hint = f'; a glob names the pictures among them: "{pattern}"'
    return f"it is a directory of something else: {_some(names)}{hint}"


def _of_glob(text: str) -> str:
    is_glob = any(sign in text for sign in "*[") and text.rstrip("/").lower().endswith(PICTURE_SUFFIXES)
    return "; open_multiscale opens the pictures that a glob matches as a stack" if is_glob else ""


def _near(kv: KvStoreDriver, path: str) -> str:
    """Return the names beside `path` in a store that lists at once, similar names first."""
    from difflib import get_close_matches

    above, slash, name = path.rstrip("/").rpartition("/")
    if traits_of(kv).request_concurrency is not None:
        return ""
    children = _attempt(lambda: kv.list_children(above + slash))
    found = [] if children is None else [*children.prefixes, *children.keys]
    names = sorted({key[len(above + slash) :].rstrip("/") for key in found} - {name})
    near = get_close_matches(name, names, _SHOWN, 0.4) or names
    return f"; near it there is {_some(near)}" if near else ""


def _inside_file(kv: KvStoreDriver, path: str, text: str) -> str:
    """Return a message that `path` leads into a file, and what to open; empty if it does not."""
    names = path.rstrip("/").split("/")
    for n in range(len(names) - 1, 0, -1):
        inside = "/".join(names[n:])
        if "." not in names[n - 1] or not text.rstrip("/").endswith(f"/{inside}"):
            continue
        key = "/".join(names[:n])
        head = _attempt(lambda: read_bounded(kv, key, byte_range=ByteRange(0, 4)).value)  # noqa: B023
        kind = None if head is None else file_kind(bytes(head), key, lambda: kv.read(key).value)  # noqa: B023
        if kind is not None:
            file, scheme = text.rstrip("/").removesuffix(f"/{inside}"), kind.replace("_", "-")
            return f'{file} is {_CALLED[kind]}, whose content is "{file}|{scheme}:{inside}"'
    return ""


def database_instead(kv: KvStoreDriver, path: str, text: str) -> str:
    """Return a message that there is a database at `path`, and what to open; empty if there is none."""
    if directory_kind(kv, path) != "ocdbt":
        return ""
    return f'it is an OCDBT database, whose content is "{text.rstrip("/")}|ocdbt:"'


def interrupted_instead(kv: KvStoreDriver, path: str, text: str) -> str:
    """Return a message that a replacement of `path` was interrupted, and where the new data is, or ""."""
    children = _attempt(lambda: kv.list_children(path))
    for prefix in [] if children is None else children.prefixes:
        name = prefix[len(path) :]
        if is_staging(name) and _attempt(lambda: kv.read(f"{prefix}/{COMPLETE}").value) is not None:  # noqa: B023
            return f'its replacement was interrupted; all of the new data is at "{text.rstrip("/")}/{name}"'
    return ""


def group_instead(kv: KvStoreDriver, path: str, text: str) -> str:
    """Return a message that there is a group at `path`, and what to open; empty if there is none."""

    def document(key: str) -> bytes | None:
        value = _attempt(lambda: read_bounded(kv, path + key).value)
        return None if value is None else bytes(value)

    is_group = any(_is_group(key, document(key)) for key in ("zarr.json", ".zgroup", "attributes.json"))
    if not is_group:
        return ""
    children = _attempt(lambda: kv.list_children(path))
    names = [] if children is None else [name[len(path) :].rstrip("/") for name in children.prefixes]
    inside = ""
    if names and text:
        inside = f"; its members have paths of their own, such as {_below(text, names[0])}"
    elif names:  # in a store object, which has no URL
        inside = f'; it has members, such as open_group(...)["{names[0]}"]'
    return f"it is a group, which open_group opens{inside}"


def _below(text: str, name: str) -> str:
    return f"{text}{name}" if text.endswith(":") else f"{text.rstrip('/')}/{name}"


def _is_group(key: str, raw: bytes | None) -> bool:
    try:
        found = None if raw is None else parse_json(raw)
    except ValueError:
        return False
    if not isinstance(found, dict):
        return False
    return found.get("node_type") == "group" if key == "zarr.json" else "dimensions" not in found


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f'"{name}"' for name in names[:_SHOWN]) + more


def _attempt(look: Callable[[], T]) -> T | None:
    """Return the result of `look`; None if it fails."""
    try:
        return look()
    except ChunkwiseError:
        return None
