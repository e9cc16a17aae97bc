"""Specs of the driver ``json``: a JSON value in a key of a kvstore, or a part of it, as an array of rank 0.

Configuration
-------------
>>> from chunkwise.spec.spec import Spec
>>> Spec({"driver": "json", "kvstore": "memory://a.json", "json_pointer": "/b/0"}).url
'memory://a.json|json:/b/0'
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self
from urllib.parse import quote

from chunkwise.binding import JSON, Members, expect_string
from chunkwise.driver.chunked.spec import parse_recheck
from chunkwise.driver.json.pointer import parse_pointer
from chunkwise.dtypes.data_type import DataType
from chunkwise.errors import InvalidArgumentError, SpecError
from chunkwise.index_space import IndexDomain
from chunkwise.spec.driver_spec import DriverSpec
from chunkwise.spec.kvstore_spec import KvStoreSpec
from chunkwise.spec.open_mode import OpenMode
from chunkwise.spec.resource_members import take_resources
from chunkwise.spec.schema import Schema
from chunkwise.spec.spec_members import SpecMembers

__all__ = ["JsonSpec", "parse_json"]

_JSON = DataType("json")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JsonSpec(DriverSpec):
    """``{"driver": "json", "kvstore": …, "json_pointer": …}``; the path of the kvstore is the key."""

    resource_kinds: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")

    pointer: str = ""
    recheck_cached_data: Any = "open"  # how old what was read may be

    @property
    def driver(self) -> str:
        """Driver id."""
        return "json"

    @property
    def tokens(self) -> tuple[str, ...]:
        """Reference tokens of the pointer."""
        return parse_pointer(self.pointer)

    @property
    def open_mode(self) -> OpenMode:
        """There is nothing to create."""
        return OpenMode(open=True)

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return pointer and staleness bound."""
        out: dict[str, Any] = {}
        if self.pointer or include_defaults:
            out["json_pointer"] = self.pointer
        if self.recheck_cached_data != "open" or include_defaults:
            out["recheck_cached_data"] = self.recheck_cached_data
        return out

    def effective_schema(self) -> Schema:
        """Return type and domain, which are always the same."""
        return Schema(dtype=_JSON, domain=IndexDomain(rank=0))

    def with_schema(self, schema: Schema) -> Self:
        """Return the spec with further constraints."""
        own = self.schema.merged(schema)
        if own.fill_value is not None:
            raise InvalidArgumentError("fill_value not supported by json driver")
        if own.codec is not None:
            raise InvalidArgumentError("codec not supported by json driver")
        return replace(self, schema=own)

    def with_recheck(self, **bounds: Any) -> Self:
        """Return the spec with another staleness bound; metadata are data here."""
        for name in ("recheck_cached_metadata", "recheck_cached_data"):
            if name in bounds:
                self = replace(self, recheck_cached_data=bounds[name])
        return self

    def with_kvstore(self, kvstore: KvStoreSpec) -> Self:
        """Return the spec over a kvstore, whose path is the key."""
        if self.kvstore is not None:
            raise InvalidArgumentError('"kvstore" is already specified')
        return replace(self, kvstore=kvstore)

    def url_suffix(self) -> str:
        """Return ``json:`` and the pointer."""
        return f"json:{quote(self.pointer, safe=_UNQUOTED)}"


_UNQUOTED = "/-_.!~*'()$&+,:;=@"


def parse_json(members: Members, common: SpecMembers) -> JsonSpec:
    """Take the members of a spec of this driver."""
    kvstore = common.take_kvstore(members)
    path = members.take("path", expect_string, None)
    if path is not None:
        if kvstore is None:
            raise SpecError(
                'Error parsing object member "path": "path" must be specified in conjunction with "kvstore"'
            )
        kvstore = kvstore.joined(path)
    schema = common.schema.copy()
    if schema.rank not in (None, 0):
        raise SpecError(
            f"Rank specified by rank (0) does not match existing rank specified by schema ({schema.rank})"
        )
    if schema.dtype is not None and schema.dtype is not _JSON:
        raise SpecError(f"Specified dtype (json) does not match existing value ({schema.dtype.name})")
    pointer = members.take("json_pointer", _pointer, "")
    spec = JsonSpec(
        schema=Schema(dtype=_JSON, rank=0),
        context=common.context,
        resources=take_resources(members, JsonSpec.resource_kinds),
        kvstore=kvstore,
        pointer=pointer,
        recheck_cached_data=members.take("recheck_cached_data", parse_recheck, "open"),
    )
    return spec.with_schema(schema)


def _pointer(value: JSON) -> str:
    pointer = expect_string(value)
    parse_pointer(pointer)
    return pointer
