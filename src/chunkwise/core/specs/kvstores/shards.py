"""The kvstores ``zarr3_sharding_indexed`` and ``neuroglancer_uint64_sharded``: the entries of shards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import ClassVar

from chunkwise.core.base.binding import JSON, dump, expect_int, expect_one_of, parse_array
from chunkwise.core.codec.chain import codecs_to_json, parse_chain
from chunkwise.core.codec.protocol import Codec
from chunkwise.core.codec.sharding import ShardLayout, index_chain
from chunkwise.core.kvstore.adapter.indexed_shard import IndexedShard
from chunkwise.core.kvstore.adapter.sharded import ShardedStore, SingleShardStore
from chunkwise.core.kvstore.adapter.uint64_shards import Sharding, Uint64Shards
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.kvstore_spec import member
from chunkwise.core.specs.kvstores.adapter import OneBaseKvStoreSpec
from chunkwise.errors import SpecError, braced

__all__ = ["ShardedKvStoreSpec", "ShardingIndexedKvStoreSpec"]

_HIGHEST_RANK = 31  # the index has one more dimension
_MOST_CELLS = 1 << 30  # as in TensorStore


def _parse_grid_shape(value: JSON) -> tuple[int, ...]:
    shape = tuple(parse_array(value, lambda v: expect_int(v, 1, 2**63 - 2)))
    if len(shape) > _HIGHEST_RANK:
        raise SpecError(f"grid rank of {len(shape)} exceeds maximum of {_HIGHEST_RANK}")
    if prod(shape) > _MOST_CELLS:
        raise SpecError(f"grid shape of {braced(shape)} has more than {_MOST_CELLS} entries")
    return shape


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ShardingIndexedKvStoreSpec(OneBaseKvStoreSpec):
    """``{"driver": "zarr3_sharding_indexed", "base": "file:///a/c/0/0", "grid_shape": [4, 4], …}``."""

    driver: ClassVar[str] = "zarr3_sharding_indexed"
    resource_kinds: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")

    # inner chunks along each dimension
    grid_shape: tuple[int, ...] = member("grid_shape", _parse_grid_shape, to_json=list)
    index_codecs: tuple[Codec, ...] = member("index_codecs", parse_chain, to_json=codecs_to_json)
    # position of the index in the shard
    index_location: str = member("index_location", partial(expect_one_of, choices=("start", "end")), "end")

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store of the shard; the path stays a prefix of keys."""
        driver, key = self.below.open_driver()
        chain = index_chain(self.index_codecs, self.grid_shape)
        layout = ShardLayout.of(self.grid_shape, chain, at_end=self.index_location == "end")
        format = IndexedShard(layout, dump(self.own_members(include_defaults=True)))
        return SingleShardStore(driver, key, format, self.live("cache_pool").total_bytes_limit), self.path


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
