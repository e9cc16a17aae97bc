"""Specs of the driver ``neuroglancer_precomputed``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from chunkwise.core.base.binding import JSON, MISSING, Members
from chunkwise.core.base.cached import cached_property
from chunkwise.core.driver.chunked.format import Format, Metadata
from chunkwise.core.driver.chunked.open_flow import OpenRequest
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.neuroglancer_precomputed.constraints import (
    MEMBERS,
    PrecomputedConstraints,
    parse_constraints,
)
from chunkwise.core.driver.neuroglancer_precomputed.format import FORMAT, PrecomputedFormat
from chunkwise.core.driver.neuroglancer_precomputed.members import check_encoding
from chunkwise.core.driver.neuroglancer_precomputed.schema import known_domain
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, UnsupportedError, prefix

__all__ = ["PrecomputedSpec", "parse_precomputed"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PrecomputedSpec(ChunkedSpec):
    """``{"driver": "neuroglancer_precomputed", "kvstore": …, "scale_index": 1}``."""

    of_a_url: bool = False

    resource_kinds: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")

    @classmethod
    def take_constraints(cls, format: Format, members: Members) -> PrecomputedConstraints:
        """Take ``scale_index``, ``scale_metadata`` and ``multiscale_metadata``."""
        given = {name: members.take(name, lambda v: v, MISSING) for name in MEMBERS}
        return parse_constraints({name: value for name, value in given.items() if value is not MISSING})

    @property
    def precomputed(self) -> PrecomputedFormat:
        """The format, for the scale that the spec requests."""
        return FORMAT.of(self.constraints, self.schema)

    def own_members(self, include_defaults: bool) -> dict[str, JSON]:
        """Return the members of this class, without those that every spec has."""
        out = super().own_members(include_defaults)
        out.update(out.pop("metadata", {}))
        return out

    def effective_schema(self) -> Schema:
        """Return the schema of constraints and schema together."""
        return self._constraint_schema(self.schema)

    @property
    def rank(self) -> int | None:
        """4: x, y, z and channel."""
        return None if self.of_a_url else 4

    def of_url(self) -> Self:
        """Return a spec without a rank, as in TensorStore."""
        return replace(self, of_a_url=True)

    @cached_property
    def domain(self) -> IndexDomain:
        """Domain, as far as it is known; its bounds can't be resized."""
        return known_domain(self.constraints, self.schema)

    def check_consistent(self) -> None:
        """Raise if the schema contradicts the members."""
        self.schema.copy()._set_rank(4)
        try:
            check_encoding(self.constraints.encoding.name, self.dtype, self.constraints.n_channels)
        except FailedPreconditionError as e:
            error = InvalidArgumentError(e.message)
            raise prefix(error, 'Error parsing object member "scale_metadata"') from None
        self._constraint_schema(Schema(dtype=self.schema.dtype, domain=self.schema.domain))

    def url_suffix(self) -> str:
        """Return ``neuroglancer-precomputed:``."""
        if self.constraints.scale_index:
            raise UnsupportedError(
                "neuroglancer-precomputed URL syntax not supported with non-zero scale_index"
            )
        return "neuroglancer-precomputed:"

    def minimal(self) -> Self:
        """Return the spec with only the number of the scale as constraint."""
        alone = self.format.parse_constraints({})
        return replace(
            self,
            constraints=replace(alone, scale_index=self.constraints.scale_index),
            schema=self.schema.merged(Schema(rank=4, dtype=self.dtype)),
        )

    def with_metadata(self, metadata: Metadata) -> Self:
        """Return the spec of an existing scale, which requires only that scale."""
        spec = super().with_metadata(metadata)
        return replace(spec, schema=Schema(dtype=metadata.dtype, rank=4))

    def open_request(self, path: str, describe: Callable[[str], str]) -> OpenRequest:
        """Return the input of the open flow; the scale is chosen later."""
        return super().open_request(path, describe)._replace(format=self.precomputed)


def parse_precomputed(members: Members, common: SpecMembers) -> PrecomputedSpec:
    """Take the members of a spec of this driver."""
    return PrecomputedSpec.parse(FORMAT, members, common)
