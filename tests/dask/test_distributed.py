"""Dask's own cluster: threads and processes of its workers, clients that are left, names that tell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import distributed
import numpy as np
import pytest
from distributed import Client, LocalCluster

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.copying.executors import named_workers

# Workers need not be able to import the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

VALUES = np.random.default_rng(0).integers(0, 1 << 16, (64, 64, 64), "u2")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A cluster of one process with one thread."""
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def names_of_tasks(client: Client) -> set[str]:
    def prefixes(dask_scheduler: Any) -> set[str]:
        return set(dask_scheduler.task_prefixes)

    found: set[str] = client.run_on_scheduler(prefixes)
    return found


def work_of_a_task(path: str) -> tuple[list[str], int, int]:
    """Read, write and copy; return the threads and how many processes that started, and threads of a pool.

    Dask starts threads of its own when it is busy; they have names that it gave them.
    """
    import os
    import threading
    import time

    import numpy as np

    import chunkwise as cw
    from chunkwise.core.engine.pool import n_threads

    def children() -> int:
        return len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    def threads() -> dict[str, str]:
        names = {str(thread.native_id): thread.name for thread in threading.enumerate()}
        found = {number: names.get(number, "not Python's") for number in os.listdir("/proc/self/task")}
        return {number: name for number, name in found.items() if not name.startswith(of_dask)}

    of_dask = ("Dask-", "Profile", "IO loop", "AsyncProcess ")
    time.sleep(1)  # threads that Dask starts at the beginning
    before = threads(), children()
    values = np.random.default_rng(0).integers(0, 255, (512, 512, 160), "u1")
    source = cw.create_array(path + "/a.zarr", values, chunks=(64, 64, 64), codec="zstd:1")
    assert np.array_equal(source.read().result(), values)
    target = cw.create_array(path + "/b.zarr", shape=values.shape, dtype="u2", chunks=(64, 64, 160))
    target.write(source).result()
    assert np.array_equal(target.read().result(), values)
    cw.copy(path + "/a.zarr", path + "/c.zarr", chunks=(512, 16, 16))
    started = {number: name for number, name in threads().items() if number not in before[0]}
    for _ in range(5):  # those that end, or have no name yet
        time.sleep(0.2)
        started = {number: name for number, name in threads().items() if number in started}
    return [*started.values()], children() - before[1], n_threads()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system doesn't list threads")
def test_a_worker_with_one_thread_has_one(client: Client, tmp_path: Path) -> None:
    assert client.submit(work_of_a_task, str(tmp_path), pure=False).result() == ([], 0, 0)


def test_tasks_of_store_are_few_and_have_telling_names(client: Client, tmp_path: Path) -> None:
    source = cw.create_array(tmp_path / "a.zarr", VALUES, chunks=(4, 8, 8))
    target = cw.create_array(tmp_path / "b.zarr", shape=VALUES.shape, dtype="u2", chunks=(8, 8, 16))
    cw.store(cw.to_dask(source) + 1, target)
    np.testing.assert_array_equal(target, VALUES + 1)

    def count(dask_scheduler: Any) -> int:
        group = dask_scheduler.task_prefixes["chunkwise-store"]
        return int(sum(group.state_counts.values()))

    assert client.run_on_scheduler(count) < 50
    np.testing.assert_array_equal(cw.to_dask(target).compute(), VALUES + 1)
    assert {"chunkwise-store", "chunkwise-read"} <= names_of_tasks(client)


def test_tasks_of_copies_have_telling_names(client: Client, tmp_path: Path) -> None:
    tree = cw.create_group(tmp_path / "a.zarr")
    tree.create_array("large", VALUES[:8], chunks=(1, 64, 64), dimension_names=["z", "y", "x"])
    tree.create_array("small", np.arange(3))
    executor = client.get_executor()
    cw.copy_tree(tmp_path / "a.zarr", tmp_path / "b.zarr", executor=executor, memory="200kB", verify=True)
    reports = list(cw.verify(tmp_path / "b.zarr", executor=executor))
    assert [report.bad for report in reports if report.kind == "array"] == [[], []]
    assert not list(cw.diff(tmp_path / "a.zarr", tmp_path / "b.zarr", executor=executor))
    large = tmp_path / "b.zarr/large"
    cw.downsample_pyramid(large, tmp_path / "p.zarr", levels=1, executor=executor).result()
    kinds = ("copy", "copy-arrays", "compare", "verify", "diff", "pyramid")
    assert {f"chunkwise-{kind}" for kind in kinds} <= names_of_tasks(client)


def test_cp_on_a_scheduler_leaves_nothing_open(client: Client, tmp_path: Path) -> None:
    cw.create_array(tmp_path / "a.zarr", VALUES, chunks=(1, 64, 64))
    before = {each for each in Client._instances if each.status == "running"}
    address = client.scheduler.address
    arguments = ["--on", address, "--chunk", "64,8,8", "--memory", "200kB", "--verify", "--quiet"]
    assert main(["cp", str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), *arguments]) == 0
    np.testing.assert_array_equal(cw.open(str(tmp_path / "b.zarr")).result(), VALUES)
    assert any(name.startswith("chunkwise-copy") for name in names_of_tasks(client))
    assert {each for each in Client._instances if each.status == "running"} <= before


def test_workers_of_a_scheduler_are_counted(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = named_workers(client.scheduler.address)
    assert (workers.n_workers, workers.n_at_once) == (1, 1)
    impatient = lambda *where, timeout, **options: Client(*where, timeout="1s", **options)  # noqa: E731
    monkeypatch.setattr(distributed, "Client", impatient)
    with pytest.raises(ValueError, match="no Dask scheduler"):
        named_workers("tcp://127.0.0.1:9")
