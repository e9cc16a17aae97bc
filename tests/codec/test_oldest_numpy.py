"""Codecs that compute with NumPy's scalars do so with the oldest release that is allowed."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from peer_environment import python_with

ROOT = Path(__file__).parents[2]
TESTS = ("tests/codec/test_value_codecs.py", "tests/codec/test_codec_contracts.py")


@pytest.mark.slow  # it makes an environment the first time
@pytest.mark.timeout(1800)
def test_value_codecs_with_the_oldest_numpy() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = [d.replace(">=", "==") if d.startswith("numpy") else d for d in project["dependencies"]]
    assert oldest[0].startswith("numpy==")
    python = python_with(
        (*oldest, "pytest>=8", "pytest-timeout>=2.3", "hypothesis>=6.100"), "3.11", "numpy-oldest"
    )
    done = subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow", "-k", "bitround", *TESTS],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout[-5000:] + done.stderr[-1000:]
