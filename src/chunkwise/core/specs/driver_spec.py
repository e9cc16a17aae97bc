"""The base of the specs of all array drivers, and the members that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

from chunkwise.core.base.binding import MISSING, Members, expect_int, expect_string
from chunkwise.core.base.cached import copied
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.context import ContextResource, ContextSpec
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, parse_kvstore_spec
from chunkwise.core.specs.open_mode import OpenMode, Recheck
from chunkwise.core.specs.resource_members import ResourceUser
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.schema_constraints import dtype_from_json
from chunkwise.core.specs.url import kvstore_json_from_url
from chunkwise.errors import InvalidArgumentError, SpecError, UnsupportedError

__all__ = ["DriverSpec", "SpecMembers", "kvstore_from_url"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DriverSpec(ResourceUser, ABC):
    """A driver and its members, in the driver's own index space: a spec without its transform."""

    shows_rank: ClassVar[bool] = True  # whether JSON has a rank that no other member implies

    schema: Schema = field(default_factory=Schema)  # constraints given in ``schema``, ``dtype`` and ``rank``
    kvstore: KvStoreSpec | None = None

    # -- for each driver ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def driver(self) -> str:
        """Driver id."""

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return the driver's own members, without those that every spec has."""
        return {}

    def part_members(self, include_defaults: bool, names: Mapping[int, str]) -> dict[str, Any]:
        """Return the members that are specs themselves; `names` are those of bound resources."""
        return {}

    def effective_schema(self) -> Schema:
        """Return the schema, as far as it is known before the array is opened."""
        return self.schema

    def member_schema(self, name: str) -> Schema:
        """Return a schema with the member `name`; its other members may be anything."""
        return self.effective_schema()

    @property
    def key_value_store(self) -> KvStoreSpec | None:
        """The kvstore, perhaps that of an array that this one adapts."""
        return self.kvstore

    def of_url(self) -> Self:
        """Return the spec of a URL, with only the kvstore and the options in the suffix."""
        return self

    def url_suffix(self) -> str:
        """Return the URL's part after the kvstore; raise UnsupportedError if there is no URL."""
        raise UnsupportedError("URL representation not supported")

    @property
    def open_mode(self) -> OpenMode:
        """Open mode."""
        return OpenMode()

    def own_mode(self) -> OpenMode:
        """Return the open mode, as far as it is given."""
        return OpenMode()

    def with_open_mode(self, mode: OpenMode) -> Self:
        """Return the spec with another open mode."""
        return self

    def with_recheck(self, **bounds: Recheck) -> Self:
        """Return the spec with other staleness bounds, which have no effect on arrays that keep nothing."""
        return self

    def minimal(self) -> Self:
        """Return the spec without members that an existing array determines."""
        return self

    def parts(self) -> tuple[DriverSpec | KvStoreSpec, ...]:
        """Return the specs inside this one that have resources, except the kvstore."""
        return ()

    def with_parts(self, parts: tuple[DriverSpec | KvStoreSpec, ...]) -> Self:
        """Return the spec with other parts."""
        return self

    def unpickled(self) -> Self:
        """Return the spec of an array that was open when it was pickled."""
        return self.with_parts(
            tuple([part.unpickled() if isinstance(part, DriverSpec) else part for part in self.parts()])
        )

    def shown(self) -> Self:
        """Return the unbound form of a bound spec, as an open array shows it."""
        return self.unbound()

    def abbreviated(self) -> DriverSpec:
        """Return the spec with large data abbreviated, for a readable `repr`."""
        parts = self.parts()
        if not parts:
            return self
        return self.with_parts(
            tuple([part.abbreviated() if isinstance(part, DriverSpec) else part for part in parts])
        )

    def check_consistent(self) -> None:
        """Raise if the members contradict each other in rank or data type."""

    # -- for all --------------------------------------------------------------------------------------

    @property
    def rank(self) -> int | None:
        """Rank of the driver's index space, if known."""
        return self.effective_schema().rank

    @property
    def dtype(self) -> DataType | None:
        """Data type, if known."""
        return self.effective_schema().dtype

    @property
    def domain(self) -> IndexDomain | None:
        """Domain, if known."""
        return self.effective_schema().domain

    @property
    def is_remote(self) -> bool:
        """True if operations on the array may wait for a network."""
        return any(part.is_remote for part in self.inner())

    @property
    def in_memory(self) -> bool:
        """True if all elements are in the spec, so that no store is used."""
        parts = self.parts()
        return bool(parts) and all(isinstance(part, DriverSpec) and part.in_memory for part in parts)

    def resource(self, kind: str) -> Any:
        """Return the live object of a resource in a bound spec."""
        resource = self.resources[kind]
        assert isinstance(resource, ContextResource), "the spec is not bound"
        return resource.value

    def with_schema(self, schema: Schema) -> Self:
        """Return the spec with further constraints, in the driver's index space."""
        return replace(self, schema=self.schema.merged(schema))

    def with_kvstore(self, kvstore: KvStoreSpec) -> Self:
        """Return the spec with a kvstore; it must not have one yet."""
        if self.kvstore is not None:
            raise InvalidArgumentError('"kvstore" is already specified')
        return replace(self, kvstore=kvstore)  # a path is a prefix of keys, even without a final "/"

    def url(self) -> str:
        """Return the canonical URL."""
        suffix = self.url_suffix()
        kvstore = self.key_value_store
        if kvstore is None:
            raise UnsupportedError("URL representation not supported without a kvstore")
        return f"{kvstore.to_url()}|{suffix}"

    def inner(self) -> tuple[DriverSpec | KvStoreSpec, ...]:
        """Return the specs inside this one that have resources."""
        return self.parts() if self.kvstore is None else (self.kvstore, *self.parts())

    def with_inner(self, inner: tuple[Any, ...]) -> Self:
        """Return the spec with others inside it."""
        if self.kvstore is None:
            return self.with_parts(inner)
        return copied(self, kvstore=inner[0]).with_parts(inner[1:])

    def to_members(
        self, include_defaults: bool = False, *, names: Mapping[int, str] | None = None
    ) -> dict[str, Any]:
        """Return all members except those that depend on the transform."""
        out: dict[str, Any] = {"driver": self.driver}
        own, names = self.resource_members(include_defaults, names)
        out.update(own)
        if self.kvstore is not None:
            out["kvstore"] = self.kvstore.to_json(include_defaults, names=names)
        out.update(self.own_members(include_defaults))
        out.update(self.part_members(include_defaults, names))
        return out


