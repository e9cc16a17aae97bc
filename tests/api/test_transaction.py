"""Transactions keep changes back, commit or abort them, and hold against TensorStore's."""

import asyncio
import copy
import gc
import pickle
import re
import threading
import weakref

import pytest
import tensorstore

import chunkwise
from chunkwise.core.api.transaction import Transaction, overlay
from chunkwise.core.kvstore.adapter.pending import PendingStore
from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.atomic import Modifiable
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, Children, KvStoreDriver, offers

LIBRARIES = pytest.mark.parametrize(
    ("ts", "transaction_class"),
    [(chunkwise, Transaction), (tensorstore, tensorstore.Transaction)],
    ids=["chunkwise", "tensorstore"],
)
STORES = pytest.mark.parametrize("url", ["memory://a/", "file://{}/a/"], ids=["memory", "file"])


def store_of(ts, url, tmp_path, **values):
    store = ts.KvStore.open(url.format(tmp_path)).result()
    for key, value in values.items():
        store[key] = value
    return store


def keys_of(store):
    return sorted(k.decode() for k in store.list().result())


@LIBRARIES
@STORES
class TestAsTensorStore:
    def test_others_see_nothing_before_the_commit(self, ts, transaction_class, url, tmp_path):
        store = store_of(ts, url, tmp_path, old=b"old", kept=b"kept")
        transaction = transaction_class()
        inside = store.with_transaction(transaction)
        assert inside.transaction is transaction
        assert (inside / "x").transaction is transaction
        assert inside.copy().transaction is transaction
        assert store.transaction is None
        inside["new"] = b"hello"
        del inside["old"]
        assert (inside["new"], inside["kept"]) == (b"hello", b"kept")
        assert "old" not in inside and "old" in store
        assert keys_of(inside) == ["kept", "new"]
        assert keys_of(store) == ["kept", "old"]
        part = inside.read("new", byte_range=slice(1, 3)).result()
        assert (part.value, part.stamp.time) == (b"el", float("inf"))
        assert part.stamp.generation[:1] == b"\x04"
        again = inside.read("new", if_not_equal=part.stamp.generation).result()
        assert again.state == "unspecified"
        with pytest.raises(ValueError, match="OUT_OF_RANGE"):
            inside.read("new", byte_range=slice(1, 30)).result()
        transaction.commit_sync()
        assert keys_of(store) == ["kept", "new"]
        assert store["new"] == b"hello"

    def test_states(self, ts, transaction_class, url, tmp_path):
        store = store_of(ts, url, tmp_path)
        transaction = transaction_class()

        def state():
            t = transaction
            return t.open, t.commit_started, t.aborted, t.atomic

        inside = store.with_transaction(transaction)
        inside["x"] = b"1"
        for other in (transaction, transaction_class(), None):
            with pytest.raises(ValueError, match="Cannot rebind transaction when existing"):
                inside.with_transaction(other)
        assert state() == (True, False, False, False)
        assert not transaction.future.done()
        transaction.commit_sync()
        transaction.commit_sync()
        transaction.abort()
        assert state() == (False, True, False, False)
        assert transaction.future.result() is None
        assert transaction.commit_async().result() is None
        for use in (
            lambda: inside["x"],
            lambda: inside.write("x", b"2").result(),
            lambda: inside.list().result(),
            lambda: inside.delete_range(ts.KvStore.KeyRange()).result(),
        ):
            with pytest.raises(ValueError, match=r"^Transaction not open \(commit already started\)"):
                use()
        inside.with_transaction(transaction_class())["x"]

    def test_abort(self, ts, transaction_class, url, tmp_path):
        store = store_of(ts, url, tmp_path)
        transaction = transaction_class()
        inside = store.with_transaction(transaction)
        inside["x"] = b"1"
        future = transaction.future
        transaction.abort()
        transaction.abort()
        assert (transaction.open, transaction.commit_started, transaction.aborted) == (False, False, True)
        for failed in (future, transaction.future, transaction.commit_async()):
            assert str(failed.exception()).startswith("CANCELLED: Transaction aborted")
        with pytest.raises(ValueError, match=r"^Transaction not open \(aborted\)"):
            inside["x"]
        with pytest.raises(ValueError, match="CANCELLED: Transaction aborted"):
            transaction.commit_sync()
        assert "x" not in store

    def test_with(self, ts, transaction_class, url, tmp_path):
        store = store_of(ts, url, tmp_path)
        with transaction_class() as transaction:
            store.with_transaction(transaction)["a"] = b"1"
            assert "a" not in store
        assert "a" in store
        with pytest.raises(RuntimeError, match="boo"), transaction_class() as transaction:
            store.with_transaction(transaction)["b"] = b"1"
            raise RuntimeError("boo")
        assert transaction.aborted and "b" not in store
        with (
            pytest.raises(ValueError, match="CANCELLED: Transaction aborted"),
            transaction_class() as transaction,
        ):
            transaction.abort()
        with transaction_class() as transaction:
            store.with_transaction(transaction)["c"] = b"1"
            transaction.commit_sync()
        assert "c" in store

    def test_async_with(self, ts, transaction_class, url, tmp_path):
        store = store_of(ts, url, tmp_path)

        async def main():
            async with transaction_class() as transaction:
                store.with_transaction(transaction)["a"] = b"1"
            assert "a" in store
            with pytest.raises(KeyError):
                async with transaction_class() as transaction:
                    store.with_transaction(transaction)["b"] = b"1"
                    raise KeyError
            assert "b" not in store
            transaction = transaction_class()
            store.with_transaction(transaction)["c"] = b"1"
            assert await transaction.future is None
            assert "c" in store

        asyncio.run(main())

    def test_waiting_for_the_future_commits(self, ts, transaction_class, url, tmp_path):
        store = store_of(ts, url, tmp_path)
        transaction = transaction_class()
        inside = store.with_transaction(transaction)
        inside["d"] = b"1"
        future = transaction.future
        del transaction, inside
        gc.collect()
        assert not future.done()
        assert future.result() is None
        assert "d" in store

    def test_a_callback_commits_too(self, ts, transaction_class, url, tmp_path):
        store = store_of(ts, url, tmp_path)
        transaction = transaction_class()
        store.with_transaction(transaction)["d"] = b"1"
        done = threading.Event()
        transaction.future.add_done_callback(lambda _: done.set())
        assert done.wait(10)
        assert "d" in store

    def test_cancelling_a_future_leaves_the_transaction(self, ts, transaction_class, url, tmp_path):
        transaction = transaction_class()
        transaction.future.cancel()
        assert transaction.open
        assert not transaction.future.cancelled()

    def test_delete_range(self, ts, transaction_class, url, tmp_path):
        store = store_of(ts, url, tmp_path, a=b"1", b1=b"1", c=b"1")
        transaction = transaction_class()
        inside = store.with_transaction(transaction)
        inside["b2"] = b"2"
        inside.delete_range(ts.KvStore.KeyRange("b", "c")).result()
        assert keys_of(inside) == ["a", "c"]
        assert inside.read("b1").result().state == "missing"
        # TensorStore may remove the directory of a file while it writes the file again.
        again = "b2" if ts is chunkwise or url.startswith("memory") else "d"
        inside[again] = b"22"
        store["b3"] = b"late"
        assert "b3" not in inside
        assert keys_of(inside) == sorted(["a", again, "c"])
        transaction.commit_sync()
        assert keys_of(store) == sorted(["a", again, "c"])
        assert store[again] == b"22"

    @pytest.mark.parametrize("change", [b"new", None])
    def test_conditions_are_looked_at_when_it_is_committed(
        self, ts, transaction_class, url, tmp_path, change
    ):
        store = store_of(ts, url, tmp_path, p=b"1", q=b"1")
        known = store.read("p").result().stamp.generation
        for meanwhile, condition in ((None, known), (b"2", known), (None, b"zzz")):
            transaction = transaction_class()
            inside = store.with_transaction(transaction)
            inside.write("p", change, if_equal=condition).result()
            assert inside.read("p").result().value == (change or b"")
            if meanwhile is not None:
                store["p"] = meanwhile
            if meanwhile is None and condition == known:
                transaction.commit_sync()
                assert ("p" in store) == (change is not None)
                store["p"] = b"1"
                known = store.read("p").result().stamp.generation
                continue
            with pytest.raises(ValueError, match=r"^ABORTED: Error writing .*p\": Generation mismatch"):
                transaction.commit_sync()
            assert transaction.commit_started and not transaction.aborted
            assert str(transaction.future.exception()).startswith("ABORTED")

    def test_create_only_if_absent(self, ts, transaction_class, url, tmp_path):
        store = store_of(ts, url, tmp_path)
        for taken in (False, True):
            transaction = transaction_class()
            inside = store.with_transaction(transaction)
            inside.write("new", b"1", if_equal=MISSING_GENERATION).result()
            if taken:
                with pytest.raises(ValueError, match="Generation mismatch"):
                    transaction.commit_sync()
            else:
                transaction.commit_sync()
            assert store["new"] == b"1"

    def test_a_change_of_the_same_transaction_can_be_changed(self, ts, transaction_class, url, tmp_path):
        store = store_of(ts, url, tmp_path, p=b"1")
        transaction = transaction_class()
        inside = store.with_transaction(transaction)
        inside["p"] = b"2"
        known = inside.read("p").result().stamp.generation
        inside.write("p", b"3", if_equal=known).result()
        assert inside["p"] == b"3"
        store["p"] = b"external"
        transaction.commit_sync()
        assert store["p"] == b"3"

    def test_repeatable_read(self, ts, transaction_class, url, tmp_path):
        store = store_of(ts, url, tmp_path, p=b"0")

        def begin():
            transaction = transaction_class(repeatable_read=True)
            return transaction, store.with_transaction(transaction)

        transaction, inside = begin()
        assert inside["p"] == b"0"
        transaction.commit_sync()

        transaction, inside = begin()
        assert inside["p"] == b"0"
        store["p"] = b"1"
        with pytest.raises(ValueError, match=r"^ABORTED: .*Generation mismatch in repeatable_read"):
            inside["p"]
        with pytest.raises(ValueError, match=r"^ABORTED: Error reading .*p\": Generation mismatch"):
            transaction.commit_sync()

        transaction, inside = begin()
        assert inside["p"] == b"1"
        inside["p"] = b"mine"
        store["p"] = b"2"
        with pytest.raises(ValueError, match=r"^ABORTED: Error writing .*p\": Generation mismatch"):
            transaction.commit_sync()
        assert store["p"] == b"2"

        transaction, inside = begin()
        assert "zz" not in inside
        store["zz"] = b"1"
        with pytest.raises(ValueError, match=r"^ABORTED: .*Generation mismatch"):
            transaction.commit_sync()

        transaction, inside = begin()
        with pytest.raises(NotImplementedError, match="repeatable_read mode not supported"):
            inside.list().result()

    def test_what_cannot_be_copied(self, ts, transaction_class, url, tmp_path):
        transaction = transaction_class()
        inside = store_of(ts, url, tmp_path).with_transaction(transaction)
        with pytest.raises(ValueError, match="Cannot serialize bound transaction"):
            pickle.dumps(inside)
        for dup in (pickle.dumps, copy.copy):
            with pytest.raises(TypeError, match=r"cannot pickle '.*Transaction' object"):
                dup(transaction)
        assert transaction == transaction != transaction_class()
        assert weakref.ref(transaction)() is transaction
        assert not hasattr(transaction, "repeatable_read")
        with pytest.raises(ValueError, match="Cannot rebind"):
            inside.with_transaction(None)


