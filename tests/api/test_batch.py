"""A batch keeps reads back until it is submitted."""

import gc
import threading
import weakref

import numpy as np
import pytest
import tensorstore

import chunkwise


def memory_store(ts=chunkwise):
    store = ts.KvStore.open("memory://").result()
    store["a"], store["b"] = b"1", b"2"
    return store


@pytest.mark.parametrize("ts", [chunkwise, tensorstore], ids=["chunkwise", "tensorstore"])
class TestAsTensorStore:
    def test_submit(self, ts):
        store = memory_store(ts)
        batch = ts.Batch()
        future = store.read("a", batch=batch)
        batch.submit()
        batch.submit()
        assert future.result().value == b"1"
        for read in (store.read, ts.array([1]).read, ts.array([1]).resolve):
            with pytest.raises(ValueError, match="batch was already submitted"):
                read(**({"key": "a"} if read == store.read else {}), batch=batch).result()

    def test_submitted_although_the_block_fails(self, ts):
        store = memory_store(ts)
        with pytest.raises(KeyError), ts.Batch() as batch:
            future = store.read("a", batch=batch)
            raise KeyError
        assert future.result(10).value == b"1"

    def test_errors_come_through_the_future(self, ts):
        store = memory_store(ts)
        with ts.Batch() as batch:
            future = store.read("a", batch=batch, byte_range=slice(0, 10))
        with pytest.raises(ValueError, match="OUT_OF_RANGE"):
            future.result()


def file_store(path):
    store = chunkwise.KvStore.open(f"file://{path}/").result()
    store["a"], store["b"] = b"1", b"2"
    return store


class TestDeferral:
    def test_nothing_runs_before_the_end_of_the_block(self, tmp_path):
        store = file_store(tmp_path)
        with chunkwise.Batch() as batch:
            futures = [store.read(key, batch=batch) for key in "abc"]
            with pytest.raises(TimeoutError):
                futures[0].result(timeout=0.01)
            assert not any(f.done() for f in futures)
        assert [f.result().value for f in futures] == [b"1", b"2", b""]

    def test_values_of_the_time_of_submission(self, tmp_path):
        store = file_store(tmp_path)
        batch = chunkwise.Batch()
        future = store.read("a", batch=batch)
        store["a"] = b"new"
        batch.submit()
        assert future.result().value == b"new"


def zarr(ts):
    spec = {"driver": "zarr3", "kvstore": "memory://a/"}
    return ts.open(spec, create=True, dtype=ts.int32, shape=[4]).result()


def n5(ts):
    spec = {"driver": "n5", "kvstore": "memory://n/", "metadata": {"compression": {"type": "raw"}}}
    return ts.open(spec, create=True, dtype=ts.int32, shape=[4]).result()


def virtual(ts):
    return ts.virtual_chunked(
        lambda domain, chunk, parameters: chunk.fill(1), dtype=ts.int32, domain=ts.IndexDomain(shape=[4])
    )


def json(ts):
    ts.KvStore.open("memory://j/").result()["x"] = b"1"
    return ts.open({"driver": "json", "kvstore": "memory://j/x"}).result()


def memory(ts):
    return ts.array(np.arange(4, dtype="int32"))


