"""Contexts of C libraries, which live as long as the closure that uses them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["free_with"]


def free_with(user: Callable[..., Any], free: Callable[[Any], Any], context: Any) -> None:
    """Call ``free(context)`` when `user` has gone."""
    # Not when Python ends: a thread may be using it then, and the memory goes with the process.
    weakref.finalize(user, free, context).atexit = False
