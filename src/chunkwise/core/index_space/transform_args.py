"""Arguments that make domains and transforms, checked: bounds as parallel sequences, output index maps."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from chunkwise.core.base.arguments import as_flag, as_int64, as_text, is_text
from chunkwise.core.index_space.dim import Bounds
from chunkwise.core.index_space.interval import INF, UPPER, closed, half_open, sized
from chunkwise.core.index_space.label import MAX_RANK, check_unique
from chunkwise.core.index_space.output_map import OutputIndexMap, constant_map
from chunkwise.errors import InvalidArgumentError

if TYPE_CHECKING:
    from chunkwise.core.index_space.box import Box

__all__ = ["bounds_from_arguments", "checked_output", "upper_interval"]


def upper_interval(kind: str, lo: int, upper: int) -> tuple[int, int]:
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
        lo, hi = half_open(lo, UPPER) if upper is None else upper_interval(kind, lo, upper[i])
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
