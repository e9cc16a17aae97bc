"""Memory of a result that is gone: the next one's pages, with nothing of what was there, and not for long."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from thread_limit import no_more_threads

import chunkwise
from chunkwise.core.engine import memory
from chunkwise.core.engine.memory import empty_result, forget_kept_memory, pages_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked for pages")
MIB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    forget_kept_memory()
    yield
    forget_kept_memory()


def result(mib: float, order: Any = "C") -> np.ndarray:
    return empty_result((int(mib * MIB) // 4096, 2048), np.dtype("u2"), order)


def address(mib: float) -> int:
    """Return where a result lies, and let go of it."""
    out = result(mib)
    out[...] = 0xABCD
    return out.ctypes.data


def test_the_next_result_has_the_memory_of_the_last() -> None:
    first = address(32)
    out = result(32, "F")
    assert out.ctypes.data == first
    assert out.flags.f_contiguous and out.flags.writeable and out.shape == (8192, 2048)
    assert (out == 0xABCD).all(), "the pages are new"
    assert pages_of(out) is None, "they are asked for again"


def test_what_is_looked_at_is_not_used_again() -> None:
    out = result(32)
    part = out[5:7, 3]
    view = memoryview(out)
    out[...] = 1
    for hold in (out, part, view):
        assert hold is not None
    del out, hold
    other = result(32)
    other[...] = 2
    assert (part == 1).all() and not np.shares_memory(part, other)
    view.release()
    del part
    again = result(32)
    assert not np.shares_memory(again, other)


def test_a_smaller_result_takes_no_more_than_it_needs() -> None:
    first = address(32)
    out = result(20)
    assert out.ctypes.data == first
    with pytest.raises(IndexError):
        out.base[20 * MIB]  # type: ignore[index]
    del out
    assert len(memory._kept[0][0]) == 20 * MIB
    result(32)
    assert len(memory._kept[0][0]) == 32 * MIB


@pytest.mark.parametrize("mib", [48, 15.99, 16], ids=["larger", "small", "less than half"])
def test_what_does_not_fit_goes(mib: float) -> None:
    address(40)
    out = result(mib)
    out[...] = 3
    if out.nbytes < memory._LARGE:
        assert len(memory._kept[0][0]) == 40 * MIB, "small results come from NumPy"
    else:
        assert not memory._kept


def test_one_is_kept_of_many() -> None:
    several = [result(16 + i) for i in range(5)]
    del several
    assert len(memory._kept) == 1


def test_how_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHUNKWISE_KEPT_BYTES", str(16 * MIB))
    address(17)
    assert not memory._kept
    address(16)
    assert memory._kept
    forget_kept_memory()
    monkeypatch.setenv("CHUNKWISE_KEPT_BYTES", "0")
    address(16)
    assert not memory._kept
    monkeypatch.setenv("CHUNKWISE_KEPT_BYTES", "all")
    with pytest.raises(ValueError, match="CHUNKWISE_KEPT_BYTES"):
        result(16)


def test_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_LONGEST", 0.2)
    memory._watched.clear()  # the thread of an earlier test sleeps for longer
    for _ in range(3):
        address(16)
        assert memory._kept
        end = time.monotonic() + 30
        while memory._kept:
            assert time.monotonic() < end, "what is kept stays"
            time.sleep(0.01)


def test_a_thread_that_cannot_be_started() -> None:
    memory._watched.clear()
    with no_more_threads():
        address(16)
    assert not memory._kept and not memory._watched


def test_not_with_a_system_that_does_not_know_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_madvise", lambda: lambda *_: -1)
    address(16)
    assert not memory._kept


def test_too_large_is_what_it_is_for_numpy() -> None:
    with pytest.raises(MemoryError):
        empty_result((1 << 45,), np.dtype("u2"))
    with pytest.raises(ValueError, match=r"too big|too large|dimension"):
        empty_result((1 << 62, 9), np.dtype("u2"))


def test_a_fork_keeps_nothing_of_its_parent() -> None:
    mine = result(16)
    mine[...] = 7
    address(16)
    assert memory._kept
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            forgotten = not memory._kept and not memory._watched
            del mine
            inherited = not memory._kept
            address(16)
            status = 0 if forgotten and inherited and memory._kept else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert memory._kept and (mine == 7).all()


def test_results_of_many_threads_are_their_own() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(8):
            out = result(16 + turn % 3)
            out[:] = number
            time.sleep(0.001)
            if (out != number).any():
                wrong.append(number)
            del out

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    gc.collect()
    assert len(memory._kept) <= 1


ZSTD = {"name": "zstd", "configuration": {"level": 1}}
LAYOUTS: dict[str, dict[str, Any]] = {
    "n5": {"driver": "n5", "schema": {"chunk_layout": {"chunk": {"shape": [32, 64, 64]}}}},
    "zarr": {"driver": "zarr", "schema": {"chunk_layout": {"chunk": {"shape": [32, 64, 64]}}}},
    "raw": {
        "driver": "zarr3",
        "metadata": {"codecs": ["bytes"]},
        "schema": {"chunk_layout": {"chunk": {"shape": [16, 16, 16]}}},
    },
    "zstd": {
        "driver": "zarr3",
        "metadata": {"codecs": ["bytes", ZSTD]},
        "schema": {"chunk_layout": {"chunk": {"shape": [16, 16, 16]}}},
    },
    "large": {"driver": "zarr3", "schema": {"chunk_layout": {"chunk": {"shape": [100, 128, 128]}}}},
    "shards": {
        "driver": "zarr3",
        "metadata": {"codecs": ["bytes", ZSTD]},
        "schema": {
            "chunk_layout": {"read_chunk": {"shape": [16, 16, 16]}, "write_chunk": {"shape": [64, 64, 64]}}
        },
    },
}
READS: dict[str, Callable[[Any], Any]] = {
    "all": lambda a: a,
    "part": lambda a: a[1:, 2:255, 3:],
    "reversed": lambda a: a[::-1, :, ::-1],
    "points": lambda a: a[np.r_[5:256, 0:5], :, :],
    "transposed": lambda a: a.T,
}


@pytest.mark.each_once
@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_of_an_earlier_result_shows(layout: str, name: str, tmp_path: Path) -> None:
    """Each element is written, also those that nothing is stored of."""
    store = chunkwise.open(
        {**LAYOUTS[layout], "kvstore": f"file://{tmp_path}/"},
        create=True,
        dtype="uint16",
        shape=[256, 256, 256],
        context=chunkwise.Context({"file_io_sync": False}),
    ).result()
    expected = np.zeros((256, 256, 256), np.uint16)
    expected[16:90, 32:, 64:160] = np.arange(96)
    expected[200:201, 7:9, 250:] = 5
    store[16:90, 32:, 64:160] = expected[16:90, 32:, 64:160]
    store[200:201, 7:9, 250:] = 5
    first = address(32)
    out = READS[name](store).read().result()
    assert out.ctypes.data == first, "the memory is new"
    np.testing.assert_array_equal(out, READS[name](expected))
