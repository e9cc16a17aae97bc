"""The kvstore ``cache``: another one, whose values are kept in memory or a directory; an extension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunkwise.core.base.binding import JSON, expect_int, expect_string
from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.adapter.read_through import DiskEntries, Entries, MemoryEntries, ReadThroughStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.kvstore_spec import member
from chunkwise.core.specs.kvstores.adapter import OneBaseKvStoreSpec
from chunkwise.core.specs.resources.kind import format_duration, parse_duration
from chunkwise.errors import SpecError

__all__ = ["CacheKvStoreSpec"]

_LIMIT = 1 << 30  # bytes, if the spec has no limit


def _expect_age(value: JSON) -> float:
    seconds = parse_duration(value)
    if seconds < 0:
        raise SpecError(f"Expected a non-negative duration, but received: {value}")
    return seconds


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CacheKvStoreSpec(OneBaseKvStoreSpec):
    """``{"driver": "cache", "base": "s3://b/a/", "directory": "~/.cache/a", "max_age": "1h"}``."""

    driver: ClassVar[str] = "cache"

    # empty for a cache in memory, with the store's lifetime
    directory: str = member("directory", expect_string, "", shown="with defaults")
    total_bytes_limit: int = member(
        "total_bytes_limit", lambda v: expect_int(v, 1), _LIMIT, shown="with defaults"
    )
    # seconds for which a value counts as current
    max_age: float = member("max_age", _expect_age, 0.0, shown="with defaults", to_json=format_duration)

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
