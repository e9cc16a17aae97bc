"""Elements of a box of an array at regular distances, from a bounded number of chunks; and their grey levels.

A damaged chunk doesn't fail the rest; it is named. Chunks that aren't stored cost nothing. Outliers don't
spoil the contrast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore, downsample
from chunkwise.errors import ChunkwiseError, UnsupportedError

__all__ = [
    "NAN_COLOR",
    "PERCENTILES",
    "Bounds",
    "Damaged",
    "box_nbytes",
    "contrast_level",
    "contrast_limits",
    "contrast_of",
    "read_box",
    "read_extremes",
    "read_some",
    "round_levels",
    "scale_levels",
    "to_real",
]

_MOST_WHOLE = 1 << 24  # elements of a box that is read whole, so that a pixel is the mean of all its elements
_MOST_DECODED = 1 << 26  # elements of the chunks that are read for a larger box
_SPAN = 1 << 22  # elements of which extremes are taken at a time
_MOST_ASKED = 1 << 16  # chunks that are looked for

Bounds = tuple[tuple[int, int], ...]
"""From and to, by dimension."""


class Damaged(NamedTuple):
    """A part of a chunk that can't be read."""

    bounds: Bounds
    message: str


def box_nbytes(view: TensorStore, bounds: Bounds, steps: Sequence[int]) -> int:
    """Return the memory that `read_box` takes."""
    itemsize = max(8, view.dtype.memory_dtype.itemsize)
    n_elements, pixels = _size(bounds), prod(_counts(bounds, steps))
    return 3 * itemsize * (n_elements if n_elements <= _MOST_WHOLE else pixels + prod(_chunk(view)))


