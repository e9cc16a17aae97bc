"""``cache_pool``: how many bytes of decoded chunks and metadata are kept for later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chunkwise.binding import JSON, MISSING, dump
from chunkwise.errors import SpecError
from chunkwise.spec.resources.kind import Member, ObjectResource

__all__ = ["CachePool", "CachePoolConfig"]


class CachePool:
    """A live cache pool.

    Attributes
    ----------
    total_bytes_limit : int
        Bytes to keep beyond use.
    cache : object or None
        The cache itself, put here by the layer that caches, on first use.
    metadata : object or None
        What is known of open arrays, put here by the layer that opens them.
    """

    __slots__ = ("__weakref__", "cache", "metadata", "total_bytes_limit")

    def __init__(self, total_bytes_limit: int) -> None:
        self.total_bytes_limit = total_bytes_limit
        self.cache: Any = None
        self.metadata: Any = None


def _expect_uint64(value: JSON) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        received = "member is missing" if value is MISSING else f"received: {dump(value)}"
        raise SpecError(f"Expected 64-bit unsigned integer, but {received}")
    return value


@dataclass(frozen=True)
class CachePoolConfig(ObjectResource):
    """``{"total_bytes_limit": 0}``."""

    members: ClassVar[Mapping[str, Member]] = {"total_bytes_limit": Member(_expect_uint64)}

    total_bytes_limit: int = 0

    def create(self) -> CachePool:
        """Return an empty pool."""
        return CachePool(self.total_bytes_limit)
