"""Executors that copies are made with, each held to the contract; results are read by TensorStore.

Each loss is tried at each step; ``make test`` draws which executor it befalls.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tensorstore

from chunkwise.testing.executor_contract import ExecutorContract

pytestmark = pytest.mark.each_once("class")


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


@pytest.mark.slow  # as the pool of the standard library
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


@pytest.mark.slow
class TestMpi(ReadByTensorStore):
    ends_together = True
    code = "from mpi4py.futures import MPIPoolExecutor; executor = MPIPoolExecutor(2)"


@pytest.fixture(scope="module")
def ray_address() -> Iterator[str]:
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")  # it would leave a token in the home directory
        found = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield found.address_info["address"]
        ray.shutdown()


@pytest.mark.slow
class TestRay(ReadByTensorStore):
    """As docs/many-machines.md has it."""

    @pytest.fixture(autouse=True)
    def use_cluster(self, ray_address: str) -> None:
        page = (Path(__file__).parents[2] / "docs/many-machines.md").read_text()
        (recipe,) = (b for b in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "RayExecutor" in b)
        self.recipe = textwrap.dedent(recipe)
        self.address = ray_address

    def driver_code(self) -> str:
        return self.connected(self.address)

    @contextmanager
    def driver_code_in(self, environment: Mapping[str, str]) -> Iterator[str]:
        yield self.connected(self.address, runtime_env={"env_vars": dict(environment)})

    def connected(self, address: str, **options: Any) -> str:
        connect = f"ray.is_initialized() or ray.init({address!r}, log_to_driver=False, **{options!r})"
        return f"{self.recipe}\n{connect}\nexecutor = RayExecutor()"
