"""Resources with a state: memory storage, cache pools and limits of concurrency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from chunkwise.core.base.binding import JSON, MISSING, dump, expect_int
from chunkwise.core.kvstore.request_limits import Slots
from chunkwise.core.specs.resources.kind import Member, ObjectResource
from chunkwise.errors import SpecError

if TYPE_CHECKING:
    from chunkwise.core.kvstore.memory import MemoryStore

__all__ = ["CachePool", "CachePoolConfig", "Concurrency", "ConcurrencyLimit", "MemoryKeyValueStore"]


class ConcurrencyLimit:
    """Live limit on how many tasks run at a time."""

    __slots__ = ("__weakref__", "limit", "pool", "slots")

    def __init__(self, limit: int | None) -> None:
        # None: the whole process shares the limit and the threads.
        self.limit = limit
        self.slots = None if limit is None else Slots(limit)
        # The threads, set on first use by the layer that runs them.
        self.pool: Any = None


def _parse_limit(value: JSON) -> int | None:
    return None if value == "shared" else expect_int(value, 1, 2**64 - 1)


def _format_limit(limit: int | None) -> JSON:
    return "shared" if limit is None else limit


class Concurrency(ObjectResource):
    """``{"limit": "shared"}``, or a number from 1 on."""

    members: ClassVar[Mapping[str, Member]] = {"limit": Member(_parse_limit, _format_limit)}

    limit: int | None = None

    def create(self) -> ConcurrencyLimit:
        """Return a new limit."""
        return ConcurrencyLimit(self.limit)


class MemoryKeyValueStore(ObjectResource):
    """``{}``."""

    def create(self) -> MemoryStore:
        """Return an empty storage."""
        from chunkwise.core.kvstore.memory import MemoryStore

        return MemoryStore()


class CachePool:
    """Live cache pool of `total_bytes_limit` bytes beyond those in use."""

    __slots__ = ("__weakref__", "cache", "metadata", "total_bytes_limit")

    def __init__(self, total_bytes_limit: int) -> None:
        self.total_bytes_limit = total_bytes_limit
        # Set on first use by the layers that cache chunks and open arrays.
        self.cache: Any = None
        self.metadata: Any = None


def _expect_uint64(value: JSON) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        received = "member is missing" if value is MISSING else f"received: {dump(value)}"
        raise SpecError(f"Expected 64-bit unsigned integer, but {received}")
    return value


class CachePoolConfig(ObjectResource):
    """``{"total_bytes_limit": 0}``."""

    members: ClassVar[Mapping[str, Member]] = {"total_bytes_limit": Member(_expect_uint64)}

    total_bytes_limit: int = 0

    def create(self) -> CachePool:
        """Return an empty pool."""
        return CachePool(self.total_bytes_limit)
