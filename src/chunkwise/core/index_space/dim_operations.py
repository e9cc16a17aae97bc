"""Operations on chosen dimensions of an index mapping, other than indexing them.

Each function takes a mapping, the numbers of distinct dimensions and an argument, and returns the new
mapping with the new numbers of those dimensions.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from chunkwise.core.base.arguments import as_flag, as_text, is_text
from chunkwise.core.index_space.box import IndexMapping, M
from chunkwise.core.index_space.compose import compose, substitute
from chunkwise.core.index_space.dim import Bounds, check_index, check_unique
from chunkwise.core.index_space.interval import (
    INF,
    MAX_FINITE,
    MIN_FINITE,
    UPPER,
    check_int64,
    format_bounds,
    intersect,
    pull_back,
    shift,
)
from chunkwise.core.index_space.output_map import OutputIndexMap, constant_map, single_map
from chunkwise.core.index_space.subscript import (
    SelectionItem,
    parse_selection,
    resolve_selection,
    resolve_slice,
)
from chunkwise.errors import InvalidArgumentError, OutOfRangeError, prefix

__all__ = [
    "Amounts",
    "diagonal",
    "label",
    "mark_implicit",
    "parse_amounts",
    "parse_flags",
    "parse_labels",
    "permute",
    "select",
    "stride",
    "translate_backward_by",
    "translate_by",
    "translate_to",
    "transpose",
    "transpose_all",
]

Amounts = int | None | tuple[int | None, ...]
"""One number for all dimensions, or one for each; None leaves a dimension as it is."""


def parse_amounts(value: Any) -> Amounts:
    """Return the argument of translate and stride operations; raises TypeError for other than integers."""
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise TypeError(f"expected integers or None, not {value!r}") from None
        try:
            numbers = tuple([None if x is None else operator.index(x) for x in value])
        except TypeError:
            raise TypeError(f"expected integers or None, not {value!r}") from None
        for x in numbers:
            if x is not None and not -(2**63) <= x < 2**63:
                raise TypeError(f"{x} does not fit 64 bits") from None
        return numbers
    if not -(2**63) <= number < 2**63:
        raise TypeError(f"{number} does not fit 64 bits")
    return number


def parse_labels(value: Any) -> tuple[str, ...]:
    """Return labels given as one string or a sequence; raises TypeError if they are not strings."""
    if is_text(value) or not isinstance(value, Iterable):
        return (as_text(value, "label"),)
    return tuple([as_text(x, "label") for x in value])


def parse_flags(value: Any) -> tuple[bool | None, bool | None]:
    """Return whether to make the lower and upper bound implicit; None leaves a bound as it is."""
    lower, upper = (value.start, value.stop) if isinstance(value, slice) else (value, value)
    if isinstance(value, slice) and value.step is not None:
        raise TypeError("mark_bounds_implicit takes no step")
    lower, upper = [None if flag is None else as_flag(flag, "implicit") for flag in (lower, upper)]
    return lower, upper


def _for_each(dims: Sequence[int], amounts: Amounts) -> Sequence[int | None]:
    if not isinstance(amounts, tuple):
        return [amounts] * len(dims)
    if len(amounts) != len(dims):
        raise InvalidArgumentError(
            f"Number of dimensions ({len(dims)}) does not match number of indices ({len(amounts)})"
        )
    return amounts


def label(m: M, dims: Sequence[int], labels: Sequence[str]) -> tuple[M, list[int]]:
    """Give the dimensions new labels."""
    if len(labels) != len(dims):
        raise InvalidArgumentError(
            f"Number of dimensions ({len(dims)}) does not match number of labels ({len(labels)})."
        )
    new = list(m._domain._labels)
    for d, text in zip(dims, labels, strict=True):
        new[d] = text
    check_unique(new)
    return m._make(m._domain._from_bounds(m._domain._bounds(), new), m._output), list(dims)


def _translate(m: M, offsets: dict[int, int]) -> M:
    bounds = m._domain._bounds()
    for d, offset in offsets.items():
        lo, hi, implicit_lo, implicit_hi = bounds[d]
        bounds[d] = (*shift(lo, hi, offset), implicit_lo, implicit_hi)

    def moved(x: OutputIndexMap) -> OutputIndexMap:
        if x._dim is None or x._dim not in offsets:
            return x
        new_offset = check_int64(
            x._offset - x._stride * offsets[x._dim],
            f"Integer overflow computing output offset for input dimension {x._dim}",
        )
        return single_map(new_offset, x._stride, x._dim)

    domain = m._domain._from_bounds(bounds, m._domain._labels)
    return m._make(domain, tuple([moved(x) for x in m._output]))


def translate_by(m: M, dims: Sequence[int], amounts: Amounts) -> tuple[M, list[int]]:
    """Shift the domain up."""
    offsets = {d: x for d, x in zip(dims, _for_each(dims, amounts), strict=True) if x}
    return _translate(m, offsets), list(dims)


def translate_backward_by(m: M, dims: Sequence[int], amounts: Amounts) -> tuple[M, list[int]]:
    """Shift the domain down."""
    offsets = {d: -x for d, x in zip(dims, _for_each(dims, amounts), strict=True) if x}
    return _translate(m, offsets), list(dims)


def translate_to(m: M, dims: Sequence[int], amounts: Amounts) -> tuple[M, list[int]]:
    """Shift the domain so that it starts at the given indices."""
    offsets = {}
    for d, x in zip(dims, _for_each(dims, amounts), strict=True):
        if x is None:
            continue
        lo, hi = m._domain._lo[d], m._domain._hi[d]
        if lo == -INF:
            raise InvalidArgumentError(f"Interval {format_bounds(lo, hi)} is not bounded below")
        if not MIN_FINITE <= x <= MAX_FINITE:
            raise OutOfRangeError(
                f"Origin {x} is outside valid range {format_bounds(MIN_FINITE, MAX_FINITE + 1)}"
            )
        offsets[d] = x - lo
    return _translate(m, offsets), list(dims)


def _identity_maps(rank: int) -> list[OutputIndexMap]:
    return [single_map(0, 1, d) for d in range(rank)]


def stride(m: M, dims: Sequence[int], amounts: Amounts) -> tuple[M, list[int]]:
    """Let index ``x`` stand for the old index ``stride * x``."""
    bounds = m._domain._bounds()
    output = _identity_maps(len(bounds))
    for d, step in zip(dims, _for_each(dims, amounts), strict=True):
        # TensorStore 0.1.86 overflows on None, which elsewhere means "no change".
        if step is None:
            continue
        context = f"Applying stride to input dimension {d}"
        if step == 0:
            raise InvalidArgumentError(f"{context}: Stride must be non-zero")
        lo, hi, implicit_lo, implicit_hi = bounds[d]
        try:
            lo, hi = pull_back(lo, hi, 0, step)
        except InvalidArgumentError as e:
            raise prefix(e, context) from None
        if step < 0:
            implicit_lo, implicit_hi = implicit_hi, implicit_lo
        bounds[d] = (lo, hi, implicit_lo, implicit_hi)
        output[d] = single_map(0, step, d)
    inner = m._domain._from_bounds(bounds, m._domain._labels)
    return compose(m, IndexMapping._make(inner, tuple(output))), list(dims)


def mark_implicit(m: M, dims: Sequence[int], flags: tuple[bool | None, bool | None]) -> tuple[M, list[int]]:
    """Make bounds implicit or explicit."""
    lower, upper = flags
    bounds = m._domain._bounds()
    for d in dims:
        lo, hi, implicit_lo, implicit_hi = bounds[d]
        bounds[d] = (lo, hi, implicit_lo if lower is None else lower, implicit_hi if upper is None else upper)
        if not (lower or upper):
            continue
        for i, x in enumerate(m._output):
            if x._array is not None and x._array.shape[d] != 1:
                raise InvalidArgumentError(
                    f"Cannot mark input dimension {d} as having implicit bounds because it indexes "
                    f"the index array map for output dimension {i}"
                )
    domain = m._domain._from_bounds(bounds, m._domain._labels)
    output = m._output
    if domain._is_empty():
        # An index array over a domain that is now certainly empty is never used.
        output = tuple([constant_map(0) if x._array is not None else x for x in output])
    return m._make(domain, output), list(dims)


def permute(m: M, order: Sequence[int]) -> M:
    """Return `m` with its input dimensions in the given order."""
    bounds, labels = m._domain._bounds(), m._domain._labels
    domain = m._domain._from_bounds([bounds[d] for d in order], [labels[d] for d in order])
    position = {d: i for i, d in enumerate(order)}
    return substitute(m, domain, tuple([single_map(0, 1, position[d]) for d in range(len(order))]))


def transpose(m: M, dims: Sequence[int], target: tuple[SelectionItem, ...] | int) -> tuple[M, list[int]]:
    """Move the dimensions to the target positions; a lone integer is the position of the first or last."""
    rank, n = m._domain.rank, len(dims)
    if isinstance(target, int) and not dims:
        positions = []
    elif isinstance(target, int):
        first = check_index(target, rank - n + 1)
        positions = list(range(first, first + n))
    else:
        positions = []
        for item in target:
            if isinstance(item, str):
                raise InvalidArgumentError("Target dimensions cannot be specified by label")
            positions += resolve_slice(item, rank) if isinstance(item, slice) else [item]
        if len(positions) != n:
            raise InvalidArgumentError(
                f"Number of selected dimensions ({n}) must equal "
                f"number of target dimensions ({len(positions)})"
            )
        positions = [check_index(position, rank) for position in positions]
    for i, position in enumerate(positions):
        if position in positions[:i]:
            raise InvalidArgumentError(f"Target dimension {position} occurs more than once")
    rest = iter([d for d in range(rank) if d not in dims])
    chosen = dict(zip(positions, dims, strict=True))
    return permute(m, [chosen[p] if p in chosen else next(rest) for p in range(rank)]), positions


def transpose_all(m: M, axes: Any) -> M:
    """Return `m` with its input dimensions in the order of `axes`, or reversed if that is None."""
    rank = m._domain.rank
    if axes is None:
        return permute(m, range(rank - 1, -1, -1))
    order = resolve_selection(parse_selection(axes), m._domain._labels)
    if sorted(order) != list(range(rank)):
        raise InvalidArgumentError(
            f"Source dimension list {{{', '.join(map(str, order))}}} "
            f"is not a valid dimension permutation for rank {rank}"
        )
    return permute(m, order)


def select(m: M, dims: Sequence[int]) -> M:
    """Return `m`, which must have no output, with the given dimensions only."""
    assert not m._output
    bounds, labels = m._domain._bounds(), m._domain._labels
    return m._make(m._domain._from_bounds([bounds[d] for d in dims], [labels[d] for d in dims]), ())


def diagonal(m: M, dims: Sequence[int]) -> tuple[M, list[int]]:
    """Replace the dimensions by one, in front, whose index is used for all of them."""
    # An end of it is implicit only if this end is implicit in all of them.
    bounds, labels = m._domain._bounds(), m._domain._labels
    lo, hi = -INF, UPPER
    for d in dims:
        lo, hi = intersect((lo, hi), bounds[d][:2])
    common: Bounds = (lo, hi, all(bounds[d][2] for d in dims), all(bounds[d][3] for d in dims))
    rest = [d for d in range(len(bounds)) if d not in dims]
    domain = m._domain._from_bounds([common, *[bounds[d] for d in rest]], ["", *[labels[d] for d in rest]])
    maps = [single_map(0, 1, 0 if d in dims else 1 + rest.index(d)) for d in range(len(bounds))]
    return substitute(m, domain, tuple(maps)), [0]
