"""The strategies of reads and writes, case by case: each is one pure function."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

import chunkwise
from chunkwise.core.engine import strategy
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.strategy import read_strategy, write_strategy
from chunkwise.core.engine.targets import _copy_parts
from chunkwise.core.kvstore.memory import MemoryStore

KIB, MIB = 1 << 10, 1 << 20
ZSTD, RAW = 1.35, 0.0  # nanoseconds for each decoded byte

# source, rate of decoding, bytes of a chunk, chunks, further facts -> source, target, threads
CASES = {
    "a small chunk": (("store", ZSTD, 8 * KIB, 1, {}), ("store", "staged", 0)),
    "a few small chunks": (("store", ZSTD, 8 * KIB, 8, {}), ("store", "staged", 0)),
    "many small chunks are one thread's": (("store", ZSTD, 8 * KIB, 4096, {}), ("store", "staged", 1)),
    "middling chunks": (("store", ZSTD, 64 * KIB, 512, {}), ("store", "staged", 2)),
    "middling raw chunks are one thread's": (("store", RAW, 64 * KIB, 512, {}), ("store", "staged", 1)),
    "large chunks": (("store", ZSTD, 4 * MIB, 64, {}), ("store", "direct", 2)),
    "large raw chunks": (("store", RAW, 4 * MIB, 64, {}), ("store", "direct", 2)),
    "half of what is staged": (("store", ZSTD, 512 * KIB, 64, {}), ("store", "staged", 2)),
    "more than half of it": (("store", ZSTD, 513 * KIB, 64, {}), ("store", "direct", 2)),
    "pieces of the result": (("store", ZSTD, 8 * KIB, 4096, {"in_place": True}), ("store", "direct", 1)),
    "one processor": (("store", ZSTD, 4 * MIB, 64, {"n_processors": 1}), ("store", "direct", 1)),
    "one chunk": (("store", ZSTD, 4 * MIB, 1, {}), ("store", "direct", 1)),
    "a slow store": (("store", ZSTD, 8 * KIB, 100, {"request_concurrency": 32}), ("store", "staged", 32)),
    "one request": (("store", ZSTD, 8 * KIB, 1, {"request_concurrency": 32}), ("store", "staged", 1)),
    "few threads for the store": (("store", ZSTD, 4 * MIB, 64, {"io_limit": 1}), ("store", "direct", 1)),
    "a cache": (("cache", ZSTD, 8 * KIB, 64, {}), ("cache", "direct", 0)),
    "shards": (("shards", ZSTD, 64 * KIB, 4096, {}), ("shards", "staged", 2)),
    "many small chunks decoded together": (
        ("store", ZSTD, 8 * KIB, 4096, {"batches": True}),
        ("store", "staged", 2),
    ),
    "many tiny chunks decoded together are one thread's": (
        ("store", ZSTD, KIB, 4096, {"batches": True}),
        ("store", "staged", 1),
    ),
    "shards of small chunks": (("shards", ZSTD, 8 * KIB, 4096, {}), ("shards", "staged", 1)),
    "shards of small chunks decoded together": (
        ("shards", ZSTD, 8 * KIB, 4096, {"batches": True}),
        ("shards", "staged", 2),
    ),
    "a small box of a shard": (("shards", ZSTD, 64 * KIB, 18, {"n_shards": 1}), ("shards", "staged", 0)),
    "the same, one read of a batch": (
        ("shards", ZSTD, 64 * KIB, 18, {"n_shards": 1, "beside_others": True}),
        ("shards", "staged", 1),
    ),
    "a large box": (("shards", ZSTD, 64 * KIB, 64, {"n_shards": 8}), ("shards", "staged", 2)),
    "shards of large chunks": (("shards", ZSTD, 4 * MIB, 64, {}), ("shards", "direct", 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case):
    """Each case takes its way."""
    (source, rate, nbytes, n_chunks, facts), expected = CASES[case]
    facts = {"n_processors": 2, **facts}
    found = read_strategy(source=source, decode_rate=rate, chunk_nbytes=nbytes, n_chunks=n_chunks, **facts)
    assert found[:3] == expected
    assert found.batch_nbytes > 0


@pytest.mark.parametrize(
    ("source", "rate", "nbytes", "facts", "together"),
    [
        ("store", ZSTD, 8 * KIB, {}, True),
        ("store", ZSTD, 64 * KIB, {}, False),  # worth a thread alone
        ("shards", ZSTD, 64 * KIB, {}, True),
        ("shards", ZSTD, 256 * KIB, {}, False),  # too few of them are staged
        ("store", ZSTD, 8 * KIB, {"batches": False}, False),
        ("store", ZSTD, 8 * KIB, {"in_place": True}, False),
        ("store", ZSTD, 8 * KIB, {"request_concurrency": 32}, False),
        ("cache", ZSTD, 8 * KIB, {}, False),
    ],
)
def test_chunks_decoded_together(source, rate, nbytes, facts, together):
    """One call decodes a batch where the codecs can, chunks are small, and the store answers at once."""
    facts = {"n_processors": 2, "batches": True, **facts}
    found = read_strategy(source=source, decode_rate=rate, chunk_nbytes=nbytes, n_chunks=4096, **facts)
    assert found.together is together


# rate of encoding, bytes of a chunk, objects, chunks of each -> threads, done by the caller at once
WRITES = {
    "a small chunk": ((4.0, 8 * KIB, 1, 1), (1, True)),
    "many small chunks are one thread's": ((4.0, 8 * KIB, 4096, 1), (1, False)),
    "middling chunks": ((4.0, 64 * KIB, 512, 1), (2, False)),
    "middling raw chunks are one thread's": ((0.0, 64 * KIB, 512, 1), (1, False)),
    "one large chunk": ((4.0, 4 * MIB, 1, 1), (1, False)),
    "shards of small chunks": ((4.0, 8 * KIB, 8, 512), (2, False)),
    "shards of small raw chunks": ((0.0, 8 * KIB, 8, 512), (1, False)),
    "one shard": ((4.0, 8 * KIB, 1, 512), (1, False)),
    "one small shard": ((4.0, KIB, 1, 64), (1, True)),
}


@pytest.mark.parametrize("case", WRITES)
def test_cases_of_writes(case):
    """Each case of a write to local files or memory takes its way."""
    (rate, nbytes, n_objects, n_chunks), expected = WRITES[case]
    chain = SimpleNamespace(item=SimpleNamespace(nbytes=nbytes), encode_rate=rate)
    found = write_strategy(Pool(2), MemoryStore(), chain, n_objects, n_chunks)
    assert (found.n_workers, found.inline) == expected


# rate of encoding, bytes of an inner chunk, shards, inner chunks of each, processors -> pieces
PIECES = {
    "one shard": ((7.0, 64 * KIB, 1, 128, 2), 8),
    "one shard of few inner chunks": ((7.0, 512 * KIB, 1, 4, 2), 4),
    "several shards": ((7.0, 64 * KIB, 2, 128, 2), 1),
    "one processor": ((7.0, 64 * KIB, 1, 128, 1), 1),
    "copying takes most of the time": ((1.0, 64 * KIB, 1, 128, 2), 1),
    "little work": ((7.0, 64 * KIB, 1, 4, 2), 1),
    "small inner chunks": ((7.0, 2 * KIB, 1, 4096, 2), 1),
    "a large chunk": ((7.0, 64 * MIB, 1, 1, 2), 1),
}


@pytest.mark.parametrize("concurrency", [None, 32], ids=["local", "slow"])
@pytest.mark.parametrize("case", PIECES)
def test_pieces_of_a_shard(case, concurrency):
    """Several threads encode a single shard where that takes long, unless they have other work."""
    (rate, nbytes, n_shards, n_chunks, n_processors), expected = PIECES[case]
    chain = SimpleNamespace(item=SimpleNamespace(nbytes=nbytes), encode_rate=rate)
    store = MemoryStore()
    store.traits = store.traits._replace(request_concurrency=concurrency)
    pool, busy = Pool(n_processors), Pool(1)
    assert write_strategy(pool, store, chain, n_shards, n_chunks).n_pieces == expected
    end = threading.Event()
    work = busy.run([None], lambda _: lambda _: end.wait(20) and None, lambda: None, n_workers=1)
    assert write_strategy(pool, store, chain, n_shards, n_chunks).n_pieces == 1
    end.set()
    work.result(20)


def test_without_an_interpreter_lock_small_chunks_are_read_by_all_threads(monkeypatch):
    """Python says since 3.13 whether it has the lock; older versions always have it."""
    facts = {"source": "store", "decode_rate": ZSTD, "n_processors": 2}
    many, few = {"chunk_nbytes": 8 * KIB, "n_chunks": 4096}, {"chunk_nbytes": 64 * KIB, "n_chunks": 18}
    for has_lock, n_many, n_few in ((True, 1, 0), (False, 2, 2)):
        monkeypatch.setattr(strategy, "_HAS_LOCK", has_lock)
        assert read_strategy(**facts, **many).n_workers == n_many
        assert read_strategy(**facts, **few).n_workers == n_few


def test_batches_of_slow_shards():
    """A large shard isn't cut into hundreds of requests; small ones are read at the same time."""
    facts = {"n_processors": 2, "request_concurrency": 32, "decode_rate": ZSTD, "chunk_nbytes": 8 * KIB}
    large = read_strategy(source="shards", n_chunks=4096, n_shards=1, **facts)
    assert (large.batch_nbytes, large.n_workers) == (32 * MIB, 1)
    small = read_strategy(source="shards", n_chunks=4096, n_shards=8, **facts)
    assert (small.batch_nbytes, small.n_workers) == (4 * MIB, 8)


