"""The kvstore ``memory``: keys and values in the resource ``memory_key_value_store`` of a context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunkwise.core.base.binding import expect_bool
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.context import ContextResource
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, member
from chunkwise.core.specs.url import quote_path

__all__ = ["MemoryKvStoreSpec"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MemoryKvStoreSpec(KvStoreSpec):
    """``{"driver": "memory", "path": "a/"}``, ``memory://a/``."""

    driver: ClassVar[str] = "memory"
    resource_kinds: ClassVar[tuple[str, ...]] = ("memory_key_value_store",)

    atomic: bool = member(
        "atomic", expect_bool, True, shown="with defaults"
    )  # whether transactions of several keys may be atomic

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store itself; the path stays a prefix of keys."""
        resource = self.resources["memory_key_value_store"]
        assert isinstance(resource, ContextResource)
        return resource.value, self.path

    def to_url(self) -> str:
        """Return ``memory://path``."""
        return "memory://" + quote_path(self.path)
