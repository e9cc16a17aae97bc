"""No more workers encode at the same time than there are turns, and a failure costs no turn."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise
from chunkwise.engine.turns import in_turn, open_turns
from chunkwise.errors import ChunkwiseError


def test_as_many_work_as_there_are_turns() -> None:
    turns = open_turns(12, 2)
    assert turns is not None
    lock = threading.Lock()
    now, most = 0, 0

    def work(number: int) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.005)
        with lock:
            now -= 1
        return number

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(in_turn(work, turns), range(60))) == list(range(60))
    assert most == 3


def test_a_failure_gives_its_turn_back() -> None:
    turns = open_turns(12, 1)

    def fail(number: int) -> None:
        raise ValueError(number)

    work = in_turn(fail, turns)
    for i in range(10):  # without it, the third would wait forever
        with pytest.raises(ValueError, match=str(i)):
            work(i)


def test_few_workers_need_no_turns() -> None:
    assert open_turns(3, 2) is None
    assert in_turn(len, None) is len


def test_a_chunk_that_can_not_be_stored_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Writing with sync has more workers than there are turns."""
    options: dict[str, Any] = {"context": {"file_io_concurrency": {"limit": 16}, "file_io_sync": True}}
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path)}, **options}
    data = np.arange(64 * 1024, dtype=np.uint16).reshape(64, 1024)
    store = chunkwise.open(
        spec,
        create=True,
        dtype="uint16",
        shape=[64, 1024],
        chunk_layout=chunkwise.ChunkLayout(chunk_shape=[1, 1024]),
    ).result()
    (tmp_path / "c/5/0/in-the-way").mkdir(parents=True)
    with pytest.raises(ChunkwiseError, match="c/5/0"):
        store.write(data).result(timeout=60)
    (tmp_path / "c/5/0/in-the-way").rmdir()
    (tmp_path / "c/5/0").rmdir()
    store.write(data).result(timeout=60)
    np.testing.assert_array_equal(store.read().result(), data)