def to_real(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values as ordered numbers: magnitudes of complex ones, 0 and 1 for booleans, NaN for NaT."""
    if values.dtype.kind == "c":
        return np.asarray(np.abs(values))
    if values.dtype.kind == "b":
        return values.astype(np.uint8)
    if values.dtype.kind in "iuf":
        return values
    if values.dtype.kind in "mM":
        return np.where(np.isnat(values), np.nan, values.view("i8").astype(np.float64))
    try:
        return values.astype(np.float32)  # the small floats and integers of ml_dtypes
    except (TypeError, ValueError):
        raise UnsupportedError(f"elements of type {values.dtype} can't be made a picture") from None


def read_box(
    view: TensorStore, bounds: Bounds, steps: Sequence[int], *, is_labels: bool = True
) -> tuple[npt.NDArray[Any], list[Damaged]]:
    """Return an element for every step of a box, 0 where it can't be read, and what can't be.

    In a box of moderate size they are means, unless it has labels. In a larger one they are single elements;
    if too many chunks would have to be read, neighbours are the same element.
    """
    if _size(bounds) <= _MOST_WHOLE:
        coarse = [1] * view.rank
        if is_labels or view.dtype.memory_dtype.kind not in "iuf" or max(steps, default=1) == 1:
            part = view[_region(bounds, steps)]
        else:  # the first cells begin where the box does
            part = downsample(view[_region(bounds)].translate_to[(0,) * view.rank], list(steps), "mean")
    else:
        coarse = _coarsening(view, bounds, steps)
        steps = [step * n for step, n in zip(steps, coarse, strict=True)]
        part = view[_region(bounds, steps)]
    damaged: list[Damaged] = []
    try:
        values = part.read().result()
    except UnsupportedError:
        raise
    except ChunkwiseError:
        values, damaged = _by_chunk(view, bounds, steps)
    for dim, n in enumerate(coarse):
        if n > 1:
            count = _counts(bounds, steps, n)[dim]
            values = np.repeat(values, n, dim)[(slice(None),) * dim + (slice(count),)]
    return values, damaged


def read_some(view: TensorStore, bounds: Bounds, most: int) -> npt.NDArray[Any]:
    """Return about `most` elements of a box, in one dimension, from chunks all over it; or all of them.

    Raises
    ------
    ChunkwiseError
        If none of its chunks can be read.
    """
    cells = [bounds] if _size(bounds) <= most else _spread(view, bounds, max(8, most // prod(_chunk(view))))
    found: list[npt.NDArray[Any]] = []
    failed: ChunkwiseError | None = None
    for number, cell in enumerate(cells):
        step = max(1, -(-_size(cell) * len(cells) // most))
        longest = max(range(view.rank), key=lambda dim: cell[dim][1] - cell[dim][0], default=0)
        steps = [step if dim == longest else 1 for dim in range(view.rank)]
        try:
            found.append(view[_region(cell, steps)].read().result().reshape(-1))
        except UnsupportedError:
            raise
        except ChunkwiseError as e:
            failed = failed or e
            inside = _cells_of(view, cell) if number == 0 else []
            cells += inside if len(inside) > 1 else []
    if not found and failed is not None:
        raise failed
    return np.concatenate(found)


def read_extremes(view: TensorStore, n: int) -> tuple[npt.NDArray[np.float64], bool, list[Damaged]]:
    """Return the least and the largest of each of `n` equal parts of the first of two dimensions.

    NaN is left out, and stands where there is nothing else, or nothing that can be read.

    Returns
    -------
    extremes : array of shape (2, n, m)
        Where the array's is (length, m).
    is_exact : bool
        False if too many chunks would have to be read: one element stands for each part.
    damaged : list of Damaged
        Chunks that can't be read.
    """
    (length, m), chunk = view.shape, _chunk(view)
    edges = np.linspace(0, length, n + 1).astype(np.int64)
    most = max(1, _MOST_DECODED // prod(chunk))
    if -(-length // chunk[0]) * -(-m // chunk[1]) > most and _n_stored(view, most + 1) > most:
        step = max(1, length // n)
        values, damaged = read_box(view, ((0, length), (0, m)), [step, 1])
        taken = _with_gaps(values, damaged, 0, step)[-(-edges[:-1] // step)]  # the first read of each part
        return np.stack([taken, taken]), False, damaged
    out = np.full((2, n, m), np.nan)
    damaged = []
    span = -(-max(_SPAN // m, 1) // chunk[0]) * chunk[0]
    for start in range(0, length, span):
        stop = min(length, start + span)
        # All elements that aren't stored are equal.
        end = stop if _n_stored(view[start:stop], 1) else start + 1
        values, found = read_box(view, ((start, end), (0, m)), [1, 1])
        damaged += found
        taken = _with_gaps(values, found, start, 1)
        first, last = (
            int(np.searchsorted(edges, start, "right")) - 1,
            int(np.searchsorted(edges, stop, "left")),
        )
        cuts = np.minimum(np.maximum(edges[first:last], start) - start, len(taken) - 1)
        for number, extreme in enumerate((np.fmin, np.fmax)):
            part = out[number, first:last]
            extreme(part, extreme.reduceat(taken, cuts, 0), out=part)
    return out, True, damaged


def _with_gaps(
    values: npt.NDArray[Any], damaged: list[Damaged], start: int, step: int
) -> npt.NDArray[np.float64]:
    """Return ordered numbers, NaN where they can't be read."""
    out = to_real(values).astype(np.float64)
    for ((lo, hi), (first, last)), _ in damaged:
        out[-(-(lo - start) // step) : -(-(hi - start) // step), first:last] = np.nan
    return out


def _cells_of(view: TensorStore, bounds: Bounds) -> list[Bounds]:
    """Return the parts of a box that lie in one chunk each, in order."""
    cuts = []
    for (start, stop), chunk in zip(bounds, _chunk(view), strict=True):
        edges = [start, *range((start // chunk + 1) * chunk, stop, chunk), stop]
        cuts.append(list(pairwise(edges)))
    return list(product(*cuts))


def _by_chunk(
    view: TensorStore, bounds: Bounds, steps: Sequence[int]
) -> tuple[npt.NDArray[Any], list[Damaged]]:
    out = np.zeros(_counts(bounds, steps), view.dtype.memory_dtype)
    damaged = []
    for cell in _cells_of(view, bounds):
        # The first and last elements at a step that lie in the chunk.
        starts = [-(-(lo - first) // s) for (lo, _), (first, _), s in zip(cell, bounds, steps, strict=True)]
        stops = [-(-(hi - first) // s) for (_, hi), (first, _), s in zip(cell, bounds, steps, strict=True)]
        if any(start >= stop for start, stop in zip(starts, stops, strict=True)):
            continue
        taken = tuple(
            slice(first + start * s, hi, s)
            for (first, _), start, (_, hi), s in zip(bounds, starts, cell, steps, strict=True)
        )
        try:
            values = view[taken].read().result()
        except ChunkwiseError as e:
            damaged.append(Damaged(cell, e.message))
            continue
        out[tuple(map(slice, starts, stops))] = values
    return out, damaged


def _coarsening(view: TensorStore, bounds: Bounds, steps: Sequence[int]) -> list[int]:
    """Return by how much steps have to be longer so that a bounded number of elements is decoded."""
    out, most = [1] * view.rank, max(1, _MOST_DECODED // prod(_chunk(view)))
    while True:
        longer = [step * n for step, n in zip(steps, out, strict=True)]
        met = [
            min(len(range(lo, hi, step)), -(-hi // c) - lo // c)
            for (lo, hi), step, c in zip(bounds, longer, _chunk(view), strict=True)
        ]
        if prod(met) <= most or (
            prod(met) <= _MOST_ASKED and _n_stored(view[_region(bounds, longer)], most + 1) <= most
        ):
            return out
        out[met.index(max(met))] *= 2


def _spread(view: TensorStore, bounds: Bounds, n: int) -> list[Bounds]:
    """Return about `n` cells of a box, stored ones if there are any, far from each other."""
    chunk = _chunk(view)
    counts = [-(-hi // c) - lo // c for (lo, hi), c in zip(bounds, chunk, strict=True)]
    numbers = np.unique(np.linspace(0, prod(counts) - 1, 4 * n).astype(np.int64))
    cells = [_cell(bounds, chunk, np.unravel_index(number, counts)) for number in numbers]
    cells = [cell for cell in cells if _n_stored(view[_region(cell)], 1)]
    if len(cells) < n and prod(counts) > 4 * n:
        cells = _stored_cells(view, bounds, n)
    return cells[:: max(1, len(cells) // n)] or [_cell(bounds, chunk, [0] * view.rank)]


def _stored_cells(view: TensorStore, bounds: Bounds, n: int) -> list[Bounds]:
    """Return up to about `n` stored cells of a box, by halves."""
    if not _n_stored(view[_region(bounds)], 1):
        return []
    chunk = _chunk(view)
    counts = [-(-hi // c) - lo // c for (lo, hi), c in zip(bounds, chunk, strict=True)]
    if max(counts) == 1:
        return [bounds]
    dim = counts.index(max(counts))
    lo, hi = bounds[dim]
    middle = (lo // chunk[dim] + counts[dim] // 2) * chunk[dim]
    first, second = ((*bounds[:dim], side, *bounds[dim + 1 :]) for side in ((lo, middle), (middle, hi)))
    found = _stored_cells(view, first, -(-n // 2))
    return found + (_stored_cells(view, second, n - len(found)) if len(found) < n else [])


def _chunk(view: TensorStore) -> tuple[int, ...]:
    return view.chunks or tuple(max(n, 1) for n in view.shape)


def _cell(bounds: Bounds, chunk: Sequence[int], index: Sequence[Any]) -> Bounds:
    starts = [(lo // c + int(i)) * c for (lo, _), c, i in zip(bounds, chunk, index, strict=True)]
    return tuple(
        (max(lo, start), min(hi, start + c)) for (lo, hi), start, c in zip(bounds, starts, chunk, strict=True)
    )


def _n_stored(part: TensorStore, most: int) -> int:
    """Return how many chunks of a part are stored, `most` at most; that many if the array can't tell."""
    try:
        return min(most, part._array.count_stored(part._transform, most).result().n_stored)
    except (ChunkwiseError, OSError):
        return most


def _size(bounds: Bounds) -> int:
    return prod(stop - start for start, stop in bounds)


def _counts(bounds: Bounds, steps: Sequence[int], times: int = 1) -> tuple[int, ...]:
    return tuple(-(-(hi - lo) * times // step) for (lo, hi), step in zip(bounds, steps, strict=True))


def _region(bounds: Bounds, steps: Sequence[int] | None = None) -> Any:
    """Return the index of a box; an array without dimensions is selected whole."""
    return tuple(
        slice(lo, hi, step) for (lo, hi), step in zip(bounds, steps or [1] * len(bounds), strict=True)
    )


# -- grey levels --------------------------------------------------------------------------------------

# Conversion of values to grey levels, with a contrast that outliers don't spoil.

PERCENTILES = (0.5, 99.8)
"""Percentiles of the elements that become black and white."""

NAN_COLOR = (139, 61, 135)
"""Colour of NaN on the page, in its first view and in notebooks; no grey level has it."""

_SAMPLE = 1 << 21  # elements that a contrast is chosen by, at most
_MARGIN = 0.25  # beside the window in a histogram, in parts of it
_FEWEST = 1000  # with fewer elements percentiles say little: the last level may be one mean of all


def contrast_limits(
    values: list[npt.NDArray[Any]], percentiles: tuple[float, float] = PERCENTILES
) -> tuple[float, float]:
    """Return black and white levels for all of `values`; NaN and infinities don't count."""
    parts = []
    for part in values:
        flat = part.reshape(-1)
        flat = flat[:: max(1, flat.size // 1_000_000)]
        parts.append(flat[np.isfinite(flat)] if flat.dtype.kind == "f" else flat)
    sample = np.concatenate([p.astype(np.float64) for p in parts]) if parts else np.zeros(0)
    if not sample.size:
        return 0.0, 1.0
    low, high = np.percentile(sample, percentiles)
    if low == high:
        low, high = sample.min(), sample.max()
    if low == high:
        low, high = (0.0, high) if high > 0 else (low, low + max(1.0, abs(low)))
    return float(low), float(high)


def contrast_level(levels: Sequence[TensorStore], fixed: Mapping[int, int]) -> TensorStore:
    """Return the coarsest level with enough elements to choose a contrast, or else the finest."""
    sizes = [prod(n for dim, n in enumerate(level.shape) if dim not in fixed) for level in levels]
    return next((view for view, n in zip(levels[::-1], sizes[::-1], strict=True) if n >= _FEWEST), levels[0])


def contrast_of(
    view: TensorStore,
    fixed: Mapping[int, int],
    percentiles: Sequence[float] = PERCENTILES,
    over: Sequence[float] | None = None,
) -> dict[str, Any]:
    """Return black and white levels for the elements at the given indices, and a histogram.

    The histogram is that of the values between `over`, by default the two levels, with a margin beside them:
    single outliers don't make it one bar. Chunks that can't be read don't count.
    """
    bounds = tuple(
        (fixed[dim], fixed[dim] + 1) if dim in fixed else (0, n) for dim, n in enumerate(view.shape)
    )
    values = to_real(read_some(view, bounds, _SAMPLE))
    low, high = contrast_limits([values], (percentiles[0], percentiles[1]))
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    least, most = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    ends = (low, high) if over is None else (min(over), max(over))
    margin = _MARGIN * (ends[1] - ends[0])
    span = [max(min(least, ends[0]), ends[0] - margin), min(max(most, ends[1]), ends[1] + margin)]
    counts, _ = np.histogram(
        finite.astype(np.float64), 64, (span[0], span[1] if span[1] > span[0] else span[0] + 1)
    )
    return {"window": [low, high], "range": [least, most], "span": span, "histogram": counts.tolist()}


def scale_levels(
    values: npt.NDArray[Any], limits: tuple[float, float], depth: int = 8
) -> npt.NDArray[np.float64]:
    """Return `values` as grey levels of 8 or 16 bits, not rounded and perhaps out of range."""
    low, high = limits
    return np.asarray((values.astype(np.float64) - low) * ((2**depth - 1) / (high - low)))


def round_levels(levels: npt.NDArray[Any], depth: int = 8) -> npt.NDArray[Any]:
    """Return grey levels of 8 or 16 bits; infinities are black or white."""
    top = 2**depth - 1
    rounded = np.rint(np.nan_to_num(levels, nan=0, posinf=top, neginf=0).clip(0, top))
    return np.asarray(rounded, np.uint8 if depth == 8 else np.uint16)
