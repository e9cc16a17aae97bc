"""Specs of arrays that adapt another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from chunkwise.core.base.binding import JSON, MISSING
from chunkwise.core.specs.driver_spec import DriverSpec
from chunkwise.core.specs.kvstore_spec import KvStoreSpec
from chunkwise.core.specs.open_mode import OpenMode, Recheck
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec, parse_driver_spec
from chunkwise.errors import SpecError

__all__ = ["AdapterSpec", "constrained", "parse_base"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AdapterSpec(DriverSpec):
    """A spec with the member ``base``, to which the options for opening apply."""

    base: Spec

    @property
    def open_mode(self) -> OpenMode:
        """Open mode of the base."""
        return self.base._driver.open_mode

    def own_mode(self) -> OpenMode:
        """Return the open mode of the base, as far as it is given."""
        return self.base._driver.own_mode()

    def with_open_mode(self, mode: OpenMode) -> Self:
        """Return the spec with another open mode of the base."""
        return self.with_base(self.base._driver.with_open_mode(mode))

    def with_recheck(self, **bounds: Recheck) -> Self:
        """Return the spec with other staleness bounds of the base."""
        return self.with_base(self.base._driver.with_recheck(**bounds)) if bounds else self

    def minimal(self) -> Self:
        """Return the spec with the minimal spec of the base."""
        return self.with_base(self.base._driver.minimal())

    def with_kvstore(self, kvstore: KvStoreSpec) -> Self:
        """Return the spec with a kvstore for the base."""
        return self.with_base(self.base._driver.with_kvstore(kvstore))

    @property
    def key_value_store(self) -> KvStoreSpec | None:
        """The kvstore of the base."""
        return self.base._driver.key_value_store

    def part_members(self, include_defaults: bool, names: Mapping[int, str]) -> dict[str, JSON]:
        """Return the base."""
        return {"base": self.base._named_json(include_defaults, names)}

    def parts(self) -> tuple[DriverSpec | KvStoreSpec, ...]:
        """Return the driver spec of the base."""
        return (self.base._driver,)

    def with_parts(self, parts: tuple[DriverSpec | KvStoreSpec, ...]) -> Self:
        """Return the spec with another driver spec for the base."""
        (part,) = parts
        assert isinstance(part, DriverSpec)
        return self.with_base(part)

    def with_base(self, driver: DriverSpec) -> Self:
        """Return the spec over another driver spec, with the transform of the base."""
        return replace(self, base=Spec._of(driver, self.base._transform))


def parse_base(value: JSON) -> Spec:
    """Read a member that is an array: an object or a URL."""
    if value is MISSING:
        raise SpecError("Expected object, but member is missing")
    return parse_driver_spec(value)


def constrained(base: Spec, schema: Schema) -> Spec:
    """Return `base` with further constraints in its index space."""
    out = base.copy()
    given = schema.copy()
    given._dtype = out.dtype if out.dtype is not None else given._dtype
    if given != Schema(dtype=given._dtype):
        out.update(schema=given)
    return out
