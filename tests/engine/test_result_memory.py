"""Memory of results: whatever pages it has, it is an array like NumPy's."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import chunkwise
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.engine import memory
from chunkwise.core.engine.chunk_codec import StagingBuffer
from chunkwise.core.engine.memory import ResultPages, empty_result, forget_kept_memory, pages_of

SHAPE = (2048, 1024, 16)  # 64 MiB of uint16


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    """Results have memory of their own."""
    forget_kept_memory()
    yield
    forget_kept_memory()


def _flags(address: int) -> list[str]:
    """Return the flags of the mapping that `address` lies in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name = line.split()[0]
        if "-" in name and not name.endswith(":"):
            start, stop = (int(part, 16) for part in name.split("-"))
            inside = start <= address < stop
        elif inside and name == "VmFlags:":
            return line.split()[1:]
    raise AssertionError(f"no mapping at {address:x}")


@pytest.mark.parametrize("slow", [-1, 1 << 62], ids=["slow", "fast"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_is_an_array(order: Literal["C", "F"], slow: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SLOW", slow)
    out = empty_result(SHAPE, np.dtype("u2"), order)
    assert out.shape == SHAPE and out.dtype == np.dtype("u2")
    assert out.flags.writeable and out.flags.aligned
    assert out.flags.c_contiguous if order == "C" else out.flags.f_contiguous
    out[...] = np.arange(16, dtype="u2")
    assert (out == np.arange(16, dtype="u2")).all()


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages for some memory only are Linux's")
def test_small_pages_where_huge_ones_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SLOW", -1)
    out = empty_result(SHAPE, np.dtype("u2"))
    assert "nh" in _flags(out.ctypes.data + out.nbytes // 2)
    del out
    forget_kept_memory()
    monkeypatch.setattr(memory, "_SLOW", 1 << 62)
    out = empty_result(SHAPE, np.dtype("u2"))
    assert "nh" not in _flags(out.ctypes.data + out.nbytes // 2)


def test_neither_small_results_nor_objects_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AssertionError("tried")

    monkeypatch.setattr(memory, "_madvise", fail)
    assert empty_result((3,), np.dtype("u2")).shape == (3,)
    assert empty_result((), np.dtype("f8")).shape == ()
    assert empty_result((1 << 22,), np.dtype(object))[-1] is None
    with pytest.raises(AssertionError, match="tried"):
        empty_result((1 << 24,), np.dtype("u1"))


def test_without_the_system_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_madvise", lambda: None)
    out = empty_result(SHAPE, np.dtype("u2"))
    out[-1] = 7
    assert (out[-1] == 7).all()


class Asked:
    """A system that is asked for pages, and what it was asked for."""

    def __init__(self, answer: int = 0) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.answer = answer

    def __call__(self, start: int, nbytes: int, advice: int) -> int:
        if advice == memory._POPULATE:
            assert start % mmap.PAGESIZE == 0 and nbytes > 0
            self.ranges.append((start, start + nbytes))
        return self.answer

    def covers(self, start: int, stop: int) -> bool:
        """Return True if all whole pages between two addresses were asked for."""
        first, last = -(-start // mmap.PAGESIZE), stop // mmap.PAGESIZE
        asked = {page for a, b in self.ranges for page in range(a // mmap.PAGESIZE, -(-b // mmap.PAGESIZE))}
        return set(range(first, last)) <= asked


def _addresses(part: np.ndarray) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(part)
    return low, high


@pytest.mark.parametrize(
    "select",
    [
        lambda a: a,
        lambda a: a[3:5],
        lambda a: a[::-1, ::2],
        lambda a: a[100:, :, 5].T,
        lambda a: a[7:8, 8:9, 9:10],
        lambda a: a[:0],
    ],
    ids=["all", "rows", "reversed", "transposed", "element", "nothing"],
)
def test_pages_of_a_part_are_asked_for_once(select: Callable[[np.ndarray], np.ndarray]) -> None:
    whole = np.zeros((256, 64, 1024), np.uint16)[1:]
    low, high = _addresses(whole)
    asked = Asked()
    pages = ResultPages(low, high, asked)
    part = select(whole)
    pages.prepare(part)
    if not part.size:
        assert not asked.ranges
        return
    assert asked.covers(*_addresses(part))
    assert all(low - mmap.PAGESIZE < a and b <= high for a, b in asked.ranges)
    n = len(asked.ranges)
    pages.prepare(part)
    assert len(asked.ranges) == n
    pages.prepare(whole)
    assert asked.covers(low, high)
    assert sum(b - a for a, b in asked.ranges) <= high - low


@pytest.mark.parametrize("step", [1, -1, 3])
@pytest.mark.parametrize("ends", [True, False])
def test_no_pages_beside_a_part_are_asked_for(ends: bool, step: int) -> None:
    """What is never filled takes no memory; here a part ends, or begins, where a unit does."""
    whole = np.zeros(4 * memory._UNIT, np.uint8)
    low, high = _addresses(whole)
    border = -low % memory._UNIT + memory._UNIT
    nbytes = 64 * 2 * mmap.PAGESIZE
    part = whole[border - nbytes : border] if ends else whole[border : border + nbytes]
    asked = Asked()
    ResultPages(low, high, asked).prepare(part.reshape(64, -1)[::step])
    unit = low + border - memory._UNIT if ends else low + border
    assert asked.ranges == [(unit, unit + memory._UNIT)]


def test_a_unit_of_less_than_a_page_is_not_asked_for() -> None:
    """A system refuses the call for no pages, which would seem to say that it doesn't know it."""
    asked, unit = Asked(), memory._UNIT
    pages = ResultPages(3 * unit, 4 * unit + mmap.PAGESIZE - 1, asked)
    pages.ask_for(3 * unit, 4 * unit + mmap.PAGESIZE - 1)
    assert asked.ranges == [(3 * unit, 4 * unit)]


def test_a_system_that_knows_no_such_call_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(answer=-1)
    monkeypatch.setattr(memory, "_madvise", lambda: asked)
    out = empty_result(SHAPE, np.dtype("u2"))
    pages = pages_of(out)
    assert pages is not None
    pages.prepare(out)
    assert len(asked.ranges) == 1
    out[...] = 3
    assert (out == 3).all()


def test_pages_are_forgotten_with_the_result() -> None:
    out = empty_result(SHAPE, np.dtype("u2"))
    part = out[4:]
    assert pages_of(part) is pages_of(out)
    del out
    assert pages_of(part) is not None or memory._madvise() is None
    before = len(memory._results)
    del part
    assert len(memory._results) < before or memory._madvise() is None
    assert pages_of(np.zeros(SHAPE, np.uint16)) is None


@pytest.mark.each_once
@pytest.mark.parametrize("sharded", [False, True], ids=["chunks", "shards"])
@pytest.mark.parametrize("how", ["all", "part", "reversed", "points"])
def test_a_read_asks_for_the_pages_that_it_fills(
    how: str, sharded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = (
        {"read_chunk": {"shape": [32, 64, 64]}, "write_chunk": {"shape": [64, 64, 64]}}
        if sharded
        else {"chunk": {"shape": [32, 64, 64]}}
    )
    store = chunkwise.open(
        {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path)}},
        create=True,
        dtype="uint16",
        shape=[256, 256, 256],
        chunk_layout=chunkwise.ChunkLayout(layout),
    ).result()
    data = np.arange(256**3, dtype=np.uint32).astype(np.uint16).reshape(256, 256, 256)
    store.write(data).result()
    asked = Asked()
    monkeypatch.setattr(memory, "_madvise", lambda: asked)
    view, expected = {
        "all": (store, data),
        "part": (store[3:250, :, 1:256], data[3:250, :, 1:256]),
        "reversed": (store[::-1, ::-1, ::-1], data[::-1, ::-1, ::-1]),
        "points": (store[np.arange(256)[::-1], :, :], data[::-1]),
    }[how]
    out = view.read().result()
    np.testing.assert_array_equal(out, expected)
    assert asked.covers(*_addresses(out))


def test_one_element_in_a_large_result(tmp_path: Path) -> None:
    store = chunkwise.open(
        {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path)}},
        create=True,
        dtype="uint16",
        shape=[4, 4],
    ).result()
    store[2, 3] = 7
    repeated = chunkwise.IndexTransform(
        input_shape=[4096, 4096],
        output=[chunkwise.OutputIndexMap(offset=2), chunkwise.OutputIndexMap(offset=3)],
    )
    assert (store[repeated].read().result() == 7).all()


def test_a_raw_chunk_is_an_array_over_its_bytes(stored_array: Callable[..., StoredArray]) -> None:
    chain = stored_array((4, 6), (4, 6)).chain
    encoded = np.arange(24, dtype="<u2").tobytes()
    view = StagingBuffer(chain, 1).view
    assert view is not None
    chunk = view(encoded)
    assert np.shares_memory(chunk, np.frombuffer(encoded, np.uint8))
    np.testing.assert_array_equal(chunk, np.arange(24).reshape(4, 6))
    assert StagingBuffer(stored_array((4, 6), (4, 6), bool).chain, 1).view is None  # its bits are checked
