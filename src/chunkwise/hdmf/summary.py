"""Summary of a store, in numbers."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from chunkwise.hdmf.model.attributes import data_type_of
from chunkwise.hdmf.model.reference import join_path
from chunkwise.hdmf.storage.store import HdmfStore

__all__ = ["summarize", "summarize_h5"]


def summarize(store: HdmfStore) -> dict[str, Any]:
    """Return type, version, namespaces and counts of a store."""
    root = store.attributes("/")
    counts = {"groups": 0, "datasets": 0, "links": 0, "references": 0}
    types: Counter[str] = Counter()
    for path in store.walk():
        name = data_type_of(store.attributes(path))
        if name is not None:
            types[str(name)] += 1
        if store.is_dataset(path):
            counts["datasets"] += 1
            element = store.dataset(path).declaration.element
            counts["references"] += element is not None and element.has_references
        else:
            counts["groups"] += 1
            counts["links"] += len(store.links(path))
    specifications = store.specifications()
    namespaces = {}
    if specifications is not None:
        for name in store.names(specifications):
            namespaces[name] = ", ".join(store.names(join_path(specifications, name)))
    return {
        "source": store.source,
        "format": store.format,
        "consolidated": store.tree.consolidated,
        "type": data_type_of(root),
        "nwb_version": root.get("nwb_version"),
        "object_id": store.object_id,
        "namespaces": namespaces,
        "counts": counts,
        "types": dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))),
    }


def summarize_h5(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return type, version, namespaces and counts of an HDF5 file."""
    import h5py

    counts = {"groups": 0, "datasets": 0, "links": 0, "references": 0}
    types: Counter[str] = Counter()
    with h5py.File(path, "r") as file:
        specloc = file.attrs.get(".specloc")
        specifications: Any = file[specloc] if specloc else None
        pending: list[Any] = [file["/"]]
        while pending:
            group = pending.pop()
            _count(group, counts, types)
            for name in group:
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    counts["links"] += 1
                    continue
                child = group[name]
                if not isinstance(child, h5py.Group):
                    _count(child, counts, types)
                elif specifications is None or child != specifications:
                    pending.append(child)
        namespaces = {n: ", ".join(specifications[n]) for n in specifications or ()}
        root = {name: _text(file.attrs.get(name)) for name in ("neurodata_type", "data_type")}
        return {
            "source": os.path.realpath(path),
            "format": "hdf5",
            "consolidated": None,
            "type": root["neurodata_type"] or root["data_type"],
            "nwb_version": _text(file.attrs.get("nwb_version")),
            "object_id": _text(file.attrs.get("object_id")),
            "namespaces": namespaces,
            "counts": counts,
            "types": dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))),
        }


def _count(node: Any, counts: dict[str, int], types: Counter[str]) -> None:
    import h5py

    name = _text(data_type_of(node.attrs))
    if name is not None:
        types[name] += 1
    if isinstance(node, h5py.Group):
        counts["groups"] += 1
        return
    counts["datasets"] += 1
    dtypes = [node.dtype, *(node.dtype[n] for n in node.dtype.names or ())]
    counts["references"] += any(h5py.check_ref_dtype(d) is not None for d in dtypes)


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)
