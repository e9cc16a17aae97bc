"""Several writers of one database: threads, processes, TensorStore; some are killed, some meet failures."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import fsspec.implementations.dirfs
import numpy as np
import pytest
import tensorstore
from child_process import Children
from tests.fault_store import Fault, FaultStore
from tests.trace_store import TraceStore

import chunkwise as ts
from chunkwise.core.kvstore.adapter.ocdbt import OcdbtStore, Options
from chunkwise.core.kvstore.adapter.ocdbt_database import Folder
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.libraries.fsspec import FsspecStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.ocdbt.manifest import ConfigMembers
from chunkwise.core.kvstore.protocol import Stamped
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.errors import ChunkwiseError, DataCorruptionError, StorageError, UnsafeWriteError

WRITER = str(Path(__file__).with_name("writer.py"))


def over(base: Any, **config: Any) -> OcdbtStore:
    folder = Folder(base, "")
    return OcdbtStore(folder, folder, Options(ConfigMembers(config)))


def writer(children: Children, *arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    return children.start([sys.executable, WRITER, *map(str, arguments)], **options)


@pytest.mark.parametrize("kind", ["single", "numbered"])
def test_processes_lose_no_update(tmp_path: Path, children: Children, kind: str) -> None:
    """Two processes of ours and TensorStore in this one, with read-modify-writes of one key."""
    store = over(FileStore(tmp_path, sync=False), manifest_kind=kind, version_tree_arity_log2=1)
    store.write("n", b"0")
    writers = [writer(children, "add", tmp_path, 20) for _ in range(2)]
    spec = {"driver": "ocdbt", "base": f"file://{tmp_path}/", "context": {"file_io_sync": False}}
    kv = tensorstore.KvStore.open(spec).result()
    for _ in range(20):
        done = False
        while not done:
            found = kv.read("n").result()
            wanted = b"%d" % (int(found.value) + 1)
            done = kv.write("n", wanted, if_equal=found.stamp.generation).result().generation != b""
        kv.write(f"log/{int(found.value)}", b"theirs").result()
    assert [one.wait(120) for one in writers] == [0, 0]
    assert store.read("n").value == b"60"
    assert sorted(int(key[4:]) for key in store.list("log/", "log0")) == list(range(60))
    assert sorted(kv.list().result()) == [key.encode() for key in store.list()]


def test_what_threads_write_meanwhile_is_one_version(tmp_path: Path) -> None:
    store = over(FileStore(tmp_path, sync=False))
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: store.write(f"k{i:03}", b"%d" % i), range(200)))
    assert len(list(store.list())) == 200
    latest = store._database.current().manifest.latest.generation
    assert latest < 150, "each has a version of its own"
    assert len(list((tmp_path / "d").iterdir())) <= latest - 1


def test_killed_writers(tmp_path: Path) -> None:
    """Whenever a writer is killed, a commit is there or not, and the next writer goes on."""
    rng, seen = random.Random(0), set()
    store = over(FileStore(tmp_path, sync=False))
    for _ in range(5):
        with Children() as children:
            process = writer(children, "pairs", tmp_path, stdout=subprocess.PIPE)
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            time.sleep(rng.random() * 0.3)
        read = store.open_reader()
        values = {key: bytes(read(key) or b"") for key in store.list()}
        assert values["one"] == values["two"]
        seen.add(values["one"])
        spec = {"driver": "ocdbt", "base": f"file://{tmp_path}/"}
        kv = tensorstore.KvStore.open(spec).result()
        assert {key.decode(): kv[key] for key in kv.list().result()} == values
        store.write("after", values["one"])
    assert len(seen) > 1


def test_a_lost_race_leaves_no_files() -> None:
    """The one who was not first does it again, and deletes what no manifest leads to."""
    base = MemoryStore()
    other, late = over(base), True

    class Between(TraceStore):
        """Lets another writer be first, once."""

        def write(self, key: str, value: Any, *, if_equal: bytes | None = None) -> bytes | None:
            nonlocal late
            if key == "manifest.ocdbt" and late:
                late = False
                other.write("other", b"1" * 200)
            return super().write(key, value, if_equal=if_equal)

    store = over(Between(base))
    other.write("old", b"0" * 200)
    assert store.write("k", b"2" * 200) is not None
    assert {key: bytes(store.read(key).value or b"") for key in store.list()} == {
        "k": b"2" * 200,
        "old": b"0" * 200,
        "other": b"1" * 200,
    }
    assert len(list(base.list("d/", "d0"))) == 3
    late = True
    assert store.write("other", b"3", if_equal=store.read("other").generation) is None
    assert bytes(store.read("other").value or b"") == b"1" * 200
    assert len(list(base.list("d/", "d0"))) == 4


def test_an_answer_that_is_lost() -> None:
    """A manifest that was written although its condition seems to have failed is not written twice."""
    base = MemoryStore()

    class Repeats(TraceStore):
        """Makes conditional writes twice, as a client does after an answer was lost."""

        def write(self, key: str, value: Any, *, if_equal: bytes | None = None) -> bytes | None:
            done = super().write(key, value, if_equal=if_equal)
            return None if if_equal else done

    for kind in ("single", "numbered"):
        store = over(Repeats(base), manifest_kind=kind)
        for i in range(3):
            assert store.write(f"k{i}", bytes(200)) is not None
        assert [len(bytes(store.read(key).value or b"")) for key in store.list()] == [200] * 3
        state = store._database.current()
        assert state.manifest is not None and state.manifest.latest.generation == 4
        assert len(list(base.list("d/", "d0"))) == 3
        base = MemoryStore()


@pytest.mark.parametrize("n", range(4))
def test_failures_of_the_base(n: int) -> None:
    """Whichever request fails, the write is done or not; the next one succeeds."""
    base = MemoryStore()
    plain = over(base)
    plain.write("a", b"1" * 200)
    faulty = over(FaultStore(base, Fault(skip=n)))
    try:
        faulty.write("b", b"2" * 200)
        written = True
    except ValueError as e:
        assert "Fault on schedule" in str(e)
        written = False
    assert list(plain.list()) == (["a", "b"] if written else ["a"])
    faulty.write("c", b"3" * 200)
    assert [bytes(plain.read(key).value or b"")[:1] for key in ("a", "c")] == [b"1", b"3"]
    assert len(list(base.list("d/", "d0"))) == len(list(plain.list())), "files that nothing leads to"


@pytest.mark.parametrize("kind", ["single", "numbered"])
def test_a_late_manifest_keeps_its_files(kind: str) -> None:
    """A commit that failed may be done later; its files are deleted only if it can't be any more."""
    base = MemoryStore()
    late: list[Callable[[], object]] = []

    class Late(TraceStore):
        """Says that the next manifest was not written, and writes it when asked to."""

        fails = False

        def write(self, key: str, value: Any, *, if_equal: bytes | None = None) -> bytes | None:
            if self.fails and key.startswith("manifest"):
                self.fails = False
                late.append(lambda: base.write(key, bytes(value), if_equal=if_equal))
                raise StorageError("time is up")
            return super().write(key, value, if_equal=if_equal)

    store, plain = over(trace := Late(base), manifest_kind=kind), over(base)
    store.write("a", b"1" * 200)
    trace.fails = True
    with pytest.raises(StorageError, match="time is up"):
        store.write("b", b"2" * 200)
    assert late.pop()() is not None
    assert bytes(plain.read("b").value or b"") == b"2" * 200
    trace.fails = True
    with pytest.raises(StorageError, match="time is up"):
        store.write("c", b"3" * 200)
    store.write("d", b"4" * 200)
    assert late.pop()() is None
    assert [bytes(plain.read(key).value or b"")[:1] for key in plain.list()] == [b"1", b"2", b"4"]
    assert len(list(base.list("d/", "d0"))) == 3


