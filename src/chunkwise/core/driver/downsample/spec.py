"""Specs of the driver ``downsample``: an array at a lower resolution, computed on reading.

Configuration
-------------
>>> from chunkwise.core.specs.spec import Spec
>>> base = {"driver": "array", "array": [1, 2, 5], "dtype": "uint8"}
>>> json = {"driver": "downsample", "base": base, "downsample_factors": [2], "downsample_method": "mean"}
>>> Spec(json).shape
(2,)

Views of a downsampled array as views of its base.

A dimension of cells in order becomes the dimension of their elements.  Otherwise the view has a further
dimension for the elements of each cell; at the bounds of the base these are repeated, so that all cells have
the same size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, MISSING, Members, expect_int, expect_one_of, parse_array
from chunkwise.core.driver.adapter_spec import AdapterSpec, constrained, parse_base
from chunkwise.core.index_space import IndexDomain, IndexTransform, OutputIndexMap, inf
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = [
    "METHODS",
    "DownsampleSpec",
    "base_view",
    "check_factors",
    "check_method",
    "downsampled_domain",
    "downsampled_schema",
    "first_elements",
    "parse_downsample",
]


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