ARRAY = {"driver": "array", "array": [1, 2], "dtype": "int32", "rank": 1}
STORED = {"driver": "zarr3", "kvstore": "memory://a/", "dtype": "int32", "schema": {"domain": {"shape": [4]}}}
BATCHED = {
    "array": lambda ts, b: memory(ts).read(batch=b),
    "zarr": lambda ts, b: zarr(ts).read(batch=b),
    "nothing of zarr": lambda ts, b: zarr(ts)[0:0].read(batch=b),
    "n5": lambda ts, b: n5(ts).read(batch=b),
    "json": lambda ts, b: json(ts).read(batch=b),
    "virtual_chunked": lambda ts, b: virtual(ts).read(batch=b),
    "cast of array": lambda ts, b: ts.cast(memory(ts), ts.float32).read(batch=b),
    "cast of zarr": lambda ts, b: ts.cast(zarr(ts), ts.float32).read(batch=b),
    "downsampled array": lambda ts, b: ts.downsample(memory(ts), [2], "mean").read(batch=b),
    "downsampled zarr": lambda ts, b: ts.downsample(zarr(ts), [2], "mean").read(batch=b),
    "stack of arrays": lambda ts, b: ts.stack([memory(ts), memory(ts)]).read(batch=b),
    "stack of both": lambda ts, b: ts.stack([memory(ts), zarr(ts)]).read(batch=b),
    "stack of specs": lambda ts, b: ts.open({"driver": "stack", "layers": [ARRAY]}).result().read(batch=b),
    "cast of a stack of a cast": lambda ts, b: ts.cast(
        ts.stack([ts.cast(memory(ts), ts.int64)]), ts.float32
    ).read(batch=b),
    "copy of array": lambda ts, b: zarr(ts).write(memory(ts), batch=b),
    "copy of zarr": lambda ts, b: zarr(ts).write(zarr(ts), batch=b),
    "resolve": lambda ts, b: zarr(ts).resolve(batch=b),
    "resolve virtual": lambda ts, b: virtual(ts).resolve(batch=b),
    "open array": lambda ts, b: ts.open(ARRAY, batch=b),
    "open stack of arrays": lambda ts, b: ts.open({"driver": "stack", "layers": [ARRAY]}, batch=b),
    "open stack of zarr": lambda ts, b: ts.open({"driver": "stack", "layers": [STORED]}, batch=b),
    "open cast of array": lambda ts, b: ts.open(
        {"driver": "cast", "dtype": "float32", "base": ARRAY}, batch=b
    ),
    "open zarr": lambda ts, b: ts.open({"driver": "zarr3", "kvstore": "memory://x/"}, batch=b),
    "open cast of zarr": lambda ts, b: ts.open(
        {"driver": "cast", "dtype": "float32", "base": {"driver": "zarr3", "kvstore": "memory://x/"}}, batch=b
    ),
    "key in memory": lambda ts, b: ts.KvStore.open("memory://k/").result().read("x", batch=b),
}


@pytest.mark.parametrize("what", BATCHED)
def test_what_waits_for_the_batch_is_what_waits_in_tensorstore(what):
    waits = []
    for ts in (tensorstore, chunkwise):
        with ts.Batch() as batch:
            future = BATCHED[what](ts, batch)
            # Not done at once may mean not done yet.
            try:
                future.exception(timeout=0.2)
                waits.append(False)
            except TimeoutError:
                waits.append(True)
        future.exception(timeout=60)
    assert waits[0] == waits[1]


def test_a_batch_that_is_dropped_is_submitted():
    store = chunkwise.KvStore.open("memory://").result()
    future = store.read("a", batch=chunkwise.Batch())
    gc.collect()
    assert future.result(timeout=10).state == "missing"
    spec = {
        "driver": "zarr",
        "kvstore": "memory://",
        "metadata": {"shape": [3], "chunks": [2], "dtype": "|u1"},
    }
    array = chunkwise.open(spec, create=True).result()
    future = array.read(batch=chunkwise.Batch())
    gc.collect()
    assert future.result(timeout=10).tolist() == [0, 0, 0]


def test_work_that_raises_fails_only_its_own_future():
    batch = chunkwise.Batch()
    a = batch.defer(lambda: 1 // 0)
    b = batch.defer(lambda: chunkwise.Future(2))
    batch.submit()
    assert isinstance(a.exception(), ZeroDivisionError)
    assert b.result() == 2
    with pytest.raises(ValueError, match="already submitted"):
        batch.defer(lambda: chunkwise.Future(3))


def test_cancelled_before_the_start():
    batch = chunkwise.Batch()
    started = []
    future = batch.defer(lambda: started.append(1) or chunkwise.Future(2))
    assert future.cancel()
    batch.submit()
    assert started == []
    assert future.cancelled()


def test_many_threads_add_and_submit():
    for _ in range(50):
        batch = chunkwise.Batch()
        futures, refused = [], []
        start = threading.Barrier(3)

        def add(batch=batch, futures=futures, refused=refused, start=start):
            start.wait()
            for i in range(20):
                try:
                    futures.append(batch.defer(lambda i=i: chunkwise.Future(i)))
                except ValueError:
                    refused.append(i)

        def submit(batch=batch, start=start):
            start.wait()
            batch.submit()

        threads = [threading.Thread(target=t) for t in (add, add, submit)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(futures) + len(refused) == 40
        assert all(f.done() for f in futures)


def test_batch_can_be_referred_to_weakly():
    batch = chunkwise.Batch()
    assert weakref.ref(batch)() is batch
