"""Pyramids by threads, processes and after a killed driver: the same elements, each chunk read once."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.core.trees.node import JOURNAL

IMAGE = np.random.default_rng(0).integers(0, 1 << 16, (150, 131), "u2")


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


def levels_of(image: np.ndarray[Any, Any], n: int, method: str) -> list[np.ndarray[Any, Any]]:
    """All levels, each from the whole of the one before."""
    out = [image]
    for _ in range(n):
        out.append(cw.downsample(cw.array(out[-1]), [2, 2], method).read().result())
    return out


@pytest.mark.each_once
@pytest.mark.parametrize("convention", ["ome-ngff-0.5", "ome-ngff-0.4", "n5-viewer", "cosem"])
@pytest.mark.parametrize("kind", ["here", "processes"])
@pytest.mark.parametrize("memory", [1, "1MB"])
def test_the_same_elements(
    tmp_path: Path, convention: str, kind: str, memory: int | str, processes: Executor
) -> None:
    source = tmp_path / "source.zarr"
    cw.create_array(source, IMAGE, chunks=(16, 16), dimension_names=["y", "x"])
    path = tmp_path / ("a.n5" if "ngff" not in convention else "a.zarr")
    made = cw.downsample_pyramid(
        source, path, convention=convention, chunks=[16, 16], levels=3, memory=memory, sync=False,
        executor=None if kind == "here" else processes, factors=[2, 2],
    ).result()  # fmt: skip
    image = IMAGE if "ngff" in convention else IMAGE.T
    for level, expected in zip(made.levels, levels_of(image, 3, "mean"), strict=True):
        assert np.array_equal(level.read().result(), expected)
    assert not list(tmp_path.glob("**/.chunkwise*"))


@pytest.mark.each_once
@pytest.mark.parametrize("method", ["mean", "min", "median", "mode", "stride"])
@pytest.mark.parametrize("shards", [None, (16, 16)])
def test_several_levels_from_one_read(tmp_path: Path, method: str, shards: Any) -> None:
    """No level but the first is read."""
    counts: Counter[Any] = Counter()
    lock = threading.Lock()

    def read(domain: cw.IndexDomain, array: Any, _: Any) -> None:
        with lock:
            counts[domain.origin] += 1
        array[...] = IMAGE[domain.index_exp]

    store = cw.virtual_chunked(
        read, dtype="uint16", shape=IMAGE.shape, chunk_layout=cw.ChunkLayout(read_chunk_shape=[32, 32])
    )
    told: list[cw.PyramidProgress] = []
    with ThreadPoolExecutor(2) as threads:
        made = cw.downsample_pyramid(
            store, tmp_path / "a.zarr", chunks=[8, 8], shards=shards, levels=2, factors=[2, 2], method=method,
            memory="200kB", executor=threads, progress=told.append,
        ).result()  # fmt: skip
    for level, expected in zip(made.levels, levels_of(IMAGE, 2, method), strict=True):
        assert np.array_equal(level.read().result(), expected)
    assert set(counts.values()) == {1}
    assert {now.level for now in told} == {0}, "all levels are made with the first"
    assert told[-1].nbytes_done == told[-1].nbytes


_DRIVER = """
import sys, time
import chunkwise as cw
from chunkwise.core.trees.node import JOURNAL

if __name__ == "__main__":
    def slow(now):
        time.sleep(0.1)
    cw.downsample_pyramid(sys.argv[1], sys.argv[2], chunks=[8, 8], levels=3, factors=[2, 2], memory="100kB",
        progress=slow).result()
"""


def test_resumed_after_a_killed_driver(tmp_path: Path, processes: Executor) -> None:
    """Another executor, with other memory, goes on with what was planned."""
    source, path = tmp_path / "source.zarr", tmp_path / "a.zarr"
    cw.create_array(source, IMAGE, chunks=(16, 16), dimension_names=["y", "x"])
    driver = subprocess.Popen([sys.executable, "-c", _DRIVER, str(source), str(path)])
    deadline = time.monotonic() + 60
    while len([p for p in path.glob("0/c/**/*") if p.is_file()]) < 30:
        assert driver.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    assert "ome" not in (path / "zarr.json").read_text()
    made = cw.downsample_pyramid(
        source, path, chunks=[8, 8], levels=3, factors=[2, 2], memory="10MB", executor=processes, resume=True
    ).result()
    for level, expected in zip(made.levels, levels_of(IMAGE, 3, "mean"), strict=True):
        assert np.array_equal(level.read().result(), expected)
    assert not list(tmp_path.glob("**/.chunkwise*"))


def test_a_driver_that_dies_while_levels_become_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Levels that were made together are finished again, those that are arrays already too."""
    monkeypatch.setattr("chunkwise.copying.journal._SILENCE", 0.5)  # this process, its owner, is alive
    source, path = tmp_path / "source.zarr", tmp_path / "a.zarr"
    cw.create_array(source, IMAGE, chunks=(16, 16), dimension_names=["y", "x"])
    kept: dict[Path, bytes] = {}

    def progress(now: Any) -> None:
        kept.update((file, file.read_bytes()) for file in path.glob("**/.chunkwise*"))

    options: dict[str, Any] = {"chunks": [8, 8], "levels": 2, "factors": [2, 2], "memory": "10MB"}
    with ThreadPoolExecutor(1) as executor:
        cw.downsample_pyramid(source, path, progress=progress, executor=executor, **options).result()
        assert [*kept] == [path / JOURNAL], "one for all levels"
        for file, text in kept.items():
            file.write_bytes(text)
        (path / "2" / "zarr.json").unlink()
        made = cw.downsample_pyramid(source, path, resume=True, executor=executor, **options).result()
    for level, expected in zip(made.levels, levels_of(IMAGE, 2, "mean"), strict=True):
        assert np.array_equal(level.read().result(), expected)
    assert not list(tmp_path.glob("**/.chunkwise*"))


def test_on(tmp_path: Path) -> None:
    from chunkwise.cli.main import main

    cw.create_array(tmp_path / "source.zarr", IMAGE, chunks=(16, 16), dimension_names=["y", "x"])
    arguments = [
        "pyramid",
        str(tmp_path / "source.zarr"),
        str(tmp_path / "a.zarr"),
        "--quiet",
        "--levels",
        "1",
    ]
    assert main([*arguments, "--on", "processes:1", "--memory", "50MB"]) == 0
    level = cw.open_group(tmp_path / "a.zarr")["1"]
    assert np.array_equal(level.read().result(), levels_of(IMAGE, 1, "mean")[1])