def test_one_of_several_fails() -> None:
    """A write that can't be done fails alone, though it was to be committed with others."""
    base, gate = MemoryStore(), threading.Event()
    store = over(base, max_decoded_node_bytes=100)
    store.write_all({f"{letter}{i}": bytes(60) for letter in "ab" for i in range(9)}, conditions={})
    (file,) = base.list("d/", "d0")
    raw = bytearray(base.read(file).value or b"")
    raw[20] ^= 1  # of the node with the first key
    base.write(file, raw)

    class Gate(TraceStore):
        """Holds the first commit up, until others are waiting."""

        def write(self, key: str, value: Any, *, if_equal: bytes | None = None) -> bytes | None:
            gate.wait(10)
            return super().write(key, value, if_equal=if_equal)

    slow = over(Gate(base))
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(slow.write, "b8", b"first")
        time.sleep(0.1)
        good = [pool.submit(slow.write, f"b{i}", b"good") for i in range(2)]
        refused = pool.submit(slow.write, "b5", b"no", if_equal=b"\0another")
        bad = pool.submit(slow.write, "a0", b"bad")
        time.sleep(0.1)
        gate.set()
        assert first.result() and all(one.result() for one in good) and refused.result() is None
        with pytest.raises(DataCorruptionError, match="CRC-32C"):
            bad.result()
    assert [slow.read(key).value for key in ("b8", "b0", "b1", "b5")] == [
        b"first",
        b"good",
        b"good",
        bytes(60),
    ]


