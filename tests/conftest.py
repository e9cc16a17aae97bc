"""Fixtures of all tests: helpers that can be imported, processes that end, runs that do not hang."""

from __future__ import annotations

import gc
import os
import shutil
import socketserver
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# A process that tests start would take a third of the time for BLAS's threads, which nothing here needs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from child_process import Children
from examples import SEED, draw, examples


def _checked_descriptor(fd: int) -> None:
    """Raise what `os.fsync` raises for a file that isn't open."""
    os.fstat(fd)


# Thousands of small stores are written here, and a disk takes milliseconds for each of their files.  Tests
# of the order of these calls, and of a loss of power, record them.  Other processes wait for the disk.
os.fsync = _checked_descriptor

# For small files a system takes three times as long on a disk as in memory.  Tests of kvstores use a disk.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Otherwise servers of tests refuse the sixth connection at a time, which is tried again a second later, and a
# body waits until its head has been acknowledged.
socketserver.TCPServer.request_queue_size = 100
socketserver.StreamRequestHandler.disable_nagle_algorithm = True

# Most tests make many objects, and few that only a search for garbage frees.
gc.set_threshold(20_000)

# How long an example takes, or takes to be made, depends on what else the machine does.
settings.register_profile(
    "chunkwise",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("chunkwise")


@pytest.fixture
def children() -> Iterator[Children]:
    """Starts processes, and kills those that are left when the test ends."""
    with Children() as children:
        yield children


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for garbage: hundreds of thousands of objects are made, and nearly all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Draw cases of tests marked ``each_once``; those without anything new are left to ``make test-all``."""
    groups: dict[str, dict[pytest.Item, set[object]]] = {}
    for item in items:
        mark = item.get_closest_marker("each_once")
        if isinstance(item, pytest.Function) and mark is not None and item.get_closest_marker("slow") is None:
            test = f"{item.location[0]} {' '.join(mark.args) or item.function.__qualname__}"
            groups.setdefault(test, {})[item] = _parameters(item, mark.args)
    for test, unseen in groups.items():
        order = draw(test).sample(list(unseen), len(unseen))
        while order:
            first = max(order, key=lambda item: len(unseen[item]))
            seen = unseen[first]
            if not seen:
                break
            order.remove(first)
            for left in order:
                unseen[left] -= seen
        for item in order:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module", autouse=True)
def older_objects() -> None:
    """Keep collected tests, and what earlier files leave, which is very much, out of garbage collections."""
    gc.collect()
    gc.freeze()


def _parameters(item: pytest.Function, common: tuple[str, ...]) -> set[object]:
    """Return a test, its class and the values of its parameters; cases share objects that are values."""
    test = item.function.__qualname__
    parameters = {"class": item.cls, **(item.callspec.params if hasattr(item, "callspec") else {})}
    return {test} | {
        (name if name in common else (test, name), value if isinstance(value, str) else id(value))
        for name, value in parameters.items()
    }


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what has drawn cases: with it in the environment, the same are run."""
    terminalreporter.write_line(f"CHUNKWISE_SEED={SEED}")


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """End the run when a worker has crashed: xdist, which would replace it, can wait for ever then."""
    if str(report.when) == "???":  # what xdist reports for the test that a worker crashed in
        pytest.exit(f"{report.longrepr}; the rest was not run", returncode=1)
