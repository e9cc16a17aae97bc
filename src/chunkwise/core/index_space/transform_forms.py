"""Domains and transforms from arguments, from JSON, and as JSON."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkwise.core.base.arguments import as_flag, as_int64, as_text, is_text
from chunkwise.core.base.binding import JSON, Members, dump, expect_int, expect_string, parse_array
from chunkwise.core.index_space.dim import MAX_RANK, Bounds, check_unique
from chunkwise.core.index_space.interval import INF, UPPER, closed, half_open, sized
from chunkwise.core.index_space.output_map import (
    IndexArray,
    OutputIndexMap,
    array_map,
    constant_map,
    single_map,
)
from chunkwise.errors import InvalidArgumentError, SpecError, braced

if TYPE_CHECKING:
    from chunkwise.core.index_space.box import Box

__all__ = [
    "bounds_from_arguments",
    "bounds_to_json",
    "checked_output",
    "output_to_json",
    "parse_bounds",
    "parse_output",
]


def _upper_interval(kind: str, lo: int, upper: int) -> tuple[int, int]:
    """Return the interval from `lo` to an upper end given as "shape", "inclusive_max" or "exclusive_max"."""
    if kind == "shape":
        return sized(lo, upper)
    return closed(lo, upper) if kind == "inclusive_max" else half_open(lo, upper)


def _sequence(name: str, value: Iterable[Any]) -> Iterable[Any]:
    if is_text(value) or not hasattr(value, "__len__") or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence, not {value!r}")
    return value


def _ints(name: str, value: Iterable[Any] | None) -> list[int] | None:
    if value is None:
        return None
    return [as_int64(x, f"an element of {name}") for x in _sequence(name, value)]


def _flags(name: str, value: Iterable[Any] | None) -> list[bool] | None:
    if value is None:
        return None
    return [as_flag(x, f"an element of {name}") for x in _sequence(name, value)]


def _labels(name: str, value: Iterable[str | None] | None) -> list[str] | None:
    if value is None:
        return None
    return ["" if x is None else as_text(x, f"an element of {name}") for x in _sequence(name, value)]


def bounds_from_arguments(
    prefix: str,
    rank: Any,
    inclusive_min: Iterable[Any] | None,
    implicit_lower_bounds: Iterable[Any] | None,
    exclusive_max: Iterable[Any] | None,
    inclusive_max: Iterable[Any] | None,
    shape: Iterable[Any] | None,
    implicit_upper_bounds: Iterable[Any] | None,
    labels: Iterable[str | None] | None,
) -> tuple[list[Bounds], tuple[str, ...]] | None:
    """Return bounds and labels of all dimensions, or None without arguments; names begin with `prefix`."""
    uppers = {"exclusive_max": exclusive_max, "inclusive_max": inclusive_max, "shape": shape}
    given = [kind for kind, value in uppers.items() if value is not None]
    if len(given) > 1:
        raise InvalidArgumentError(f"Cannot specify both `{prefix}{given[0]}` and `{prefix}{given[1]}`")
    kind = given[0] if given else "exclusive_max"

    n, origin = _rank(prefix, rank)
    lower = _ints(prefix + "inclusive_min", inclusive_min)
    upper = _ints(prefix + kind, uppers[kind])
    lower_flags = _flags("implicit_lower_bounds", implicit_lower_bounds)
    upper_flags = _flags("implicit_upper_bounds", implicit_upper_bounds)
    names = _labels(prefix + "labels", labels)
    parallel: list[tuple[str, Sequence[Any] | None]] = [
        (prefix + "inclusive_min", lower),
        ("implicit_lower_bounds", lower_flags),
        (prefix + kind, upper),
        ("implicit_upper_bounds", upper_flags),
        (prefix + "labels", names),
    ]
    for name, value in parallel:
        if value is None:
            continue
        if len(value) > MAX_RANK:
            raise InvalidArgumentError(
                f"Rank specified by `{name}` ({len(value)}) exceeds maximum rank of {MAX_RANK}"
            )
        if n is not None and len(value) != n:
            raise InvalidArgumentError(
                f"Rank specified by `{name}` ({len(value)}) does not match rank specified by `{origin}` ({n})"
            )
        if n is None:
            n, origin = len(value), name
    if n is None:
        return None

    default_lo = 0 if kind == "shape" and upper is not None else -INF
    bounds: list[Bounds] = []
    for i in range(n):
        lo = default_lo if lower is None else lower[i]
        lo, hi = half_open(lo, UPPER) if upper is None else _upper_interval(kind, lo, upper[i])
        implicit_lo = (
            lower is None and not (kind == "shape" and upper is not None)
            if lower_flags is None
            else lower_flags[i]
        )
        implicit_hi = upper is None if upper_flags is None else upper_flags[i]
        bounds.append((lo, hi, implicit_lo, implicit_hi))
    if names is not None:
        check_unique(names)
    return bounds, tuple(names) if names is not None else ("",) * n


def _rank(prefix: str, rank: Any) -> tuple[int | None, str]:
    if rank is None:
        return None, ""
    try:
        n = operator.index(rank)
    except TypeError:
        raise TypeError(f"{prefix}rank must be an integer, not {rank!r}") from None
    if not 0 <= n <= MAX_RANK:
        raise InvalidArgumentError(f"Invalid {prefix}rank: {n}")
    return n, prefix + "rank"


def checked_output(domain: Box, output: Iterable[Any]) -> tuple[OutputIndexMap, ...]:
    """Return the maps in normal form, or raise InvalidArgumentError if one does not fit `domain`."""
    maps = list(output)
    for m in maps:
        if not isinstance(m, OutputIndexMap):
            raise TypeError(f"output must be a sequence of OutputIndexMap, found {m!r}")
    if len(maps) > MAX_RANK:
        raise InvalidArgumentError(
            f"Number of output dimensions ({len(maps)}) exceeds maximum rank of {MAX_RANK}"
        )
    return tuple([_normal_map(domain, i, m) for i, m in enumerate(maps)])


def _normal_map(domain: Box, i: int, m: OutputIndexMap) -> OutputIndexMap:
    rank = domain.rank
    if m._dim is not None and not 0 <= m._dim < rank:
        raise InvalidArgumentError(
            f"Input dimension {m._dim} specified for output dimension {i} is outside valid range [0, {rank})"
        )
    if m._array is not None:
        _check_array(domain, i, m._array.shape)
        if domain._is_empty():
            return constant_map(0)
    if (m._dim is not None or m._array is not None) and m._stride == 0:
        return constant_map(m._offset)
    return m


def _check_array(domain: Box, i: int, shape: tuple[int, ...]) -> None:
    what = f"Index array for output dimension {i}"
    if len(shape) != domain.rank:
        raise InvalidArgumentError(f"{what} has rank {len(shape)} but must have rank {domain.rank}")
    sizes = domain.shape
    if any(n not in (1, size) for n, size in zip(shape, sizes, strict=True)):
        found, expected = (f"{{{', '.join(map(str, x))}}}" for x in (shape, sizes))
        raise InvalidArgumentError(f"{what} has shape {found} which does not match input_shape {expected}")
    for d, n in enumerate(shape):
        if n != 1 and (domain._implicit_lo[d] or domain._implicit_hi[d]):
            raise InvalidArgumentError(f"{what} depends on input dimension {d} with implicit bounds")


_UPPER_FORMS = ("shape", "inclusive_max", "exclusive_max")


def _parse_bound(value: JSON, infinities: Mapping[str, int], largest: int) -> int:
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
            return _parse_bound(value[0], infinities, largest), True
        return _parse_bound(value, infinities, largest), False

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
        for kind, values in uppers.items():
            lo, hi = _upper_interval(kind, lo, values[i][0])
            implicit_hi = values[i][1]
        bounds.append((lo, hi, implicit_lo, implicit_hi))
    return bounds, tuple(labels) if labels is not None else ("",) * rank


def _bound_to_json(value: int, implicit: bool) -> JSON:
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
        out[prefix + "exclusive_max"] = list(map(_bound_to_json, upper, implicit_upper))
    if not all(x == -INF and implicit for x, implicit in zip(lower, implicit_lower, strict=True)):
        out[prefix + "inclusive_min"] = list(map(_bound_to_json, lower, implicit_lower))
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
        lo, hi = parse_array(bounds, lambda x: _parse_bound(x, infinities, INF), 2)
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
            out["index_array_bounds"] = [_bound_to_json(lo, False), "+inf" if hi == UPPER else hi - 1]
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
