"""Indexes of shards that an open array keeps, and shards that are opened once for each request."""

import os
import threading

import numpy as np
import pytest
import zarr
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.read import ArrayReader, read_into
from chunkwise.core.engine.shards import ShardSource
from chunkwise.core.engine.write import write_from
from chunkwise.core.kvstore.caches import ShardIndexCache
from chunkwise.core.kvstore.files.read import OpenFile
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS
from chunkwise.errors import DataCorruptionError

SHAPE = (12, 20, 9)


def values(seed=0):
    return np.random.default_rng(seed).integers(1, 1000, SHAPE, dtype=np.uint16)


def make(path, data, **options):
    options = {
        "chunks": (3, 5, 3),
        "shards": (6, 10, 9),
        "compressors": zarr.codecs.ZstdCodec(level=1),
        **options,
    }
    array = zarr.create_array(path, shape=data.shape, dtype=data.dtype, overwrite=True, **options)
    array[...] = data


def opened(path, monkeypatch, *, settled=True):
    """Return an array, and what is asked of its files, which count as old if `settled`, else as new."""
    asked = []
    monkeypatch.setattr("chunkwise.core.kvstore.files.read._SETTLED", -(10**18) if settled else 10**18)
    read = OpenFile.read

    def recorded(file, starts, stops, memory=None):
        asked.append(list(zip(starts, stops, strict=True)))
        return read(file, starts, stops, memory)

    monkeypatch.setattr(OpenFile, "read", recorded)
    return chunkwise.open(f"file://{path}/|zarr3:").result(), asked


def test_an_index_is_read_once_and_neighbours_share_a_read(tmp_path, monkeypatch):
    """The second read of a shard asks for its chunks alone, and for those that lie together once."""
    data = values()
    make(tmp_path / "a", data)
    array, asked = opened(tmp_path / "a", monkeypatch)
    for where in (np.s_[1, 2, :], np.s_[4:6, 7, 0:9]):
        np.testing.assert_array_equal(array[where].read().result(), data[where])
    assert [len(spans) for spans in asked] == [1, 1, 1]


def test_nothing_of_a_shard_but_its_index_stays_after_a_read(tmp_path, monkeypatch):
    """Many arrays may be open: none of them keeps a file, or encoded chunks."""
    make(tmp_path / "a", values())
    files, sources = [], []
    read, open_shard = OpenFile.read, ShardSource.open_shard
    monkeypatch.setattr(OpenFile, "read", lambda file, *spans: files.append(file) or read(file, *spans))
    monkeypatch.setattr(
        ShardSource, "open_shard", lambda source, *what: sources.append(source) or open_shard(source, *what)
    )
    array = chunkwise.open(f"file://{tmp_path}/a/|zarr3:").result()
    for where in (np.s_[1, 2, :], np.s_[4:6, 7, 0:9], np.s_[:]):
        array[where].read().result()
        assert files and all(file._fd < 0 for file in files)
        assert sources and not any(source._encoded for source in sources)


def test_a_file_that_was_just_written_is_not_trusted(tmp_path, monkeypatch):
    """As long as another write could leave the same times, the index is read each time."""
    data = values()
    make(tmp_path / "a", data)
    array, asked = opened(tmp_path / "a", monkeypatch, settled=False)
    for _ in range(2):
        np.testing.assert_array_equal(array[1, 2].read().result(), data[1, 2])
    assert len(asked) == 4


@pytest.mark.parametrize("in_place", [False, True])
def test_a_shard_that_was_replaced_is_read_anew(tmp_path, monkeypatch, in_place):
    """A kept index is never used for another shard than its own."""
    path, other = tmp_path / "a", tmp_path / "b"
    make(path, values())
    make(other, values(1) % 7)  # chunks of other sizes, at other places
    array, _ = opened(path, monkeypatch)
    where = np.s_[1:9, 3:17, 2]
    np.testing.assert_array_equal(array[where].read().result(), values()[where])
    for new in sorted((other / "c").rglob("*")):
        old = path / new.relative_to(other)
        if new.is_file() and in_place:
            old.write_bytes(new.read_bytes())
        elif new.is_file():
            os.replace(new, old)
    np.testing.assert_array_equal(array[where].read().result(), (values(1) % 7)[where])


