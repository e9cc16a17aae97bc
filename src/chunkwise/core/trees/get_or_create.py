"""``get_or_create``: what is there, or else what this call makes, however many processes do the same."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from chunkwise.errors import AlreadyExistsError

__all__ = ["get_or_create"]

T = TypeVar("T")

_PAUSES = (0.0, 0.01, 0.05, 0.2)  # seconds: a new node is seen a moment after it is in the way


def get_or_create(get: Callable[[], T | None], create: Callable[[], T]) -> T:
    """Return what `get` finds, or else what `create` makes.

    If `create` says that there is something, somebody else was faster, and `get` looks again.

    Raises
    ------
    AlreadyExistsError
        If something is in the way that `get` doesn't find.
    """
    found = get()
    for pause in _PAUSES:
        if found is not None:
            return found
        try:
            return create()
        except AlreadyExistsError as e:
            time.sleep(random.uniform(0.5, 1.0) * pause)
            found, error = get(), e
    if found is None:
        raise error
    return found
