"""A physical unit, a multiplier and the name of a base unit, as in ``4 nm``, and units of dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import copysign, inf, isinf, isnan, nan
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, overload

from chunkwise.core.base.binding import JSON, dump, expect_number, expect_string, parse_array
from chunkwise.core.index_space.dim import escape
from chunkwise.errors import InvalidArgumentError, SpecError

if TYPE_CHECKING:
    from chunkwise.core.specs.chunk_layout import DimensionLink

__all__ = [
    "DimensionUnits",
    "Unit",
    "as_dimension_units",
    "dimension_units_from_json",
    "dimension_units_to_json",
    "format_dimension_units",
    "inverse_view_units",
    "merge_dimension_units",
    "parse_unit",
    "unit_text",
    "view_units",
]

_SPACE = " \t\n\v\f\r"
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_UNSET: Any = object()


class Unit:
    """A multiple of a base unit, such as 4 nanometres.

    The base unit is any text; nothing is known about it, so ``Unit("4 nm")`` and ``Unit("0.004 um")``
    differ.

    Parameters
    ----------
    multiplier : float, str or pair
        The multiplier; or text like ``"4 nm"``, with the multiplier (1 if missing) and the base unit; or a
        pair ``(multiplier, base_unit)``.
    base_unit : str, optional
        Only with a number as `multiplier`.  By default the empty string, a dimensionless unit.
    json : optional
        The JSON form instead: a number, text, or ``[multiplier, base_unit]``.

    Raises
    ------
    TypeError
        If the arguments are none of these.
    ValueError
        If `json` is malformed.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.Unit("4e3 nm")
    Unit(4000, "nm")
    >>> str(chunkwise.Unit(2.5, "s") * 2)
    '5 s'
    """

    __slots__ = ("__weakref__", "_base_unit", "_multiplier")
    __hash__ = None  # type: ignore[assignment]

    _multiplier: float
    _base_unit: str

    @overload
    def __init__(self, multiplier: float = 1) -> None: ...
    @overload
    def __init__(self, multiplier: float, base_unit: str) -> None: ...
    @overload
    def __init__(self, unit: str | tuple[float, str]) -> None: ...
    @overload
    def __init__(self, *, json: JSON) -> None: ...
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        parsed = _arguments(*args, **kwargs) if len(args) <= 2 else None
        if parsed is None:
            given = [repr(a) for a in args] + [f"{k}={v!r}" for k, v in kwargs.items()]
            raise TypeError(
                "Unit takes a number, a number and a base unit, text, a (number, text) pair, or json=, "
                f"but was given: {', '.join(given)}"
            )
        self._multiplier, self._base_unit = parsed

    @property
    def multiplier(self) -> float:
        """Number of base units."""
        return self._multiplier

    @property
    def base_unit(self) -> str:
        """Name of the base unit; empty if dimensionless."""
        return self._base_unit

    def to_json(self) -> list[float | str]:
        """Return ``[multiplier, base_unit]``."""
        return [self._multiplier, self._base_unit]

    def __repr__(self) -> str:
        return f'Unit({self._multiplier:.6g}, "{escape(self._base_unit)}")'

    def __str__(self) -> str:
        if not self._base_unit:
            return f"{self._multiplier:.6g}"
        if self._multiplier == 1:
            return self._base_unit
        return f"{self._multiplier:.6g} {self._base_unit}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Unit):
            raise TypeError(f"Unit can only be compared with Unit, not with {type(other).__name__}")
        return self._multiplier == other._multiplier and self._base_unit == other._base_unit

    def __mul__(self, factor: float) -> Unit:
        return Unit(self._multiplier * _factor(factor, "multiplied"), self._base_unit)

    def __truediv__(self, divisor: float) -> Unit:
        return Unit(_divide(self._multiplier, _factor(divisor, "divided")), self._base_unit)

    def __reduce__(self) -> tuple[Any, ...]:
        return Unit, (self._multiplier, self._base_unit)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Unit.__slots__ or hasattr(self, name):
            _refuse(name)
        object.__setattr__(self, name, value)


def _arguments(
    value: Any = _UNSET,
    /,
    base_unit: Any = _UNSET,
    *,
    multiplier: Any = _UNSET,
    unit: Any = _UNSET,
    json: Any = _UNSET,
    **unknown: Any,
) -> tuple[float, str] | None:
    """Return multiplier and base unit from the constructor's arguments; None if these are invalid."""
    if unknown or sum(x is not _UNSET for x in (value, multiplier, unit, json)) > 1:
        return None
    if json is not _UNSET:
        return _parse_json(json) if base_unit is _UNSET else None
    if base_unit is not _UNSET:
        return _pair(multiplier if value is _UNSET else value, base_unit)
    if multiplier is not _UNSET:
        return _pair(multiplier, "")
    if unit is _UNSET:
        number = 1.0 if value is _UNSET else _as_float(value)
        if number is not None:
            return number, ""
        unit = value
    if isinstance(unit, bytes):
        unit = unit.decode()
    if isinstance(unit, str):
        return _parse_text(unit)
    if isinstance(unit, tuple | list) and len(unit) == 2:
        return _pair(*unit)
    return None


