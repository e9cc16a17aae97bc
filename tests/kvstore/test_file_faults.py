"""A file store when the system fails it: what is raised, what is left."""

import errno
import os
import resource
import struct
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorstore as ts
from lock_files import hold

from chunkwise.core.kvstore.files import file_store, platform
from chunkwise.core.kvstore.files import list_files as file_list
from chunkwise.core.kvstore.files import protocol as file_protocol
from chunkwise.core.kvstore.files import read as file_read
from chunkwise.core.kvstore.files import write as file_write
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.errors import DeadlineExceededError, PermissionDeniedError, StorageError

LOCKED = pytest.mark.parametrize("locking", ["os", "lockfile"])


@pytest.fixture
def store(tmp_path):
    store = FileStore(tmp_path, sync=False)
    store.write("d/k", b"old")
    return store


class System:
    """The module ``os`` with some functions replaced."""

    def __init__(self, **replaced):
        vars(self).update(replaced)

    def __getattr__(self, name):
        return getattr(os, name)


def failing(code):
    def fail(*arguments, **keywords):
        raise OSError(code, os.strerror(code))

    return fail


def raise_memory_error(*arguments, **keywords):
    raise MemoryError


@pytest.mark.parametrize("locking", ["os", "lockfile", "none"])
def test_a_value_that_does_not_fit(tmp_path, locking):
    """The system stops a write midway; the old value stays, and nothing else."""
    store = FileStore(tmp_path, sync=False, locking=locking)
    store.write("k", b"old")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
    try:
        with pytest.raises(
            StorageError, match=r"Failed to write: .*\[os_error_code='27'\]; larger than"
        ) as e:
            store.write("k", bytes(50_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert e.value.errno == errno.EFBIG
    assert os.listdir(tmp_path) == ["k"]
    assert bytes(store.open_reader()("k")) == b"old"
    store.write("k", b"new")


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (errno.ENOSPC, StorageError, "the disk is full; free some space"),
        (errno.EDQUOT, StorageError, "the disk quota is used up"),
        (errno.EIO, StorageError, "the device failed"),
        (errno.EROFS, PermissionDeniedError, "the file system is read-only"),
        (errno.EACCES, PermissionDeniedError, "check the permissions"),
    ],
)
@pytest.mark.parametrize("call", ["write", "fsync", "rename", "utime"])
def test_each_step_of_a_write_fails(tmp_path, monkeypatch, call, code, kind, text):
    """Whatever step fails: old value, no file left behind, and an error with path, number and advice."""
    store = FileStore(tmp_path)
    store.write("k", b"old")
    for module in (file_protocol, file_write, platform):
        monkeypatch.setattr(module, "os", System(**{call: failing(code)}))
    with pytest.raises(kind, match=text) as e:
        store.write("k", b"new value")
    monkeypatch.undo()
    assert e.value.errno == code
    assert f"\"{tmp_path}/k\": {os.strerror(code)} [os_error_code='{code}']" in str(e.value)
    assert os.listdir(tmp_path) == ["k"]
    assert bytes(store.open_reader()("k")) == b"old"
    assert store.write("k", b"new") is not None


