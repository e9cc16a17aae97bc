"""The writer for many values: as safe as the store's own writes, next to any other writer."""

import errno
import os
import subprocess
import time
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from lock_files import hold

import chunkwise.core.kvstore.files.file_store
from chunkwise.core.kvstore.files import platform
from chunkwise.core.kvstore.files import protocol as file_protocol
from chunkwise.core.kvstore.files import write as file_write
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.files.path import LOCK_SUFFIX
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, StorageError

SOURCE = str(Path(chunkwise.core.kvstore.files.file_store.__file__).parents[2])
LOCKING = pytest.mark.parametrize("locking", ["os", "lockfile", "none", "non_atomic"])


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


@LOCKING
@settings(max_examples=examples(30), deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["a", "d/a", "d/e/b", "f"]), st.none() | st.binary(max_size=40)),
        max_size=12,
    )
)
def test_it_leaves_what_a_store_leaves(tmp_path_factory, locking, steps):
    store = FileStore(tmp_path_factory.mktemp("w"), sync=False, locking=locking)
    writer, expected = store.open_writer(), {}
    for key, value in steps:
        if value is None:
            writer.delete(key)
            expected.pop(key, None)
        else:
            writer.write(key, memoryview(value))
            expected[key] = value
    writer.flush()
    assert {key: store.read(key).value for key in store.list()} == expected
    assert not [name for _, _, names in os.walk(store.root) for name in names if name.endswith(LOCK_SUFFIX)]


@LOCKING
def test_keys_are_checked(tmp_path, locking):
    writer = FileStore(tmp_path, sync=False, locking=locking).open_writer()
    for key in ("../a", "a//b", "", "a/", "a.__lock", "a\0"):
        with pytest.raises(InvalidArgumentError, match="Invalid key"):
            writer.write(key, b"1")
        with pytest.raises(InvalidArgumentError, match="Invalid key"):
            writer.delete(key)
    writer.write("d/k", b"1")
    with pytest.raises(FailedPreconditionError):
        writer.write("d", b"1")
    assert os.listdir(tmp_path) == ["d"]


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_each_step_fails(tmp_path, monkeypatch, call):
    store = FileStore(tmp_path)
    store.write("k", b"old")
    descriptors = len(os.listdir("/proc/self/fd"))
    for module in (file_protocol, file_write, platform):
        monkeypatch.setattr(module, "os", System(**{call: failing(errno.ENOSPC)}))
    with pytest.raises(StorageError, match="the disk is full") as e:
        store.open_writer().write("k", b"new value")
    monkeypatch.undo()
    assert f'"{tmp_path}/k"' in str(e.value)
    assert os.listdir(tmp_path) == ["k"]
    assert store.read("k").value == b"old"
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_an_interrupt_after_the_rename_is_heard(tmp_path, monkeypatch):
    """The lock file has become the value by then: that it can't be removed is not what went wrong."""

    def rename(source, target):
        os.rename(source, target)
        raise KeyboardInterrupt

    store = FileStore(tmp_path, sync=False)
    monkeypatch.setattr(file_protocol, "os", System(rename=rename))
    with pytest.raises(KeyboardInterrupt):
        store.open_writer().write("k", b"new")
    assert os.listdir(tmp_path) == ["k"] and store.read("k").value == b"new"


def test_short_writes_are_done_again(tmp_path, monkeypatch):
    store = FileStore(tmp_path, sync=False)
    monkeypatch.setattr(file_write, "os", System(write=lambda fd, value: os.write(fd, value[:3])))
    store.open_writer().write("k", b"0123456789")
    assert store.read("k").value == b"0123456789"


def test_a_lock_file_left_behind_is_truncated(tmp_path):
    (tmp_path / f"k{LOCK_SUFFIX}").write_bytes(bytes(100))
    store = FileStore(tmp_path, sync=False)
    store.open_writer().write("k", b"new")
    assert store.read("k").value == b"new"
    assert os.listdir(tmp_path) == ["k"]


