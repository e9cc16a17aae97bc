"""Reads of one batch fetch what several of them want once; each gives what it would give alone."""

import struct
import threading

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.core.engine import batch
from chunkwise.core.engine.batch import Batch, SharedReads
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.read import ArrayReader
from chunkwise.core.engine.write import write_from
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS
from chunkwise.errors import ChunkwiseError

SHAPE = (24, 8, 8)
DATA = np.random.default_rng(0).integers(1, 60000, SHAPE, dtype=np.uint16)


class Slow(MemoryStore):
    """A store that counts as slow, and says what it was asked for."""

    traits = DEFAULT_TRAITS._replace(request_concurrency=16)

    def __init__(self):
        super().__init__()
        self.asked = []
        self.on_index = None

    def read(self, key, **options):
        span = options.get("byte_range")
        self.asked.append((key, None if span is None else tuple(span)))
        if span is not None and span[0] < 0 and self.on_index:
            self.on_index(key)
        return super().read(key, **options)

    def open_reader(self):
        read = super().open_reader()

        def recorded(key, *args):
            self.asked.append((key, args or None))
            return read(key, *args)

        return recorded

    def read_ranges(self, key, starts, stops):
        self.asked += [(key, span) for span in zip(starts, stops, strict=True)]
        return super().read_ranges(key, starts, stops)


@pytest.fixture
def made(stored_array, request_of):
    def make(inner, n_threads=4):
        array, store = stored_array(SHAPE, (8, 8, 8), inner=inner), Slow()
        write_from(array, store, request_of(SHAPE), DATA, pool=Pool(2)).result(20)
        store.asked.clear()
        return array, store, ArrayReader(array, store, Pool(n_threads))

    return make


def read_all(reader, request_of, wheres, *, batched=True):
    """Return the results of some reads in one batch, or the errors."""
    futures = []
    with Batch() as batch:
        for where in wheres:
            out = np.full(DATA[where].shape, 7, np.uint16)

            def start(where=where, out=out):
                return reader.read_into(request_of(SHAPE, where), out, fill_missing=True)

            futures.append(batch.defer(start) if batched else start())
    found = []
    for future in futures:
        try:
            found.append(future.result(20))
        except ChunkwiseError as e:
            found.append(e)
    return found


PLACES = st.tuples(
    st.one_of(st.integers(0, 23), st.slices(24)),
    st.one_of(st.integers(0, 7), st.slices(8)),
    st.one_of(st.integers(0, 7), st.slices(8)),
).filter(lambda where: all(not isinstance(x, slice) or (x.step or 1) > 0 for x in where))


@pytest.mark.each_once
@pytest.mark.parametrize("n_threads", [1, 4])
@pytest.mark.parametrize("inner", [None, (2, 4, 8)], ids=["chunks", "shards"])
def test_each_gives_what_it_would_give_alone(made, request_of, inner, n_threads):
    _, _, reader = made(inner, n_threads)

    @given(st.lists(PLACES, min_size=1, max_size=9))
    @settings(max_examples=examples(60), deadline=None)
    def check(wheres):
        for where, got in zip(wheres, read_all(reader, request_of, wheres), strict=True):
            np.testing.assert_array_equal(got, DATA[where])

    check()


def test_a_chunk_that_several_want_is_read_once(made, request_of):
    _, store, reader = made(None)
    wheres = [np.s_[3, 4, i] for i in range(8)] + [np.s_[0:8], np.s_[9]]
    read_all(reader, request_of, wheres)
    assert len(store.asked) == 2
    store.asked.clear()
    read_all(reader, request_of, wheres, batched=False)
    assert len(store.asked) == 10


def test_ranges_of_a_shard_are_one_request(made, request_of):
    """16 inner chunks of 32 bytes in three shards: an index and a range for each shard."""
    _, store, reader = made((1, 4, 4))
    wheres = [np.s_[i, 0, 0] for i in range(0, 24, 2)]
    for where, got in zip(wheres, read_all(reader, request_of, wheres), strict=True):
        assert got == DATA[where]
    assert len(store.asked) == 6