def test_a_shard_that_went_or_was_cut_off(tmp_path, monkeypatch):
    """What is missing reads as the fill value; what is damaged is an error with the entry and the file."""
    data = values()
    make(tmp_path / "a", data)
    array, _ = opened(tmp_path / "a", monkeypatch)
    np.testing.assert_array_equal(array[1, 2].read().result(), data[1, 2])
    shard = tmp_path / "a" / "c" / "0" / "0" / "0"
    whole = shard.read_bytes()
    for damage, message in (
        (whole[:10], "Error reading shard index: Requested byte range"),
        (whole[:-1], "Digest mismatch"),
        (whole[-200:], "Requested byte range"),
    ):
        shard.write_bytes(damage)
        for where in (np.s_[1, 2, 3], np.s_[0:6, 2, 3]):  # one chunk, and several
            with pytest.raises(DataCorruptionError, match=message) as e:
                array[where].read().result()
            assert str(shard) in str(e.value) and "shard entry {" in str(e.value)
    shard.unlink()
    assert not array[0:6, 0:10].read().result().any()
    assert not array[1, 2].read().result().any()


def test_a_damaged_chunk_is_named(tmp_path, monkeypatch):
    """The chunk that can't be decoded is the one that the error names, by the short way and by the plan."""
    data = values()
    make(tmp_path / "a", data)
    array, _ = opened(tmp_path / "a", monkeypatch)
    shard = tmp_path / "a" / "c" / "0" / "0" / "0"
    whole = bytearray(shard.read_bytes())
    index = np.frombuffer(whole[-(16 * 12 + 4) : -4], "<u8").reshape(2, 2, 3, 2)
    start, size = index[1, 0, 2].tolist()
    whole[start : start + size] = bytes(size)
    shard.write_bytes(whole)
    for where in (np.s_[4, 1, 7], np.s_[1:5, 1:4, 1:8]):
        with pytest.raises(DataCorruptionError, match=r"shard entry \{1, 0, 2\}/\{2, 2, 3\}"):
            array[where].read().result()


@st.composite
def indices(draw, size):
    """An index of one dimension: what users of samples, crops and masks give."""
    kind = draw(st.sampled_from(["int", "slice", "samples", "sorted", "run", "mask"]))
    if kind == "int":
        return draw(st.integers(0, size - 1))
    if kind == "slice":
        a, b = sorted((draw(st.integers(0, size)), draw(st.integers(0, size))))
        return slice(a, b, draw(st.integers(1, 3)))
    if kind == "mask":
        return np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    points = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=2 * size))
    if kind == "run":
        return np.arange(points[0], size)
    return np.array(sorted(points) if kind == "sorted" else points)


@pytest.fixture(scope="module")
def many_shards(tmp_path_factory):
    """Arrays of several grids, orders and index places, each opened once for all requests."""
    data, arrays = values(), []
    data[:6, :10] = 0  # a shard that is not stored
    for number, options in enumerate(
        (
            {},
            {"chunks": (1, 20, 9), "shards": (5, 20, 9)},
            {"chunks": (3, 5, 3), "shards": (3, 5, 3)},
            {
                "chunks": (2, 2, 2),
                "shards": (8, 8, 8),
                "filters": [zarr.codecs.TransposeCodec(order=(2, 0, 1))],
            },
            {"chunks": (4, 4, 4), "shards": (12, 20, 12), "compressors": None},
        )
    ):
        path = tmp_path_factory.mktemp("shards") / str(number)
        make(path, data, **options)
        arrays.append(chunkwise.open(f"file://{path}/|zarr3:").result())
    return data, arrays


@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(request=st.data())
def test_repeated_reads_of_one_handle_equal_numpy(many_shards, request):
    """What a handle keeps from one read is of no consequence to the next."""
    data, arrays = many_shards
    array = request.draw(st.sampled_from(arrays))
    for _ in range(2):
        index = tuple(request.draw(indices(size)) for size in SHAPE)
        order = request.draw(st.sampled_from("CF"))
        expected = data
        for axis, item in reversed(list(enumerate(index))):
            expected = expected[(*[slice(None)] * axis, item)]
        np.testing.assert_array_equal(array.oindex[index].read(order=order).result(), expected)
        vector = tuple(
            np.array(request.draw(st.lists(st.integers(0, n - 1), min_size=4, max_size=4))) for n in SHAPE
        )
        np.testing.assert_array_equal(array.vindex[vector].read().result(), data[vector])


