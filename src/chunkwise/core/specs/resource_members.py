"""Context resources as members of a spec: named, configured in place, or bound to a live one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeAlias

from chunkwise.core.base.binding import JSON, Members
from chunkwise.core.base.cached import copied
from chunkwise.core.specs.context import Context, ContextResource, ContextSpec, parse_resource
from chunkwise.core.specs.resource_kind import ResourceConfig

__all__ = [
    "ResourceMembers",
    "ResourceUser",
    "bind_resources",
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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ResourceUser:
    """A spec with context resources, its own and those of the specs inside it."""

    resource_kinds: ClassVar[tuple[str, ...]] = ()

    context: ContextSpec | None = None  # definitions for this spec and those inside it
    # Context resources by kind, named, configured or bound.
    resources: ResourceMembers = field(default_factory=dict)

    def inner(self) -> tuple[Any, ...]:
        """Return the specs inside this one that have resources."""
        return ()

    def with_inner(self, inner: tuple[Any, ...]) -> Self:
        """Return the spec with others inside it."""
        return self

    def bind(self, context: Context) -> Self:
        """Return the spec with live resources throughout."""
        if self.context is not None:
            context = Context(self.context, context)
        own = bind_resources(self.resources, self.resource_kinds, context)
        return copied(self, context=None, resources=own).bind_inner(context)

    def bind_inner(self, context: Context) -> Self:
        """Return the spec with live resources in the specs inside it, from its own context."""
        return self.with_inner(tuple([spec.bind(context) for spec in self.inner()]))

    def strip(self) -> Self:
        """Return the spec without context and bound resources."""
        inner = tuple([spec.strip() for spec in self.inner()])
        return replace(self, context=None, resources={}).with_inner(inner)

    def name_bound(self, names: dict[int, str], definitions: dict[str, JSON]) -> None:
        """Give each bound resource a unique name in `names`, and add its definition under it."""
        for resource in self.resources.values():
            if not isinstance(resource, ContextResource) or id(resource) in names or resource.in_place:
                continue
            name, suffix = resource.key, 0
            while name in definitions:
                name = f"{resource.kind}#{_letters(suffix)}"
                suffix += 1
            names[id(resource)] = name
            definitions[name] = resource.to_json()
        for spec in self.inner():
            spec.name_bound(names, definitions)

    def unbound(self, names: Mapping[int, str] | None = None) -> Self:
        """Return the spec with names for bound resources, which its context defines."""
        context = self.context
        if names is None:
            definitions: dict[str, Any] = {} if context is None else context.to_json()
            names = self._names(definitions)
            context = ContextSpec(definitions) if definitions else context
        inner = tuple([spec.unbound(names) for spec in self.inner()])
        own = unbind_resources(self.resources, names)
        return replace(self, context=context, resources=own).with_inner(inner)

    def _names(self, definitions: dict[str, JSON]) -> dict[int, str]:
        names: dict[int, str] = {}
        self.name_bound(names, definitions)
        return names

    def resource_members(
        self, include_defaults: bool, names: Mapping[int, str] | None
    ) -> tuple[dict[str, Any], Mapping[int, str]]:
        """Return ``context`` and the resources as JSON, and the names of bound ones, made unless given."""
        definitions: dict[str, Any] = {} if self.context is None else self.context.to_json(include_defaults)
        if names is None:
            names = self._names(definitions)
        out = {"context": definitions} if definitions or include_defaults else {}
        out.update(resources_to_json(self.resources, self.resource_kinds, names, include_defaults))
        return out, names
