"""Types that the schema declares for datasets: what is stored doesn't always tell text from bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hdmf.spec import NamespaceCatalog

from chunkwise.hdmf.model.attributes import data_type_of
from chunkwise.hdmf.model.element import TEXT_WORDS, Element, bytes_, compound, text

__all__ = ["DATE_WORDS", "as_declared", "declared_dtype", "spec_of"]

DATE_WORDS = ("isodatetime", "datetime")
"""Names of dates in schemas; they are stored as text or bytes."""


def declared_dtype(catalog: NamespaceCatalog, name: str, attributes: Mapping[str, Any], above: Any) -> Any:
    """Return the dtype of a dataset in the specification of its type or of the group that it is in.

    `above` is the group: something with name, attributes and parent, as a builder has them, or None.
    """
    spec = spec_of(catalog, attributes)
    found = getattr(spec, "dtype", None)
    if found is None and above is not None:
        group = _of_group(catalog, above)
        spec = None if group is None else group.get_dataset(name)
        found = getattr(spec, "dtype", None)
    return found


def _of_group(catalog: NamespaceCatalog, group: Any) -> Any:
    spec = spec_of(catalog, group.attributes)
    if spec is None and group.parent is not None:
        above = _of_group(catalog, group.parent)
        return None if above is None else above.get_group(group.name)
    return spec


def spec_of(catalog: NamespaceCatalog, attributes: Mapping[str, Any]) -> Any:
    """Return the specification of the type that attributes name; None if there is none, or it isn't known."""
    data_type, namespace = data_type_of(attributes), attributes.get("namespace")
    if data_type is None or namespace is None:
        return None
    try:
        return catalog.get_spec(namespace, data_type)
    except (KeyError, ValueError):  # a schema that is not loaded
        return None


def as_declared(element: Element, declared: Any) -> Element:
    """Return a type in which text and bytes are what a schema says that they are."""
    if element.kind == "compound":
        if not isinstance(declared, list | tuple):
            return element
        words = {d["name"]: d["dtype"] for d in declared if isinstance(d, Mapping)}
        return compound([(m.name, as_declared(m.element, words.get(m.name))) for m in element.members])
    if element.kind not in ("text", "bytes") or not isinstance(declared, str):
        return element
    if declared in TEXT_WORDS:
        return text
    return bytes_ if declared in ("ascii", "bytes") else element
