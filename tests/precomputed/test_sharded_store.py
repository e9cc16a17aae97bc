"""The kvstore ``neuroglancer_uint64_sharded``: shards are those of TensorStore, and are read by it."""

import gzip

import numpy as np
import pytest
import tensorstore as ts

import chunkwise as cw
from chunkwise.core.kvstore.adapter.sharded import ShardedStore
from chunkwise.core.kvstore.adapter.uint64_shards import (
    Sharding,
    Uint64Shards,
    chunk_key,
    decode_shard,
    murmurhash3_x86_128,
)
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, ByteRange
from chunkwise.errors import DataCorruptionError


def metadata(**members):
    return {
        "@type": "neuroglancer_uint64_sharded_v1",
        "preshift_bits": 1,
        "hash": "identity",
        "minishard_bits": 2,
        "shard_bits": 5,
        **members,
    }


METADATA = [
    metadata(),
    metadata(preshift_bits=0, minishard_bits=0, shard_bits=0),
    metadata(hash="murmurhash3_x86_128", minishard_index_encoding="gzip"),
    metadata(data_encoding="gzip", minishard_index_encoding="gzip"),
    metadata(hash="murmurhash3_x86_128", data_encoding="gzip"),
]


def open_both(directory, members):
    spec = {"driver": "neuroglancer_uint64_sharded", "metadata": members, "base": f"file://{directory}/"}
    return ts.KvStore.open(spec).result(), cw.KvStore.open(spec).result()


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(1)
    numbers = [*range(20), *rng.integers(0, 2**63, 30).tolist(), 2**64 - 1]
    return {n.to_bytes(8, "big"): rng.integers(0, 5, n % 300).astype("u1").tobytes() for n in numbers}


@pytest.mark.parametrize("members", METADATA)
def test_shards_are_read_by_both_and_are_equal_where_nothing_is_compressed(members, values, tmp_path):
    theirs, _ = open_both(tmp_path / "theirs", members)
    _, ours = open_both(tmp_path / "ours", members)
    for key, value in values.items():
        theirs[key] = value
        ours[key] = value
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("theirs", "ours")
    ]
    assert files[0].keys() == files[1].keys()
    if members.get("data_encoding", "raw") == "raw" and "minishard_index_encoding" not in members:
        assert files[0] == files[1]
    _, read = open_both(tmp_path / "theirs", members)
    read_by_peer, _ = open_both(tmp_path / "ours", members)
    for key, value in values.items():
        assert read[key] == value
        assert read_by_peer[key] == value
    assert sorted(read.list().result()) == sorted(values)


@pytest.mark.parametrize("members", METADATA)
def test_minishards_without_chunks_are_empty_in_any_encoding(members, tmp_path):
    theirs, ours = open_both(tmp_path, members)
    theirs[bytes(8)] = b"x"
    states = [[store.read(chunk_key(n)).result().state for n in range(40)] for store in (theirs, ours)]
    assert states == [["value"] + ["missing"] * 39] * 2


def test_hash_is_that_of_tensorstore(tmp_path):
    members = metadata(hash="murmurhash3_x86_128", preshift_bits=0, minishard_bits=0, shard_bits=64)
    theirs, _ = open_both(tmp_path, members)
    numbers = (0, 1, 2**32, 2**63, 0x0123456789ABCDEF)
    for n in numbers:
        theirs[n.to_bytes(8, "big")] = b"x"
    assert {p.name for p in tmp_path.iterdir()} == {f"{murmurhash3_x86_128(n):016x}.shard" for n in numbers}


def test_conditions_ranges_and_the_last_value_of_a_shard():
    base = MemoryStore()
    store = ShardedStore(base, "s/", Uint64Shards(Sharding.parse(metadata())))
    first, second = chunk_key(1), chunk_key(2)
    assert store.write(first, b"hello", if_equal=b"no") is None
    generation = store.write(first, b"hello", if_equal=MISSING_GENERATION)
    assert store.read(first, byte_range=ByteRange(1, 3)).value == b"el"
    assert store.read(first, if_not_equal=generation).value is None
    assert store.read(second).generation == MISSING_GENERATION
    assert store.delete(second) == MISSING_GENERATION
    assert store.delete(first) == MISSING_GENERATION
    assert list(base.list()) == []