def test_permissions():
    """A directory that does not allow it, as somebody who is not root."""
    with tempfile.TemporaryDirectory(dir="/tmp") as root:
        store = FileStore(root, sync=False)
        store.write("d/k", b"old")
        store.write("secret", b"old")
        os.chmod(root, 0o555)
        os.chmod(f"{root}/d", 0o555)
        os.chmod(f"{root}/secret", 0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            assert bytes(store.open_reader()("d/k")) == b"old"
            for request in (
                lambda: store.write("d/k", b"new"),
                lambda: store.write("e/f/g", b"new"),
                lambda: store.delete("d/k"),
                lambda: store.delete_range(),
                lambda: store.read("secret"),
                lambda: store.open_reader()("secret"),
            ):
                with pytest.raises(
                    PermissionDeniedError, match=r"PERMISSION_DENIED: .*check the permissions"
                ) as e:
                    request()
                assert isinstance(e.value, PermissionError) and e.value.errno == errno.EACCES
        finally:
            os.seteuid(user)
            os.chmod(root, 0o755)
            os.chmod(f"{root}/d", 0o755)


def test_short_writes_are_continued(store, monkeypatch):
    value = bytes(range(256)) * 20
    monkeypatch.setattr(file_write, "os", System(write=lambda fd, data: os.write(fd, bytes(data)[:999])))
    store.write("d/k", memoryview(value).cast("I"))
    assert bytes(store.open_reader()("d/k")) == value


def test_short_reads_are_continued(store, monkeypatch):
    """A read that ends at a sector is not taken for the end of the file."""
    value = bytes(range(256)) * 100
    store.write("d/k", value)
    monkeypatch.setattr(file_read, "os", System(readv=lambda fd, b: os.readv(fd, [b[0][:4096]])))
    assert bytes(store.open_reader()("d/k")) == value
    monkeypatch.setattr(file_read, "os", System(preadv=lambda fd, b, at: os.preadv(fd, [b[0][:1000]], at)))
    assert bytes(store.open_reader()("d/k", 5, 20_000)) == value[5:20_000]
    assert store.read_ranges("d/k", [0, 4000], [3000, 9000]) == [value[:3000], value[4000:9000]]


def test_an_error_in_the_middle_of_a_file(store, monkeypatch):
    """The kernel returns what comes before a bad sector; the value is not cut off there."""
    store.write("d/k", bytes(20_000))
    replaced = System(readv=lambda fd, b: os.readv(fd, [b[0][:4096]]), preadv=failing(errno.EIO))
    monkeypatch.setattr(file_read, "os", replaced)
    with pytest.raises(StorageError, match=r"Failed to read: .*the device failed") as e:
        store.open_reader()("d/k")
    assert e.value.errno == errno.EIO


@pytest.mark.parametrize("nbytes", [1, 2, 511, 512, 513, 200_000])
@pytest.mark.parametrize("span", [(0, None), (0, 1), (-1, None), (1, None)])
def test_a_reader_that_found_no_memory_reads_the_next_file(store, monkeypatch, nbytes, span):
    value = bytes(range(1, 256)) * 1000
    store.write("large", value), store.write("d/k", value[:nbytes])
    read = store.open_reader()
    with monkeypatch.context() as without_memory:
        without_memory.setattr("numpy.empty", raise_memory_error)
        with pytest.raises(MemoryError):
            read("large")
    assert bytes(read("d/k", *span)) == value[:nbytes][slice(*span)]


def test_no_descriptor_is_lost(store, monkeypatch):
    """Neither success nor any failure leaves a file open."""
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc") else os.listdir("/dev/fd")
    read = store.open_reader()
    for _ in range(3):
        read("d/k"), read("d"), read("d/none"), read("d/k", -1)
        store.read("d/k"), store.read("d"), store.read_ranges("d/k", [0], [1])
        store.write("d/k", b"1"), store.write("d/k", b"1", if_equal=b"no")
        store.delete("d/no"), store.delete("d/k", if_equal=b"no")
        list(store.list())
        for request in (lambda: store.write("d", b""), lambda: read("d/k", 9), lambda: store.delete("d")):
            with pytest.raises(ValueError):
                request()
        monkeypatch.setattr(file_write, "os", System(write=failing(errno.ENOSPC)))
        with pytest.raises(StorageError):
            store.write("d/k", b"1")
        monkeypatch.undo()
    after = os.listdir("/proc/self/fd") if os.path.isdir("/proc") else os.listdir("/dev/fd")
    assert len(after) == len(before)


@pytest.mark.parametrize(
    "code", sorted({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, 524})
)
def test_a_file_system_without_locks(tmp_path, monkeypatch, code):
    """The error names the member that chooses another way, which works."""
    monkeypatch.setattr(file_protocol, "set_lock", failing(code))
    for request in (
        lambda s: s.write("k", b"1"),
        lambda s: s.delete("k"),
        lambda s: s.open_writer().write("k", b"1"),
    ):
        with pytest.raises(
            StorageError, match=r"no locks.*\"file_io_locking\" of \{\"mode\": \"lockfile\"\}"
        ) as e:
            request(FileStore(tmp_path, sync=False))
        assert e.value.errno == (errno.ENOLCK if code == errno.EINVAL else code)
    assert os.listdir(tmp_path) == []
    FileStore(tmp_path, sync=False, locking="lockfile").write("k", b"1")
    assert (tmp_path / "k").read_bytes() == b"1"
    held = hold(tmp_path / "k", "lockfile")
    with pytest.raises(StorageError, match="no locks"):
        FileStore(tmp_path, sync=False).write("k", b"2")
    os.close(held)
    assert (tmp_path / "k.__lock").exists(), "the lock of somebody else"


def test_a_lock_held_too_long(tmp_path):
    store = FileStore(tmp_path, sync=False, acquire_timeout=0.1)
    store.write("k", b"old")
    fd = hold(tmp_path / "k")
    try:
        start = time.monotonic()
        with pytest.raises(DeadlineExceededError, match=r"DEADLINE_EXCEEDED: .*k.__lock.* within 0.1 s") as e:
            store.write("k", b"new")
        assert 0.1 <= time.monotonic() - start < 2
        assert isinstance(e.value, TimeoutError) and e.value.errno == errno.ETIMEDOUT
        with pytest.raises(DeadlineExceededError):
            store.delete("k")
    finally:
        os.close(fd)
    assert bytes(store.open_reader()("k")) == b"old"
    store.write("k", b"new")


@LOCKED
def test_a_write_waits_for_the_lock(tmp_path, locking):
    store = FileStore(tmp_path, sync=False, locking=locking)
    holding = hold(tmp_path / "k", locking)
    writer = threading.Thread(target=store.write, args=("k", b"new"))
    writer.start()
    time.sleep(0.1)
    assert writer.is_alive() and store.read("k").value is None
    os.unlink(f"{tmp_path}/k.__lock")
    os.close(holding)
    writer.join(5)
    assert store.read("k").value == b"new"


def test_a_lock_file_left_behind(tmp_path):
    """With ``os`` it is harmless, and nothing of what it holds gets into a value; ``lockfile`` blocks."""
    stale = tmp_path / "k.__lock"
    stale.write_bytes(b"z" * 1000)
    FileStore(tmp_path).write("k", b"abc")
    assert (tmp_path / "k").read_bytes() == b"abc"
    stale.write_bytes(b"z" * 1000)
    assert FileStore(tmp_path).delete("k", if_equal=b"no") is None
    assert not stale.exists()
    stale.write_bytes(b"")
    with pytest.raises(DeadlineExceededError, match="one that died has left it behind"):
        FileStore(tmp_path, locking="lockfile", acquire_timeout=0.05).write("k", b"x")
    assert FileStore(tmp_path).read("k").value == b"abc"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be two users")
def test_a_lock_file_that_another_user_left_behind():
    """Whoever may write to a directory that users share isn't held up by it; the value is theirs."""
    with tempfile.TemporaryDirectory(dir="/tmp") as root:
        os.chmod(root, 0o777)
        stale = Path(root, "k.__lock")
        stale.write_bytes(b"z" * 1000)
        stale.chmod(0o666)
        os.seteuid(65534)
        try:
            FileStore(root, sync=False).write("k", b"abc")
        finally:
            os.seteuid(0)
        assert os.listdir(root) == ["k"]
        assert Path(root, "k").read_bytes() == b"abc"
        assert Path(root, "k").stat().st_uid == 65534


def test_delete_range_leaves_active_writers_alone(tmp_path):
    store = FileStore(tmp_path, sync=False)
    for name in ("active", "stale"):
        store.write(f"d/{name}", b"1")
    fd = hold(tmp_path / "d/active")
    open(f"{tmp_path}/d/stale.__lock", "w").close()
    store.delete_range("d/", "d0")
    assert os.listdir(tmp_path / "d") == ["active.__lock"]
    os.close(fd)
    store.delete_range()
    assert os.listdir(tmp_path) == []
    kept = FileStore(tmp_path, locking="lockfile")
    open(f"{tmp_path}/unknown.__lock", "w").close()
    kept.delete_range()
    assert os.listdir(tmp_path) == ["unknown.__lock"]
    FileStore(tmp_path, locking="none").delete_range()
    assert os.listdir(tmp_path) == []


def test_delete_range_meets_a_writer_that_is_over_soon(store, tmp_path, monkeypatch):
    """A lock file is there when the directory is to go, and no longer when anybody looks."""
    monkeypatch.setattr(file_list, "os", System(rmdir=failing(errno.ENOTEMPTY)))
    store.delete_range("d", "e")
    assert list(store.list()) == []
    monkeypatch.undo()
    store.delete_range("d", "e")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("holds", "n_pauses", "left"),
    [
        ("a value", 0, ["d", "d/k"]),
        ("a lock for a while", 2, []),
        ("a lock", 9, ["d", "d/k.__lock"]),
    ],
)
def test_a_directory_goes_once_no_writer_holds_a_lock_in_it(
    store, tmp_path, monkeypatch, holds, n_pauses, left
):
    """A value that is to stay keeps the directory, and there is nothing to wait for."""
    fd = None if holds == "a value" else hold(tmp_path / "d/k")
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if holds == "a lock for a while" and len(pauses) == n_pauses:
            os.close(fd)

    monkeypatch.setattr(file_store, "time", SimpleNamespace(sleep=sleep))
    store.delete_directory("d", lambda key: holds != "a value")
    assert len(pauses) == n_pauses and sum(pauses) < 1
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == left
    if holds == "a lock":
        os.close(fd)


