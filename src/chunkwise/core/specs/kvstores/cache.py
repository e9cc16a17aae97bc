"""The kvstore ``cache``: another one, whose values are kept in memory or a directory; an extension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chunkwise.core.base.binding import JSON, Members, expect_int, expect_string
from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.adapter.read_through import ReadThroughStore
from chunkwise.core.kvstore.adapter.read_through_disk import DiskEntries
from chunkwise.core.kvstore.adapter.read_through_memory import Entries, MemoryEntries
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.kvstores.adapter import OneBaseKvStoreSpec
from chunkwise.core.specs.resources.kind import format_duration, parse_duration
from chunkwise.errors import SpecError

__all__ = ["CacheKvStoreSpec"]

_LIMIT = 1 << 30  # bytes, if the spec has no limit


def _expect_age(value: JSON) -> float:
    seconds = parse_duration(value)
    if seconds < 0:
        raise SpecError(f"Expected a duration that is not negative, but received: {value}")
    return seconds


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CacheKvStoreSpec(OneBaseKvStoreSpec):
    """``{"driver": "cache", "base": "s3://b/a/", "directory": "~/.cache/a", "max_age": "1h"}``."""

    driver: ClassVar[str] = "cache"

    directory: str = ""  # empty for a cache in memory, with the store's lifetime
    total_bytes_limit: int = _LIMIT
    max_age: float = 0.0  # seconds for which a value counts as current

    @classmethod
    def parse_members(cls, members: Members) -> dict[str, Any]:
        """Take ``base``, and where and how long to keep values."""
        return {
            **super().parse_members(members),
            "directory": members.take("directory", expect_string, ""),
            "total_bytes_limit": members.take("total_bytes_limit", lambda v: expect_int(v, 1), _LIMIT),
            "max_age": members.take("max_age", _expect_age, 0.0),
        }

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return the members that aren't at their default."""
        out: dict[str, Any] = {"directory": self.directory} if self.directory or include_defaults else {}
        if self.total_bytes_limit != _LIMIT or include_defaults:
            out["total_bytes_limit"] = self.total_bytes_limit
        if self.max_age or include_defaults:
            out["max_age"] = format_duration(self.max_age)
        return out

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return a cache of the store below; the path stays a prefix of keys."""
        driver, path = self.below.open_driver()
        base = PrefixStore(driver, path) if path else driver
        entries: Entries
        if self.directory:
            entries = DiskEntries(self.directory, self.total_bytes_limit, repr(base.identity))
        else:
            entries = MemoryEntries(self.total_bytes_limit)
        return ReadThroughStore(base, entries, max_age=self.max_age), self.path
