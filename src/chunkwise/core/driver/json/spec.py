"""Specs of the driver ``json``: a JSON value in a key of a kvstore, or a part of it, as an array of rank 0.

Configuration
-------------
>>> from chunkwise.core.specs.spec import Spec
>>> Spec({"driver": "json", "kvstore": "memory://a.json", "json_pointer": "/b/0"}).url
'memory://a.json|json:/b/0'

JSON Pointer (RFC 6901): a location in a JSON value, and reading and writing there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self
from urllib.parse import quote

from chunkwise.core.base.binding import JSON, Members, dump, expect_string
from chunkwise.core.driver.single_value_spec import SingleValueSpec, take_members
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    SpecError,
)

__all__ = ["MISSING_VALUE", "JsonSpec", "parse_json", "parse_pointer", "read_at", "written_at"]


MISSING_VALUE: Any = object()
"""Marks a value that doesn't exist yet."""

_INDEX = re.compile(r"0|[1-9][0-9]*")
_LARGEST_INDEX = 2**64 - 1


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Return the reference tokens of a JSON Pointer: ``a/b`` and ``0`` of ``/a~1b/0``."""
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise SpecError(f"JSON Pointer does not start with '/': {dump(pointer)}")
    if re.search(r"~(?![01])", pointer):
        raise SpecError(f"JSON Pointer requires '~' to be followed by '0' or '1': {dump(pointer)}")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))


def read_at(value: JSON, tokens: tuple[str, ...]) -> JSON:
    """Return the part of `value` at a pointer."""
    for i, token in enumerate(tokens):
        text = _text(tokens[: i + 1])
        if isinstance(value, dict):
            if token not in value:
                raise NotFoundError(f"JSON Pointer {text} refers to non-existent object member")
            value = value[token]
        elif isinstance(value, list):
            if token == "-":
                raise FailedPreconditionError(f"JSON Pointer {text} refers to non-existent array element")
            value = value[_index(token, value, text)]
        else:
            raise _no_container(value, text)
    return value


def written_at(value: JSON, tokens: tuple[str, ...], new: JSON) -> JSON:
    """Return `value` with `new` at a location; `value` itself may be changed."""
    # Missing objects on the way are created; ``-`` appends to an array.
    if not tokens:
        return new
    root = value = {} if value is MISSING_VALUE else value
    for i, token in enumerate(tokens):
        text = _text(tokens[: i + 1])
        last = i == len(tokens) - 1
        if isinstance(value, dict):
            if last:
                value[token] = new
            else:
                value = value.setdefault(token, {})
        elif isinstance(value, list):
            if token == "-":
                value.append(new if last else {})
                value = value[-1]
                continue
            index = _index(token, value, text, FailedPreconditionError)
            if last:
                value[index] = new
            else:
                value = value[index]
        else:
            raise _no_container(value, text)
    return root


def _index(token: str, array: list[JSON], text: str, error: type[ChunkwiseError] = OutOfRangeError) -> int:
    if not _INDEX.fullmatch(token) or int(token) > _LARGEST_INDEX:
        raise FailedPreconditionError(f"JSON Pointer {text} is invalid for array value")
    if int(token) >= len(array):
        raise error(f"JSON Pointer {text} is out-of-range for array of size {len(array)}")
    return int(token)


def _text(tokens: tuple[str, ...]) -> str:
    return dump("".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens))


def _no_container(value: JSON, text: str) -> FailedPreconditionError:
    kind = (
        "null"
        if value is None
        else "boolean"
        if isinstance(value, bool)
        else "string"
        if isinstance(value, str)
        else "number"
    )
    return FailedPreconditionError(
        f"JSON Pointer reference {text} cannot be applied to {kind} value: {dump(value)}"
    )


_JSON = DataType("json")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JsonSpec(SingleValueSpec):
    """``{"driver": "json", "kvstore": …, "json_pointer": …}``; the path of the kvstore is the key."""

    driver: ClassVar[str] = "json"

    pointer: str = ""
    of_a_url: bool = False

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
