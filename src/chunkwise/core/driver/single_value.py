"""Specs of arrays stored in one key of a kvstore: a JSON value, or a picture.

A part of a JSON value is named by a JSON Pointer (RFC 6901).

Configuration
-------------
>>> from chunkwise.core.specs.spec import Spec
>>> Spec({"driver": "json", "kvstore": "memory://a.json", "json_pointer": "/b/0"}).url
'memory://a.json|json:/b/0'

Compatibility
-------------
As in TensorStore, pictures are ``(y, x, channel)`` of ``uint8`` and read-only; members about encoding
(``quality``) are accepted and shown, but have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self
from urllib.parse import quote

from chunkwise.core.base.binding import JSON, Members, dump, expect_bool, expect_int, expect_string
from chunkwise.core.driver.chunked.spec import parse_recheck
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain, inf, merge_domains
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.driver_spec import DriverSpec, SpecMembers
from chunkwise.core.specs.open_mode import OpenMode, Recheck
from chunkwise.core.specs.resource_members import take_resources
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    SpecError,
)

__all__ = [
    "MISSING_VALUE",
    "ImageSpec",
    "JsonSpec",
    "parse_avif",
    "parse_bmp",
    "parse_jpeg",
    "parse_json",
    "parse_png",
    "parse_tiff",
    "parse_webp",
    "read_at",
    "written_at",
]


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


def _take_members(members: Members, common: SpecMembers) -> dict[str, Any]:
    """Take kvstore, path, context, resources and staleness bound; return them as fields."""
    return {
        "kvstore": common.take_kvstore_and_path(members),
        "context": common.context,
        "resources": take_resources(members, SingleValueSpec.resource_kinds),
        "recheck_cached_data": members.take("recheck_cached_data", parse_recheck, "open"),
    }


_UINT8 = DataType("uint8")


def _int32(value: JSON) -> int:
    return expect_int(value, -(2**31), 2**31 - 1)


# Members of each format, with their parsers and defaults.
_MEMBERS: dict[str, dict[str, tuple[Callable[[JSON], Any], Any]]] = {
    "png": {"compression_level": (_int32, -1)},
    "jpeg": {"quality": (_int32, 75)},
    "tiff": {"page": (_int32, None)},
    "webp": {"lossless": (expect_bool, True), "quality": (_int32, 95)},
    "avif": {"quantizer": (_int32, 0), "speed": (_int32, 6)},
    "bmp": {},
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImageSpec(SingleValueSpec):
    """``{"driver": "png", "kvstore": "file:///a.png"}``; the path of the kvstore is the key."""

    name: str
    members: dict[str, Any] = field(default_factory=dict)  # the members of this format

    @property
    def driver(self) -> str:
        """Driver id, which is the name of the format."""
        return self.name

    @property
    def page(self) -> int | None:
        """Picture of a TIFF file; None if it has only one."""
        return self.members.get("page")

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return the members of the format that aren't at their default, and the staleness bound."""
        known = _MEMBERS[self.name]
        out = {
            name: value
            for name, value in self.members.items()
            if value is not None and (include_defaults or value != known[name][1])
        }
        return {**out, **self.recheck_member(include_defaults)}

    def effective_schema(self) -> Schema:
        """Return the schema; the data type and the rank are always the same."""
        return self.schema

    def with_schema(self, schema: Schema) -> Self:
        """Return the spec with further constraints."""
        if schema.rank not in (None, 3):
            raise SpecError(
                f"Rank specified by rank (3) does not match existing rank specified by schema ({schema.rank})"
            )
        if schema.dtype not in (None, _UINT8):
            assert schema.dtype is not None
            raise SpecError(f"Specified dtype ({schema.dtype.name}) does not match existing value (uint8)")
        if schema.fill_value is not None:
            raise InvalidArgumentError("fill_value not supported by image driver")
        if any(unit is not None for unit in schema.dimension_units or ()):
            raise InvalidArgumentError("dimension_units not supported by image driver")
        if schema.codec is not None:
            raise InvalidArgumentError(f'codec not supported by "{self.name}" driver')
        own = self.schema.merged(schema)
        if own.domain is not None and any(own.domain.inclusive_min):
            raise InvalidArgumentError("image domain must have 0-origin")
        return replace(self, schema=own)

    def url_suffix(self) -> str:
        """Return ``png:``."""
        return f"{self.name}:"


def _parse(name: str, members: Members, common: SpecMembers) -> ImageSpec:
    """Take the members of a spec of the driver `name`."""
    own = {member: members.take(member, *how) for member, how in _MEMBERS[name].items()}
    of_all = _take_members(members, common)
    unbounded = IndexDomain(
        inclusive_min=[0] * 3, exclusive_max=[inf + 1] * 3, implicit_upper_bounds=[True] * 3
    )
    given = common.schema
    if given.domain is not None and given.domain.rank == 3 and not any(given.domain.inclusive_min):
        given = given.with_domain(merge_domains(given.domain, unbounded))
        unbounded = unbounded if given.domain is None else given.domain
    spec = ImageSpec(
        name=name,
        schema=Schema(dtype=_UINT8, rank=3),
        members=own,
        **of_all,
    ).with_schema(given)
    return (
        spec if spec.schema.domain is not None else replace(spec, schema=spec.schema.with_domain(unbounded))
    )


parse_png = partial(_parse, "png")
parse_jpeg = partial(_parse, "jpeg")
parse_tiff = partial(_parse, "tiff")
parse_webp = partial(_parse, "webp")
parse_avif = partial(_parse, "avif")
parse_bmp = partial(_parse, "bmp")


MISSING_VALUE: Any = object()
"""Marks a value that doesn't exist yet."""

_INDEX = re.compile(r"0|[1-9][0-9]*")
_LARGEST_INDEX = 2**64 - 1


def _parse_pointer(pointer: str) -> tuple[str, ...]:
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
        return _parse_pointer(self.pointer)

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
    of_all = _take_members(members, common)
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
    _parse_pointer(pointer)
    return pointer
