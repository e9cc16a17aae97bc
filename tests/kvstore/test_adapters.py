"""Stores around stores: each keeps the contract, and does what it is for."""

import time

import pytest
from tests.fault_store import Fault, FaultStore
from tests.trace_store import Request, TraceStore

from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, ByteRange
from chunkwise.core.kvstore.value import read_ranges
from chunkwise.errors import ChunkwiseError, NotFoundError, StorageError
from chunkwise.testing.kvstore_contract import KvStoreContract


class TestPrefixOfMemory(KvStoreContract):
    @pytest.fixture
    def store(self):
        base = MemoryStore()
        for key in ("outer", "outer0", "oute", "p", "\udcff"):
            base.write(key, b"x")
        yield PrefixStore(base, "outer/in")
        assert {"outer", "outer0", "oute", "p", "\udcff"} <= set(base.list())


class TestPrefixOfFiles(KvStoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        base = FileStore(tmp_path, sync=False)
        base.write("outer/0", b"x")
        base.write("p", b"x")
        yield PrefixStore(base, "outer/in/")
        assert {"outer/0", "p"} <= set(base.list())


class TestPrefixInsideAName(KvStoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return PrefixStore(FileStore(tmp_path, sync=False), "outer/in.")


class TestTrace(KvStoreContract):
    @pytest.fixture
    def store(self):
        return TraceStore(MemoryStore())


class TestFaultsThatDoNotHappen(KvStoreContract):
    @pytest.fixture
    def store(self):
        return FaultStore(MemoryStore(), Fault(skip=10**9), Fault(key="other"))


def test_prefix_of_a_prefix_and_its_messages(tmp_path):
    files = FileStore(tmp_path)
    store = PrefixStore(PrefixStore(files, "a/"), "b/")
    store.write("c", b"1")
    assert list(files.list()) == ["a/b/c"]
    assert store.describe("c") == f'local file "{tmp_path}/a/b/c"'
    assert store.identity == PrefixStore(PrefixStore(FileStore(tmp_path), "a/"), "b/").identity
    assert store.identity != PrefixStore(files, "b/").identity


def test_an_empty_range_of_a_prefix_deletes_nothing():
    base = MemoryStore()
    base.write("pa", b"")
    PrefixStore(base, "p").delete_range("b", "a")
    assert list(base.list()) == ["pa"]


def test_trace_records_every_request():
    store = TraceStore(MemoryStore())
    read = store.open_reader()
    assert store.requests == []
    read("a")
    store.write("a", b"hello")
    read("a", 1, 3)
    store.read("a", byte_range=ByteRange(-2))
    store.read_ranges("a", [0, 3], [1, 5])
    list(store.list("a", "b"))
    store.list_children("")
    store.delete("a")
    store.delete_range("x", "y")
    assert store.requests == [
        Request("read", "a"),
        Request("write", "a", n_bytes=5),
        Request("read", "a", 1, 3, 2),
        Request("read", "a", -2, None, 2),
        Request("read_ranges", "a", 0, 5, 3),
        Request("list", "a", stop="b"),
        Request("list_children", ""),
        Request("delete", "a"),
        Request("delete_range", "x", stop="y"),
    ]
    assert store.count("read") == 3


def _faulty(*faults):
    base = MemoryStore()
    base.write("k", b"hello")
    return base, FaultStore(base, *faults)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault("truncate", amount=2), b"hel"),
        (Fault("truncate", amount=9), b""),
        (Fault("corrupt", amount=1), b"h\x9allo"),
        (Fault("corrupt", amount=-1), b"hell\x90"),
        (Fault("miss"), None),
        (Fault("truncate", "write"), b"hello"),
        (Fault("miss", key="other"), b"hello"),
    ],
)
def test_faults_of_what_is_read(fault, expected):
    for read in (
        lambda s: s.open_reader()("k"),
        lambda s: s.read("k").value,
        lambda s: (s.read_ranges("k", [0], [5]) or [None])[0],
    ):
        store = _faulty(fault)[1]
        first, second = read(store), read(store)
        assert (first if first is None else bytes(first)) == expected
        assert bytes(second) == b"hello"
    assert _faulty(Fault("miss"))[1].read("k").generation == MISSING_GENERATION


def test_fault_schedule():
    _, store = _faulty(Fault(skip=1, times=2))
    read = store.open_reader()
    results = []
    for _ in range(5):
        try:
            results.append(read("k"))
        except StorageError as e:
            assert e.errno == 5
            results.append("failed")
    assert results == [b"hello", "failed", "failed", b"hello", b"hello"]
    assert (store.n_requests, store.n_faults) == (5, 2)


@pytest.mark.parametrize(
    "request_",
    [
        lambda s: s.open_reader()("k"),
        lambda s: s.read("k"),
        lambda s: s.read_ranges("k", [0], [1]),
        lambda s: s.write("k", b"new"),
        lambda s: s.delete("k"),
        lambda s: s.delete_range(),
        lambda s: s.list(),
        lambda s: s.list_children(""),
    ],
)
def test_every_request_can_fail_and_leaves_the_base_alone(request_):
    base, store = _faulty(Fault(error=NotFoundError("gone")))
    with pytest.raises(NotFoundError, match="gone"):
        request_(store)
    assert base.open_reader()("k") == b"hello"


def test_a_write_that_fails_after_it_was_done():
    base, store = _faulty(Fault("fail_after", "write"))
    with pytest.raises(ChunkwiseError):
        store.write("k", b"new")
    assert base.open_reader()("k") == b"new"


def test_conflict_concerns_conditional_requests_only():
    base, store = _faulty(Fault("conflict", times=None))
    generation = base.read("k").generation
    assert store.write("k", b"new", if_equal=generation) is None
    assert store.delete("k", if_equal=generation) is None
    assert base.open_reader()("k") == b"hello"
    assert store.write("k", b"new") is not None
    assert base.open_reader()("k") == b"new"


def test_delay():
    _, store = _faulty(Fault("delay", amount=0.05))
    start = time.monotonic()
    store.read("k")
    assert time.monotonic() - start >= 0.05


def test_unknown_action():
    with pytest.raises(ValueError, match=r"Expected action to be one of fail, .*, but received: 'explode'"):
        Fault("explode")


def test_ranges_of_a_store_that_serves_one_at_a_time(tmp_path):
    """The parts stay valid although the reader uses its memory again."""

    class Simple:
        def __init__(self, base):
            self.open_reader = base.open_reader
            self.read = base.read

    files = FileStore(tmp_path, sync=False)
    files.write("k", b"hello")
    assert read_ranges(Simple(files), "k", [0, 2], [2, 5]) == [b"he", b"llo"]
    assert read_ranges(Simple(files), "none", [0, 2], [2, 5]) is None
