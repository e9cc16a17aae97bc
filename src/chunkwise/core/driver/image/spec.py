"""Specs of the drivers ``png``, ``jpeg``, ``tiff``, ``webp``, ``avif`` and ``bmp``: one picture as an array.

Compatibility
-------------
As in TensorStore, arrays are ``(y, x, channel)`` of ``uint8`` and read-only; members about encoding
(``quality``) are accepted and shown, but have no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

from chunkwise.core.base.binding import JSON, Members, expect_bool, expect_int
from chunkwise.core.driver.single_value_spec import SingleValueSpec, take_members
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain, inf, merge_domains
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = ["ImageSpec", "parse_avif", "parse_bmp", "parse_jpeg", "parse_png", "parse_tiff", "parse_webp"]

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
    of_all = take_members(members, common)
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