def _pair(multiplier: Any, base_unit: Any) -> tuple[float, str] | None:
    number = _as_float(multiplier)
    if isinstance(base_unit, bytes):
        base_unit = base_unit.decode()
    return (number, base_unit) if number is not None and isinstance(base_unit, str) else None


def _as_float(value: Any) -> float | None:
    if isinstance(value, str | bytes) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        return None
    try:
        return float(value)
    except (TypeError, OverflowError):
        return None


def _parse_text(text: str) -> tuple[float, str]:
    text = text.strip(_SPACE)
    found = re.match(_NUMBER, text)
    if found is None:
        return 1.0, text
    number = float(found[0])
    underflow = number == 0 and any(c in "123456789" for c in re.split("[eE]", found[0])[0])
    if isinf(number) or underflow:
        return 1.0, text
    return number, text[found.end() :].lstrip(_SPACE.replace("\v", ""))


def _parse_json(value: JSON) -> tuple[float, str]:
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return expect_number(value), ""
    positions = iter((_expect_positive, expect_string))
    number, base_unit = parse_array(value, lambda item: next(positions)(item), 2)
    return number, base_unit  # type: ignore[return-value]


def _expect_positive(value: JSON) -> float:
    number = expect_number(value)
    if not 0 < number < inf:
        raise SpecError(f"Expected finite positive number, but received: {dump(number)}")
    return number


def _factor(value: Any, what: str) -> float:
    number = _as_float(value)
    if number is None:
        raise TypeError(f"Unit can only be {what} by a number, not by {type(value).__name__}")
    return number


def _divide(number: float, divisor: float) -> float:
    """Return the quotient, infinite or NaN if `divisor` is zero."""
    if divisor:
        return number / divisor
    return nan if number == 0 or isnan(number) else copysign(inf, number) * copysign(1, divisor)


def _refuse(name: str) -> NoReturn:
    raise AttributeError(f"Unit is immutable: {name!r} can't be set")


def parse_unit(text: str) -> Unit | None:
    """Return the unit named `text`; None for ``none`` and the empty string."""
    return None if text.strip().lower() in ("", "none") else Unit(text)


def unit_text(unit: str) -> str:
    """Return a unit, perhaps after a number, as people write it.

    >>> unit_text("um"), unit_text("0.5 us"), unit_text("nm"), unit_text("um^2")
    ('µm', '0.5 µs', 'nm', 'um^2')
    """
    number, space, symbol = unit.rpartition(" ")
    return f"{number}{space}µ{symbol[1:]}" if symbol in ("um", "us") else unit


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
