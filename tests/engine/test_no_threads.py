"""Operations without a thread or memory left: others do them, or they fail; nothing hangs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import child_process
import numpy as np
import pytest
from thread_limit import no_more_threads

import chunkwise as ts
from chunkwise.core.engine.concurrent_requests import work_through
from chunkwise.core.engine.pool import Pool

SECONDS = 60.0


def opening(work: Callable[[Any], None]) -> Callable[[Any], Callable[[Any], None]]:
    return lambda stop: work


def test_the_caller_does_what_no_thread_can_do() -> None:
    pool, seen = Pool(2), []
    with no_more_threads():
        future = pool.run(range(10), opening(seen.append), lambda: len(seen), n_workers=2)
        assert future.result(SECONDS) == 10
    future = pool.run(range(10), opening(seen.append), lambda: len(seen), n_workers=2)
    assert future.result(SECONDS) == 20


def test_the_threads_that_there_are_do_the_rest() -> None:
    pool, seen = Pool(4), []
    assert pool.run([1], opening(seen.append), lambda: 0, n_workers=1).result(SECONDS) == 0
    with no_more_threads():
        future = pool.run(range(10), opening(seen.append), lambda: len(seen), n_workers=4)
        assert future.result(SECONDS) == 11


def test_blocks_are_worked_through() -> None:
    seen: list[int] = []
    with no_more_threads():
        work_through(range(10), seen.append, 3).result(SECONDS)
    assert seen == list(range(10))


@pytest.mark.parametrize("sync", [True, False])
def test_arrays_and_copies(tmp_path: Path, sync: bool) -> None:
    """The same handle goes on when there are threads again."""
    spec = {
        "driver": "zarr3",
        "kvstore": f"file://{tmp_path}/a/",
        "schema": {"chunk_layout": {"chunk": {"shape": [64, 64]}}},
        "context": {"file_io_sync": sync},
    }
    array = ts.open(spec, create=True, dtype="uint16", shape=[512, 512]).result()
    values = np.arange(512 * 512, dtype="u2").reshape(512, 512)
    with no_more_threads():
        array.write(values).result(SECONDS)
        assert np.array_equal(array.read().result(SECONDS), values)
    array.write(values[::-1]).result(SECONDS)
    assert np.array_equal(array.read().result(SECONDS), values[::-1])


LITTLE_MEMORY = """
import resource, sys
import numpy as np
import chunkwise as ts
spec = {
    "driver": "zarr3",
    "kvstore": "file://" + sys.argv[1] + "/",
    "schema": {"chunk_layout": {"chunk": {"shape": [256, 1024, 64]}}},
    "context": {"file_io_sync": False, "data_copy_concurrency": {"limit": 4}},
}
array = ts.open(spec, create=True, dtype="uint16", shape=[256, 1024, 640]).result()
values = np.zeros(array.shape, "u2")
values[::7] = 5
array.write(values).result()
array[:, :, :10].read().result()
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
failed = 0
for room in (0, 50, 100, 200, 300, 4000):
    resource.setrlimit(resource.RLIMIT_AS, (used + (room << 20), resource.RLIM_INFINITY))
    for act in (lambda: array[:, :, ::3].read(), lambda: array[1:, :, :].write(values[1:])):
        try:
            act().result(timeout=100)
        except TimeoutError:
            raise
        except (MemoryError, ts.errors.ChunkwiseError):
            failed += 1
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert np.array_equal(array.read().result(timeout=100), values)
print(failed)
"""


def test_no_memory(tmp_path: Path) -> None:
    """Want of memory in a worker is the failure of the future, and the handle goes on afterwards."""
    log = tmp_path / "log"
    command = [sys.executable, "-c", LITTLE_MEMORY, str(tmp_path / "a")]
    assert child_process.run(command, log=log, seconds=250) == 0, log.read_text()
    # What is collected meanwhile lacks memory, too, which the interpreter reports in lines above.
    assert 0 < int(log.read_text().splitlines()[-1]) < 12, (
        "there was always or never enough; the test has shown nothing"
    )


_ALLOCATIONS = """
import sys, time
import numpy as np, _testcapi, chunkwise as ts
from chunkwise.core.engine.concurrent_requests import work_through
from chunkwise.core.engine.pool import Pool

layout = ts.ChunkLayout(chunk_shape=[50, 50])
spec = f"file://{sys.argv[1]}/a.zarr|zarr3"
array = ts.open(spec, create=True, dtype="f8", shape=[200, 200], chunk_layout=layout).result()
values = np.random.default_rng(1).random((200, 200))
array.write(values).result()

def of_pool():
    seen = []
    done = Pool(3).run(range(10), lambda stop: seen.append, lambda: len(seen), n_workers=3)
    assert done.result(30) == 10

def of_blocks():
    seen = []
    work_through(range(10), seen.append, 3).result(30)
    assert len(seen) == 10

works = [of_pool, of_blocks, lambda: array.read().result(30), lambda: array.write(values).result(30)]
n_failed = 0
for first in range(0, 420, 7):
    for work in works:
        try:
            _testcapi.set_nomemory(first, first + 1)
            try:
                work()
            finally:
                _testcapi.remove_mem_hooks()
        except TimeoutError:
            sys.exit(f"allocation {first} of {work}: nothing ended it")
        except Exception:
            n_failed += 1
assert n_failed > 20, n_failed
np.testing.assert_array_equal(array.read().result(30), values)
array.write(values + 1).result(30)
np.testing.assert_array_equal(array.read().result(30), values + 1)
"""


def test_each_allocation_that_fails_ends_the_work(tmp_path: Path) -> None:
    """An allocation fails in turn, in whichever thread: the work is done, or fails, and the next is done."""
    pytest.importorskip("_testcapi", reason="this Python was built without its own tests")
    log = tmp_path / "log"
    status = child_process.run([sys.executable, "-c", _ALLOCATIONS, str(tmp_path)], log=log)
    assert status == 0, log.read_text()[-3000:]
