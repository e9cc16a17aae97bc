"""The JSON form of a domain, which is also the input part of a transform's JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chunkwise.core.base.binding import JSON, Members, dump, expect_int, expect_string, parse_array
from chunkwise.core.index_space.dim import Bounds
from chunkwise.core.index_space.interval import INF, UPPER, half_open
from chunkwise.core.index_space.label import MAX_RANK, check_unique
from chunkwise.core.index_space.transform_args import upper_interval
from chunkwise.errors import SpecError

__all__ = ["bound_to_json", "bounds_to_json", "parse_bound", "parse_bounds"]

_UPPER_FORMS = ("shape", "inclusive_max", "exclusive_max")


def parse_bound(value: JSON, infinities: Mapping[str, int], largest: int) -> int:
    """Return a bound given as an integer, as a string of decimal digits, or as one of `infinities`."""
    if isinstance(value, str):
        if value in infinities:
            return infinities[value]
        digits = value[1:] if value[:1] == "-" else value
        number: Any = int(value) if digits.isascii() and digits.isdigit() else None
    else:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, int) or not -INF <= number <= largest:
        names = " or ".join(dump(name) for name in infinities)
        raise SpecError(f"Expected 64-bit signed integer or {names}, but received: {dump(value)}")
    return number


def _bound_parser(infinities: Mapping[str, int], largest: int = INF) -> Callable[[JSON], tuple[int, bool]]:
    def parse(value: JSON) -> tuple[int, bool]:
        """Return the bound and whether it is implicit, that is, in brackets."""
        if isinstance(value, list | tuple):
            if len(value) != 1:
                raise SpecError(
                    f"Expected array of size 1 indicating an implicit value, but received: {dump(value)}"
                )
            return parse_bound(value[0], infinities, largest), True
        return parse_bound(value, infinities, largest), False

    return parse


_PARSERS = {
    "shape": _bound_parser({"+inf": UPPER}, UPPER),
    "inclusive_max": _bound_parser({"+inf": INF}),
    "exclusive_max": _bound_parser({"+inf": UPPER}, UPPER),
}


def parse_bounds(members: Members, prefix: str) -> tuple[list[Bounds], tuple[str, ...]]:
    """Take the members that describe a domain; their names start with `prefix`."""
    rank: int | None = None

    def array_of(element: Callable[[JSON], Any]) -> Callable[[JSON], list[Any]]:
        def parse(value: JSON) -> list[Any]:
            nonlocal rank
            items = parse_array(value, element, rank)
            if len(items) > MAX_RANK:
                raise SpecError(f"Rank {len(items)} is outside valid range [0, {MAX_RANK}]")
            rank = len(items)
            return items

        return parse

    def parse_labels(value: JSON) -> list[str]:
        labels: list[str] = array_of(expect_string)(value)
        check_unique(labels)
        return labels

    rank = members.take(prefix + "rank", lambda value: expect_int(value, 0, MAX_RANK), None)
    lower = members.take(prefix + "inclusive_min", array_of(_bound_parser({"-inf": -INF})), None)
    uppers = {
        kind: value
        for kind in _UPPER_FORMS
        if (value := members.take(prefix + kind, array_of(_PARSERS[kind]), None)) is not None
    }
    if len(uppers) > 1:
        names = ", ".join(dump(prefix + kind) for kind in _UPPER_FORMS)
        raise SpecError(f"At most one of {names} members is allowed")
    labels = members.take(prefix + "labels", parse_labels, None)
    if rank is None:
        names = ", ".join(dump(prefix + x) for x in ("rank", "inclusive_min", *_UPPER_FORMS, "labels"))
        raise SpecError(f"At least one of {names} members must be specified")

    default: tuple[int, bool] = (0, False) if "shape" in uppers else (-INF, True)
    bounds: list[Bounds] = []
    for i in range(rank):
        lo, implicit_lo = default if lower is None else lower[i]
        implicit_hi = True
        hi = UPPER
        if not uppers:
            lo, hi = half_open(lo, UPPER)
        for kind, values in uppers.items():
            lo, hi = upper_interval(kind, lo, values[i][0])
            implicit_hi = values[i][1]
        bounds.append((lo, hi, implicit_lo, implicit_hi))
    return bounds, tuple(labels) if labels is not None else ("",) * rank


def bound_to_json(value: int, implicit: bool) -> JSON:
    """Return the JSON form of one bound: ``[n]`` if implicit, ``"-inf"`` or ``"+inf"`` if infinite."""
    item: JSON = "-inf" if value == -INF else "+inf" if value == UPPER else value
    return [item] if implicit else item


def bounds_to_json(
    lower: Sequence[int],
    upper: Sequence[int],
    implicit_lower: Sequence[bool],
    implicit_upper: Sequence[bool],
    labels: Sequence[str],
    prefix: str,
) -> dict[str, JSON]:
    """Return the members that `parse_bounds` reads, without those that only state a default."""
    out: dict[str, JSON] = {}
    if not all(x == UPPER and implicit for x, implicit in zip(upper, implicit_upper, strict=True)):
        out[prefix + "exclusive_max"] = list(map(bound_to_json, upper, implicit_upper))
    if not all(x == -INF and implicit for x, implicit in zip(lower, implicit_lower, strict=True)):
        out[prefix + "inclusive_min"] = list(map(bound_to_json, lower, implicit_lower))
    if any(labels):
        out[prefix + "labels"] = list(labels)
    if not out:
        out[prefix + "rank"] = len(lower)
    return out
