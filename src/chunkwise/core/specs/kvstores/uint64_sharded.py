"""The kvstore ``neuroglancer_uint64_sharded``: values by 64-bit identifier, many in one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunkwise.core.kvstore.adapter.sharded import ShardedStore
from chunkwise.core.kvstore.adapter.uint64_shards import Sharding, Uint64Shards
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.kvstore_spec import member
from chunkwise.core.specs.kvstores.adapter import OneBaseKvStoreSpec

__all__ = ["ShardedKvStoreSpec"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ShardedKvStoreSpec(OneBaseKvStoreSpec):
    """``{"driver": "neuroglancer_uint64_sharded", "base": "file:///v/8_8_40/", "metadata": {…}}``."""

    driver: ClassVar[str] = "neuroglancer_uint64_sharded"
    resource_kinds: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")

    # It is ``sharding`` of a scale.
    sharding: Sharding = member("metadata", Sharding.parse, to_json=Sharding.to_json)

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store of the shards; the path stays a prefix of keys."""
        driver, path = self.below.as_directory().open_driver()
        cache_nbytes = self.live("cache_pool").total_bytes_limit
        return ShardedStore(driver, path, Uint64Shards(self.sharding), cache_nbytes), self.path
