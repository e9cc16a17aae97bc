"""Units of the dimensions of an array: reading users' input, merging, printing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from chunkwise.core.base.binding import JSON, dump, parse_array
from chunkwise.core.specs.unit import Unit
from chunkwise.errors import InvalidArgumentError

if TYPE_CHECKING:
    from chunkwise.core.specs.layout_view import DimensionLink

__all__ = [
    "DimensionUnits",
    "as_dimension_units",
    "dimension_units_from_json",
    "dimension_units_to_json",
    "format_dimension_units",
    "inverse_view_units",
    "merge_dimension_units",
    "view_units",
]

DimensionUnits: TypeAlias = tuple[Unit | None, ...]


def as_dimension_units(units: Iterable[Any]) -> DimensionUnits:
    """Return units given as Unit, text, number, ``(number, text)`` or None, one for each dimension."""
    return tuple(u if u is None or isinstance(u, Unit) else Unit(u) for u in units)


def dimension_units_from_json(value: JSON) -> DimensionUnits:
    """Read a JSON array of units and nulls."""
    return tuple(parse_array(value, lambda v: None if v is None else Unit(json=v)))


def dimension_units_to_json(units: DimensionUnits) -> list[JSON]:
    """Return the JSON array of units."""
    return [None if u is None else u.to_json() for u in units]


def format_dimension_units(units: Sequence[Unit | None]) -> str:
    """Return units as in messages: ``["5 nm", null]``."""
    return "[" + ", ".join("null" if u is None else dump(str(u)) for u in units) + "]"


def merge_dimension_units(
    a: Sequence[Unit | None] | None, b: Sequence[Unit | None] | None
) -> DimensionUnits | None:
    """Return the units that satisfy both; None matches any unit."""
    if a is None or b is None:
        one = a if b is None else b
        return None if one is None else tuple(one)
    if len(a) != len(b) or any(x is not None and y is not None and x != y for x, y in zip(a, b, strict=True)):
        raise InvalidArgumentError(
            f"Cannot merge dimension units {format_dimension_units(a)} and {format_dimension_units(b)}"
        )
    return tuple(x if y is None else y for x, y in zip(a, b, strict=True))


def view_units(units: DimensionUnits, links: Sequence[DimensionLink | None]) -> DimensionUnits:
    """Return the units of a view whose dimensions are linked to the array's by `links`."""
    # One step of the view is `stride` steps of the array.
    found = [(None if link is None else units[link.dim], link) for link in links]
    return tuple(None if u is None or link is None else u * abs(link.stride) for u, link in found)


def inverse_view_units(units: DimensionUnits, links: Sequence[DimensionLink | None]) -> DimensionUnits:
    """Return the units of an array whose view has `units`; `links` connects the dimensions."""
    used = {link.dim for link in links if link is not None}
    for dim, unit in enumerate(units):
        if unit is not None and dim not in used:
            raise InvalidArgumentError(
                f"No output dimension corresponds to input dimension {dim} with unit {unit}"
            )
    found = [(None if link is None else units[link.dim], link) for link in links]
    return tuple(None if u is None or link is None else u / abs(link.stride) for u, link in found)
