"""Fixtures of all tests: helpers that can be imported, processes that end, runs that do not hang."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# A process that tests start would take a third of the time for BLAS's threads, which nothing here needs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from child_process import Children
from examples import examples


def _checked_descriptor(fd: int) -> None:
    """Raise what `os.fsync` raises for a file that isn't open."""
    os.fstat(fd)


# Thousands of small stores are written here, and a disk takes milliseconds for each of their files.  Tests
# of the order of these calls, and of a loss of power, record them.  Other processes wait for the disk.
os.fsync = _checked_descriptor

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
    """Of tests marked ``each_once``, leave those to ``make test-all`` whose parameters other cases have."""
    cases: dict[tuple[object, ...], dict[pytest.Item, set[tuple[str, int]]]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("each_once") is not None:
            of_test = cases.setdefault((item.path, item.function.__qualname__), {})
            of_test[item] = _parameters(item)
    for unseen in cases.values():
        while unseen:
            first = max(unseen, key=lambda item: len(unseen[item]))
            seen = unseen.pop(first)
            if not seen:
                first.add_marker(pytest.mark.slow)
                break
            for left in unseen.values():
                left -= seen
        for item in unseen:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module", autouse=True)
def older_objects() -> None:
    """Keep collected tests, and what earlier files leave, which is very much, out of garbage collections."""
    gc.collect()
    gc.freeze()


def _parameters(item: pytest.Function) -> set[tuple[str, int]]:
    """Return the parameters of a case, and the class that has it; cases share the objects that are values."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return {("class", id(item.cls)), *((name, id(value)) for name, value in parameters.items())}


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """End the run when a worker has crashed: xdist, which would replace it, can wait for ever then."""
    if str(report.when) == "???":  # what xdist reports for the test that a worker crashed in
        pytest.exit(f"{report.longrepr}; the rest was not run", returncode=1)
