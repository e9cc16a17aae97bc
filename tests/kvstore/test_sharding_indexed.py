"""The kvstore ``zarr3_sharding_indexed``: shards, specs and errors are TensorStore's."""

from __future__ import annotations

import struct
from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorstore
from tests.trace_store import TraceStore

import chunkwise as ts
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import DataCorruptionError

LITTLE = [{"name": "bytes", "configuration": {"endian": "little"}}]
CHECKED = [*LITTLE, {"name": "crc32c"}]
TURNED = [
    {"name": "transpose", "configuration": {"order": [2, 0, 1]}},
    {"name": "bytes", "configuration": {"endian": "big"}},
    {"name": "crc32c"},
]
BOTH = (tensorstore, ts)


def spec(base: Any = "memory://s", **members: Any) -> dict[str, Any]:
    out = {"driver": "zarr3_sharding_indexed", "base": base, "grid_shape": [2, 3], "index_codecs": CHECKED}
    return {name: value for name, value in {**out, **members}.items() if value is not None}


def key(*index: int) -> bytes:
    return struct.pack(f">{len(index)}I", *index)


def opened(store: Any, **members: Any) -> Any:
    """Return the kvstore whose shard is the value of ``s`` in `store`."""
    return ts.KvStore.open(spec({"driver": "object", "object": store, "path": "s"}, **members)).result()


@pytest.mark.parametrize("codecs", [CHECKED, LITTLE, TURNED], ids=["checked", "plain", "turned"])
@pytest.mark.parametrize("location", ["start", "end"])
def test_shards_are_those_of_tensorstore_and_are_read_by_both(codecs, location, tmp_path):
    values = {key(1, 2): b"last", key(0, 0): b"first", key(0, 1): b"", key(1, 0): bytes(1000)}
    files = []
    for module in BOTH:
        path = tmp_path / module.__name__ / "s"
        members = spec(f"file://{path}", index_codecs=codecs, index_location=location)
        store = module.KvStore.open(members).result()
        for name, value in values.items():
            store[name] = value
        store[key(1, 1)] = b"gone"
        del store[key(1, 1)]
        files.append(path.read_bytes())
        for reader in BOTH:
            read = reader.KvStore.open(members).result()
            assert {name: read[name] for name in read.list().result()} == values
            assert read.read(key(1, 1)).result().state == "missing"
    assert files[0] == files[1]


def test_a_grid_without_dimensions_has_one_key(tmp_path):
    files = []
    for module in BOTH:
        store = module.KvStore.open(spec(f"file://{tmp_path}/s", grid_shape=[])).result()
        store[b""] = b"value"
        files.append((tmp_path / "s").read_bytes())
        assert store.list().result() == [b""]
    assert files[0] == files[1]


