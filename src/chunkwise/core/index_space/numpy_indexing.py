"""NumPy-style indexing of an index mapping: ``m[...]``, ``m.oindex[...]`` and ``m.vindex[...]``.

Unlike in NumPy, negative numbers are ordinary indices, slices keep their coordinates, and indices outside
explicit bounds are errors.  An expression is applied in four steps.

1. New axes are inserted; each term is assigned its dimensions of this *expanded* domain.
2. Index arrays are broadcast: all together, or each alone with ``oindex``.
3. The dimensions of the result are listed: those that are kept, in place, and those of the arrays, where
   the array stood (``oindex``), where the first one stood if all are adjacent, or else in front.
4. The mapping from the result to the original domain is written down and composed with the given one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from chunkwise.core.index_space.box import IndexMapping, M
from chunkwise.core.index_space.compose import compose, explicit_bounds
from chunkwise.core.index_space.dim import MAX_RANK, Bounds
from chunkwise.core.index_space.interval import INF, UPPER, closed, format_bounds
from chunkwise.core.index_space.numpy_terms import ArrayTerm, SliceTerm, Terms
from chunkwise.core.index_space.output_map import OutputIndexMap, array_map, constant_map, single_map
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OutOfBoundsError, OutOfRangeError, prefix

__all__ = ["Mode", "apply_terms", "check_shapes", "index_all", "n_dims", "slice_bounds"]

Mode: TypeAlias = Literal["default", "oindex", "vindex"]

_NEW_AXIS: Bounds = (0, 1, True, True)
_WHOLE = SliceTerm(None, None, None)


def slice_bounds(bounds: Bounds, term: SliceTerm) -> tuple[Bounds, int, int]:
    """Return the bounds of a sliced dimension, and the offset and stride from it to the original."""
    # The first index of the result is that of the slice divided by the step, rounded towards zero.
    low, high, implicit_low, implicit_high = bounds
    start, stop, step = term.start, term.stop, 1 if term.step is None else term.step
    if step == 0:
        raise InvalidArgumentError("Invalid stride 0")
    if start is not None and not -INF <= start <= INF:
        raise InvalidArgumentError(f"Invalid start index {start}")
    if stop is not None and not -INF <= stop <= INF:
        raise InvalidArgumentError(
            f"({low if start is None else start}, {stop}) do not specify a valid closed index interval"
        )
    if step > 0:
        lo = low if start is None else start
        hi = high if stop is None else UPPER if stop == INF else stop
    else:
        lo = low if stop is None else -INF if stop == -INF else stop + 1
        hi = high if start is None else start + 1
    closed(lo, hi - 1)
    first = (lo if step > 0 else hi - 1) if start is None else start
    if first in (-INF, INF) and step not in (1, -1):
        raise InvalidArgumentError(f"Slicing with non-unit stride of {step} requires a finite start index")
    limits = explicit_bounds(bounds)
    if lo != hi and not (limits[0] <= lo and hi <= limits[1]):
        raise OutOfRangeError(
            f"Slice interval {format_bounds(lo, hi)} is not contained within domain {format_bounds(*limits)}"
        )
    keep_low, keep_high = implicit_low and start is None, implicit_high and stop is None
    if step == 1:
        return (lo, hi, keep_low, keep_high), 0, 1
    endless = hi == UPPER if step > 0 else lo == -INF
    if first in (-INF, INF):
        origin = -INF
        end = UPPER if endless else 1 - lo
        offset = 0
    else:
        # Truncating division: the quotient of magnitudes, with its sign put back.
        origin = abs(first) // abs(step) * (1 if (first < 0) == (step < 0) else -1)
        offset = first - origin * step
        end = UPPER if endless else origin - (lo - hi) // abs(step)
    if step < 0:
        keep_low, keep_high = keep_high, keep_low
    return (origin, end, keep_low, keep_high), offset, step


class _Placed(NamedTuple):
    """A term and the dimensions of the expanded domain that it applies to."""

    term: Any
    dims: tuple[int, ...]


def n_dims(term: Any) -> int:
    """Return the number of existing dimensions that a term indexes."""
    if term is None or term is Ellipsis:
        return 0
    return len(term.arrays) if isinstance(term, ArrayTerm) else 1


def index_all(m: M, expression: Terms, mode: Mode = "default") -> M:
    """Return `m` indexed by terms that apply to its dimensions in order; missing ones stay whole."""
    check_shapes(expression, mode)
    terms, rank = expression.terms, m._domain.rank
    needed = sum(map(n_dims, terms))
    if needed > rank:
        raise OutOfBoundsError(
            f"Indexing expression requires {needed} dimensions, "
            f"and cannot be applied to a domain of rank {rank}"
        )
    if Ellipsis not in [t if t is Ellipsis else None for t in terms]:
        terms = (*terms, ...)
    placed: list[_Placed] = []
    is_new: list[bool] = []
    for term in terms:
        if term is Ellipsis:
            for _ in range(rank - needed):
                placed.append(_Placed(_WHOLE, (len(is_new),)))
                is_new.append(False)
            continue
        n = 1 if term is None else n_dims(term)
        # A boolean scalar has no dimension of its own; only its position is remembered.
        placed.append(_Placed(term, tuple(range(len(is_new), len(is_new) + max(n, 1)))))
        is_new += [term is None] * n
    return apply_terms(m, placed, is_new, mode)[0]


def apply_terms(
    m: M,
    placed: Sequence[_Placed] | Sequence[tuple[Any, tuple[int, ...]]],
    is_new: Sequence[bool],
    mode: Mode,
) -> tuple[M, list[int]]:
    """Return `m` indexed, and the dimensions of the result that come from `placed`, in the same order."""
    arrays = [i for i, (term, _) in enumerate(placed) if isinstance(term, ArrayTerm)]
    blocks = _array_blocks(placed, arrays, mode)
    layout = _Layout(m, placed, is_new, blocks)
    inner = layout.mapping()
    selection: list[int] = []
    for i, (term, dims) in enumerate(placed):
        for block in blocks:
            if block.at == i:
                selection += layout.block_dims[block.at]
        if term is None or isinstance(term, SliceTerm):
            selection.append(layout.kept[dims[0]])
    front = [d for block in blocks if block.at < 0 for d in layout.block_dims[block.at]]
    return compose(m, inner), front + selection


def check_shapes(expression: Terms, mode: Mode) -> None:
    """Raise OutOfBoundsError if index arrays that are used together can't be broadcast."""
    shape: tuple[int, ...] = ()
    for term in expression.terms if mode != "oindex" else ():
        if isinstance(term, ArrayTerm):
            shape = _broadcast(term.shape, shape)


