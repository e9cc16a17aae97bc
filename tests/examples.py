"""What of the examples and cases of a test is tried: all by ``make test-all``, some by ``make test``."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

K, T = TypeVar("K"), TypeVar("T")
ALL = "CHUNKWISE_ALL_EXAMPLES" in os.environ

# The same cases in every run, so that a failure is of the change; other seeds draw others.  Processes that
# tests start draw as their parent does.
SEED = os.environ.setdefault("CHUNKWISE_SEED", "1")


def examples(n: int) -> int:
    """Return how many of `n` examples to try."""
    return n if ALL else max(n // 3, 5)


def draw(test: str = "") -> random.Random:
    """Return what draws the cases, or the moments, of a test."""
    return random.Random(SEED + test)


def shares(values: Iterable[T], among: Sequence[K]) -> list[tuple[K, list[T]]]:
    """Return for each of some keys a drawn part of values, of which each is in one; or all values."""
    values = list(values)
    drawn = draw().sample(values, len(values))
    return [(key, values if ALL else drawn[i :: len(among)]) for i, key in enumerate(among)]
