"""Comparisons that sort any sequence of a given length, whatever the elements are.

Arrays are sorted against each other by it element by element, without a branch or a loop over elements.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

__all__ = ["Exchange", "sorting_network"]


class Exchange(NamedTuple):
    """One comparison; the less of both goes to `low`, the greater to `high`."""

    low: int
    high: int
    needs_low: bool  # False if nothing depends on what goes there
    needs_high: bool


@lru_cache(64)
def sorting_network(n: int, wanted: frozenset[int]) -> tuple[Exchange, ...]:
    """Return the exchanges after which places `wanted` hold what sorting `n` elements puts there."""
    # Batcher's odd-even merge exchange (Knuth, *The Art of Computer Programming* 3, 5.2.2, algorithm M),
    # without what the wanted places don't depend on.
    pairs = []
    top = 1 << max(0, (n - 1).bit_length() - 1)
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            pairs += [(i, i + d) for i in range(n - d) if i & p == r]
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1
    needed = set(wanted)
    kept = []
    for low, high in reversed(pairs):
        if low in needed or high in needed:
            kept.append(Exchange(low, high, low in needed, high in needed))
            needed |= {low, high}
    return tuple(reversed(kept))
