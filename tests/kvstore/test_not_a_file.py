"""A FIFO, a device, a socket, a directory or an endless file in the place of a chunk or a document."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as ts
from chunkwise import errors
from chunkwise.core.base import limits
from chunkwise.core.kvstore.files import write as file_write
from chunkwise.core.kvstore.files.file_store import FileStore

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are none of these on Windows")
FAST = {"file_io_sync": False}
CHUNKS = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}}


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    """Nothing here waits for anybody: end what does."""

    def stop(number: int, frame: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _socket(path: str) -> None:
    directory, name = os.path.split(path)
    here = os.getcwd()
    os.chdir(directory)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(name)
    os.chdir(here)


OTHERS: dict[str, Callable[[str], object]] = {
    "fifo": os.mkfifo,
    "socket": _socket,
    "zeros": lambda path: os.symlink("/dev/zero", path),
    "null": lambda path: os.symlink("/dev/null", path),
    "directory": os.mkdir,
}


def _array(path: Path, **context: Any) -> ts.TensorStore:
    spec = {
        "driver": "zarr3",
        "kvstore": f"file://{path}/a/",
        "context": {**FAST, **context},
        "metadata": CHUNKS,
    }
    array = ts.open(spec, create=True, dtype="int32", shape=[64]).result()
    array[...] = 1
    return array


def _put(path: Path, other: str) -> None:
    if path.is_dir():
        path.rmdir()
    with suppress(FileNotFoundError):
        path.unlink()
    OTHERS[other](str(path))


@pytest.mark.parametrize("io_mode", ["default", "memmap", "direct"])
@pytest.mark.parametrize("other", OTHERS)
def test_in_the_place_of_a_chunk(tmp_path: Path, other: str, io_mode: str) -> None:
    array = _array(tmp_path, file_io_mode={"mode": io_mode})
    asked: list[Callable[[], Any]] = [
        lambda: array.read().result(timeout=5),
        lambda: array[1].read().result(timeout=5),
        lambda: array[1].write(2).result(timeout=5),
    ]
    for ask in asked:
        _put(tmp_path / "a/c/0", other)
        if other == "directory" and ask is not asked[2]:  # it is no key
            assert not ask().flat[0]
        else:
            with pytest.raises(errors.ChunkwiseError, match="a/c/0"):
                ask()
    if other != "directory":
        array[0:4].write(3).result(timeout=5)
        assert array[0:5].read().result().tolist() == [3, 3, 3, 3, 1]


@pytest.mark.parametrize("other", OTHERS)
def test_in_the_place_of_a_lock(tmp_path: Path, other: str) -> None:
    array = _array(tmp_path)
    _put(tmp_path / "a/c/0.__lock", other)
    for part in (array[1], array[0:4]):
        with pytest.raises(errors.ChunkwiseError, match="a/c/0"):
            part.write(2).result(timeout=5)
    assert array[0:4].read().result(timeout=5).tolist() == [1] * 4


@pytest.mark.parametrize("other", OTHERS)
def test_in_the_place_of_a_document(tmp_path: Path, other: str) -> None:
    _array(tmp_path)
    _put(tmp_path / "a/zarr.json", other)
    with pytest.raises(errors.ChunkwiseError, match=r"zarr\.json"):
        ts.open({"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/"}).result(timeout=5)
    with pytest.raises((errors.ChunkwiseError, OSError)):
        ts.open_group(str(tmp_path / "a"), mode="r")


def test_a_file_without_end(tmp_path: Path) -> None:
    array = _array(tmp_path)
    for name in ("a/c/0", "a/zarr.json"):
        os.truncate(tmp_path / name, 1 << 40)  # sparse
    for ask in (array.read, array[1].read, lambda: array[1].write(2)):
        with pytest.raises(errors.DataCorruptionError, match=r"a/c/0.*1099511627776 bytes.*a chunk of this"):
            ask().result()
    with pytest.raises(errors.StorageError, match=r"zarr\.json.*a metadata document may have 67108864"):
        ts.open({"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/"}).result()


def test_a_value_larger_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_memory", lambda: 1 << 30)
    with (tmp_path / "k").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(errors.StorageError, match=r"1099511627776 bytes.*memory for 1073741824"):
        ts.KvStore.open(f"file://{tmp_path}/").result().read("k").result()


@pytest.mark.parametrize("url", ["memory://a/", "file://{}/a/"])
def test_a_signal_handler_writes_what_its_thread_is_writing(tmp_path: Path, url: str) -> None:
    """It is done, or refused at once; the program's own write is not lost."""
    spec = {"driver": "zarr3", "kvstore": url.format(tmp_path), "context": FAST, "metadata": CHUNKS}
    array = ts.open(spec, create=True, dtype="int32", shape=[8]).result()
    array[...] = 0
    outcomes: list[int] = []

    def handler(number: int, frame: object) -> None:
        try:
            array[0].write(len(outcomes) + 1).result()
            outcomes.append(len(outcomes) + 1)
        except errors.FailedPreconditionError as e:
            assert "signal handler" in str(e)
            outcomes.append(0)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for i in range(300):
            signal.setitimer(signal.ITIMER_REAL, 30)
            os.kill(os.getpid(), signal.SIGUSR1) if i % 2 else None
            timer = signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 1e-5 * (i % 40 + 1))
            array[1].write(i).result()
            array[4:8].write(np.int32(i)).result()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, timer)
            assert array[1].read().result() == i
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(outcomes) >= 150
    assert array[0].read().result() == max(outcomes)


def test_a_handler_in_the_middle_of_the_steps_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(f"{tmp_path}/", sync=False)
    write_all = file_write.write_all

    def interrupted(fd: int, value: Any) -> None:
        monkeypatch.setattr(file_write, "write_all", write_all)
        with pytest.raises(errors.FailedPreconditionError, match="signal handler"):
            store.write("k", b"handler", if_equal=None)
        write_all(fd, value)

    monkeypatch.setattr("chunkwise.core.kvstore.files.file_store.write_all", interrupted)
    store.write("k", b"program")
    assert store.read("k").value == b"program"


def test_a_file_in_the_place_of_a_directory_that_is_listed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    for path, message in (("file", "Cannot list non-directory"), ("file/below", "Failed to stat")):
        store = ts.KvStore.open(f"file://{tmp_path}/{path}/").result()
        with pytest.raises(errors.ChunkwiseError, match=f'{message}: ".*/{path}"'):
            store.list().result()
