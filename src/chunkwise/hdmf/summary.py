"""Summary of a store, in numbers, and a check of its links and references; neither needs hdmf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from chunkwise.errors import ChunkwiseError
from chunkwise.extension.trees import find_documented, node_attributes
from chunkwise.hdmf.model.attributes import data_type_of, references_in
from chunkwise.hdmf.model.place import Place, place_of
from chunkwise.hdmf.model.reference import Reference, join_path
from chunkwise.hdmf.model.region import parse_region
from chunkwise.hdmf.model.tree import detect_format
from chunkwise.hdmf.opening import is_root_of_hdmf, open_store
from chunkwise.hdmf.storage.resolve import StoreSet
from chunkwise.hdmf.storage.store import Dataset, HdmfStore

__all__ = ["BrokenLink", "broken_links", "check_links", "summarize"]

# -- links and references -----------------------------------------------------------------------------


class BrokenLink(NamedTuple):
    """A link or reference that leads nowhere.

    Attributes
    ----------
    where : str
        ``"link a of group /b"`` and the like.
    reason : str
    """

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


def broken_links(place: Place) -> list[BrokenLink]:
    """Return the broken links and references at a place; none if it isn't an HDMF store."""
    location = place_of(place)
    format = detect_format(location)
    if format is None:
        return []
    root = find_documented(location)
    # In Zarr the root's attributes say so; nothing else is read.
    if root is not None and not root.rules.has_containers and not is_root_of_hdmf(node_attributes(root)):
        return []
    store = open_store(location, consolidated=False)
    if not is_root_of_hdmf(store.tree.nodes["/"].attributes):
        return []
    return list(check_links(StoreSet(store, open_store)))


def check_links(stores: StoreSet) -> Iterator[BrokenLink]:
    """Yield broken links, references and regions of the main store, and unreadable datasets."""
    store = stores.main
    for path in store.walk():
        try:
            attributes = store.attributes(path)
        except ChunkwiseError as e:
            yield BrokenLink(path, e.message)
            continue
        for name, value in attributes.items():
            for reference in references_in(value):
                yield from _check(stores, reference, f'attribute "{name}" of {path}')
        if store.is_dataset(path):
            yield from _dataset(stores, store.dataset(path))
            continue
        try:
            links = store.links(path)
        except ChunkwiseError as e:
            yield BrokenLink(path, e.message)
            continue
        for name, reference in links.items():
            yield from _check(stores, reference, f'link "{name}" of group {path}')


def _dataset(stores: StoreSet, dataset: Dataset) -> Iterator[BrokenLink]:
    try:
        if not dataset.element.has_references:
            return
        values = dataset.read()
    except ChunkwiseError as e:
        yield BrokenLink(f"dataset {dataset.path}", e.message)
        return
    seen: dict[Any, None] = {}
    for i, reference in enumerate(references_in(values)):
        key = (reference.source, reference.path) if reference.region is None else i
        if key not in seen:
            seen[key] = None
            yield from _check(stores, reference, f"reference {i} in dataset {dataset.path}")


def _check(stores: StoreSet, reference: Reference, where: str) -> Iterator[BrokenLink]:
    try:
        store, path = stores.resolve(reference, stores.main)
        if reference.region is None:
            return
        if not store.is_dataset(path):
            yield BrokenLink(where, f"region of {path}, which is a group")
            return
        parse_region(reference.region, store.dataset(path).shape)
    except (ChunkwiseError, IndexError) as e:
        yield BrokenLink(where, getattr(e, "message", str(e)))


# -- numbers ------------------------------------------------------------------------------------------


def summarize(store: HdmfStore) -> dict[str, Any]:
    """Return type, version, namespaces and counts of a store, or of an HDF5 file."""
    root, is_hdf5 = store.attributes("/"), store.location.base.get("driver") == "hdf5"
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
        "format": "hdf5" if is_hdf5 else store.format,
        "consolidated": None if is_hdf5 else store.tree.consolidated,
        "type": data_type_of(root),
        "nwb_version": root.get("nwb_version"),
        "object_id": store.object_id,
        "namespaces": namespaces,
        "counts": counts,
        "types": dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))),
    }