@pytest.mark.parametrize("locking", ["os", "lockfile", "none"])
def test_a_writer_whose_directory_goes_starts_again(tmp_path, monkeypatch, locking):
    """Somebody deletes the directory with the lock file in it between the write and the rename."""
    store = FileStore(tmp_path, sync=False, locking=locking)
    store.write("d/e/other", b"1")
    renames = []

    def rename(source, target):
        if not renames:
            os.unlink(source)
            FileStore(tmp_path, locking="none").delete_range("d", "e")
        renames.append(source)
        os.rename(source, target)

    monkeypatch.setattr(file_protocol, "os", System(rename=rename))
    assert store.write("d/e/k", b"v") is not None
    assert len(renames) == 2
    assert list(store.list()) == ["d/e/k"]


def test_the_time_of_a_write_is_the_precise_one(tmp_path, monkeypatch):
    """Inodes come back within a tick of the kernel's clock; the times that are set tell versions apart."""
    store = FileStore(tmp_path, sync=False)
    now = 1_700_000_000_123_456_789
    monkeypatch.setattr("chunkwise.core.kvstore.files.protocol.time", SimpleNamespace(time_ns=lambda: now))
    generation = store.write("k", b"1")
    status = os.stat(tmp_path / "k")
    assert status.st_mtime_ns == now
    assert generation == struct.pack("<xQQQ", status.st_dev, status.st_ino, now)
    monkeypatch.undo()
    generations = [store.write("k", b"same") for _ in range(200)]
    assert len(set(generations)) == 200
    assert all(store.write("k", b"x", if_equal=g) is None for g in generations[:-1])


