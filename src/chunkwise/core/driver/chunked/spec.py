"""Specs of chunked arrays: the common members of n5, zarr, zarr1 and zarr3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import JSON, Members, dump, expect_bool, expect_object
from chunkwise.core.base.cached import cached_property, copied
from chunkwise.core.driver.chunked.flows import OpenRequest
from chunkwise.core.driver.chunked.format import Format, Metadata
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain, IndexTransform, d
from chunkwise.core.specs.driver_spec import DriverSpec, SpecMembers
from chunkwise.core.specs.open_mode import OpenMode, Recheck
from chunkwise.core.specs.resource_members import take_resources
from chunkwise.core.specs.resources import CachePool
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import InvalidArgumentError, SpecError, prefixed

__all__ = ["ChunkedSpec", "elsewhere", "is_movable", "parse_recheck"]


def parse_recheck(value: JSON) -> Recheck:
    """Read a staleness bound: true, false, "open" or seconds since the epoch."""
    if isinstance(value, bool):
        return value
    if value == "open":
        return "open"
    if isinstance(value, int | float):
        return float(value)
    raise SpecError(f'Expected boolean, number, or "open", but received: {dump(value)}')


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ChunkedSpec(DriverSpec):
    """Spec of a chunked array."""

    resource_kinds: ClassVar[tuple[str, ...]] = (
        "cache_pool",
        "metadata_cache_pool",
        "data_copy_concurrency",
    )

    format: Format = None  # type: ignore[assignment]
    options: Any = None  # the format's own members
    constraints: Any = None  # the ``metadata`` member
    mode: OpenMode = field(default_factory=OpenMode)
    recheck_cached_metadata: Recheck = "open"
    recheck_cached_data: Recheck = True
    fill_missing_data_reads: bool = True
    store_data_equal_to_fill_value: bool = False
    # The constraints are the metadata of an array that was pickled while open; they are read only when
    # needed.
    lazy: bool = False
    in_tree: bool = False  # nothing that others make must be in a new array

    @property
    def driver(self) -> str:
        """Driver id."""
        return self.format.driver

    @classmethod
    def parse(cls, format: Format, members: Members, common: SpecMembers) -> Self:
        """Take the members of a chunked array's spec; `common` are those of every spec."""
        kvstore = common.take_kvstore_and_path(members)
        mode = OpenMode(
            open=members.take("open", expect_bool, False),
            create=members.take("create", expect_bool, False),
            delete_existing=members.take("delete_existing", expect_bool, False),
            assume_metadata=members.take("assume_metadata", expect_bool, False),
            assume_cached_metadata=members.take("assume_cached_metadata", expect_bool, False),
        )
        options = format.parse_options(members)
        return cls(
            format=format,
            kvstore=None if kvstore is None else kvstore.as_directory(),
            options=options,
            constraints=cls.take_constraints(format, members),
            mode=mode,
            recheck_cached_metadata=members.take("recheck_cached_metadata", parse_recheck, "open"),
            recheck_cached_data=members.take("recheck_cached_data", parse_recheck, True),
            fill_missing_data_reads=members.take("fill_missing_data_reads", expect_bool, True),
            store_data_equal_to_fill_value=members.take("store_data_equal_to_fill_value", expect_bool, False),
            schema=common.schema,
            context=common.context,
            resources=take_resources(members, cls.resource_kinds),
        )

    @classmethod
    def take_constraints(cls, format: Format, members: Members) -> Any:
        """Take the constraints on the metadata."""
        return members.take(
            "metadata", lambda v: format.parse_constraints(expect_object(v)), format.parse_constraints({})
        )

    @property
    def metadata_pool(self) -> CachePool:
        """The live cache pool for metadata: a separate one, or the one for chunks."""
        name = "metadata_cache_pool"
        pool: CachePool = self.resource(name if name in self.resources else "cache_pool")
        return pool

    def own_members(self, include_defaults: bool) -> dict[str, JSON]:
        """Return the members of this class, without those that every spec has."""
        out: dict[str, JSON] = dict(self.mode.to_json())
        if include_defaults:
            for name in ("delete_existing", "assume_metadata", "assume_cached_metadata"):
                out.setdefault(name, False)
        for name, default in (
            ("recheck_cached_metadata", "open"),
            ("recheck_cached_data", True),
            ("fill_missing_data_reads", True),
            ("store_data_equal_to_fill_value", False),
        ):
            value = getattr(self, name)
            if include_defaults or value != default or type(value) is not type(default):
                out[name] = value
        out.update(self.format.options_to_json(self.options))
        metadata = self.format.constraints_to_json(self.constraints)
        if include_defaults or metadata != self.format.constraints_to_json(self.format.parse_constraints({})):
            out["metadata"] = metadata
        return out

    def effective_schema(self) -> Schema:
        """Return the schema of constraints and schema together, without the domain."""
        return self._constraint_schema(self.schema.with_domain(None))

    def member_schema(self, name: str) -> Schema:
        """Return the schema of all constraints, but only the member `name` of `schema`."""
        return self._constraint_schema(self.schema.with_domain(None).with_one(name))

    def _constraint_schema(self, schema: Schema) -> Schema:
        return self.format.constraint_schema(self.constraints, self.options, schema)

    @cached_property
    def _alone(self) -> Schema:
        """Schema of the constraints alone; must not be changed."""
        return self._constraint_schema(Schema())

    @cached_property
    def _constrained(self) -> Schema:
        """Schema of the constraints alone, given the rank; must not be changed."""
        rank = self.schema.rank
        return self._alone if rank is None else self._constraint_schema(Schema(rank=rank))

    @property
    def rank(self) -> int | None:
        """Rank, if known."""
        return self._constrained.rank

    @property
    def dtype(self) -> DataType | None:
        """Data type, if known."""
        return self.schema.dtype or self._alone.dtype

    @property
    def domain(self) -> IndexDomain | None:
        """Domain, if known, with resizable upper bounds, whatever the schema says."""
        asked = self.schema.domain
        with prefixed("Mismatch between metadata and schema"):
            schema = self._constrained if asked is None else self._constraint_schema(Schema(domain=asked))
            domain = schema.domain
        if domain is None:
            return None
        fixed = self.format.inner_rank(self.constraints, self.options)
        resizable = d[tuple(range(domain.rank - fixed))]
        return IndexTransform.identity(domain)[resizable.mark_bounds_implicit[:True]].domain

    def check_consistent(self) -> None:
        """Raise if rank or data type of schema and constraints differ, or the format has no such type."""
        with prefixed('Error parsing object member "metadata"'):
            alone = self._alone
            Schema(rank=self.schema.rank, dtype=self.schema.dtype).merged(
                Schema(rank=alone.rank, dtype=alone.dtype)
            )
            self._constrained  # noqa: B018 - the data type is one that the format has
        if self.schema.dtype is not None:
            self._constraint_schema(Schema(dtype=self.schema.dtype))

    @property
    def open_mode(self) -> OpenMode:
        """Open mode; by default an array is opened."""
        if self.mode.open or self.mode.create:
            return replace(self.mode)
        return replace(self.mode, open=True)

    def url_suffix(self) -> str:
        """Return ``n5:``."""
        if self.format.options_to_json(self.options):
            raise InvalidArgumentError(
                f'"{self.driver}" with {", ".join(self.format.options_to_json(self.options))} has no URL'
            )
        return ("zarr2" if self.driver == "zarr" else self.driver) + ":"

    def own_mode(self) -> OpenMode:
        """Return the open mode, as far as it is given."""
        return self.mode

    def with_open_mode(self, mode: OpenMode) -> Self:
        """Return the spec with another open mode."""
        return replace(self, mode=mode)

    def with_recheck(self, **bounds: Any) -> Self:
        """Return the spec with other staleness bounds."""
        return replace(self, **bounds)

    def minimal(self) -> Self:
        """Return the spec without metadata constraints; rank and data type stay."""
        return replace(
            self,
            constraints=self.format.parse_constraints({}),
            schema=self.schema.merged(Schema(rank=self.rank, dtype=self.dtype)),
        )

    def with_metadata(self, metadata: Metadata) -> Self:
        """Return the spec of an existing array, which requires only that metadata."""
        constraints = self.format.parse_constraints(self.format.metadata_to_json(metadata))
        schema = self.format.schema_of(metadata, self.options)
        return replace(
            self,
            constraints=constraints,
            mode=OpenMode(assume_metadata=self.mode.assume_metadata),
            schema=Schema(dtype=schema.dtype, rank=schema.rank),
            lazy=False,
        )

    def unpickled(self) -> Self:
        """Return the spec of an array that is opened without reading its metadata."""
        return replace(self, lazy=True)

    def open_request(self, path: str, describe: Callable[[str], str]) -> OpenRequest:
        """Return the input of the open flow for an array whose keys begin with `path`."""
        # Messages name a key with `describe`.
        mode = self.mode.resolved()
        return OpenRequest(
            self.format,
            path,
            replace(mode, assume_cached_metadata=True) if self.lazy else mode,
            self.constraints,
            self.options,
            self.schema,
            describe,
        )


def is_movable(driver: DriverSpec) -> bool:
    """Return True if the path of a spec is its kvstore's, so that it can be replaced."""
    return isinstance(driver, ChunkedSpec) and driver.kvstore is not None


def elsewhere(driver: DriverSpec, path: str) -> DriverSpec:
    """Return a movable spec with another path in its kvstore; everything else is shared."""
    assert driver.kvstore is not None
    return copied(driver, kvstore=copied(driver.kvstore, path=path))
