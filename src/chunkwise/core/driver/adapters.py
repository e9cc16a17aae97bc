"""Specs of arrays that adapt another one: ``cast`` has another data type, ``downsample`` a lower resolution.

A dimension of cells in order becomes, in a view of a downsampled array, the dimension of their elements.
Otherwise the view of the base has a further dimension for the elements of each cell; at the bounds of the
base these are repeated, so that all cells have the same size.

Configuration
-------------
>>> from chunkwise.core.specs.spec import Spec
>>> base = {"driver": "array", "array": [1, 2], "dtype": "uint8"}
>>> Spec({"driver": "cast", "base": base, "dtype": "float32"}).dtype
dtype("float32")
>>> base = {"driver": "array", "array": [1, 2, 5], "dtype": "uint8"}
>>> json = {"driver": "downsample", "base": base, "downsample_factors": [2], "downsample_method": "mean"}
>>> Spec(json).shape
(2,)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, MISSING, Members, expect_int, expect_one_of, parse_array
from chunkwise.core.dtypes.conversion import converter, convertible
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain, IndexTransform, OutputIndexMap, inf
from chunkwise.core.specs.driver_spec import DriverSpec, SpecMembers
from chunkwise.core.specs.kvstore_spec import KvStoreSpec
from chunkwise.core.specs.open_mode import OpenMode, Recheck
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec, parse_driver_spec
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = [
    "METHODS",
    "CastSpec",
    "DownsampleSpec",
    "base_view",
    "cast_schema",
    "check_factors",
    "check_method",
    "constrained",
    "downsampled_domain",
    "downsampled_schema",
    "first_elements",
    "parse_base",
    "parse_cast",
    "parse_downsample",
]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AdapterSpec(DriverSpec):
    """A spec with the member ``base``, to which the options for opening apply."""

    base: Spec

    @property
    def open_mode(self) -> OpenMode:
        """Open mode of the base."""
        return self.base._driver.open_mode

    def own_mode(self) -> OpenMode:
        """Return the open mode of the base, as far as it is given."""
        return self.base._driver.own_mode()

    def with_open_mode(self, mode: OpenMode) -> Self:
        """Return the spec with another open mode of the base."""
        return self.with_base(self.base._driver.with_open_mode(mode))

    def with_recheck(self, **bounds: Recheck) -> Self:
        """Return the spec with other staleness bounds of the base."""
        return self.with_base(self.base._driver.with_recheck(**bounds)) if bounds else self

    def minimal(self) -> Self:
        """Return the spec with the minimal spec of the base."""
        return self.with_base(self.base._driver.minimal())

    def with_kvstore(self, kvstore: KvStoreSpec) -> Self:
        """Return the spec with a kvstore for the base."""
        return self.with_base(self.base._driver.with_kvstore(kvstore))

    @property
    def key_value_store(self) -> KvStoreSpec | None:
        """The kvstore of the base."""
        return self.base._driver.key_value_store

    def part_members(self, include_defaults: bool, names: Mapping[int, str]) -> dict[str, JSON]:
        """Return the base."""
        return {"base": self.base._named_json(include_defaults, names)}

    def parts(self) -> tuple[DriverSpec | KvStoreSpec, ...]:
        """Return the driver spec of the base."""
        return (self.base._driver,)

    def with_parts(self, parts: tuple[DriverSpec | KvStoreSpec, ...]) -> Self:
        """Return the spec with another driver spec for the base."""
        (part,) = parts
        assert isinstance(part, DriverSpec)
        return self.with_base(part)

    def with_base(self, driver: DriverSpec) -> Self:
        """Return the spec over another driver spec, with the transform of the base."""
        return replace(self, base=Spec._of(driver, self.base._transform))


def parse_base(value: JSON) -> Spec:
    """Read a member that is an array: an object or a URL."""
    if value is MISSING:
        raise SpecError("Expected object, but member is missing")
    return parse_driver_spec(value)


def constrained(base: Spec, schema: Schema) -> Spec:
    """Return `base` with further constraints in its index space."""
    out = base.copy()
    given = schema.copy()
    given._dtype = out.dtype if out.dtype is not None else given._dtype
    if given != Schema(dtype=given._dtype):
        out.update(schema=given)
    return out


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


def base_view(
    transform: IndexTransform, factors: Sequence[int], base: IndexDomain, method: str
) -> IndexTransform:
    """Return the transform to `base` from the elements of the cells that `transform` selects."""
    if method == "stride":
        return first_elements(transform, factors)
    rank = transform.input_rank
    used = [d for m in transform.output for d in _inputs(m)]
    in_place = [
        f == 1 or (m.input_dimension is not None and m.stride == 1 and used.count(m.input_dimension) == 1)
        for m, f in zip(transform.output, factors, strict=True)
    ]
    lower, upper = list(transform.input_inclusive_min), list(transform.input_exclusive_max)
    total = rank + in_place.count(False)
    output = []
    for o, (m, f) in enumerate(zip(transform.output, factors, strict=True)):
        lo, hi, d = base.inclusive_min[o], base.exclusive_max[o], m.input_dimension
        if f == 1:
            output.append(m if m.index_array is None else OutputIndexMap(_indices(m, transform, total)))
        elif in_place[o]:
            assert d is not None
            first = m.offset * f
            lower[d] = lower[d] if lower[d] == -inf else max(lo, first + lower[d] * f) - first
            upper[d] = upper[d] if upper[d] == inf + 1 else min(hi, first + upper[d] * f) - first
            upper[d] = max(lower[d], upper[d])
            output.append(OutputIndexMap(input_dimension=d, offset=first))
        else:
            axis, first_of = len(lower), _indices(m, transform, total) * f
            if first_of.size == 1:
                first = int(first_of.item())
                lower.append(max(0, lo - first))
                upper.append(min(f, hi - first))
                output.append(OutputIndexMap(input_dimension=axis, offset=first))
                continue
            lower.append(0)
            upper.append(f)
            within = np.arange(f).reshape([-1 if i == axis else 1 for i in range(total)])
            output.append(OutputIndexMap((first_of + within).clip(lo, hi - 1)))
    labels = (*transform.input_labels, *[""] * (total - rank))
    return IndexTransform(IndexDomain(inclusive_min=lower, exclusive_max=upper, labels=labels), output)


def _inputs(m: OutputIndexMap) -> Iterator[int]:
    """Yield the input dimensions that a map depends on."""
    if m.input_dimension is not None:
        yield m.input_dimension
    elif m.index_array is not None:
        yield from (d for d, n in enumerate(m.index_array.shape) if n != 1)


def _indices(m: OutputIndexMap, transform: IndexTransform, rank: int) -> npt.NDArray[np.int64]:
    """Return the output indices of a map, as an array of `rank` with the input dimensions first."""
    if m.index_array is not None:
        assert m.stride is not None
        values, shape = m.offset + m.stride * m.index_array, list(m.index_array.shape)
    elif m.input_dimension is not None:
        assert m.stride is not None
        d = m.input_dimension
        along = np.arange(transform.input_inclusive_min[d], transform.input_exclusive_max[d])
        values, shape = m.offset + m.stride * along, [-1 if i == d else 1 for i in range(rank)]
    else:
        values, shape = np.array(m.offset), []
    return values.reshape(shape + [1] * (rank - len(shape)))


def first_elements(transform: IndexTransform, factors: Sequence[int]) -> IndexTransform:
    """Return the transform to the first element of each cell."""
    output = []
    for m, f in zip(transform.output, factors, strict=True):
        offset = m.offset * f
        if m.stride is None:
            output.append(OutputIndexMap(offset))
        elif m.index_array is not None:
            output.append(OutputIndexMap(m.index_array, offset=offset, stride=m.stride * f))
        else:
            assert m.input_dimension is not None
            output.append(
                OutputIndexMap(input_dimension=m.input_dimension, offset=offset, stride=m.stride * f)
            )
    return IndexTransform(transform.domain, output)


METHODS = ("stride", "mean", "min", "max", "median", "mode")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DownsampleSpec(AdapterSpec):
    """``{"driver": "downsample", "base": …, "downsample_factors": …, "downsample_method": …}``."""

    driver: ClassVar[str] = "downsample"

    factors: tuple[int, ...]  # size of a cell along each dimension of the base
    method: str

    def own_members(self, include_defaults: bool) -> dict[str, JSON]:
        """Return factors and method."""
        return {"downsample_factors": list(self.factors), "downsample_method": self.method}

    def part_members(self, include_defaults: bool, names: Mapping[int, str]) -> dict[str, JSON]:
        """Return the base, without members that are the same for the whole spec."""
        base = self.base._named_json(include_defaults, names)
        base.pop("dtype", None)
        if not include_defaults:
            base.pop("rank", None)
        return {"base": base}

    def effective_schema(self) -> Schema:
        """Return the schema of the base, at the lower resolution."""
        known = downsampled_schema(self.base.schema, self.factors, self.method)
        return known if self.schema.domain is None else known.with_domain(self.schema.domain)

    def with_schema(self, schema: Schema) -> Self:
        """Return the spec with further constraints; those on type, units and chunks apply to the base."""
        if schema.fill_value is not None:
            raise InvalidArgumentError(
                "Error transforming fill_value: "
                "Cannot transform input array through non-unit-stride output index map"
            )
        rank = len(self.factors)
        stride = IndexTransform(
            IndexDomain(rank=rank),
            [OutputIndexMap(input_dimension=d, stride=f) for d, f in enumerate(self.factors)],
        )
        # The downsampled domain does not determine the domain of the base.
        rest = schema.with_domain(None).inverse_transformed(stride)
        own = self.schema.merged(Schema(rank=rank) if schema.domain is None else Schema(domain=schema.domain))
        return replace(self, schema=own, base=constrained(self.base, rest))

    def base_spec(self, transform: IndexTransform | None) -> Spec:
        """Return the view of the base for a view of this spec."""
        if transform is None:
            return self.base
        domain = self.base.domain or IndexDomain(rank=len(self.factors))
        return self.base[base_view(transform, self.factors, domain, self.method)]


def downsampled_domain(domain: IndexDomain, factors: Sequence[int], method: str) -> IndexDomain:
    """Return the downsampled domain of an array with `domain`."""
    lower, upper = [], []
    for lo, hi, f in zip(domain.inclusive_min, domain.exclusive_max, factors, strict=True):
        start = lo if lo == -inf else -(-lo // f) if method == "stride" else lo // f
        stop = hi if hi == inf + 1 else -(-hi // f)
        lower.append(start)
        upper.append(start if lo == hi else max(start, stop))
    return IndexDomain(
        inclusive_min=lower,
        exclusive_max=upper,
        implicit_lower_bounds=domain.implicit_lower_bounds,
        implicit_upper_bounds=domain.implicit_upper_bounds,
        labels=domain.labels,
    )


def downsampled_schema(schema: Schema, factors: Sequence[int], method: str) -> Schema:
    """Return the downsampled schema of an array with `schema`."""
    rank = len(factors)
    labels = schema.domain.labels if schema.domain is not None else None
    stride = IndexTransform(
        IndexDomain(rank=rank, labels=labels),
        [OutputIndexMap(input_dimension=d, stride=f) for d, f in enumerate(factors)],
    )
    fill = schema._fill
    if fill is not None and fill.ndim:
        schema = schema.copy()
        schema._fill = None
    out = schema.transformed(stride)
    if schema.domain is None:
        return out.with_domain(None)
    return out.with_domain(downsampled_domain(schema.domain, factors, method))


def check_method(method: JSON) -> str:
    """Return `method` if it is valid; raise InvalidArgumentError if not."""
    if method is MISSING:
        choices = ", ".join(f'"{name}"' for name in METHODS)
        raise SpecError(f"Expected one of {choices}, but member is missing")
    expect_one_of(method, METHODS)
    return str(method)


def check_factors(factors: Sequence[int], rank: int | None) -> tuple[int, ...]:
    """Return `factors` if there are `rank` positive ones; raise InvalidArgumentError if not."""
    if rank is not None and len(factors) != rank:
        raise InvalidArgumentError(
            f"Number of downsample factors ({len(factors)}) does not match TensorStore rank ({rank})"
        )
    if any(f < 1 for f in factors):
        raise InvalidArgumentError(
            f"Downsample factors {{{', '.join(map(str, factors))}}} are not all positive"
        )
    return tuple(factors)


def parse_downsample(members: Members, common: SpecMembers) -> DownsampleSpec:
    """Take the members of a spec of this driver."""

    def take_base(value: JSON) -> Spec:
        # The base of a spec that was made from an array has no type of its own.
        if isinstance(value, dict) and common.schema.dtype is not None:
            value = {"dtype": common.schema.dtype.name, **value}
        return parse_base(value)

    base = members.take("base", take_base, example="file:///data/a.zarr/|zarr3:")

    def take_factors(value: JSON) -> tuple[int, ...]:
        if value is MISSING:
            raise SpecError("Expected array, but member is missing")
        found = tuple(parse_array(value, partial(expect_int, lo=1, hi=2**63 - 1)))
        for known in (common.schema.rank, base.rank):
            if known is not None and known != len(found):
                raise SpecError(
                    f"Rank specified by rank ({len(found)}) does not match "
                    f"existing rank specified by schema ({known})"
                )
        return found

    factors = members.take("downsample_factors", take_factors)
    method = members.take("downsample_method", check_method)
    rank = Schema(rank=len(factors))
    spec = DownsampleSpec(
        schema=rank,
        context=common.context,
        base=constrained(base, rank),
        factors=factors,
        method=method,
    )
    return spec.with_schema(common.schema.merged(rank))
