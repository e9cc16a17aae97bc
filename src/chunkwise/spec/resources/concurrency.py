"""``data_copy_concurrency``, ``*_request_concurrency``, ...: how many things of one sort happen at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chunkwise.binding import JSON, expect_int
from chunkwise.spec.resources.kind import Member, ObjectResource

__all__ = ["Concurrency", "ConcurrencyLimit"]


class ConcurrencyLimit:
    """A live limit.

    Attributes
    ----------
    limit : int or None
        How many at a time; None for the number that the whole process shares.
    pool : object or None
        The threads or slots themselves, put here by the layer that runs them, on first use.
    """

    __slots__ = ("__weakref__", "limit", "pool")

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.pool: Any = None


def _parse_limit(value: JSON) -> int | None:
    return None if value == "shared" else expect_int(value, 1, 2**64 - 1)


def _format_limit(limit: int | None) -> JSON:
    return "shared" if limit is None else limit


@dataclass(frozen=True)
class Concurrency(ObjectResource):
    """``{"limit": "shared"}``, or a number from 1 on."""

    members: ClassVar[Mapping[str, Member]] = {"limit": Member(_parse_limit, _format_limit)}

    limit: int | None = None

    def create(self) -> ConcurrencyLimit:
        """Return a limit that nothing runs under yet."""
        return ConcurrencyLimit(self.limit)