@pytest.mark.parametrize("n_shards", [2, 32, 1000])
def test_sparse_reads_of_slow_shards(n_shards):
    """A chunk of each of many shards: as many requests are under way as the store takes."""
    facts = {"n_processors": 2, "request_concurrency": 32, "decode_rate": ZSTD, "chunk_nbytes": 8 * KIB}
    found = read_strategy(source="shards", n_chunks=n_shards, n_shards=n_shards, **facts)
    assert found.n_workers == min(32, n_shards)
    assert n_shards * 8 * KIB // found.batch_nbytes >= min(32, n_shards)


def test_chunks_that_a_cache_holds_are_the_callers(tmp_path):
    """Chunks that would be decoded by two threads are copied by the caller once they are cached."""
    path = str(tmp_path / "a")
    chunkwise.create_array(path, np.zeros((384, 64, 64), "u2"), chunks=[64] * 3, codec="zstd", format="zarr3")
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": path}, "recheck_cached_data": False}
    context = {"cache_pool": {"total_bytes_limit": 10_000_000}}
    array = chunkwise.open(spec, context=chunkwise.Context(context)).result()
    column = array[:, 5, 6]
    before = str(column.explain())
    assert not column.read().result().any()
    after = str(column.explain())
    assert "the calling thread" in after
    assert "the calling thread" not in before


def test_reads_of_a_batch_leave_the_callers_thread(tmp_path, monkeypatch):
    """What one read alone would do at once is handed over where the caller starts several together."""
    path = str(tmp_path / "a")
    data = np.arange(64**3, dtype="u2").reshape(64, 64, 64)
    array = chunkwise.create_array(path, data, chunks=[32] * 3, codec="zstd", format="zarr3")
    threads = []
    monkeypatch.setattr(
        "chunkwise.core.engine.targets._copy_parts",
        lambda *arguments, copy=_copy_parts: (threads.append(threading.current_thread()), copy(*arguments)),
    )
    monkeypatch.setattr("chunkwise.core.engine.pool.n_processors", lambda: 2)
    with chunkwise.Batch() as batch:
        future = array[1:63, 1:63, 1:63].read(batch=batch)
    np.testing.assert_array_equal(future.result(), data[1:63, 1:63, 1:63])
    assert threads and threading.main_thread() not in threads
    threads.clear()
    np.testing.assert_array_equal(array[1:63, 1:63, 1:63].read().result(), data[1:63, 1:63, 1:63])
    assert set(threads) == {threading.main_thread()}