def test_it_waits_for_a_lock(tmp_path, monkeypatch):
    """A key that somebody else is writing is written after that."""
    store = FileStore(tmp_path, sync=False)
    store.write("k", b"old")
    other = hold(tmp_path / "k")
    waited = []

    def sleep(seconds):
        waited.append(store.read("k").value)
        if len(waited) == 2:
            os.unlink(f"{tmp_path}/k{LOCK_SUFFIX}")
            os.close(other)

    monkeypatch.setattr(file_protocol.time, "sleep", sleep)
    store.open_writer().write("k", b"new")
    assert waited == [b"old", b"old"]
    assert store.read("k").value == b"new"


def test_the_disk_is_waited_for(tmp_path, monkeypatch):
    """The file before it gets its name, and each directory once, when the writer is flushed."""
    done = []

    def fsync(fd):
        done.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path))
        os.fsync(fd)

    def rename(a, b):
        done.append("rename")
        os.rename(a, b)

    store = FileStore(tmp_path)
    store.write("d/0", b"1")
    for module in (file_protocol, file_write, platform):
        monkeypatch.setattr(module, "os", System(fsync=fsync, rename=rename))
    writer = store.open_writer()
    writer.write("d/1", b"1")
    writer.write("d/2", b"1")
    writer.delete("d/0")
    assert done == ["d/1.__lock", "rename", "d/2.__lock", "rename"]
    writer.flush()
    assert done[4:] == ["d"]
    writer.flush()
    assert done[5:] == []


@LOCKING
@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda writer: writer.write("d/a", b"2"),
        lambda writer: writer.write_if("d/a", b"2", None),
        lambda writer: writer.delete("d/a"),
    ],
    ids=["write", "write_if", "delete"],
)
def test_the_directory_of_each_change_is_waited_for_once(change, sync, locking, tmp_path, monkeypatch):
    store = FileStore(tmp_path, locking=locking, sync=sync)
    store.write("d/a", b"1")
    synced = []
    monkeypatch.setattr(file_write, "sync_directory", synced.append)
    writer = store.open_writer()
    change(writer)
    assert synced == []
    writer.flush()
    writer.flush()
    assert [os.path.relpath(path, tmp_path) for path in synced] == ["d"] * sync


COUNTER = """
import sys
from chunkwise.core.kvstore.files.file_store import FileStore
store = FileStore(sys.argv[1], sync=False)
print("ready", flush=True)
n = 0
while True:
    value, generation, _ = store.read("k")
    epoch, count = map(int, bytes(value).split())
    if epoch < 0:
        break
    n += store.write("k", b"%d %d" % (epoch, count + 1), if_equal=generation) is not None
print(n)
"""


def test_no_conditional_writer_undoes_it(children, tmp_path):
    """What others derive from an older value never replaces what the writer has stored."""
    store = FileStore(tmp_path, sync=False)
    writer = store.open_writer()
    writer.write("k", b"0 0")
    others = [
        children.python(COUNTER, tmp_path, env=os.environ | {"PYTHONPATH": SOURCE}, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    for other in others:
        assert other.stdout.readline() == b"ready\n"
    met, epoch, until = 0, 0, time.monotonic() + 60
    while met < 100 and time.monotonic() < until:
        epoch += 1
        writer.write("k", b"%d 0" % epoch)
        for pause in (0, 0.001 * (epoch % 2)):
            time.sleep(pause)  # on a machine that is busy the others get no time else
            found, count = map(int, bytes(store.read("k").value).split())
            assert found == epoch
            met = min(100, met + (count > 0))
    writer.write("k", b"-1 0")
    assert sum(int(other.communicate(timeout=60)[0]) for other in others) > 0
    assert met == 100, "the processes did not meet; the test has shown nothing"
    assert store.read("k").value == b"-1 0"
    assert os.listdir(tmp_path) == ["k"]