def test_sync_waits_for_the_disk(tmp_path, monkeypatch):
    """With sync: the file before it gets its name, then its directory; parents when they are made."""
    done = []

    def fsync(fd):
        done.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path))
        os.fsync(fd)

    def rename(a, b):
        done.append("rename")
        os.rename(a, b)

    for module in (file_protocol, file_write, platform):
        monkeypatch.setattr(module, "os", System(fsync=fsync, rename=rename))
    FileStore(tmp_path / "r").write("d/k", b"1")
    assert done == [".", "r", "r/d/k.__lock", "rename", "r/d"]
    done.clear()
    FileStore(tmp_path / "r").write("d/k", b"2")
    assert done == ["r/d/k.__lock", "rename", "r/d"]
    done.clear()
    FileStore(tmp_path / "r").delete("d/k")
    assert done == ["r/d"]
    done.clear()
    FileStore(tmp_path / "r", sync=False).write("d/k", b"3")
    assert done == ["rename"]


@pytest.mark.parametrize("attempt", ["_attempt_by_renaming_the_lock", "_attempt_beside"])
@pytest.mark.parametrize("locking", ["os", "lockfile", "none"])
@pytest.mark.parametrize("sync", [False, True])
def test_a_value_is_on_disk_before_it_gets_its_name(tmp_path, monkeypatch, attempt, locking, sync):
    store = FileStore(tmp_path, sync=sync, locking=locking)
    store.write("k", b"old")
    seen = []  # the value of the key, and the size of the new one, when that reaches the disk

    def sync_file(fd):
        seen.append(((tmp_path / "k").read_bytes(), os.fstat(fd).st_size))

    monkeypatch.setattr(file_protocol, "attempt_under_lock", getattr(file_protocol, attempt))
    monkeypatch.setattr(file_protocol, "sync_file", sync_file)
    store.write("k", b"longer")
    assert seen == [(b"old", 6)] * sync
    assert store.read("k").value == b"longer"


@LOCKED
def test_generations_are_tensorstores(tmp_path, locking):
    """Each library writes on condition of the generation that the other one returned."""
    context = ts.Context({"file_io_sync": False, "file_io_locking": {"mode": locking}})
    theirs = ts.KvStore.open({"driver": "file", "path": f"{tmp_path}/"}, context=context).result()
    ours = FileStore(tmp_path, sync=False, locking=locking)
    first = ours.write("k", b"1")
    assert theirs.read("k").result().stamp.generation == first
    second = theirs.write("k", b"2", if_equal=first).result().generation
    assert second == ours.read("k").generation
    assert theirs.write("k", b"3", if_equal=first).result().generation == b""
    assert ours.write("k", b"3", if_equal=first) is None
    assert ours.write("k", b"3", if_equal=second) == theirs.read("k").result().stamp.generation


def test_tensorstore_waits_for_our_lock(tmp_path):
    theirs = ts.KvStore.open(f"file://{tmp_path}/").result()
    fd = hold(tmp_path / "k")
    written = theirs.write("k", b"2")
    time.sleep(0.2)
    assert not written.done() and not (tmp_path / "k").exists()
    os.close(fd)
    written.result(timeout=5)
    assert (tmp_path / "k").read_bytes() == b"2"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_a_file_system_that_takes_no_directories():
    with pytest.raises(StorageError, match='Failed to write: "/proc/none/a/b": No such file or directory'):
        FileStore("/proc").write("none/a/b", b"1")