class Slow(MemoryStore):
    """Answers a request when `n` are under way."""

    traits = DEFAULT_TRAITS._replace(request_concurrency=16)

    def __init__(self, n):
        super().__init__()
        self.barrier = threading.Barrier(n)
        self.waits = False
        self.ranges = []

    def read(self, key, **options):
        span = options.get("byte_range")
        if span is not None and self.waits:
            self.ranges.append((key, tuple(span)))
            self.barrier.wait(20)
        return super().read(key, **options)


def test_sparse_reads_of_many_shards_are_under_way_together(stored_array, request_of):
    """One element of each of 8 shards: 8 requests for indexes at a time, then 8 for chunks."""
    array, store = stored_array((32, 8, 8), (4, 8, 8), inner=(2, 4, 4)), Slow(8)
    data = np.arange(32 * 64, dtype=np.uint16).reshape(32, 8, 8)
    write_from(array, store, request_of(data.shape), data, pool=Pool(2)).result(20)
    store.waits = True
    where = (slice(0, 32, 4), 5, 5)
    out = np.empty(8, np.uint16)
    read_into(array, store, request_of(data.shape, where), out, pool=Pool(2)).result(20)
    np.testing.assert_array_equal(out, data[where])
    assert len(store.ranges) == 16


class CountedIndexes(Slow):
    """Lasting indexes; the answer for an index comes when all reads have been started."""

    def __init__(self):
        super().__init__(1)
        self.traits = DEFAULT_TRAITS._replace(request_concurrency=16, shard_indexes=None)
        self.started = threading.Event()
        self.indexes = 0

    def read(self, key, **options):
        span = options.get("byte_range")
        if span is not None and span[0] < 0:
            self.indexes += 1
            self.started.wait(20)
        return super().read(key, **options)


def test_reads_that_are_under_way_share_an_index(stored_array, request_of):
    """Of 12 reads of one shard, started together on a store that answers slowly, one asks for the index."""
    array, store = stored_array((8, 8, 8), (8, 8, 8), inner=(2, 2, 2)), CountedIndexes()
    store.traits = store.traits._replace(shard_indexes=ShardIndexCache())
    data = np.arange(512, dtype=np.uint16).reshape(8, 8, 8)
    write_from(array, store, request_of(data.shape), data, pool=Pool(2)).result(20)
    store.indexes = 0
    reader = ArrayReader(array, store, Pool(2))
    outs = [np.empty((), np.uint16) for _ in range(12)]
    futures = [
        reader.read_planned(request_of(data.shape, (i % 8, 3, i % 5)), out) for i, out in enumerate(outs)
    ]
    store.started.set()
    for i, future in enumerate(futures):
        assert future.result(20)[()] == data[i % 8, 3, i % 5]
    assert store.indexes == 1


def test_a_kept_index_without_a_chunk_is_not_trusted(stored_array, request_of):
    """Another writer adds a chunk: no range of the shard is asked for that could reveal that it is new."""
    array, store = stored_array((8, 8), (8, 8), inner=(4, 4)), MemoryStore()
    store.traits = DEFAULT_TRAITS._replace(shard_indexes=ShardIndexCache())
    data = np.arange(1, 65, dtype=np.uint16).reshape(8, 8)
    reader, out = ArrayReader(array, store, Pool(1)), np.empty((2, 2), np.uint16)
    for stored, read in ((np.s_[:4, :4], np.s_[:2, :2]), (np.s_[:, :], np.s_[6:, 6:])):
        other = MemoryStore()
        write_from(array, other, request_of(data.shape, stored), data[stored], pool=Pool(1)).result(20)
        (key,) = other.list()
        store.write(key, other.read(key).value)
        reader.read_planned(request_of(data.shape, read), out).result(20)
        np.testing.assert_array_equal(out, data[read])
