"""Base of the specs of remote stores: limits on requests, and resources that are rarely set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import Members, expect_bool
from chunkwise.core.kvstore.request_limits import Coalescing, Limits, Pace, Retries, Slots
from chunkwise.core.specs.context import Context, ContextResource
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, member
from chunkwise.core.specs.resource_members import (
    ResourceMembers,
    bind_resources,
    resources_to_json,
    take_resources,
    unbind_resources,
)

__all__ = ["RemoteKvStoreSpec"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RemoteKvStoreSpec(KvStoreSpec):
    """Base of the specs of stores behind a network."""

    protocol: ClassVar[str] = ""
    rare_kinds: ClassVar[tuple[str, ...]] = ("request_coalescing",)

    # Resources of `rare_kinds` that are not the default; unlike `resources`, others are not shown.
    rare: ResourceMembers = field(default_factory=dict)
    # Extension: a value whose read is refused (403) is missing, as in a public bucket that can't be listed.
    denied_is_missing: bool = member("denied_is_missing", expect_bool, False, shown="if set")

    @classmethod
    def parse_members(cls, members: Members) -> dict[str, Any]:
        """Take the rare resources, and the driver's own members."""
        return {"rare": take_resources(members, cls.rare_kinds), **super().parse_members(members)}

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return the rare resources that are not the default, and the driver's own members."""
        rare = resources_to_json(self.rare, self.rare_kinds, {}, False)
        return {**rare, **super().own_members(include_defaults)}

    def bind_inner(self, context: Context) -> Self:
        """Return the spec with live rare resources."""
        return replace(self, rare=_set(bind_resources(self.rare, self.rare_kinds, context)))

    def strip(self) -> Self:
        """Return the spec without context and resources."""
        return replace(super().strip(), rare={})

    def unbound(self, names: Mapping[int, str] | None = None) -> Self:
        """Return the spec with names and configurations in place of bound resources."""
        return replace(super().unbound(names), rare=unbind_resources(self.rare, {}))

    def limits(self) -> Limits:
        """Return the limits that the resources of a bound spec set."""
        retries = self.live(f"{self.protocol}_request_retries")
        coalescing = self._rare("request_coalescing")
        pace = self._rare(f"experimental_{self.protocol}_rate_limiter")
        return Limits(
            self.live(f"{self.protocol}_request_concurrency").slots or _shared_slots(self.protocol),
            Retries(retries.max_retries, retries.initial_delay, retries.max_delay, retries.request_timeout),
            None if pace is None else Pace(pace.read_rate, pace.doubling_time),
            None if pace is None else Pace(pace.write_rate, pace.doubling_time),
            Coalescing() if coalescing is None else Coalescing(coalescing.gap, coalescing.max_bytes),
            self.denied_is_missing,
        )

    def _rare(self, kind: str) -> Any:
        resource = self.rare.get(kind)
        return resource.value if isinstance(resource, ContextResource) else None


def _set(resources: ResourceMembers) -> ResourceMembers:
    return {
        kind: value
        for kind, value in resources.items()
        if isinstance(value, ContextResource) and value.config != type(value.config)()
    }


@cache
def _shared_slots(protocol: str) -> Slots:
    """Return the slots that the whole process shares."""
    return Slots()