@LIBRARIES
class TestAtomic:
    def test_files_take_one_key(self, ts, transaction_class, tmp_path):
        store = store_of(ts, "file://{}/", tmp_path)
        transaction = transaction_class(atomic=True)
        inside = store.with_transaction(transaction)
        inside["p"] = b"1"
        inside["p"] = b"2"
        assert "q" not in inside
        text = (
            f'Cannot read/write local file "{tmp_path}/p" and read/write local file "{tmp_path}/q" '
            "as single atomic transaction"
        )
        with pytest.raises(ValueError, match=re.escape(text)):
            inside["q"] = b"1"
        assert transaction.aborted and not transaction.open
        with pytest.raises(ValueError, match=re.escape(text)):
            transaction.commit_sync()
        assert keys_of(store) == []
        with transaction_class(True) as transaction:
            store.with_transaction(transaction)["p"] = b"3"
            assert transaction.atomic
        assert store["p"] == b"3"

    def test_files_take_no_range(self, ts, transaction_class, tmp_path):
        store = store_of(ts, "file://{}/", tmp_path, p=b"1")
        transaction = transaction_class(atomic=True)
        inside = store.with_transaction(transaction)
        with pytest.raises(ValueError, match=f'Cannot delete range starting at local file "{tmp_path}/"'):
            inside.delete_range(ts.KvStore.KeyRange()).result()
        assert transaction.aborted

    def test_memory_takes_all_or_nothing(self, ts, transaction_class, tmp_path):
        store = store_of(ts, "memory://a/", tmp_path, p=b"0", q=b"0", x=b"0")
        for condition, expected in ((b"zzz", b"0"), (store.read("q").result().stamp.generation, b"1")):
            transaction = transaction_class(atomic=True)
            inside = store.with_transaction(transaction)
            inside["p"] = b"1"
            inside.delete_range(ts.KvStore.KeyRange("x", "z")).result()
            inside.write("q", b"1", if_equal=condition).result()
            if expected == b"0":
                with pytest.raises(ValueError, match='ABORTED: Error writing "a/q": Generation mismatch'):
                    transaction.commit_sync()
            else:
                transaction.commit_sync()
            assert (store["p"], store["q"], "x" in store) == (expected, expected, expected == b"0")

    def test_memory_changes_all_or_nothing(self, ts, transaction_class, tmp_path):
        store = store_of(ts, "memory://", tmp_path, m=b"0", old=b"0")
        condition = store.read("m").result().stamp.generation
        transaction = transaction_class()
        inside = store.with_transaction(transaction)
        inside["a"] = b"1"
        del inside["old"]
        inside.write("m", b"1", if_equal=condition).result()
        store["m"] = b"2"
        with pytest.raises(ValueError, match='ABORTED: Error writing "m": Generation mismatch'):
            transaction.commit_sync()
        assert keys_of(store) == ["m", "old"]
        assert store["m"] == b"2"

    def test_memory_that_is_not_atomic(self, ts, transaction_class, tmp_path):
        store = ts.KvStore.open({"driver": "memory", "atomic": False}).result()
        transaction = transaction_class(atomic=True)
        inside = store.with_transaction(transaction)
        inside["p"] = b"1"
        with pytest.raises(ValueError, match='Cannot read/write "p" and read/write "q" as single atomic'):
            inside["q"] = b"1"


