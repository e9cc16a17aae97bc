"""Element types that the schema declares and the store doesn't."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hdmf.build import GroupBuilder
from hdmf.spec import NamespaceCatalog

__all__ = ["declared_dtype"]


def declared_dtype(
    catalog: NamespaceCatalog, name: str, attributes: Mapping[str, Any], parent: GroupBuilder | None
) -> Any:
    """Return the dtype of a dataset in the specification of its type or of the group that it is in."""
    spec = _of_type(catalog, attributes)
    if spec is None and parent is not None:
        above = _of_group(catalog, parent)
        spec = None if above is None else above.get_dataset(name)
    return getattr(spec, "dtype", None)


def _of_group(catalog: NamespaceCatalog, group: GroupBuilder) -> Any:
    spec = _of_type(catalog, group.attributes)
    if spec is None and group.parent is not None:
        above = _of_group(catalog, group.parent)
        return None if above is None else above.get_group(group.name)
    return spec


def _of_type(catalog: NamespaceCatalog, attributes: Mapping[str, Any]) -> Any:
    data_type, namespace = (
        attributes.get("neurodata_type", attributes.get("data_type")),
        attributes.get("namespace"),
    )
    if data_type is None or namespace is None:
        return None
    try:
        return catalog.get_spec(namespace, data_type)
    except (KeyError, ValueError):  # a schema that is not loaded
        return None
