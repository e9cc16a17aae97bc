"""What of the examples and cases of a test is tried: all by ``make test-all``, some by ``make test``."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from datetime import date
from typing import TypeVar

T = TypeVar("T")
ALL = "CHUNKWISE_ALL_EXAMPLES" in os.environ

# Every day has other cases.  Processes that tests start draw as their parent does, also at midnight.
SEED = os.environ.setdefault("CHUNKWISE_SEED", date.today().isoformat())


def examples(n: int) -> int:
    """Return how many of `n` examples to try."""
    return n if ALL else max(n // 3, 5)


def draw(test: str = "") -> random.Random:
    """Return what draws the cases, or the moments, of a test."""
    return random.Random(SEED + test)


def shares(values: Iterable[T], n: int) -> list[list[T]]:
    """Return `n` drawn parts of values, in which each is once; or all values, `n` times."""
    values = list(values)
    drawn = draw().sample(values, len(values))
    return [values if ALL else drawn[i::n] for i in range(n)]
