"""``units`` and ``resolution`` of N5 metadata, and dimension units: the base unit and its multiplier.

N5 has units for all dimensions or for none.  ``resolution`` alone says nothing about units.
"""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise.errors import InvalidArgumentError
from chunkwise.spec.dimension_units import format_dimension_units, merge_dimension_units
from chunkwise.spec.unit import Unit

__all__ = ["choose_units", "units_of"]


def units_of(units: Sequence[str] | None, resolution: Sequence[float] | None) -> tuple[Unit, ...] | None:
    """Return the dimension units that the two members mean; None if they mean none."""
    if units is None:
        return None
    factors = resolution if resolution is not None else (1.0,) * len(units)
    return tuple(Unit(factor, unit) for factor, unit in zip(factors, units, strict=True))


def choose_units(
    units: tuple[str, ...] | None,
    resolution: tuple[float, ...] | None,
    wanted: Sequence[Unit | None] | None,
) -> tuple[tuple[str, ...] | None, tuple[float, ...] | None]:
    """Return ``units`` and ``resolution`` of a new dataset."""
    if wanted is None or all(unit is None for unit in wanted):
        return units, resolution if units is None or resolution is not None else (1.0,) * len(units)
    if units is not None:
        merge_dimension_units(wanted, units_of(units, resolution))
        return units, resolution if resolution is not None else (1.0,) * len(units)
    if resolution is None:
        resolution = tuple(1.0 if unit is None else unit.multiplier for unit in wanted)
    elif any(unit is not None and unit.multiplier != r for unit, r in zip(wanted, resolution, strict=True)):
        factors = ", ".join(f"{factor:.6g}" for factor in resolution)
        raise InvalidArgumentError(
            f'"resolution" from metadata {{{factors}}} does not match dimension units from schema '
            f"{format_dimension_units(wanted)}"
        )
    return tuple("" if unit is None else unit.base_unit for unit in wanted), resolution
