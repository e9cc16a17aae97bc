"""Copies of frozen records that differ in a few fields."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["copied"]

R = TypeVar("R")


def copied(record: R, **changes: object) -> R:
    """Return `record`, a dataclass without slots, with other values in some fields."""
    # Unlike dataclasses.replace it keeps what was derived from the other fields, and so is quick; nothing may
    # have been derived from those that change.
    out = object.__new__(type(record))
    out.__dict__.update(record.__dict__, **changes)
    return out