class _Block(NamedTuple):
    """Dimensions of the result that come from index arrays."""

    at: int  # position in the list of terms, or -1 for the front
    shape: tuple[int, ...]
    members: tuple[int, ...]


def _array_blocks(placed: Sequence[Any], arrays: list[int], mode: Mode) -> list[_Block]:
    if not arrays:
        return []
    if mode == "oindex":
        return [_Block(i, placed[i][0].shape, (i,)) for i in arrays]
    shape: tuple[int, ...] = ()
    for i in arrays:
        shape = _broadcast(placed[i][0].shape, shape)
    between = [placed[i][0] for i in range(arrays[0], arrays[-1])]
    adjacent = not any(term is None or isinstance(term, SliceTerm) for term in between)
    at = arrays[0] if adjacent and mode == "default" else -1
    return [_Block(at, shape, tuple(arrays))]


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    out = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x != y and x != 1 and y != 1:
            first, second = (f"{{{', '.join(map(str, shape))}}}" for shape in (a, b))
            raise OutOfBoundsError(f"Incompatible index array shapes: {first} vs {second}")
        out.append(y if x == 1 else x)
    return tuple(out)


class _Layout:
    """The dimensions of the result, in order, and the mapping from it to the original domain."""

    def __init__(
        self, m: IndexMapping, placed: Sequence[Any], is_new: Sequence[bool], blocks: list[_Block]
    ) -> None:
        self.domain = m._domain
        self.placed = placed
        self.is_new = is_new
        self.blocks = blocks
        self.bounds: list[Bounds] = []
        self.labels: list[str] = []
        self.kept: dict[int, int] = {}
        self.block_dims: dict[int, list[int]] = {}
        self.empty = False

    def _original(self, expanded: int) -> int:
        return expanded - sum(self.is_new[:expanded])

    def _add(self, bounds: Bounds, label: str) -> int:
        self.bounds.append(bounds)
        self.labels.append(label)
        return len(self.bounds) - 1

    def _add_block(self, block: _Block) -> None:
        self.block_dims[block.at] = [self._add((0, n, False, False), "") for n in block.shape]

    def mapping(self) -> IndexMapping:
        """Return the mapping from the result to the original domain."""
        own = self.domain._bounds()
        term_of = {
            d: term
            for term, dims in self.placed
            for d in dims[: max(1, n_dims(term))]
            if term is None or n_dims(term)
        }
        starts: dict[int, list[_Block]] = {}
        for block in self.blocks:
            if block.at < 0:
                self._add_block(block)
            else:
                starts.setdefault(self.placed[block.at][1][0], []).append(block)
        affine: dict[int, tuple[int, int]] = {}
        for d in range(len(self.is_new) + 1):
            for block in starts.get(d, ()):
                self._add_block(block)
            if d == len(self.is_new):
                break
            term = term_of.get(d, _WHOLE)
            if term is None:
                self.kept[d] = self._add(_NEW_AXIS, "")
            elif isinstance(term, SliceTerm):
                i = self._original(d)
                try:
                    bounds, offset, stride = slice_bounds(own[i], term)
                except ChunkwiseError as e:
                    raise prefix(e, f"Computing interval slice for dimension {i}") from None
                affine[d] = offset, stride
                self.kept[d] = self._add(bounds, self.domain._labels[i])
        if len(self.bounds) > MAX_RANK:
            raise InvalidArgumentError(f"Rank {len(self.bounds)} is outside valid range [0, {MAX_RANK}]")
        domain = self.domain._from_bounds(self.bounds, self.labels)
        self.empty = domain._is_empty()
        output = [
            self._output_map(d, term_of.get(d, _WHOLE), affine)
            for d in range(len(self.is_new))
            if not self.is_new[d]
        ]
        return IndexMapping._make(domain, tuple(output))

    def _output_map(self, d: int, term: Any, affine: dict[int, tuple[int, int]]) -> OutputIndexMap:
        if isinstance(term, SliceTerm):
            return single_map(*affine[d], self.kept[d])
        if isinstance(term, int):
            return constant_map(term)
        for block in self.blocks:
            for member in block.members:
                if d in self.placed[member][1] and self.placed[member][0] is term:
                    array = term.arrays[self.placed[member][1].index(d)]
                    return self._array_map(array, block)
        raise AssertionError("an index array belongs to a block")

    def _array_map(self, array: np.ndarray[Any, np.dtype[np.int64]], block: _Block) -> OutputIndexMap:
        if self.empty:
            return constant_map(0)
        shape = [1] * len(self.bounds)
        dims = self.block_dims[block.at]
        for d, n in zip(dims[len(dims) - array.ndim :], array.shape, strict=True):
            shape[d] = n
        return array_map(0, 1, array.reshape(shape), (-INF, UPPER))
