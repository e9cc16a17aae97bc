"""Kinds of context resources: frozen records of members, read from JSON and written to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

from chunkwise.binding import JSON, Members

__all__ = ["Member", "ObjectResource", "ResourceConfig"]


@runtime_checkable
class ResourceConfig(Protocol):
    """Configuration of a resource; a class for each kind, its instance without arguments is the default."""

    # The resource is nothing but its configuration, so a bound spec shows that instead of a reference
    # to a shared resource.
    inline: ClassVar[bool]

    @classmethod
    def parse(cls, value: JSON) -> Self:
        """Read the JSON of a configuration."""
        ...

    def to_json(self, *, include_defaults: bool = False) -> JSON:
        """Return the JSON of the configuration."""
        ...

    def create(self) -> Any:
        """Return a new live object that is configured so."""
        ...


def _same(value: Any) -> JSON:
    return value


class Member(NamedTuple):
    """Reader and writer of one member of a configuration."""

    parse: Callable[[JSON], Any]  # JSON to value, and back
    format: Callable[[Any], JSON] = _same
    shown: bool = True  # True if the default is written when defaults are asked for


@dataclass(frozen=True)
class ObjectResource:
    """Base of the kinds whose configuration is a JSON object with the fields of the record as members."""

    inline: ClassVar[bool] = False
    members: ClassVar[Mapping[str, Member]] = {}

    @classmethod
    def parse(cls, value: JSON) -> Self:
        """Read a JSON object; a member that is left out has its default."""
        members = Members(value)
        found = {f.name: members.take(f.name, cls.members[f.name].parse, f.default) for f in fields(cls)}
        members.finish()
        return cls(**found)

    def to_json(self, *, include_defaults: bool = False) -> JSON:
        """Return the JSON object, without members that have their default unless asked for."""
        out = {}
        for f in sorted(fields(self), key=lambda f: f.name):
            value, member = getattr(self, f.name), self.members[f.name]
            if value != f.default or (include_defaults and member.shown):
                out[f.name] = member.format(value)
        return out

    def create(self) -> Any:
        """Return the configuration itself, which is all that the resource is."""
        return self
