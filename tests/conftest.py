"""Fixtures of all tests: helpers that can be imported, processes that end, runs that do not hang."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

from child_process import Children

# How long an example takes, or takes to be made, depends on what else the machine does.
settings.register_profile("chunkwise", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("chunkwise")


@pytest.fixture
def children() -> Iterator[Children]:
    """Starts processes, and kills those that are left when the test ends."""
    with Children() as children:
        yield children


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """End the run when a worker has crashed: xdist, which would replace it, can wait for ever then."""
    if str(report.when) == "???":  # what xdist reports for the test that a worker crashed in
        pytest.exit(f"{report.longrepr}; the rest was not run", returncode=1)
