"""Specs of the drivers ``png``, ``jpeg``, ``tiff``, ``webp``, ``avif`` and ``bmp``: one picture as an array.

Compatibility
-------------
As in TensorStore arrays are ``(y, x, channel)`` of ``uint8`` and can be read only; members about encoding
(``quality``) are read and shown, as there, and say nothing about what is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from chunkwise.binding import JSON, Members, expect_bool, expect_int
from chunkwise.driver.single_value_spec import SingleValueSpec, take_members
from chunkwise.dtypes.data_type import DataType
from chunkwise.errors import InvalidArgumentError, SpecError
from chunkwise.index_space import IndexDomain, inf, merge_domains
from chunkwise.spec.schema import Schema
from chunkwise.spec.spec_members import SpecMembers

__all__ = ["ImageSpec", "parse_avif", "parse_bmp", "parse_jpeg", "parse_png", "parse_tiff", "parse_webp"]

_UINT8 = DataType("uint8")


def _int32(value: JSON) -> int:
    return expect_int(value, -(2**31), 2**31 - 1)


_DEFAULTS: dict[str, dict[str, Any]] = {
    "png": {"compression_level": -1},
    "jpeg": {"quality": 75},
    "tiff": {"page": None},
    "webp": {"lossless": True, "quality": 95},
    "avif": {"quantizer": 0, "speed": 6},
    "bmp": {},
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImageSpec(SingleValueSpec):
    """``{"driver": "png", "kvstore": "file:///a.png"}``; the path of the kvstore is the key."""

    name: str
    members: dict[str, Any] = field(default_factory=dict)  # those of this format

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
        defaults = _DEFAULTS[self.name]
        out = {
            name: value
            for name, value in self.members.items()
            if value is not None and (include_defaults or value != defaults[name])
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


def _parse(name: str, members: Members, common: SpecMembers, **own: Any) -> ImageSpec:
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


def parse_png(members: Members, common: SpecMembers) -> ImageSpec:
    """Take the members of a spec of the driver ``png``."""
    return _parse(
        "png",
        members,
        common,
        compression_level=members.take("compression_level", _int32, -1),
    )


def parse_jpeg(members: Members, common: SpecMembers) -> ImageSpec:
    """Take the members of a spec of the driver ``jpeg``."""
    return _parse(
        "jpeg",
        members,
        common,
        quality=members.take("quality", _int32, 75),
    )


def parse_tiff(members: Members, common: SpecMembers) -> ImageSpec:
    """Take the members of a spec of the driver ``tiff``."""
    return _parse(
        "tiff",
        members,
        common,
        page=members.take("page", _int32, None),
    )


def parse_webp(members: Members, common: SpecMembers) -> ImageSpec:
    """Take the members of a spec of the driver ``webp``."""
    return _parse(
        "webp",
        members,
        common,
        lossless=members.take("lossless", expect_bool, True),
        quality=members.take("quality", _int32, 95),
    )


def parse_avif(members: Members, common: SpecMembers) -> ImageSpec:
    """Take the members of a spec of the driver ``avif``."""
    return _parse(
        "avif",
        members,
        common,
        quantizer=members.take("quantizer", _int32, 0),
        speed=members.take("speed", _int32, 6),
    )


def parse_bmp(members: Members, common: SpecMembers) -> ImageSpec:
    """Take the members of a spec of the driver ``bmp``."""
    return _parse("bmp", members, common)
