"""The meaning of values, attributes and links of a store for HDMF, whatever their stored form.

A reference is the object that it leads to, text is text whether it has a fixed or a variable length, and
records are their members by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.extension import JSON
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.reference import Reference
from chunkwise.hdmf.model.region_elements import same_region
from chunkwise.hdmf.storage.resolve import BrokenLinkError, StoreSet, Target
from chunkwise.hdmf.storage.store import HdmfStore

__all__ = ["Meaning", "Region", "kind_of"]


class Region(dict[str, JSON]):
    """Part of a dataset that a reference means; equal to another that selects the same elements."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        if {**self, "elements": None} != {**other, "elements": None}:
            return False
        a, b = self["elements"], other["elements"]
        assert isinstance(a, Mapping)
        assert isinstance(b, Mapping)
        return same_region(a, b)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


def kind_of(element: Element) -> JSON:
    """Return the type of elements as JSON, the same for text and bytes."""
    if element.kind == "compound":
        return [[member.name, kind_of(member.element)] for member in element.members]
    if element.kind == "number":
        return element.memory_dtype.name
    return {"text": "text", "bytes": "text", "reference": "object", "region": "region"}[element.kind]


class Meaning:
    """The meaning of what a store holds, and those that its links lead to.

    Parameters
    ----------
    stores : StoreSet
    """

    def __init__(self, stores: StoreSet) -> None:
        self.stores = stores
        self._objects: dict[tuple[int, str, str], dict[str, JSON]] = {}

    def target(self, reference: Reference, holder: HdmfStore) -> Target | None:
        """Return the object that a reference or link in the store `holder` leads to; None if it is broken."""
        try:
            return self.stores.resolve(reference, holder)
        except BrokenLinkError:
            return None

    def object(self, reference: Reference, holder: HdmfStore) -> dict[str, JSON]:
        """Return what a reference means: the path of its target, and of which file if it is another."""
        key = id(holder), reference.source, reference.path
        found = self._objects.get(key)
        if found is None:
            found = self._objects[key] = self._object(reference, holder)
        if reference.region is None:
            return found
        return Region({"region": found["object"], **found, "elements": dict(reference.region)})

    def _object(self, reference: Reference, holder: HdmfStore) -> dict[str, JSON]:
        target = self.target(reference, holder)
        if target is None:
            return {"object": reference.path, "source": reference.source, "broken": True}
        if target.store is self.stores.main:
            return {"object": target.path}
        # A file and its conversion have the same identity, but not the same name.
        return {"object": target.path, "of": target.store.object_id or target.store.source}

    def value(self, value: Any, holder: HdmfStore) -> Any:
        """Return the meaning of an attribute or of one element, as JSON."""
        if isinstance(value, Reference):
            return self.object(value, holder)
        if isinstance(value, np.ndarray | np.void) and value.dtype.names is not None:
            if isinstance(value, np.ndarray) and value.ndim:
                return [self.value(record, holder) for record in value]
            return {name: self.value(value[name], holder) for name in value.dtype.names}
        if isinstance(value, np.ndarray | np.generic):
            value = value.tolist()
        if isinstance(value, bytes):
            return value.decode("utf-8", "surrogateescape")
        if isinstance(value, complex):
            return [value.real, value.imag]
        if isinstance(value, list | tuple):
            return [self.value(item, holder) for item in value]
        if isinstance(value, Mapping):
            return {name: self.value(item, holder) for name, item in value.items()}
        return value if isinstance(value, str | int | float | None) else str(value)

    def column(self, values: npt.NDArray[Any], holder: HdmfStore) -> npt.NDArray[Any]:
        """Return elements that NumPy has as objects with their meaning in their place."""
        out = np.empty(values.shape, object)
        flat = out.reshape(-1)
        for i, value in enumerate(values.reshape(-1).tolist()):
            flat[i] = self.value(value, holder)
        return out
