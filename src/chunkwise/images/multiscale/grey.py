"""Conversion of values to grey levels, with a contrast that outliers don't spoil."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.images.multiscale.sampling import read_some, to_real

__all__ = [
    "NAN_COLOR",
    "PERCENTILES",
    "contrast_level",
    "contrast_limits",
    "contrast_of",
    "round_levels",
    "scale_levels",
    "to_real",
]

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
