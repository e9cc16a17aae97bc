"""Files, locks and links that others change meanwhile."""

import errno
import os
from functools import partial

import pytest

from chunkwise.core.kvstore.files import exchange as file_exchange
from chunkwise.core.kvstore.files import file_store
from chunkwise.core.kvstore.files import protocol as file_protocol
from chunkwise.core.kvstore.files import read as file_read
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.files.list_files import delete_files
from chunkwise.core.kvstore.files.path import LOCK_SUFFIX
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.errors import OutOfRangeError

VALUE = bytes(range(100))


def read_by_store(path, starts, stops, change):
    status = file_read.regular_status

    def known(fd):
        found = status(fd)
        change()
        return found

    file_read.regular_status = known
    try:
        return file_read.read_file_ranges(str(path), starts, stops)
    finally:
        file_read.regular_status = status


def read_open(path, starts, stops, change, *, memory=None, io_mode="default"):
    opened = file_read.OpenFile(str(path), io_mode)
    try:
        change()
        return opened.read(starts, stops, memory)
    finally:
        opened.close()


def read_into(path, starts, stops, change):
    return read_open(path, starts, stops, change, memory=memoryview(bytearray(200)))


def read_one_by_one(path, starts, stops, change, *, io_mode="default"):
    store, size = FileStore(path.parent, io_mode=io_mode), path.stat().st_size
    change()
    status = file_store.regular_status
    file_store.regular_status = lambda fd: Known(status(fd), size)
    try:
        return [store.read(path.name, byte_range=(a, b)).value for a, b in zip(starts, stops, strict=True)]
    finally:
        file_store.regular_status = status


class Known:
    """The status of a file that had another size a moment before."""

    def __init__(self, status, size):
        self._status = status
        self.st_size = size

    def __getattr__(self, name):
        return getattr(self._status, name)