def test_many_changes_write_each_shard_once():
    class Counting(MemoryStore):
        writes = 0

        def write(self, key, value, *, if_equal=None):
            self.writes += 1
            return super().write(key, value, if_equal=if_equal)

    base = Counting()
    store = ShardedStore(base, "", Uint64Shards(Sharding.parse(metadata())))
    store.change({chunk_key(n): lambda _, n=n: bytes([n]) for n in range(64)})
    assert base.writes == len(list(base.list())) == 8
    assert all(store.read(chunk_key(n)).value == bytes([n]) for n in range(64))


def test_a_reader_sees_a_shard_that_was_replaced():
    base = MemoryStore()
    store, other = (ShardedStore(base, "", Uint64Shards(Sharding.parse(metadata()))) for _ in range(2))
    store.write(chunk_key(1), b"old")
    assert store.read(chunk_key(1)).value == b"old"
    other.write(chunk_key(0), b"longer than the old one")
    other.write(chunk_key(1), b"new")
    assert store.read(chunk_key(1)).value == b"new"
    other.delete(chunk_key(1))
    assert store.read(chunk_key(1)).value is None


def test_keys_of_other_sizes_are_refused_as_by_tensorstore(tmp_path):
    for store in open_both(tmp_path, metadata()):
        with pytest.raises(ValueError, match=r'Invalid key:? "abc"'):
            store["abc"]


def shard(*words):
    return np.array(words, "<u8").tobytes()


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"short", "shard is shorter|has an index of 16"),
        (shard(24, 0), "bounds 24 and 0"),
        (shard(0, 2**63), "bounds 0 and 9223372036854775808"),
        (shard(0, 25) + bytes(25), "no multiple of 24"),
        (shard(0, 48), "not in the shard|ends at byte 64 of 16"),
        (shard(0, 24, 7, 0, 1 << 62), "ends beyond every shard"),
        (shard(0, 24, 7, 0, 1 << 40), "not in the shard|ends at byte"),
        (shard(0, 48, 7, 0, 0, 0, 1, 1), "not in ascending order"),
    ],
)
def test_bad_shards(stored, message):
    sharding = Sharding.parse(metadata(preshift_bits=0, minishard_bits=0, shard_bits=0))
    base = MemoryStore()
    base.write("0.shard", stored)
    with pytest.raises(DataCorruptionError, match=message):
        ShardedStore(base, "", Uint64Shards(sharding)).read(chunk_key(7))
    with pytest.raises(DataCorruptionError, match=message):
        decode_shard(stored, sharding)


def test_a_small_file_does_not_become_a_large_value():
    sharding = Sharding.parse(metadata(data_encoding="gzip"))
    base = MemoryStore()
    ShardedStore(base, "", Uint64Shards(sharding)).write(chunk_key(7), bytes(1 << 20))
    with pytest.raises(DataCorruptionError, match="more than 1000 bytes"):
        ShardedStore(base, "", Uint64Shards(sharding, largest_value=1000)).read(chunk_key(7))


@pytest.mark.parametrize("encoded", ["data_encoding", "minishard_index_encoding"])
@pytest.mark.parametrize("more", [b"x", bytes(8), gzip.compress(bytes(24))], ids=["a byte", "zeros", "gzip"])
def test_bytes_after_a_gzip_stream_are_an_error_as_in_tensorstore(encoded, more, tmp_path):
    index, value = np.array([0, 0, 5], "<u8").tobytes(), b"value"
    if encoded == "data_encoding":
        value = gzip.compress(value) + more
        index = np.array([0, 0, len(value)], "<u8").tobytes()
    else:
        index = gzip.compress(index) + more
    bounds = np.array([len(value), len(value) + len(index)], "<u8").tobytes()
    (tmp_path / "0.shard").write_bytes(bounds + value + index)
    members = metadata(preshift_bits=0, minishard_bits=0, shard_bits=1, **{encoded: "gzip"})
    for store in open_both(tmp_path, members):
        with pytest.raises(ValueError):
            store[bytes(8)]
    assert (tmp_path / "0.shard").read_bytes() == bounds + value + index
