"""Concurrent appends: writers make room one after the other."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from chunkwise.errors import ResizedError
from chunkwise.xarray.update import UnevenError

__all__ = ["again_if_grown"]

T = TypeVar("T")

_PATIENCE = 5.0
"""Seconds without another append after which variables of different lengths are an error."""


def again_if_grown(write: Callable[[], T]) -> T:
    """Return the result of `write`, which is called again whenever another writer has made room first.

    It has stored no value by then, so it can start over: it looks up the current length of the arrays and
    appends after that.
    """
    last, until = "", 0.0
    while True:
        try:
            return write()
        except (ResizedError, UnevenError) as e:
            now = time.monotonic()
            if str(e) != last:
                last, until = str(e), now + _PATIENCE
            elif now > until:
                raise
        time.sleep(random.uniform(0.005, 0.05))
