"""Context resources as members of a spec: named, configured in place, or bound to a live one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from chunkwise.core.base.binding import JSON, Members
from chunkwise.core.specs.context import Context, ContextResource, parse_resource
from chunkwise.core.specs.resources.kind import ResourceConfig

__all__ = [
    "ResourceMembers",
    "bind_resources",
    "bound_names",
    "resources_to_json",
    "take_resources",
    "unbind_resources",
]

ResourceMembers: TypeAlias = Mapping[str, "str | ResourceConfig | ContextResource"]
"""By member: the name of a resource, a configuration, or a live resource.

A member is named after its kind.  A missing member is the resource of that name, except for the members in
`_OPTIONAL`, which stay missing.
"""

_OPTIONAL = {"metadata_cache_pool": "cache_pool"}
"""Kind of each optional member."""


def take_resources(members: Members, kinds: Sequence[str]) -> ResourceMembers:
    """Take the members that are resources of `kinds`."""
    out: dict[str, str | ResourceConfig | ContextResource] = {}
    for kind in kinds:
        own = _OPTIONAL.get(kind, kind)
        value = members.take(kind, lambda v, k=own: parse_resource(k, v), None)  # type: ignore[misc]
        if value is not None and value != own:
            out[kind] = value
    return out


def bind_resources(resources: ResourceMembers, kinds: Sequence[str], context: Context) -> ResourceMembers:
    """Return live resources for all of `kinds`; those already live stay."""
    out: dict[str, str | ResourceConfig | ContextResource] = {}
    for kind in kinds:
        value = resources.get(kind)
        if value is None:
            if kind in _OPTIONAL:
                continue
            value = kind
        if isinstance(value, str):
            value = context[value]
        elif not isinstance(value, ContextResource):
            value = ContextResource(_OPTIONAL.get(kind, kind), value)
        out[kind] = value
    return out


def bound_names(resources: ResourceMembers, names: dict[int, str], definitions: dict[str, JSON]) -> None:
    """Give each bound resource a unique name in `names`, and add its definition under it."""
    for resource in resources.values():
        if not isinstance(resource, ContextResource) or id(resource) in names or resource.in_place:
            continue
        name, suffix = resource.key, 0
        while name in definitions:
            name = f"{resource.kind}#{_letters(suffix)}"
            suffix += 1
        names[id(resource)] = name
        definitions[name] = resource.to_json()


def _letters(n: int) -> str:
    return chr(ord("a") + n) if n < 26 else _letters(n // 26 - 1) + _letters(n % 26)


def unbind_resources(resources: ResourceMembers, names: Mapping[int, str]) -> ResourceMembers:
    """Return the resources with names, or configurations, in place of bound ones."""
    out: dict[str, str | ResourceConfig | ContextResource] = {}
    for kind, value in resources.items():
        if not isinstance(value, ContextResource):
            out[kind] = value
        elif value.in_place:
            out[kind] = value.config
        elif names[id(value)] != _OPTIONAL.get(kind, kind):
            out[kind] = names[id(value)]
    return out


def resources_to_json(
    resources: ResourceMembers, kinds: Sequence[str], names: Mapping[int, str], include_defaults: bool
) -> dict[str, Any]:
    """Return the members for `resources`; bound ones are lists of one reference or configuration."""
    out: dict[str, Any] = {}
    for kind in kinds:
        value = resources.get(kind)
        if value is None:
            if include_defaults and kind not in _OPTIONAL:
                out[kind] = kind
        elif isinstance(value, str):
            out[kind] = value
        elif isinstance(value, ContextResource):
            out[kind] = [value.to_json(include_defaults) if value.in_place else names[id(value)]]
        else:
            out[kind] = value.to_json(include_defaults=include_defaults)
    return out
