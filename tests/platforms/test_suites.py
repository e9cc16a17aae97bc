"""Contracts, the README and commands on simulated macOS and Windows.

What a simulation can't show is named in docs/consistency.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]

NOT_LINUX_ALONE = "not writers_at_the_same_time and not failures_leave_nothing"
SUITES = {
    "kvstores": ["platforms/contract_of_files.py"],
    "drivers": ["drivers/test_driver_contract.py", "-k", "Sharded or Cropped"],
    "README": ["docs/test_readme.py"],
    "commands": [
        *(f"cli/test_cli_{page}.py" for page in ("attrs", "zip")),
        "-k",
        f"{NOT_LINUX_ALONE} and not any_format and not zarr2",
    ],
}
SWEEPS = {
    "all drivers": ["drivers/test_driver_contract.py"],
    "all commands": [
        *(f"cli/test_cli_{page}.py" for page in ("attrs", "hierarchies", "info_tree", "verify", "zip")),
        "-k",
        NOT_LINUX_ALONE,
    ],
}


@pytest.mark.parametrize(
    "tests",
    [
        *(pytest.param(tests, id=name) for name, tests in SUITES.items()),
        *(pytest.param(tests, id=name, marks=pytest.mark.slow) for name, tests in SWEEPS.items()),
    ],
)
def test_suites_pass(children: Any, environment: Any, tmp_path: Path, tests: list[str]) -> None:
    quiet = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow"]
    process = children.start(
        [sys.executable, "-m", "pytest", *quiet, "--basetemp", str(tmp_path / "t")]
        + [str(TESTS / word) if word.endswith(".py") else word for word in tests],
        env=environment,
        cwd=TESTS.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    out, _ = process.communicate(timeout=280)
    assert process.returncode == 0, out.decode()[-4000:]
