"""Specs of the driver ``json``: a JSON value in a key of a kvstore, or a part of it, as an array of rank 0.

Configuration
-------------
>>> from chunkwise.core.specs.spec import Spec
>>> Spec({"driver": "json", "kvstore": "memory://a.json", "json_pointer": "/b/0"}).url
'memory://a.json|json:/b/0'
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import quote

from chunkwise.core.base.binding import JSON, Members, expect_string
from chunkwise.core.driver.json.pointer import parse_pointer
from chunkwise.core.driver.single_value_spec import SingleValueSpec, take_members
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec_members import SpecMembers
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = ["JsonSpec", "parse_json"]

_JSON = DataType("json")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JsonSpec(SingleValueSpec):
    """``{"driver": "json", "kvstore": …, "json_pointer": …}``; the path of the kvstore is the key."""

    pointer: str = ""
    of_a_url: bool = False

    @property
    def driver(self) -> str:
        """Driver id."""
        return "json"

    @property
    def tokens(self) -> tuple[str, ...]:
        """Reference tokens of the pointer."""
        return parse_pointer(self.pointer)

    def own_members(self, include_defaults: bool) -> dict[str, JSON]:
        """Return pointer and staleness bound."""
        out: dict[str, JSON] = {}
        if self.pointer or include_defaults:
            out["json_pointer"] = self.pointer
        return {**out, **self.recheck_member(include_defaults)}

    def effective_schema(self) -> Schema:
        """Return type and domain, which are always the same."""
        return Schema(dtype=_JSON, domain=IndexDomain(rank=0), chunk_layout=ChunkLayout(rank=0))

    def with_schema(self, schema: Schema) -> Self:
        """Return the spec with further constraints."""
        _check_schema(schema)
        own = self.schema.merged(schema)
        if own.fill_value is not None:
            raise InvalidArgumentError("fill_value not supported by json driver")
        if own.codec is not None:
            raise InvalidArgumentError("codec not supported by json driver")
        return replace(self, schema=own)

    def of_url(self) -> Self:
        """Return a spec without rank and type, as in TensorStore."""
        return replace(self, schema=Schema(), of_a_url=True)

    @property
    def rank(self) -> int | None:
        """0."""
        return None if self.of_a_url else 0

    @property
    def dtype(self) -> DataType | None:
        """``json``."""
        return None if self.of_a_url else _JSON

    def url_suffix(self) -> str:
        """Return ``json:`` and the pointer."""
        return f"json:{quote(self.pointer, safe=_UNQUOTED)}"


_UNQUOTED = "/-_.!~*'()$&+,:;=@"


def parse_json(members: Members, common: SpecMembers) -> JsonSpec:
    """Take the members of a spec of this driver."""
    of_all = take_members(members, common)
    pointer = members.take("json_pointer", _pointer, "")
    spec = JsonSpec(
        schema=Schema(dtype=_JSON, rank=0),
        pointer=pointer,
        **of_all,
    )
    return spec.with_schema(common.schema)


def _check_schema(schema: Schema) -> None:
    if schema.rank not in (None, 0):
        raise SpecError(
            f"Rank specified by rank (0) does not match existing rank specified by schema ({schema.rank})"
        )
    if schema.dtype is not None and schema.dtype is not _JSON:
        raise SpecError(f"Specified dtype (json) does not match existing value ({schema.dtype.name})")


def _pointer(value: JSON) -> str:
    pointer = expect_string(value)
    parse_pointer(pointer)
    return pointer
