"""A batch keeps reads back until it is submitted."""

import gc
import threading
import weakref

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
        with pytest.raises(ValueError, match="batch was already submitted"):
            store.read("a", batch=batch).result()

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


class TestDeferral:
    """TensorStore reads memory at once, whatever the batch; here nothing runs before it is submitted."""

    def test_nothing_runs_before_the_end_of_the_block(self):
        store = memory_store()
        with chunkwise.Batch() as batch:
            futures = [store.read(key, batch=batch) for key in "abc"]
            with pytest.raises(TimeoutError):
                futures[0].result(timeout=0.01)
            assert not any(f.done() for f in futures)
        assert [f.result().value for f in futures] == [b"1", b"2", b""]

    def test_values_of_the_time_of_submission(self):
        store = memory_store()
        batch = chunkwise.Batch()
        future = store.read("a", batch=batch)
        store["a"] = b"new"
        batch.submit()
        assert future.result().value == b"new"


def test_a_batch_that_is_dropped_is_submitted():
    store = chunkwise.KvStore.open("memory://").result()
    future = store.read("a", batch=chunkwise.Batch())
    gc.collect()
    assert future.result(timeout=10).state == "missing"


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
