"""Base of the specs of kvstores over other kvstores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

from chunkwise.core.base.binding import (
    JSON,
    MISSING,
    Members,
    expect_object,
)
from chunkwise.core.specs.driver_spec import kvstore_from_url
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, parse_kvstore_spec

__all__ = ["AdapterKvStoreSpec", "OneBaseKvStoreSpec", "expect_kvstore"]


def expect_kvstore(value: JSON) -> KvStoreSpec:
    """Read the spec or the URL of a kvstore."""
    if value is MISSING:
        expect_object(value)
    return parse_kvstore_spec(value, kvstore_from_url)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AdapterKvStoreSpec(KvStoreSpec, ABC):
    """Base of specs that contain other specs, which are bound and unbound with them."""

    @abstractmethod
    def inner(self) -> tuple[KvStoreSpec, ...]:
        """Return the specs of the stores below."""

    @abstractmethod
    def with_inner(self, inner: tuple[KvStoreSpec, ...]) -> Self:
        """Return the spec over others."""

    @abstractmethod
    def inner_members(self, inner: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the members with the specs of the stores below, from their JSON."""

    @property
    def is_remote(self) -> bool:
        """True if one of the stores below is remote."""
        return any(base.is_remote for base in self.inner())

    @property
    def outlives_process(self) -> bool:
        """True if all stores below do."""
        return all(base.outlives_process for base in self.inner())


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

    def inner(self) -> tuple[KvStoreSpec, ...]:
        """Return ``base``."""
        return (self.below,)

    def with_inner(self, inner: tuple[KvStoreSpec, ...]) -> Self:
        """Return the spec over another ``base``."""
        return replace(self, below=inner[0])

    def inner_members(self, inner: list[dict[str, Any]]) -> dict[str, Any]:
        """Return ``base``."""
        return {"base": inner[0]}