def test_a_bad_chunk_is_the_error_of_those_who_want_it(made, request_of):
    array, store, reader = made((1, 4, 4))
    key = array.keys.key((0, 0, 0))
    shard = bytearray(store.read(key).value)
    n = 8 * 2 * 2
    at = len(shard) - 4 - 16 * n + 16 * 4 * 2  # the entry of the inner chunk {2, 0, 0}
    struct.pack_into("<QQ", shard, at, 10**6, 32)
    import google_crc32c

    struct.pack_into("<I", shard, len(shard) - 4, google_crc32c.value(bytes(shard[-4 - 16 * n : -4])))
    store.write(key, bytes(shard))
    good, bad, other = read_all(reader, request_of, [np.s_[1, 0, 0], np.s_[2, 0, 0], np.s_[4, 0, 0]])
    assert (good, other) == (DATA[1, 0, 0], DATA[4, 0, 0])
    assert isinstance(bad, ChunkwiseError) and "shard entry {2, 0, 0}" in str(bad)


def test_a_shard_that_is_replaced_meanwhile(made, request_of):
    """No read mixes the old shard and the new one."""
    array, store, reader = made((1, 4, 4))

    def replace(_):
        store.on_index = None
        write_from(array, store, request_of(SHAPE, np.s_[0:8]), DATA[0:8] + 1, pool=Pool(2)).result(20)

    store.on_index = replace
    rows = read_all(reader, request_of, [np.s_[i, 0, 0:4] for i in range(3)])
    for i, row in enumerate(rows):
        assert (row == DATA[i, 0, 0:4] + 1).all() or (row == DATA[i, 0, 0:4]).all()
    assert (rows[-1] == DATA[2, 0, 0:4] + 1).all()


class SlowlyCounted(list):
    """Positions that let another thread in while they are counted."""

    def __init__(self, positions, work):
        super().__init__(positions)
        self.thread = threading.Thread(target=work)

    def __len__(self):
        if not self.thread.ident:
            self.thread.start()
            self.thread.join(0.2)  # it waits, unless it is let in
        return super().__len__()


def test_reads_that_register_at_the_same_time_are_all_counted():
    """The last of them forgets what was read, and no earlier one does."""
    shared = SharedReads()
    fetched = []

    def fetch(positions):
        fetched.append(tuple(positions))
        return [p * 10 for p in positions]

    slow = SlowlyCounted([1, 2], lambda: shared.expect("array", "key", [2, 3]))
    shared.expect("array", "key", slow)
    slow.thread.join()
    shared.complete()
    assert shared.take("array", "key", [1, 2], fetch) == [10, 20]
    assert shared.take("array", "key", [2, 3], fetch) == [20, 30]
    assert fetched == [(1, 2, 3)]


def test_a_read_that_asks_for_more_than_it_registered_is_answered_too():
    """As when it reads a shard again that was replaced."""
    shared = SharedReads()
    fetched = []

    def fetch(positions):
        fetched.append(tuple(positions))
        return [p * 10 for p in positions]

    shared.expect("array", "key", [1, 2])
    shared.expect("array", "key", [3])
    shared.complete()
    assert shared.take("array", "key", [1, 2], fetch) == [10, 20]
    assert shared.take("array", "key", [4], fetch) == [40]
    assert shared.take("array", "key", [3], fetch) == [30]
    assert shared.take("array", "key", [1], fetch) == [10]
    assert fetched[0] == (1, 2, 3) and (4,) in fetched and fetched[-1] == (1,)


def test_a_read_does_not_wait_forever_for_others_to_register(monkeypatch):
    """The thread that submits a batch may be busy with a read of its own."""
    monkeypatch.setattr(batch, "_LONGEST_WAIT", 0.01)
    shared = SharedReads()
    shared.expect("array", "key", [1])
    taken = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: taken.append(shared.take("array", "key", [1], list)))
        thread.start()
        thread.join(60)
    assert taken == [[1], [1]]
