"""How many examples of a property are tried: all by ``make test-all``, a third by ``make test``."""

from __future__ import annotations

import os

ALL = "CHUNKWISE_ALL_EXAMPLES" in os.environ


def examples(n: int) -> int:
    """Return how many of `n` examples to try."""
    return n if ALL else max(n // 3, 5)
