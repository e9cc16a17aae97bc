"""Appends of several writers at the same time: one makes room after the other."""

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
"""Seconds in which nobody else has appended, after which variables of different lengths are an error."""


def again_if_grown(write: Callable[[], T]) -> T:
    """Return what `write` does, after it was called again whenever another writer has made room before it.

    It is called again from its beginning, as it has stored no value then: it looks at how long the arrays
    are by now, and appends behind that.
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
