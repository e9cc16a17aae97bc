"""Base of the specs of kvstores over other kvstores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from chunkwise.core.base.binding import JSON, MISSING, Members, expect_object
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, parse_kvstore_spec

if TYPE_CHECKING:
    from chunkwise.core.specs.resources.live import ConcurrencyLimit

__all__ = ["AdapterKvStoreSpec", "OneBaseKvStoreSpec", "expect_kvstore"]


def expect_kvstore(value: JSON) -> KvStoreSpec:
    """Read the spec or the URL of a kvstore."""
    from chunkwise.core.specs.spec_members import kvstore_from_url  # it imports this module

    if value is MISSING:
        expect_object(value)
    return parse_kvstore_spec(value, kvstore_from_url)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AdapterKvStoreSpec(KvStoreSpec, ABC):
    """Base of specs that contain other specs, which are bound and unbound with them."""

    @abstractmethod
    def bases(self) -> tuple[KvStoreSpec, ...]:
        """Return the specs of the stores below."""

    @abstractmethod
    def with_bases(self, bases: tuple[KvStoreSpec, ...]) -> Self:
        """Return the spec with other `bases`."""

    @property
    def is_remote(self) -> bool:
        """True if one of the stores below is remote."""
        return any(base.is_remote for base in self.bases())

    def copy_limit(self) -> ConcurrencyLimit | None:
        """Return the first numeric limit, here or in a store below, or None."""
        return super().copy_limit() or next(filter(None, (base.copy_limit() for base in self.bases())), None)

    def bind(self, context: Context) -> Self:
        """Return the spec with live resources throughout."""
        inner = context if self.context is None else Context(self.context, context)
        return super().bind(context).with_bases(tuple(base.bind(inner) for base in self.bases()))

    def strip(self) -> Self:
        """Return the spec without context and resources throughout."""
        return super().strip().with_bases(tuple(base.strip() for base in self.bases()))

    def name_bound(self, names: dict[int, str], definitions: dict[str, JSON]) -> None:
        """Name bound resources throughout."""
        super().name_bound(names, definitions)
        for base in self.bases():
            base.name_bound(names, definitions)

    def unbound(self, names: Mapping[int, str] | None = None) -> Self:
        """Return the spec with names in place of bound resources throughout."""
        out, names = super().unbound(names), self._own_names() if names is None else names
        return out.with_bases(tuple(base.unbound(names) for base in self.bases()))

    def _own_names(self) -> dict[int, str]:
        found: dict[int, str] = {}
        self.name_bound(found, {} if self.context is None else dict(self.context.to_json()))
        return found

    def to_json(
        self, include_defaults: bool = False, *, names: Mapping[int, str] | None = None
    ) -> dict[str, Any]:
        """Return the JSON form."""
        out = super().to_json(include_defaults, names=names)
        inner = self._own_names() if names is None else names
        out.update(self.base_members([base.to_json(include_defaults, names=inner) for base in self.bases()]))
        return dict(sorted(out.items()))

    @abstractmethod
    def base_members(self, bases: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the members with the specs of the stores below, from their JSON."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OneBaseKvStoreSpec(AdapterKvStoreSpec):
    """Base of the specs with one ``base``."""

    below: KvStoreSpec  # the member ``base``

    @classmethod
    def parse_members(cls, members: Members) -> dict[str, Any]:
        """Take ``base``, and the driver's own members."""
        below = members.take("base", expect_kvstore, example="file:///data/a.zip")
        return {"below": below, **super().parse_members(members)}

    @property
    def base(self) -> KvStoreSpec:
        """The kvstore below."""
        return self.below

    def bases(self) -> tuple[KvStoreSpec, ...]:
        """Return ``base``."""
        return (self.below,)

    def with_bases(self, bases: tuple[KvStoreSpec, ...]) -> Self:
        """Return the spec over another ``base``."""
        return replace(self, below=bases[0])

    def base_members(self, bases: list[dict[str, Any]]) -> dict[str, Any]:
        """Return ``base``."""
        return {"base": bases[0]}
