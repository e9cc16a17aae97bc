"""Specs of arrays stored in one key of a kvstore: a JSON value, a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import Members
from chunkwise.core.driver.chunked.spec import parse_recheck
from chunkwise.core.specs.driver_spec import DriverSpec, SpecMembers
from chunkwise.core.specs.open_mode import OpenMode, Recheck
from chunkwise.core.specs.resource_members import take_resources

__all__ = ["SingleValueSpec", "take_members"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SingleValueSpec(DriverSpec):
    """Spec of an array in one key, which is the path of the kvstore; nothing is created."""

    resource_kinds: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")

    recheck_cached_data: Recheck = "open"  # how old a value that was read may be

    @property
    def open_mode(self) -> OpenMode:
        """Open an existing value."""
        return OpenMode(open=True)

    def recheck_member(self, include_defaults: bool) -> dict[str, Any]:
        """Return the staleness bound, unless it is at its default."""
        shown = include_defaults or self.recheck_cached_data != "open"
        return {"recheck_cached_data": self.recheck_cached_data} if shown else {}

    def with_recheck(self, **bounds: Recheck) -> Self:
        """Return the spec with another staleness bound; the metadata is part of the data here."""
        for name in ("recheck_cached_metadata", "recheck_cached_data"):
            if name in bounds:
                self = replace(self, recheck_cached_data=bounds[name])
        return self


def take_members(members: Members, common: SpecMembers) -> dict[str, Any]:
    """Take kvstore, path, context, resources and staleness bound; return them as fields."""
    return {
        "kvstore": common.take_kvstore_and_path(members),
        "context": common.context,
        "resources": take_resources(members, SingleValueSpec.resource_kinds),
        "recheck_cached_data": members.take("recheck_cached_data", parse_recheck, "open"),
    }