def test_a_database_that_is_replaced(tmp_path: Path) -> None:
    """Readers and writers go on with the one that takes its place."""
    base = MemoryStore()
    store = over(base)
    store.write("k", b"1" * 200)
    read = store.open_reader()
    base.delete_range()
    over(base).write("k", b"2" * 300)
    assert bytes(read("k") or b"") == b"2" * 300
    base.delete_range()
    assert list(store.list()) == [] and store.read("k").value is None
    store.write("k", b"3")
    assert list(over(base).list()) == ["k"]


def test_an_open_reader_sees_what_was_written() -> None:
    """Also if another thread looked at the old manifest while it was being replaced."""
    base = MemoryStore()

    class Looks(TraceStore):
        def write(self, key: str, value: Any, *, if_equal: bytes | None = None) -> bytes | None:
            if key == "manifest.ocdbt":
                assert store.read("new").value is None
            return super().write(key, value, if_equal=if_equal)

    store = over(Looks(base))
    read = store.open_reader()
    store.write("new", b"1")
    assert read("new") == b"1"


def test_requests() -> None:
    """A commit reads the manifest and writes a data file and the manifest; a read is two requests."""
    trace = TraceStore(MemoryStore())
    store = over(trace)
    counts = []
    acts: list[Callable[[], object]] = [
        lambda: store.write("a", b"1"),
        lambda: store.write("b", b"2" * 500),
        lambda: store.read("a"),
        lambda: store.read("b"),
        lambda: list(store.list()),
    ]
    for act in acts:
        trace.requests.clear()
        act()
        counts.append(len(trace.requests))
    assert counts == [3, 3, 1, 2, 1]
    fresh = over(trace)
    trace.requests.clear()
    read = fresh.open_reader()
    read("b"), read("a"), read("b")
    assert len(trace.requests) == 4


def test_who_asks_at_once_shares_an_answer() -> None:
    """Of eight readers of a remote store, opened at once, two ask; a failure is told to all who wait."""
    asked, base, interrupted = [], MemoryStore(), False
    over(base).write("k", b"1")

    class Remote(TraceStore):
        broken = False

        @property
        def traits(self) -> StoreTraits:
            return traits_of(base)._replace(request_concurrency=8)

        def read(self, key: str, **options: Any) -> Stamped:
            asked.append(key)
            time.sleep(0.3 if len(asked) == 1 else 0)  # until all others wait
            if interrupted and len(asked) == 2:
                raise KeyboardInterrupt
            if self.broken:
                raise StorageError("no answer")
            return super().read(key, **options)

    remote = Remote(base)
    for broken in (False, True):
        asked.clear()
        remote.broken, store = broken, over(remote)
        with ThreadPoolExecutor(8) as pool:
            opened = [pool.submit(store.open_reader) for _ in range(8)]
        assert asked == ["manifest.ocdbt"] * 2
        for one in opened:
            if broken:
                assert "no answer" in str(one.exception())
            else:
                assert one.result()("k") == b"1"

    # Whoever waited for one that was interrupted looks by himself.
    asked.clear()
    remote.broken, interrupted, store = False, True, over(remote)
    with ThreadPoolExecutor(8) as pool:
        opened = [pool.submit(store.open_reader) for _ in range(8)]
    assert asked == ["manifest.ocdbt"] * 3
    readers = [one.result() for one in opened if one.exception() is None]
    assert len(readers) == 7 and all(read("k") == b"1" for read in readers)


