"""Memory of results: whatever pages it has, it is an array like NumPy's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from chunkwise.execute import result_memory
from chunkwise.execute.result_memory import empty_result

SHAPE = (2048, 1024, 16)  # 64 MiB of uint16


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
    monkeypatch.setattr(result_memory, "_SLOW", slow)
    out = empty_result(SHAPE, np.dtype("u2"), order)
    assert out.shape == SHAPE and out.dtype == np.dtype("u2")
    assert out.flags.owndata and out.flags.writeable
    assert out.flags.c_contiguous if order == "C" else out.flags.f_contiguous
    out[...] = np.arange(16, dtype="u2")
    assert (out == np.arange(16, dtype="u2")).all()


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages for some memory only are Linux's")
def test_small_pages_where_huge_ones_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_memory, "_SLOW", -1)
    out = empty_result(SHAPE, np.dtype("u2"))
    assert "nh" in _flags(out.ctypes.data + out.nbytes // 2)
    monkeypatch.setattr(result_memory, "_SLOW", 1 << 62)
    out = empty_result(SHAPE, np.dtype("u2"))
    assert "nh" not in _flags(out.ctypes.data + out.nbytes // 2)


def test_neither_small_results_nor_objects_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AssertionError("tried")

    monkeypatch.setattr(result_memory, "_madvise", fail)
    assert empty_result((3,), np.dtype("u2")).shape == (3,)
    assert empty_result((), np.dtype("f8")).shape == ()
    assert empty_result((1 << 22,), np.dtype(object))[-1] is None
    with pytest.raises(AssertionError, match="tried"):
        empty_result((1 << 24,), np.dtype("u1"))


def test_without_the_system_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_memory, "_madvise", lambda: None)
    out = empty_result(SHAPE, np.dtype("u2"))
    out[-1] = 7
    assert (out[-1] == 7).all()
