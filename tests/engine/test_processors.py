"""The number of processors is what this process may use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from chunkwise.core.base.limits import memory_limit, n_processors
from chunkwise.core.engine.concurrent_requests import n_block_threads
from chunkwise.core.engine.pool import Pool

ONE = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import chunkwise
from chunkwise.core.base.limits import n_processors
print(n_processors())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_affinity_counts() -> None:
    done = subprocess.run([sys.executable, "-c", ONE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_all_that_have_threads_ask_here() -> None:
    assert 1 <= n_processors() <= (os.cpu_count() or 1)
    assert Pool().n_workers == n_processors()
    assert n_block_threads() >= min(2, n_processors())


def test_there_is_a_limit_of_memory() -> None:
    assert 1 << 20 < memory_limit() < 1 << 60


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no resource limits")
def test_a_limit_of_the_process_counts_as_its_memory() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30));"
        "from chunkwise.core.base.limits import memory_limit; print(memory_limit())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 3 << 30