READS = {
    "store": read_by_store,
    "open": read_open,
    "into": read_into,
    "open, mapped": partial(read_open, io_mode="memmap"),
    "open, direct": partial(read_open, io_mode="direct"),
    "one": read_one_by_one,
    "one, mapped": partial(read_one_by_one, io_mode="memmap"),
    "one, direct": partial(read_one_by_one, io_mode="direct"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("left", [0, 1, 39, 40, 41, 60, 99, 100])
def test_ranges_of_a_file_that_becomes_shorter(tmp_path, read, left):
    """What is still there is read; a range that is not is an error, never other bytes."""
    path = tmp_path / "k"
    for ranges in ([(0, 40)], [(40, 60)], [(10, 20), (39, 41)], [(5, 5)], [(60, 100), (0, 1)]):
        path.write_bytes(VALUE)
        starts, stops = zip(*ranges, strict=True)
        if all(stop <= left or start == stop for start, stop in ranges):
            found = read(path, starts, stops, lambda: os.truncate(path, left))
            assert list(map(bytes, found)) == [VALUE[start:stop] for start, stop in ranges]
        else:
            first = next(start for start, stop in ranges if stop > left and stop > start)
            with pytest.raises(
                OutOfRangeError, match=rf"size {left}\b" if first <= left else "for value of size"
            ):
                read(path, starts, stops, lambda: os.truncate(path, left))


@pytest.mark.parametrize("at_most", [1, 3, 7])
def test_short_reads_go_on(tmp_path, monkeypatch, at_most):
    path, preadv = tmp_path / "k", os.preadv
    path.write_bytes(VALUE)
    monkeypatch.setattr(os, "preadv", lambda fd, parts, at: preadv(fd, (parts[0][:at_most],), at))
    for read in (read_by_store, read_open, read_into):
        found = read(path, (3, 50, 99), (20, 58, 100), lambda: None)
        assert list(map(bytes, found)) == [VALUE[3:20], VALUE[50:58], VALUE[99:]]


@pytest.mark.parametrize("name", ["_attempt_by_renaming_the_lock", "_attempt_beside"])
@pytest.mark.parametrize("replaced", [True, False])
def test_a_lock_file_that_another_replaces_before_it_is_locked_is_not_ours(
    tmp_path, monkeypatch, name, replaced
):
    """Its lock is on a file without that name: the write begins again, with the file that has the name."""
    lock, set_lock = tmp_path / f"k{LOCK_SUFFIX}", file_protocol.set_lock
    locked = []

    def late(fd, *how):
        if not locked:
            lock.unlink()
            if replaced:
                lock.write_bytes(b"of another")
        locked.append(fd)
        set_lock(fd, *how)

    monkeypatch.setattr(file_protocol, "attempt_under_lock", getattr(file_protocol, name))
    monkeypatch.setattr(file_protocol, "set_lock", late)
    store = FileStore(tmp_path, sync=False)
    store.write("k", b"mine")
    assert store.read("k").value == b"mine"
    assert os.listdir(tmp_path) == ["k"]
    assert len(locked) > 1


@pytest.mark.parametrize("name", ["_attempt_by_renaming_the_lock", "_attempt_beside"])
@pytest.mark.parametrize("locking", ["os", "lockfile"])
def test_work_that_writes_nothing_leaves_nothing(tmp_path, monkeypatch, name, locking):
    """Neither if it says so, nor if it fails, and the key can be written afterwards."""
    attempt = getattr(file_protocol, name)
    monkeypatch.setattr(file_protocol, "attempt_under_lock", attempt)
    store = FileStore(tmp_path, sync=False, locking=locking)
    store.write("k", b"old")

    def nothing(fd, value):
        os.write(fd, b"part of it")
        return False

    def failing(fd, value):
        os.write(fd, b"part of it")
        raise ZeroDivisionError

    path = str(tmp_path / "k")
    how = {"sync": False, "stamped": None}
    file_protocol.under_lock(path, locking, 1.0, nothing, None, **how)
    with pytest.raises(ZeroDivisionError):
        file_protocol.under_lock(path, locking, 1.0, failing, None, **how)
    assert os.listdir(tmp_path) == ["k"] and store.read("k").value == b"old"
    store.write("k", b"new")
    assert os.listdir(tmp_path) == ["k"] and store.read("k").value == b"new"


@pytest.mark.parametrize("name", ["_attempt_by_renaming_the_lock", "_attempt_beside"])
def test_lock_files_ask_for_no_locks(tmp_path, monkeypatch, name):
    asked = []
    monkeypatch.setattr(file_protocol, "attempt_under_lock", getattr(file_protocol, name))
    monkeypatch.setattr(file_protocol, "set_lock", lambda *how: asked.append(how))
    FileStore(tmp_path, sync=False, locking="lockfile").write("k", b"1")
    assert asked == [] and os.listdir(tmp_path) == ["k"]


@pytest.mark.parametrize("name", ["_attempt_by_renaming_the_lock", "_attempt_beside"])
def test_locks_of_what_is_not_written_are_given_up(tmp_path, monkeypatch, name):
    """A process that was forked meanwhile has the descriptor, too: to close it gives up no lock."""
    asked, kept, set_lock = [], [], file_protocol.set_lock

    def noted(fd, *how):
        kept.append(os.dup(fd))
        asked.append(how)
        set_lock(fd, *how)

    monkeypatch.setattr(file_protocol, "attempt_under_lock", getattr(file_protocol, name))
    monkeypatch.setattr(file_protocol, "set_lock", noted)
    try:
        how = {"sync": False, "stamped": None}
        file_protocol.under_lock(str(tmp_path / "k"), "os", 1.0, lambda *_: False, None, **how)
    finally:
        for fd in kept:
            os.close(fd)
    assert asked == [file_protocol.LOCK, file_protocol.UNLOCK]


# What the system says of a second name, and what becomes of the file then.
LINKS = [
    (None, "linked"),
    (errno.EEXIST, "stays"),
    (errno.EPERM, "copied"),
    (errno.EXDEV, "copied"),
    (errno.EMLINK, "copied"),
    (NotImplementedError(), "copied"),
    (errno.ENOSPC, "error"),
]


@pytest.mark.parametrize(("fault", "becomes"), LINKS)
@pytest.mark.parametrize("kind", ["file", "link", "missing"])
def test_a_second_name(tmp_path, monkeypatch, fault, becomes, kind):
    path, other = tmp_path / "a", tmp_path / "d/b"
    if kind == "file":
        path.write_bytes(b"value")
    if kind == "link":
        path.symlink_to("nowhere")
    if becomes == "stays":
        other.parent.mkdir()
        other.write_bytes(b"stays")
    elif fault is not None:

        def refuse(*_, **__):
            if kind == "missing":
                raise FileNotFoundError(errno.ENOENT, "missing")
            raise fault if isinstance(fault, Exception) else OSError(fault, os.strerror(fault))

        monkeypatch.setattr(file_exchange.os, "link", refuse)
    if becomes == "error" and kind != "missing":
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            file_exchange.link_file(str(path), str(other))
        assert not os.path.lexists(other)
        return
    file_exchange.link_file(str(path), str(other))
    if becomes == "stays":
        assert other.read_bytes() == b"stays"
    elif kind == "missing":
        assert not os.path.lexists(other)
    elif kind == "link":
        assert os.readlink(other) == "nowhere"
    else:
        assert other.read_bytes() == b"value"
        assert (other.stat().st_ino == path.stat().st_ino) == (becomes == "linked")
    assert os.path.lexists(path) == (kind != "missing")


FILES = ["a", "b/c", "b/d/e", "b/d/f", "b0", "g/h/i"]
RANGES = [
    ("", ""),
    ("b", "c"),
    ("b/", "b0"),
    ("b/d/", "b/d0"),
    ("b/d", "b/e"),
    ("b/d/f", "b/d/g"),
    ("g", ""),
    ("b/d/f", "h"),
]


@pytest.mark.parametrize(("begin", "end"), RANGES)
@pytest.mark.parametrize("kept", [None, "b/d/e", "g/h/i"])
def test_directories_that_lost_names_are_told(tmp_path, begin, end, kept):
    """Those that are still there, each once: they are what has to reach the disk."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(b"1")

    def names():
        return {os.path.join(at, name) for at, below, found in os.walk(tmp_path) for name in (*below, *found)}

    before = names()
    told = delete_files(f"{tmp_path}/", KeyRange.between(begin, end), os.unlink, lambda key: key != kept)
    gone = before - names()
    assert {file for file in FILES if f"{tmp_path}/{file}" in gone} == {
        file for file in FILES if begin <= file and (not end or file < end) and file != kept
    }
    # A directory goes if all names that begin with its path are in the range, and none is left.
    for directory in ("b", "b/d", "g", "g/h"):
        beyond = directory[:-1] + chr(ord(directory[-1]) + 1)
        is_empty = not any(file.startswith(f"{directory}/") and (tmp_path / file).exists() for file in FILES)
        is_whole = begin <= directory and (not end or beyond <= end)
        assert (tmp_path / directory).exists() == (not (is_empty and is_whole)), directory
    above = {os.path.dirname(name) for name in gone}
    assert {path.rstrip("/") for path in told} == {path for path in above if os.path.isdir(path)}