class TestOverlay:
    def test_one_transaction_over_several_stores(self, tmp_path):
        file = store_of(chunkwise, "file://{}/", tmp_path, old=b"1")
        memory = store_of(chunkwise, "memory://", tmp_path)
        with Transaction() as transaction:
            for store in (file, memory):
                inside = store.with_transaction(transaction)
                for i in range(30):
                    inside[f"{i % 3}/{i}"] = b"%d" % i
        assert keys_of(memory) == sorted(f"{i % 3}/{i}" for i in range(30))
        assert keys_of(file) == sorted(["old", *keys_of(memory)])

    def test_two_directories_share_what_is_pending(self, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path / "a")
        transaction = Transaction()
        outer = store_of(chunkwise, "file://{}/", tmp_path).with_transaction(transaction)
        inner = store_of(chunkwise, "file://{}/a/b", tmp_path).with_transaction(transaction)
        linked = store_of(chunkwise, "file://{}/link/", tmp_path).with_transaction(transaction)
        inner["c"] = b"1"
        assert outer["a/bc"] == linked["bc"] == b"1"
        assert keys_of(outer) == ["a/bc", "link"]
        transaction.commit_sync()
        assert (tmp_path / "a" / "bc").read_bytes() == b"1"

    def test_parts_of_a_store_share_what_is_pending(self):
        store = MemoryStore()
        transaction = Transaction()
        part = overlay(transaction, PrefixStore(PrefixStore(store, "a/"), "b/"))
        whole = overlay(transaction, store)
        assert offers(part, KvStoreDriver) and offers(part, Modifiable)
        assert isinstance(whole, PendingStore)
        part.write("c", b"1")
        assert whole.read("a/b/c").value == b"1"
        assert part.open_reader()("c") == b"1"

    def test_readers_and_listings_see_changes(self):
        store = MemoryStore()
        for key in ("a/1", "a/2", "b"):
            store.write(key, key.encode())
        transaction = Transaction()
        inside = overlay(transaction, store)
        read = inside.open_reader()
        assert bytes(read("a/1", 1, 3)) == b"/1"
        assert inside.list_children("") == store.list_children("")
        inside.write("a/1", b"new")
        inside.delete("a/2")
        inside.write("c/d/e", b"x")
        assert bytes(read("a/1", 1)) == b"ew"
        assert read("a/2") is None
        assert bytes(read("b")) == b"b"
        assert inside.list_children("") == Children(["b"], ["a", "c"])
        assert inside.list_children("a/") == Children(["a/1"], [])
        assert inside.list_children("c/") == Children([], ["c/d"])
        inside.delete_range("a/", "a0")
        assert read("a/1") is None
        transaction.commit_sync()
        assert sorted(store.list()) == ["b", "c/d/e"]
        with pytest.raises(ValueError, match="Transaction not open"):
            read("b")

    def test_a_stale_generation_of_the_same_transaction_writes_nothing(self):
        transaction = Transaction()
        inside = overlay(transaction, MemoryStore())
        first = inside.write("p", b"1")
        assert inside.write("p", b"2", if_equal=first) not in (None, first)
        assert inside.write("p", b"3", if_equal=first) is None
        assert inside.write("p", b"3", if_equal=MISSING_GENERATION) is None
        assert inside.delete("p", if_equal=first) is None
        assert inside.delete("p") == MISSING_GENERATION
        assert inside.read("p").generation == MISSING_GENERATION
        assert inside.write("p", b"4", if_equal=MISSING_GENERATION)
        transaction.commit_sync()

    def test_threads_of_one_transaction_lose_nothing(self):
        store = MemoryStore()
        store.write("n", b"0")
        transaction = Transaction()
        inside = overlay(transaction, store)
        inside.write("n", b"0")

        def count():
            for _ in range(100):
                while True:
                    now = inside.read("n")
                    if inside.write("n", b"%d" % (int(now.value) + 1), if_equal=now.generation):
                        break

        threads = [threading.Thread(target=count) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        transaction.commit_sync()
        assert store.read("n").value == b"400"


class TestModifications:
    """Modifications apply to the value that is stored when they are committed."""

    @pytest.fixture(params=["memory", "file"])
    def store(self, request, tmp_path):
        return MemoryStore() if request.param == "memory" else FileStore(tmp_path, sync=False)

    @pytest.mark.parametrize("atomic", [False, True])
    def test_rebased_at_the_commit(self, store, atomic):
        store.write("k", b"abc")
        transaction = Transaction(atomic=atomic)
        inside = overlay(transaction, store)
        inside.modify("k", lambda old: bytes(old) + b"1")
        inside.modify("k", lambda old: bytes(old) + b"2")
        assert inside.read("k").value == b"abc12"
        assert inside.read("k").generation[:1] == b"\x04"
        assert store.read("k").value == b"abc"
        store.write("k", b"ABC")
        assert inside.read("k").value == b"ABC12"
        transaction.commit_sync()
        assert store.read("k").value == b"ABC12"

    @pytest.mark.parametrize("atomic", [False, True])
    def test_tried_again_if_another_writer_comes_between(self, store, atomic):
        store.write("k", b"0")
        writers = [b"1", b"2"]

        def modify(old):
            old = bytes(old)
            if writers:
                store.write("k", writers.pop(0))
            return old + b"!"

        transaction = Transaction(atomic=atomic)
        overlay(transaction, store).modify("k", modify)
        transaction.commit_sync()
        assert store.read("k").value == b"2!"

    def test_of_changes_missing_keys_and_deleted_ranges(self, store):
        store.write("gone", b"x")
        with Transaction() as transaction:
            inside = overlay(transaction, store)
            seen = []

            def modify(old):
                seen.append(old)
                return None if old is None else bytes(old) + b"!"

            inside.write("a", b"1")
            inside.modify("a", modify)
            inside.modify("b", modify)
            inside.delete_range("g", "h")
            inside.modify("gone", modify)
            assert inside.read("b").generation == MISSING_GENERATION
            assert sorted(inside.list()) == ["a"]
        assert set(seen) == {b"1", None}
        assert sorted(store.list()) == ["a"]
        assert store.read("a").value == b"1!"

    def test_what_fails_is_named(self, store):
        transaction = Transaction()
        overlay(transaction, store).modify("k", lambda old: chunkwise.Spec(5))
        with pytest.raises(ValueError, match=r'Error writing .*k": Expected object, but received: 5'):
            transaction.commit_sync()

    def test_pinned_by_a_repeatable_read(self, store):
        store.write("k", b"0")
        transaction = Transaction(repeatable_read=True)
        inside = overlay(transaction, store)
        inside.read("k")
        inside.modify("k", lambda old: b"1")
        store.write("k", b"2")
        with pytest.raises(ValueError, match="Generation mismatch"):
            transaction.commit_sync()
        assert store.read("k").value == b"2"


def test_dropping_everything_aborts_without_a_garbage_collector():
    store = chunkwise.KvStore.open("memory://").result()
    gc.disable()
    try:
        transaction = Transaction()
        inside = store.with_transaction(transaction)
        inside["a"] = b"1"
        state, pending = weakref.ref(transaction._state), inside._driver
        del transaction, inside
        assert state() is None
        with pytest.raises(ValueError, match=r"Transaction not open \(aborted\)"):
            pending.read("a")
    finally:
        gc.enable()
    assert "a" not in store


def test_a_handle_keeps_its_transaction():
    store = chunkwise.KvStore.open("memory://").result()
    inside = store.with_transaction(Transaction())
    gc.collect()
    inside["a"] = b"1"
    inside.transaction.commit_sync()
    assert "a" in store


def test_reads_of_a_committed_transaction_hold_no_memory():
    transaction = Transaction()
    inside = overlay(transaction, MemoryStore())
    inside.write("a", b"x" * 1000)
    transaction.commit_sync()
    assert inside.changes == {}


@STORES
@pytest.mark.parametrize("sharded", [False, True])
def test_parts_that_make_a_chunk_the_fill_value_delete_it(url, sharded, tmp_path):
    """As without a transaction, whether the last part comes from it or the store changes meanwhile."""
    spec = {"driver": "zarr3", "kvstore": url.format(tmp_path)}
    layout = {"write_chunk_shape": [4], "read_chunk_shape": [2 if sharded else 4]}
    array = chunkwise.open(
        spec, create=True, dtype="int32", shape=[12], chunk_layout=chunkwise.ChunkLayout(**layout)
    ).result()
    array.write(5).result()
    transaction = chunkwise.Transaction()
    inside = array.with_transaction(transaction)
    inside[0:1].write(0).result()
    inside[1:4].write(0).result()
    inside[4:6].write(0).result()
    array[6:8].write(0).result()
    inside[8:10].write(0).result()
    assert inside.read().result().tolist() == [0] * 10 + [5] * 2
    transaction.commit_sync()
    assert array.read().result().tolist() == [0] * 10 + [5] * 2
    assert keys_of(array.kvstore) == ["c/2", "zarr.json"]
