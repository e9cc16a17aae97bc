"""Warnings to the program that calls the library."""

from __future__ import annotations

import inspect
import warnings

__all__ = ["warn_caller"]


def warn_caller(message: Warning | str, category: type[Warning] = UserWarning) -> None:
    """Warn the caller of the library."""
    warnings.warn(message, category, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the stack level, for the function that calls this, of the first frame outside this package."""
    level, frame = 1, inspect.currentframe()
    while (frame := frame and frame.f_back) and frame.f_globals.get("__name__", "").startswith("chunkwise."):
        level += 1
    return level
