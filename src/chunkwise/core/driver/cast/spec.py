"""Specs of the driver ``cast``: an array seen with another data type.

Configuration
-------------
>>> from chunkwise.core.specs.spec import Spec
>>> base = {"driver": "array", "array": [1, 2], "dtype": "uint8"}
>>> Spec({"driver": "cast", "base": base, "dtype": "float32"}).dtype
dtype("float32")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from chunkwise.core.base.binding import JSON, Members
from chunkwise.core.driver.adapter_spec import AdapterSpec, constrained, parse_base
from chunkwise.core.dtypes.conversion import converter, convertible
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec

__all__ = ["CastSpec", "cast_schema", "parse_cast"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CastSpec(AdapterSpec):
    """``{"driver": "cast", "base": …, "dtype": …}``; the schema has only the data type."""

    driver: ClassVar[str] = "cast"
    shows_rank: ClassVar[bool] = False

    def part_members(self, include_defaults: bool, names: Mapping[int, str]) -> dict[str, JSON]:
        """Return the base, without a rank that its domain implies."""
        base = self.base._named_json(include_defaults, names)
        if not include_defaults and self.base._driver.domain is not None:
            base.pop("rank", None)
        return {"base": base}

    def effective_schema(self) -> Schema:
        """Return the schema of the base, with the new type."""
        return cast_schema(self.base.schema, self.schema.dtype)

    def url_suffix(self) -> str:
        """Return the URL after the kvstore: the base, and the cast."""
        dtype = self.schema.dtype
        assert dtype is not None
        return f"{self.base._driver.url_suffix()}|cast:{dtype.name}"

    def with_schema(self, schema: Schema) -> Self:
        """Return the spec with further constraints; all except the type apply to the base."""
        own = self.schema.merged(Schema(dtype=schema.dtype) if schema.dtype is not None else Schema())
        rest = cast_schema(schema, self.base.dtype)
        return replace(self, schema=own, base=constrained(self.base, rest))

    def base_spec(self, transform: IndexTransform | None) -> Spec:
        """Return the view of the base for a view of this spec."""
        if transform is None:
            return self.base
        driver, domain = self.base._driver, self.base._driver.domain
        if self.base.transform is not None or domain is None:
            return self.base[transform]
        return Spec._of(driver, IndexTransform.identity(domain).compose(transform))


def cast_schema(schema: Schema, dtype: DataType | None) -> Schema:
    """Return `schema` for another data type, with its fill value converted, or dropped if impossible."""
    out = schema.copy()
    source = schema.dtype
    if source is dtype:
        return out
    fill = schema.fill_value if source is None else schema.converted_fill_value(source)
    out._dtype = dtype
    if fill is not None and source is not None and dtype is not None:
        out._fill = converter(source, dtype)(fill) if convertible(source, dtype) else None
    return out


def parse_cast(members: Members, common: SpecMembers) -> CastSpec:
    """Take the members of a spec of this driver."""
    base = members.take("base", parse_base, example="file:///data/a.zarr/|zarr3:")
    dtype = common.schema.dtype
    spec = CastSpec(schema=Schema(dtype=dtype), context=common.context, base=base)
    rest = common.schema.copy()
    rest._dtype = None
    return spec.with_schema(rest)
