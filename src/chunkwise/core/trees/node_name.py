"""Names of nodes, and paths made of them.

A path is names joined by ``/``; empty components are dropped, so ``/a//b/`` is ``a/b``.  A leading ``/``
means the root of the opened tree.  No component may be ``.`` or ``..``, or contain a backslash or a NUL: a
backslash is a ``/`` in Zarr v2, an escape in N5, and a separator in Windows, so each would find a different
node.

New nodes can't have names that a format reserves:

======  ============================================================================================
zarr3   ``zarr.json``, names of nothing but periods, and names that begin with ``__``
zarr2   names that begin with ``.z``, such as ``.zattrs``
n5      ``attributes.json``
all     the documents of the other formats, names that end in ``.__lock``, journals of copies
======  ============================================================================================

Specification: Zarr core v3.1, "Node names"; Zarr v2, "Logical storage paths"; N5 README, "File-system
specification"; n5-java ``N5URI.normalizeGroupPath``.
"""

from __future__ import annotations

from chunkwise.core.base.binding import dump
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.kvstore.files.path import LOCK_SUFFIX
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import InvalidArgumentError

__all__ = ["check_new_names", "is_name", "split_path"]

_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "attributes.json", JOURNAL)


def split_path(path: str, base: str = "") -> list[str]:
    """Return the names from the root along `path`, which is relative to `base` unless it begins with "/"."""
    if not isinstance(path, str):
        raise TypeError(f"paths of nodes are text, got {type(path).__name__}")
    names = [name for name in path.split("/") if name]
    for name in names:
        why = _never(name)
        if why:
            raise InvalidArgumentError(f"{dump(path)} can't be the path of a node: {why}")
    if base and not path.startswith("/"):
        return [*base.split("/"), *names]
    return names


def _never(name: str) -> str:
    if name in (".", ".."):
        return f'it has a component "{name}"'
    if "\\" in name:
        return "it has a backslash, which formats and systems interpret differently; use /"
    if "\0" in name:
        return "it has a NUL"
    return ""


def is_name(name: str) -> bool:
    """Return True if `name` can be the name of a node."""
    return bool(name) and "/" not in name and not _never(name)


def check_new_names(names: list[str], format: str) -> None:
    """Raise InvalidArgumentError if a format doesn't allow one of these names for new nodes."""
    for name in names:
        why = _reserved(name, format)
        if why:
            raise InvalidArgumentError(f"{dump(name)} can't be the name of a new {format} node: {why}")


def _reserved(name: str, format: str) -> str:
    if name in _DOCUMENTS:
        return "it is the name of a metadata document"
    if name.endswith(LOCK_SUFFIX):
        return f'names that end in "{LOCK_SUFFIX}" are those of lock files'
    if why := tree_format(format).reserved(name):
        return why
    if not name.isprintable() and any(ord(c) < 32 for c in name):
        return "it has control characters"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "it can't be encoded in UTF-8"
    return ""
