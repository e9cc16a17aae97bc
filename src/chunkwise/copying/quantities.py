"""Sizes, rates, times and shapes as text for people."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "format_chunks",
    "format_duration",
    "format_nbytes",
    "format_pace",
    "format_rate",
    "format_ratio",
    "format_shape",
    "plural",
]

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")

_MOST_SIZES = 6  # along one dimension


def format_nbytes(nbytes: float) -> str:
    """Return a size with three digits and a decimal prefix.

    >>> format_nbytes(999), format_nbytes(14_300_000), format_nbytes(999_999)
    ('999 B', '14.3 MB', '1.00 MB')
    """
    if nbytes < 1000:
        return f"{nbytes:.0f} B"
    for prefix in _PREFIXES[1:]:
        nbytes /= 1000
        text = f"{nbytes:.2f}" if nbytes < 9.995 else f"{nbytes:.1f}" if nbytes < 99.95 else f"{nbytes:.0f}"
        if float(text) < 1000:
            return f"{text} {prefix}B"
    return f"{nbytes:.3g} {prefix}B"


def format_rate(nbytes: float, seconds: float) -> str:
    """Return how fast `nbytes` were moved in `seconds`: ``"310 MB/s"``."""
    return f"{format_nbytes(nbytes / max(seconds, 1e-9))}/s"


def format_pace(nbytes: float, seconds: float) -> str:
    """Return how much was moved, how long it took and how fast that was."""
    return f"{format_nbytes(nbytes)} in {format_duration(seconds)} ({format_rate(nbytes, seconds)})"


def format_duration(seconds: float) -> str:
    """Return a time span with its two largest units.

    >>> format_duration(0.25), format_duration(75), format_duration(7260)
    ('0.2 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def format_ratio(ratio: float) -> str:
    """Return how much smaller something became.

    >>> format_ratio(2.5), format_ratio(0.5)
    ('2.50 times smaller', '2.00 times larger')
    """
    return f"{1 / ratio:.2f} times larger" if 0 < ratio < 0.995 else f"{ratio:.2f} times smaller"


def format_shape(shape: Sequence[int | None]) -> str:
    """Return ``64 × 64 × 32``; ``scalar`` for rank 0."""
    return " × ".join("?" if n is None else str(n) for n in shape) if shape else "scalar"


def format_chunks(chunks: Sequence[int | Sequence[int | Sequence[int]]]) -> str:
    """Return the shape of chunks; where their sizes differ along a dimension, those that there are.

    >>> format_chunks([64, [2, 3, [5, 40]]])
    '64 × [2, 3, 5 (40 times)]'
    """
    return " × ".join(map(_sizes, chunks)) if chunks else "scalar"


def _sizes(sizes: int | Sequence[int | Sequence[int]]) -> str:
    if isinstance(sizes, int):
        return str(sizes)
    texts = [str(n) if isinstance(n, int) else f"{n[0]} ({n[1]} times)" for n in sizes]
    if len(texts) > _MOST_SIZES:
        texts[_MOST_SIZES - 1 :] = [f"and {len(texts) - _MOST_SIZES + 1} more"]
    return f"[{', '.join(texts)}]"


def plural(n: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "chunk"), plural(1200, "chunk")
    ('1 chunk', '1,200 chunks')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
