"""The JSON form of a transform: its domain, which is its input part, and its output index maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chunkwise.core.base.binding import JSON, Members, dump, expect_int, expect_string, parse_array
from chunkwise.core.index_space.dim import Bounds
from chunkwise.core.index_space.interval import INF, UPPER, closed, half_open
from chunkwise.core.index_space.label import MAX_RANK, check_unique
from chunkwise.core.index_space.output_map import (
    IndexArray,
    OutputIndexMap,
    array_map,
    constant_map,
    single_map,
)
from chunkwise.core.index_space.transform_args import upper_interval
from chunkwise.errors import SpecError, braced

__all__ = ["bound_to_json", "bounds_to_json", "output_to_json", "parse_bound", "parse_bounds", "parse_output"]


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


def parse_output(value: JSON) -> list[OutputIndexMap]:
    """Return the maps of the ``output`` member; that they fit the domain is not checked here."""
    maps = parse_array(value, _parse_map)
    if len(maps) > MAX_RANK:
        raise SpecError(f"Rank {len(maps)} is outside valid range [0, {MAX_RANK}]")
    return maps


def _parse_map(value: JSON) -> OutputIndexMap:
    members = Members(value)
    offset = members.take("offset", expect_int, 0)

    def parse_stride(stride: JSON) -> int:
        if not isinstance(value, dict) or not {"input_dimension", "index_array"} & value.keys():
            raise SpecError(
                'Either "input_dimension" or "index_array" must be specified in conjunction with "stride"'
            )
        return expect_int(stride)

    stride = members.take("stride", parse_stride, 1)
    if {"input_dimension", "index_array"} <= value.keys():
        raise SpecError('At most one of "input_dimension", "index_array" members is allowed')
    dim = members.take("input_dimension", expect_int, None)
    array = members.take("index_array", _parse_index_array, None)

    def parse_range(bounds: JSON) -> tuple[int, int]:
        if array is None:
            raise SpecError('"index_array_bounds" is only valid with "index_array"')
        infinities = {"-inf": -INF, "+inf": INF}
        lo, hi = parse_array(bounds, lambda x: parse_bound(x, infinities, INF), 2)
        return closed(lo, hi)

    index_range = members.take("index_array_bounds", parse_range, (-INF, UPPER))
    members.finish()
    if array is not None:
        return array_map(offset, stride, array, index_range)
    return constant_map(offset) if dim is None else single_map(offset, stride, dim)


def _parse_index_array(value: JSON) -> IndexArray:
    shape: list[int] = []
    item = value
    while isinstance(item, list | tuple):
        shape.append(len(item))
        item = item[0] if item else None
    flat: list[int] = []
    _flatten(value, tuple(shape), (), flat)
    return np.array(flat, np.int64).reshape(shape)


def _flatten(value: Any, shape: tuple[int, ...], position: tuple[int, ...], out: list[int]) -> None:
    where = braced(position)
    if len(position) == len(shape):
        try:
            number = int(value) if isinstance(value, str) else value
            out.append(expect_int(number))
        except ValueError:
            raise SpecError(
                f"Error parsing array element at position {where}: "
                f"Expected 64-bit signed integer, but received: {dump(value)}"
            ) from None
        return
    full = braced(shape)
    if not isinstance(value, list | tuple):
        raise SpecError(f"Expected array of shape {full}, but found {dump(value)} at position {where}.")
    if len(value) != shape[len(position)]:
        raise SpecError(
            f"Expected array of shape {full}, but found array element {dump(value)} "
            f"of length {len(value)} at position {where}."
        )
    for i, item in enumerate(value):
        _flatten(item, shape, (*position, i), out)


def _map_to_json(m: OutputIndexMap) -> dict[str, JSON]:
    out: dict[str, JSON] = {}
    if m._array is not None:
        out["index_array"] = m._array.tolist()
        lo, hi = m._range
        # Bounds that all elements satisfy are left out.
        if m._array.size and not (lo <= int(m._array.min()) and int(m._array.max()) < hi):
            out["index_array_bounds"] = [bound_to_json(lo, False), "+inf" if hi == UPPER else hi - 1]
    if m._dim is not None:
        out["input_dimension"] = m._dim
    if m._offset:
        out["offset"] = m._offset
    if (m._dim is not None or m._array is not None) and m._stride != 1:
        out["stride"] = m._stride
    return out


def output_to_json(output: Sequence[OutputIndexMap], rank: int) -> list[JSON] | None:
    """Return the ``output`` member, or None if the maps are the identity of `rank`."""
    if len(output) == rank and all(
        m._dim == i and m._offset == 0 and m._stride == 1 for i, m in enumerate(output)
    ):
        return None
    return [_map_to_json(m) for m in output]
