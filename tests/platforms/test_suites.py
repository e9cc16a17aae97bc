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
PARTS = {
    "platforms/contract_of_files.py": "",
    "drivers/test_driver_contract.py": "Sharded and not behaves_like_an_array",
    "cli/test_cli_attrs.py": f"{NOT_LINUX_ALONE} and not (any_format or zarr2 or damaged or no_json)",
    "cli/test_cli_zip.py": f"{NOT_LINUX_ALONE} and not (any_format or zarr2)",
}
"""What touches files in each way: each kvstore, a driver, a command on trees, one on an archive."""

SWEEP = {
    "drivers/test_driver_contract.py": "",
    "docs/test_readme.py": "",
    **{
        f"cli/test_cli_{page}.py": NOT_LINUX_ALONE
        for page in ("attrs", "hierarchies", "info_tree", "verify", "zip")
    },
}


@pytest.mark.parametrize(
    "suites", [pytest.param(PARTS, id="parts"), pytest.param(SWEEP, id="all", marks=pytest.mark.slow)]
)
def test_suites_pass(children: Any, environment: Any, tmp_path: Path, suites: dict[str, str]) -> None:
    """One process runs them all; a second start of pytest costs as much as some of them."""
    quiet = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow"]
    pytest_here = [sys.executable, "-m", "pytest", *quiet, "--basetemp", str(tmp_path / "t")]
    chosen = " or ".join(map(_chosen, suites, suites.values()))
    process = children.start(
        [*pytest_here, "-k", chosen, *(str(TESTS / name) for name in suites)],
        env=environment,
        cwd=TESTS.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    out, _ = process.communicate(timeout=280)
    assert process.returncode == 0, out.decode()[-4000:]


def _chosen(name: str, tests: str) -> str:
    """Return the expression that chooses tests of a file."""
    stem = Path(name).stem
    return f"({stem} and {tests})" if tests else stem
