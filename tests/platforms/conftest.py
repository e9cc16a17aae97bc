"""Programs that find files as another platform has them; the folder of its name has the simulation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import chunkwise

HERE = Path(__file__).parent
SOURCE = Path(chunkwise.__file__).parents[1]


@pytest.fixture(params=["macos", "windows"])
def platform(request: pytest.FixtureRequest) -> str:
    """The platform that is simulated."""
    return str(request.param)


@pytest.fixture
def environment(platform: str) -> dict[str, str]:
    """The environment of a process on the simulated platform."""
    return {**os.environ, "PYTHONPATH": f"{HERE / platform}{os.pathsep}{SOURCE}"}


@pytest.fixture
def run(children: Any, environment: dict[str, str]) -> Any:
    """Run Python code to its end on the simulated platform, and return what it prints."""

    def run(code: str, *arguments: object) -> str:
        process = children.python(code, *arguments, env=environment)
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
        return str(out.decode())

    return run
