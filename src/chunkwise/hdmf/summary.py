"""What is in a store, in numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from chunkwise.hdmf.reference import join_path
from chunkwise.hdmf.store import HdmfStore

__all__ = ["summarize"]


def summarize(store: HdmfStore) -> dict[str, Any]:
    """Return type, version, namespaces and counts of a store.

    Returns
    -------
    dict
        JSON values: ``source``, ``format``, ``consolidated``, ``type``, ``nwb_version``, ``object_id``,
        ``namespaces`` (name to versions), ``counts`` and ``types`` (name to number of objects).
    """
    root = store.attributes("/")
    counts = {"groups": 0, "datasets": 0, "links": 0, "references": 0}
    types: Counter[str] = Counter()
    for path in store.walk():
        attributes = store.attributes(path)
        name = attributes.get("neurodata_type", attributes.get("data_type"))
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
        "type": root.get("neurodata_type", root.get("data_type")),
        "nwb_version": root.get("nwb_version"),
        "object_id": store.object_id,
        "namespaces": namespaces,
        "counts": counts,
        "types": dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))),
    }
