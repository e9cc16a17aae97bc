"""Members that no container knows, kept when a file is exported after a change."""

# hdmf makes new builders of containers that were changed.  Groups, datasets, attributes and links of the file
# that the schema doesn't have, and so no container, are put into them again.  What the schema has and is not
# there any more was removed.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from hdmf.build import GroupBuilder, LinkBuilder
from hdmf.spec import NamespaceCatalog

from chunkwise.hdmf.backend.builder_paths import identity_of, target_of
from chunkwise.hdmf.backend.declared_types import spec_of
from chunkwise.hdmf.model.attributes import SPECLOC, is_typed

__all__ = ["keep_untyped"]

_OWN = ("neurodata_type", "data_type", "namespace", "object_id", SPECLOC)


Attributes: TypeAlias = Callable[[Any], Mapping[str, Any]]


def keep_untyped(
    new: GroupBuilder, old: GroupBuilder, catalog: NamespaceCatalog, attributes_of: Attributes
) -> None:
    """Add members that only the file has, and no container, to the builders made from containers.

    Parameters
    ----------
    new, old : GroupBuilder
        The root that is written, and that which was read.
    catalog : NamespaceCatalog
    attributes_of : callable
        Returns the attributes of a builder that was read.
    """
    if new is old:
        return
    before = {identity_of(builder): builder for builder in _all(old) if is_typed(builder.attributes)}
    after = {identity_of(builder): builder for builder in _all(new) if is_typed(builder.attributes)}
    for identity, builder in after.items():
        found = before.get(identity)
        if found is not None and found is not builder and type(found) is type(builder):
            _keep(builder, found, spec_of(catalog, builder.attributes), after, attributes_of)


def _all(root: GroupBuilder) -> Iterator[Any]:
    pending: list[Any] = [root]
    while pending:
        builder = pending.pop()
        yield builder
        if isinstance(builder, GroupBuilder):
            pending += [*builder.groups.values(), *(d for d in builder.datasets.values() if d is not None)]


def _keep(new: Any, old: Any, spec: Any, after: dict[Any, Any], attributes_of: Attributes) -> None:
    for name, value in attributes_of(old).items():
        if name not in new.attributes and name not in _OWN and _has(spec, "get_attribute", name) is None:
            new.set_attribute(name, value)
    if not isinstance(old, GroupBuilder):
        return
    for member, get in (("groups", "get_group"), ("datasets", "get_dataset")):
        for name, child in getattr(old, member).items():
            if child is None or is_typed(child.attributes):
                continue
            inner = _has(spec, get, name)
            found = getattr(new, member).get(name)
            if found is not None:
                if found is not child and not is_typed(found.attributes):
                    _keep(found, child, inner, after, attributes_of)
            elif inner is None and not _is_there(new, name):
                (new.set_group if member == "groups" else new.set_dataset)(child)
    for name, link in old.links.items():
        if _has(spec, "get_link", name) is None and not _is_there(new, name):
            target = target_of(link)
            if is_typed(target.attributes) and _names_type(spec):
                continue  # one of a container's children; the schema names only their types
            found = after.get(identity_of(target), target)
            new.set_link(LinkBuilder(found, name, source=link.source))


def _has(spec: Any, get: str, name: str) -> Any:
    """Return the specification of a member; None if there is none."""
    return None if spec is None or not hasattr(spec, get) else getattr(spec, get)(name)


def _names_type(spec: Any) -> bool:
    listed = (*getattr(spec, "groups", ()), *getattr(spec, "datasets", ()), *getattr(spec, "links", ()))
    return any(getattr(one, "name", None) is None for one in listed)


def _is_there(group: GroupBuilder, name: str) -> bool:
    return name in group.groups or name in group.datasets or name in group.links
