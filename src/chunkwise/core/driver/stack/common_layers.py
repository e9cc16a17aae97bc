"""The properties that the layers of a stack share: rank, data type, the hull of their domains, units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import ge
from typing import NamedTuple

from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain, inf
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import DimensionUnits
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, prefix

__all__ = ["Common", "combine_layers", "common_units", "final_domain"]


class Common(NamedTuple):
    """The properties that the layers share."""

    dtype: DataType
    domain: IndexDomain | None  # hull of the non-empty domains; None without layers


def combine_layers(
    layers: Iterable[tuple[DataType | None, IndexDomain | None]],
    dtype: DataType | None,
    rank: int | None,
) -> Common:
    """Return the common data type and domain of layers; raise with the number of a layer that differs."""
    lower: list[int] = []
    upper: list[int] = []
    labels: tuple[str, ...] = ()
    hull: IndexDomain | None = None
    empty = True
    for i, (own_type, domain) in enumerate(layers):
        try:
            if domain is not None:
                if rank is not None and domain.rank != rank:
                    raise InvalidArgumentError(
                        f"Rank of {domain.rank} does not match existing rank of {rank}"
                    )
                rank = domain.rank
            if own_type is not None:
                if dtype is not None and own_type is not dtype:
                    raise InvalidArgumentError(
                        f"Specified dtype ({own_type.name}) does not match existing value ({dtype.name})"
                    )
                dtype = own_type
            if domain is None:
                raise InvalidArgumentError("Domain must be specified")
            # A shortcut for the common case of many layers without labels.
            if empty or domain._labels != labels or any(map(ge, domain._lo, domain._hi)):
                hull = domain if hull is None else _box(lower, upper, labels).hull(domain)
                lower, upper = list(hull.inclusive_min), list(hull.exclusive_max)
                labels = hull.labels
                hull = _box(lower, upper, labels)
                empty = 0 in hull.shape
                continue
            lower = list(map(min, lower, domain._lo))
            upper = list(map(max, upper, domain._hi))
        except ChunkwiseError as e:
            raise prefix(e, f"Layer {i}") from None
    if dtype is None:
        raise InvalidArgumentError("dtype must be specified")
    return Common(dtype, None if hull is None else _box(lower, upper, labels))


def _box(lower: Sequence[int], upper: Sequence[int], labels: Sequence[str]) -> IndexDomain:
    n = len(lower)
    return IndexDomain(
        inclusive_min=lower,
        exclusive_max=upper,
        labels=labels,
        implicit_lower_bounds=[False] * n,
        implicit_upper_bounds=[False] * n,
    )


def final_domain(domain: IndexDomain | None, hull: IndexDomain | None) -> IndexDomain:
    """Return the domain of a stack, with explicit bounds."""
    # If a bound of `domain`, from a schema, is implicit and infinite, the layers' `hull` has the bound.
    if domain is None and hull is None:
        raise InvalidArgumentError("A stack without layers requires a domain")
    if domain is None or hull is None:
        only = hull if domain is None else domain
        assert only is not None
        return _box(only.inclusive_min, only.exclusive_max, only.labels)
    if domain.rank != hull.rank:
        raise InvalidArgumentError(f"Rank of {hull.rank} does not match existing rank of {domain.rank}")
    lower, upper, labels = [], [], []
    for own, other in zip(domain, hull, strict=True):
        free = own.inclusive_min == -inf and own.implicit_lower
        lower.append(other.inclusive_min if free else own.inclusive_min)
        free = own.exclusive_max == inf + 1 and own.implicit_upper
        upper.append(other.exclusive_max if free else own.exclusive_max)
        if own.label and other.label and own.label != other.label:
            raise InvalidArgumentError(
                f"Cannot constrain index domain {domain} with index domain {hull}: labels do not match"
            )
        labels.append(own.label or other.label)
    return _box(lower, [max(a, b) for a, b in zip(lower, upper, strict=True)], labels)


def common_units(schemas: Iterable[Schema], rank: int) -> DimensionUnits:
    """Return the unit of each dimension on which all schemas with a unit agree, or None."""
    found: list[set[object]] = [set() for _ in range(rank)]
    units: list[object] = [None] * rank
    for schema in schemas:
        for d, unit in enumerate(schema.dimension_units or ()):
            if unit is not None:
                found[d].add((unit.multiplier, unit.base_unit))
                units[d] = unit
    return tuple(u if len(f) == 1 else None for u, f in zip(units, found, strict=True))  # type: ignore[misc]
