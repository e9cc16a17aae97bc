"""Keeping consolidated metadata true: copies of documents that a group above the node has.

Zarr v2 has them in ``.zmetadata``, Zarr v3 in member ``consolidated_metadata`` of the group's
``zarr.json``.  Readers believe the copies, so whoever creates, resizes or deletes a node or changes its
attributes has to bring them up to date.  Neither is part of its core specification; both are as
zarr-python writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from chunkwise.api.document import change_document
from chunkwise.api.node import load_json
from chunkwise.kvstore.protocol import KvStoreDriver

__all__ = ["update_consolidated"]

_V2_DOCUMENTS = (".zarray", ".zgroup", ".zattrs")


def update_consolidated(kv: KvStoreDriver, path: str) -> int:
    """Bring the copies of a node's documents up to date in all groups above it, and in itself.

    Parameters
    ----------
    kv : KvStoreDriver
    path : str
        Of a node that was created, changed or deleted: empty or ending in "/".

    Returns
    -------
    int
        How many groups have consolidated metadata.

    Raises
    ------
    FailedPreconditionError
        If a document isn't JSON.
    """
    n_groups = 0
    for group in _upwards(path):
        name = path[len(group) :].rstrip("/")
        if kv.read(group + ".zmetadata").value is not None:
            change_document(kv, group + ".zmetadata", partial(_zarr2, kv=kv, path=path, name=name))
            n_groups += 1
        raw = kv.read(group + "zarr.json").value
        if raw is not None and b"consolidated_metadata" in bytes(raw):
            if name:
                change_document(kv, group + "zarr.json", partial(_zarr3, kv=kv, path=path, name=name))
            n_groups += 1
    return n_groups


def _upwards(path: str) -> Iterator[str]:
    yield path
    while path:
        path = path[: path[:-1].rfind("/") + 1]
        yield path


def _document(kv: KvStoreDriver, key: str) -> Any:
    raw = kv.read(key).value
    return None if raw is None else load_json(raw)


def _zarr2(document: Any, kv: KvStoreDriver, path: str, name: str) -> Any:
    """Return what becomes of ``.zmetadata``."""
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return document
    copies = dict(document["metadata"])
    for key in _V2_DOCUMENTS:
        current = _document(kv, path + key)
        own = f"{name}/{key}" if name else key
        if current is None:
            copies.pop(own, None)
        else:
            copies[own] = current
    return {**document, "metadata": copies}


def _zarr3(document: Any, kv: KvStoreDriver, path: str, name: str) -> Any:
    """Return what becomes of the ``zarr.json`` of a group."""
    consolidated = document.get("consolidated_metadata") if isinstance(document, dict) else None
    if not isinstance(consolidated, dict) or not isinstance(consolidated.get("metadata"), dict):
        return document
    copies = dict(consolidated["metadata"])
    current = _document(kv, path + "zarr.json")
    if current is None:
        copies.pop(name, None)
    else:
        # A group's copy may lack, or have, consolidated metadata of its own.
        own = copies.get(name)
        current.pop("consolidated_metadata", None)
        if isinstance(own, dict) and "consolidated_metadata" in own:
            current["consolidated_metadata"] = own["consolidated_metadata"]
        copies[name] = current
    return {**document, "consolidated_metadata": {**consolidated, "metadata": copies}}
