"""Executors that copies are made with, each held to the contract; results are read by TensorStore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tensorstore

from chunkwise.testing.executor_contract import ExecutorContract


class ReadByTensorStore(ExecutorContract):
    def read(self, path: Path) -> Any:
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
        return tensorstore.open(spec).result().read().result()


class TestThreads(ReadByTensorStore):
    in_process = True
    code = "from concurrent.futures import ThreadPoolExecutor; executor = ThreadPoolExecutor(2)"


class TestProcesses(ReadByTensorStore):
    code = (
        "import multiprocessing\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "executor = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('spawn'))"
    )


class TestLoky(ReadByTensorStore):
    code = "from loky import ProcessPoolExecutor; executor = ProcessPoolExecutor(2)"


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


class TestDask(ReadByTensorStore):
    @pytest.fixture(autouse=True)
    def use_scheduler(self, scheduler: str) -> None:
        self.address = scheduler

    def driver_code(self) -> str:
        return _client_of(self.address)

    @contextmanager
    def driver_code_in(self, environment: Mapping[str, str]) -> Iterator[str]:
        from distributed import LocalCluster

        # The scheduler, in this process, has the right time.
        with LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", env=dict(environment)
        ) as cluster:
            yield _client_of(cluster.scheduler_address)


def _client_of(address: str) -> str:
    return (
        "from distributed import Client\n"
        f"executor = Client({address!r}, set_as_default=False).get_executor()\n"
        "executor.shutdown = lambda wait=True: executor._client.close()"
    )