@pytest.mark.parametrize("location", ["start", "end"])
def test_entries_of_a_shard_of_an_array(location, tmp_path):
    """What TensorStore's arrays have written is read by cell; what is written by cell is in the array."""
    sharding = {
        "chunk_shape": [2, 4],
        "codecs": LITTLE,
        "index_codecs": CHECKED,
        "index_location": location,
    }
    array = tensorstore.open(
        {"driver": "zarr3", "kvstore": f"file://{tmp_path}/"},
        create=True,
        dtype="uint16",
        shape=[8, 24],
        chunk_layout=tensorstore.ChunkLayout(write_chunk_shape=[4, 12]),
        codec=tensorstore.CodecSpec(
            {"driver": "zarr3", "codecs": [{"name": "sharding_indexed", "configuration": sharding}]}
        ),
    ).result()
    values = np.arange(1, 8 * 24 + 1, dtype="<u2").reshape(8, 24)
    array.write(values).result()
    shard = ts.KvStore.open(spec(f"file://{tmp_path}/c/1/0", index_location=location)).result()
    assert shard.list().result() == [key(*cell) for cell in product(range(2), range(3))]
    for i, j in product(range(2), range(3)):
        chunk = values[4 + 2 * i : 6 + 2 * i, 4 * j : 4 * j + 4]
        assert shard[key(i, j)] == chunk.tobytes()
    shard[key(1, 2)] = (values[:2, :4] + 5).tobytes()
    del shard[key(0, 0)]
    values[6:, 8:12] = values[:2, :4] + 5
    values[4:6, :4] = 0
    again = tensorstore.open({"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}).result()
    assert np.array_equal(again.read().result(), values)


WRONG: list[dict[str, Any]] = [
    {"grid_shape": None},
    {"index_codecs": None},
    {"base": None},
    {"base": 5},
    {"unknown": 1},
    *({"grid_shape": shape} for shape in ([0, 1], [2, -1], [2.5], "a", [1] * 32, [2**31], [2**32, 2**31])),
    *({"index_codecs": codecs} for codecs in ([], "x", [{"name": "crc32c"}], [*LITTLE, *LITTLE])),
    {"index_location": "middle"},
]
RIGHT: list[dict[str, Any]] = [
    {},
    {"grid_shape": []},
    {"grid_shape": [1] * 31},
    {"index_location": "start", "path": "a"},
    {"index_codecs": TURNED, "cache_pool": {"total_bytes_limit": 1000}},
    {"context": {"cache_pool": {}}},
]


@pytest.mark.parametrize("members", WRONG, ids=str)
def test_wrong_members_are_named_as_by_tensorstore(members):
    messages = []
    for module in BOTH:
        with pytest.raises(ValueError) as e:
            module.KvStore.Spec(spec(**members))
        messages.append(str(e.value))
    assert messages[0] == messages[1]


def test_an_unknown_codec_of_the_index_is_named():
    for module in BOTH:
        with pytest.raises(ValueError, match=r'"index_codecs".*position 1.*"unknown" is not registered'):
            module.KvStore.Spec(spec(index_codecs=[*LITTLE, {"name": "unknown"}]))


@pytest.mark.parametrize("members", RIGHT, ids=str)
def test_specs_are_those_of_tensorstore(members):
    theirs, ours = (module.KvStore.Spec(spec(**members)) for module in BOTH)
    assert ours.to_json() == theirs.to_json()
    assert ours.to_json(include_defaults=True) == theirs.to_json(include_defaults=True)
    assert ts.KvStore.Spec(ours.to_json()) == ours
    assert repr(ours) == repr(theirs)
    assert (ours / "x").to_json() == (theirs / "x").to_json()
    assert ours.base.to_json() == theirs.base.to_json()
    with pytest.raises(NotImplementedError):
        _ = ours.url
    opened = [module.KvStore.open(spec(**members)).result().spec().to_json() for module in BOTH]
    assert opened[0] == opened[1]


@pytest.mark.parametrize(
    "codecs",
    [
        [*LITTLE, {"name": "gzip", "configuration": {"level": 1}}],
        [{"name": "transpose", "configuration": {"order": [1, 0]}}, *LITTLE],
    ],
    ids=["of any size", "of another rank"],
)
def test_codecs_that_an_index_cannot_have(codecs):
    messages = []
    for module in BOTH:
        with pytest.raises(ValueError) as e:
            module.KvStore.open(spec(index_codecs=codecs)).result()
        messages.append(str(e.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("name", [b"abc", b"", key(2, 0), key(0, 3), key(0, 0, 0), key(0)], ids=str)
def test_keys_of_no_cell_are_refused(name):
    store = ts.KvStore.open(spec()).result()
    peer = tensorstore.KvStore.open(spec()).result()
    for call in (
        lambda s: s.read(name).result(),
        lambda s: s.write(name, b"x").result(),
        lambda s: s.write(name, None).result(),
        lambda s: s[name],
    ):
        for each in (store, peer):
            with pytest.raises(ValueError, match=r"Invalid key \(grid_shape=\{2, 3\}\): "):
                call(each)
    assert store.list().result() == []
    store[key(0, 0)] = b"x"
    transaction = ts.Transaction()
    inside = store.with_transaction(transaction)
    inside[key(1, 1)] = b"y"
    with pytest.raises(ValueError, match="Invalid key"):
        inside[name] = b"x"
    transaction.commit_sync()
    assert store.list().result() == [key(0, 0), key(1, 1)]


def test_ranges_of_keys():
    for module in BOTH:
        store = module.KvStore.open(spec()).result()
        for cell in product(range(2), range(3)):
            store[key(*cell)] = b"x"
        some = module.KvStore.KeyRange(key(0, 1), key(1, 1))
        assert store.list(some).result() == [key(0, 1), key(0, 2), key(1, 0)]
        store.delete_range(some).result()
        assert store.list().result() == [key(0, 0), key(1, 1), key(1, 2)]
        context = module.Context()
        whole, row = (
            module.KvStore.open(spec(path=path), context=context).result() for path in ("", "\0\0\0\1")
        )
        row[key(2)] = b"x"
        assert whole.list().result() == [key(1, 2)]
        assert row.list().result() == [key(2)]
        store.delete_range(module.KvStore.KeyRange()).result()
        assert store.base.read("").result().state == "missing"


def test_a_read_takes_parts_of_the_shard_and_the_index_once():
    base = TraceStore(MemoryStore())
    store = opened(base)
    store[key(0, 0)] = bytes(100)
    store[key(1, 2)] = bytes(5000)
    reader = opened(base)
    base.requests.clear()
    assert reader[key(0, 0)] == bytes(100)
    # The index, no byte in front of it, the entry.
    assert [request.n_bytes for request in base.requests] == [6 * 16 + 4, 0, 100]
    base.requests.clear()
    reader[key(0, 0)]
    assert reader._driver.read("\0\0\0\1\0\0\0\2", byte_range=(10, 20)).value == bytes(10)
    assert reader.list().result() == [key(0, 0), key(1, 2)]
    assert [request.n_bytes for request in base.requests] == [100, 10, 100, 0]


def test_a_transaction_writes_the_shard_once_and_deletions_of_nothing_write_none():
    base = TraceStore(MemoryStore())
    store = opened(base)
    store[key(0, 0)] = b"old"
    store[key(0, 1)] = b"kept"
    generation = store.read(key(0, 1)).result().stamp.generation
    base.requests.clear()
    with ts.Transaction() as transaction:
        inside = store.with_transaction(transaction)
        for cell in product(range(2), range(3)):
            inside[key(*cell)] = bytes(cell)
        inside.delete_range(ts.KvStore.KeyRange(key(0, 0), key(0, 1))).result()
        inside.write(key(0, 1), b"kept no more", if_equal=generation).result()
    assert base.count("write") == 1
    assert store.list().result() == [key(*cell) for cell in product(range(2), range(3))][1:]
    with pytest.raises(ValueError, match="mismatch"), ts.Transaction() as transaction:
        inside = store.with_transaction(transaction)
        inside[key(0, 0)] = b"not written"
        inside.write(key(0, 1), b"x", if_equal=generation).result()
    assert store.read(key(0, 0)).result().state == "missing"
    base.requests.clear()
    del store[key(0, 0)]
    assert base.count("write") == base.count("delete") == 0


def test_an_old_index_is_noticed():
    """Also where the entry is missing, empty, or the caller's generation."""
    base = MemoryStore()
    one, other = opened(base), opened(base)
    one[key(0, 0)] = b""
    generation = one.read(key(0, 0)).result().stamp.generation
    assert other[key(0, 0)] == b""
    assert other.read(key(0, 1)).result().state == "missing"
    one[key(0, 0)] = b"new"
    one[key(0, 1)] = b"new"
    assert other.read(key(0, 0), if_not_equal=generation).result().value == b"new"
    one[key(0, 0)] = b""
    assert other[key(0, 0)] == b""
    one[key(0, 0)] = b"longer"
    assert other[key(0, 0)] == b"longer"
    assert other._driver.read("\0" * 8, byte_range=(0, 6)).value == b"longer"
    one.delete_range(ts.KvStore.KeyRange()).result()
    assert other.read(key(0, 0)).result().state == "missing"
    assert list(base.list()) == []


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("new", [b"", b"short", bytes(1000), None], ids=["empty", "short", "long", "missing"])
def test_a_shard_that_is_replaced_while_it_is_read(after, new):
    class Replaced(MemoryStore):
        """A store in which another writer comes in after some reads."""

        left = None

        def read(self, name, **options):
            if self.left == 0:
                self.left = None
                opened(self).write(key(0, 0), new).result()
            elif self.left is not None:
                self.left -= 1
            return super().read(name, **options)

    base = Replaced()
    opened(base)[key(0, 0)] = bytes(100)
    store = opened(base)
    base.left = after
    found = store.read(key(0, 0)).result()
    assert base.left is None
    assert (found.state, found.value) == (("missing", b"") if new is None else ("value", new))


def shard(entries: dict[int, tuple[int, int]], location: str) -> bytes:
    index = np.full((6, 2), 2**64 - 1, "<u8")
    for position, entry in entries.items():
        index[position] = entry
    body = b"0123456789"
    return index.tobytes() + body if location == "start" else body + index.tobytes()


@pytest.mark.parametrize(
    ("location", "entry"),
    [
        *(
            ("end", entry)
            for entry in ((4, 10), (0, 107), (90, 16), (2**63, 1), (3, 2**64 - 2), (2**64 - 1, 3))
        ),
        *(("start", entry) for entry in ((0, 10), (95, 3), (100, 7), (2**63, 1), (96, 2**64 - 2))),
    ],
)
def test_entries_outside_or_in_the_index_are_corrupt(location, entry):
    base = MemoryStore()
    stored = shard({0: entry}, location)
    base.write("s", stored)
    store = opened(base, index_codecs=LITTLE, index_location=location)
    for call in (
        lambda: store[key(0, 0)],
        lambda: store.write(key(1, 1), b"x").result(),
        lambda: store.delete_range(ts.KvStore.KeyRange()).result(),
    ):
        with pytest.raises(DataCorruptionError):
            call()
    assert base.read("s").value == stored


@pytest.mark.parametrize("location", ["start", "end"])
def test_entries_may_be_anywhere_else(location):
    first = 96 if location == "start" else 0
    base = MemoryStore()
    base.write("s", shard({0: (first, 10), 1: (first + 3, 2), 2: (first + 10, 0)}, location))
    store = opened(base, index_codecs=LITTLE, index_location=location)
    assert [store[key(0, i)] for i in range(3)] == [b"0123456789", b"34", b""]
    store[key(1, 0)] = b"x"
    assert [store[key(0, i)] for i in range(3)] == [b"0123456789", b"34", b""]


def test_damage_of_the_index_is_noticed():
    base = MemoryStore()
    opened(base)[key(0, 0)] = b"value"
    stored = bytearray(base.read("s").value)
    stored[-10] ^= 1
    for damaged in (stored, b"short"):
        base.write("s", damaged)
        for call in (
            lambda store: store[key(0, 0)],
            lambda store: store.list().result(),
            lambda store: store.write(key(0, 0), b"x").result(),
        ):
            with pytest.raises(DataCorruptionError, match="Error reading"):
                call(opened(base))
        assert base.read("s").value == damaged
