"""The contract of kvstores, on the store of shards with each of its formats.

Keys of such a store are numbers of fixed size, so each name of the contract stands for one of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.crc32c import Crc32c
from chunkwise.core.codec.sharding import ShardLayout, index_chain
from chunkwise.core.kvstore.adapter.indexed_shard import IndexedShard
from chunkwise.core.kvstore.adapter.sharded import ShardedStore, SingleShardStore
from chunkwise.core.kvstore.adapter.uint64_shards import Sharding, Uint64Shards
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.protocol import Buffer, ByteRange, Children, KvStoreDriver, Reader, Stamped
from chunkwise.core.kvstore.traits import StoreTraits
from chunkwise.testing.kvstore_contract import KEYS, KvStoreContract

OTHERS = (
    "a/0",
    "a/1/x",
    "a/1/y",
    "a/10",
    "a0",
    "b",
    "c/0/0",
    "é",
    "d/k",
    "k",
    "gone",
    "a/k",
    "a/b/c",
    "a/none",
    "nothing/here",
    "k/below",
    "kk",
    "d/v",
    "m",
    "d/none",
    "x/y/z",
    "no/k",
    "missing",
    "a/b/d",
    "r",
    ".z",
    "n",
    "a",
    "never there",
)
NAMES = sorted({encode_key(name) for name in (*KEYS, *OTHERS)})


@dataclass(frozen=True)
class Named:
    """The values of `store` under the names of the contract, in their order."""

    store: ShardedStore

    def _key(self, name: str) -> str:
        return self.store.format.key(NAMES.index(encode_key(name)))

    def _bound(self, name: str) -> str:
        return name and self.store.format.key(bisect_left(NAMES, encode_key(name)))

    @property
    def identity(self) -> Any:
        return self.store.identity

    @property
    def traits(self) -> StoreTraits:
        return self.store.traits.adapted(
            rename=self._key, is_cached=None, shard_indexes=None, open_writer=None, open_into_reader=None
        )

    def describe(self, key: str) -> str:
        return self.store.describe(self._key(key))

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        return self.store.read(self._key(key), byte_range=byte_range, if_not_equal=if_not_equal)

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        return self.store.read_ranges(self._key(key), starts, stops)

    def open_reader(self) -> Reader:
        read = self.store.open_reader()
        return lambda key, start=0, stop=None: read(self._key(key), start, stop)

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        return self.store.write(self._key(key), value, if_equal=if_equal)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        return self.store.delete(self._key(key), if_equal=if_equal)

    def delete_range(self, start: str = "", stop: str = "") -> None:
        self.store.delete_range(self._bound(start), self._bound(stop))

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        for key in self.store.list(self._bound(start), self._bound(stop)):
            yield NAMES[self.store.format.place(key).entry].decode("utf-8", "surrogateescape")

    def list_children(self, prefix: str) -> Children:
        below = KeyRange.of_prefix(prefix)
        return Children.of(prefix, self.list(below.start, below.stop))


def indexed_shard(at_end: bool) -> IndexedShard:
    cells = (6, 10)
    assert len(NAMES) < 60
    chain = index_chain((Bytes("little"), Crc32c()), cells)
    return IndexedShard(ShardLayout.of(cells, chain, at_end=at_end), f"at_end={at_end}")


class TestShardWithIndexAtEnd(KvStoreContract):
    @pytest.fixture
    def store(self, tmp_path) -> KvStoreDriver:
        return Named(SingleShardStore(FileStore(tmp_path, sync=False), "c/0/0", indexed_shard(True)))


class TestShardWithIndexAtStart(KvStoreContract):
    @pytest.fixture
    def store(self, tmp_path) -> KvStoreDriver:
        return Named(SingleShardStore(FileStore(tmp_path, sync=False), "c/0/0", indexed_shard(False)))


class TestUint64Shards(KvStoreContract):
    """Several shards, in which values are compressed."""

    @pytest.fixture
    def store(self, tmp_path) -> KvStoreDriver:
        format = Uint64Shards(Sharding(1, "murmurhash3_x86_128", 1, 1, "gzip", "gzip"))
        return Named(ShardedStore(FileStore(tmp_path, sync=False), "s/", format))