def test_values_side_by_side_share_a_request() -> None:
    trace = TraceStore(MemoryStore())
    folder = Folder(trace, "")
    store = OcdbtStore(folder, folder)
    values = {f"k{i}": bytes([i]) * 1000 for i in range(20)}
    assert store.write_all({**values, "inline": b"1"}, conditions={}) is None
    assert store.write("other", bytes(1000)) is not None
    keys = [*values, "inline", "none", "other"]
    for coalescing, expected in (
        (None, [22, 1]),
        (ts_coalescing(gap=0, largest=5000), [5, 5, 5, 7, 1]),
    ):
        store = OcdbtStore(folder, folder, Options(coalescing=coalescing))
        left, sizes, found = list(keys), [], []
        while left:
            trace.requests.clear()
            some = store.read_many(left)
            sizes.append(len(some))
            found += [None if value is None else bytes(value) for value in some]
            left = left[len(some) :]
            reads = [request for request in trace.requests if request.key.startswith("d/")]
            assert len(reads) <= 2  # with the node, at first
        assert found == [*values.values(), b"1", None, bytes(1000)]
        assert sizes == expected


def ts_coalescing(**sizes: int) -> Any:
    from chunkwise.core.kvstore.request_limits import Coalescing

    return Coalescing(**sizes)


def test_arrays_of_two_processes(tmp_path: Path) -> None:
    """Parts of one chunk that TensorStore and threads of ours write at once are all there."""
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/|ocdbt:"}
    layout = {"chunk": {"shape": [8, 40]}}
    array = ts.open(spec, create=True, dtype="uint8", shape=[16, 40], chunk_layout=ts.ChunkLayout(layout))
    peer = tensorstore.open(spec).result()
    mine = array.result()

    def write(i: int) -> None:
        (peer if i % 4 == 0 else mine)[:, i].write(i + 1).result()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(40)))
    assert np.array_equal(np.asarray(mine), np.tile(np.arange(1, 41, dtype="u1"), (16, 1)))


@pytest.mark.parametrize("kind", ["single", "numbered"])
def test_stores_without_conditional_writes(kind: str) -> None:
    """Every commit depends on the manifest, so nothing is written where that can't be."""
    files = fsspec.implementations.dirfs.DirFileSystem(f"/ocdbt-{kind}", fsspec.filesystem("memory"))
    for single_writer in (False, True):
        store = over(FsspecStore(files, single_writer=single_writer), manifest_kind=kind)
        if not single_writer:
            with pytest.raises(UnsafeWriteError, match=r'manifest.ocdbt": .*set "single_writer"'):
                store.write("k", b"1" * 200)
            assert not files.exists("") or not files.find("")
            continue
        for i in range(3):
            store.write(f"k{i}", bytes(200))
        store.delete("k1")
        assert list(over(FsspecStore(files)).list()) == ["k0", "k2"]
    files.rm("", recursive=True)


def test_keys_that_are_too_long() -> None:
    store = over(MemoryStore())
    store.write("k" * 0xFFFF, b"1")
    with pytest.raises(ChunkwiseError, match="Invalid key of 65536 bytes: expected at most 65535"):
        store.write("k" * 0x10000, b"1")
    assert len(list(store.list())) == 1