def kvstore_from_url(url: str) -> KvStoreSpec:
    """Return the kvstore spec of a URL."""
    return parse_kvstore_spec(kvstore_json_from_url(url), kvstore_from_url)


class SpecMembers(NamedTuple):
    """Members of every spec."""

    schema: Schema  # ``schema``, with ``dtype``, and with ``rank`` unless a transform has its own rank
    context: ContextSpec | None

    @classmethod
    def take(cls, members: Members, *, rank_is_of_driver: bool = True) -> tuple[Self, int | None]:
        """Take the members; also return ``rank``, which belongs to the transform if there is one."""
        context = members.take("context", ContextSpec, None)
        schema = members.take("schema", Schema, None) or Schema()
        members.take("dtype", lambda v: schema._set_dtype(dtype_from_json(v)), None)

        def take_rank(value: object) -> int:
            rank = expect_int(value, 0, 32)
            if rank_is_of_driver:
                schema._set_rank(rank)
            return rank

        rank = members.take("rank", take_rank, None)
        return cls(schema, context), rank

    @staticmethod
    def take_kvstore(members: Members) -> KvStoreSpec | None:
        """Take the member ``kvstore``, an object or a URL."""
        return members.take(
            "kvstore", lambda v: None if v is MISSING else parse_kvstore_spec(v, kvstore_from_url), None
        )

    def take_kvstore_and_path(self, members: Members) -> KvStoreSpec | None:
        """Take ``kvstore``, and ``path``, which is joined to its path."""
        kvstore = self.take_kvstore(members)
        path = members.take("path", expect_string, None)
        if path is None:
            return kvstore
        if kvstore is None:
            raise SpecError(
                'Error parsing object member "path": "path" must be specified in conjunction with "kvstore"'
            )
        return kvstore.joined(path)
