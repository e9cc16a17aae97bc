"""Memory of a worker process, and trees that other processes copy."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import chunkwise as cw

BUDGET = 32 << 20


LIMIT = f"""
import resource
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize() + {BUDGET * 3 // 2}
resource.setrlimit(resource.RLIMIT_AS, (now, now))
"""


@pytest.mark.parametrize("chunks", [(32, 128, 256), pytest.param((256, 32, 32), marks=pytest.mark.slow)])
def test_a_worker_takes_no_more_than_it_may(tmp_path: Path, chunks: tuple[int, ...]) -> None:
    """Python and the libraries are loaded by then; the limit is enforced by the system."""
    values = np.random.default_rng(0).integers(0, 1000, (256, 256, 512), "u4")  # 134 MB
    cw.create_array(tmp_path / "a.zarr", values, chunks=(1, 256, 512), codec="zstd:1")
    cw.create_array(tmp_path / "tiny.zarr", values[:8, :8, :8], chunks=(4, 4, 4), codec="zstd:1")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        cw.copy(tmp_path / "tiny.zarr", tmp_path / "warm.zarr", chunks=(8, 2, 2), executor=executor)
        executor.submit(exec, LIMIT).result()
        report = cw.copy(
            tmp_path / "a.zarr",
            tmp_path / "b.zarr",
            chunks=chunks,
            memory=BUDGET,
            executor=executor,
            verify=True,
            sync=False,
        )
    assert report.plan.memory == BUDGET and report.plan.n_tasks > 8
    assert np.array_equal(cw.read(tmp_path / "b.zarr"), values)


def test_a_tree_is_copied_by_processes(tmp_path: Path) -> None:
    from chunkwise.cli.main import main

    group = cw.open_group(tmp_path / "a.zarr", "w-")
    values = {f"g/{name}": np.arange(n).reshape(-1, 4) for name, n in (("x", 400), ("y", 16))}
    for name, value in values.items():
        group.create_array(name, value, chunks=(3, 4))
    source, target = str(tmp_path / "a.zarr"), str(tmp_path / "b.n5")
    assert main(["cp", "-r", source, target, "--on", "processes:1", "--memory", "10MB", "--quiet"]) == 0
    copied = cw.open_group(target, "r")
    for name, value in values.items():
        assert np.array_equal(copied[name].read().result(), value)
    assert main(["diff", source, target]) == 0
