"""Iterators that fail or are interrupted: nothing is at work any more when the error arrives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf.data_utils import DataChunkIterator

from chunkwise.hdmf import ZarrDataIO, ZarrIO
from chunkwise.hdmf.model.physical import PhysicalArray


class SlowFuture:
    """A write that takes a while, in a thread."""

    running = 0

    def __init__(self) -> None:
        type(self).running += 1
        self._thread = threading.Timer(0.2, self._done)
        self._thread.start()

    def _done(self) -> None:
        type(self).running -= 1

    def result(self) -> None:
        self._thread.join()


@pytest.mark.parametrize("exhaust", [True, False])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_writes_under_way_end_before_the_error(
    exhaust: bool, error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows() -> Iterator[Any]:
        for i in range(4):
            yield np.full(3, i, "f4")
        raise error

    monkeypatch.setattr(PhysicalArray, "write", lambda self, *args: SlowFuture())
    data = ZarrDataIO(DataChunkIterator(rows(), buffer_size=1), chunks=(1, 3))
    root = GroupBuilder("root", datasets=[DatasetBuilder("a", data, dtype="float32")])
    with pytest.raises(error), ZarrIO(tmp_path / "a", mode="w") as io:
        try:
            io.write_builder(root, exhaust_dci=exhaust)
        finally:
            assert SlowFuture.running == 0
    assert not ZarrIO.can_read(tmp_path / "a")
