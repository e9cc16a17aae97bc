"""Checkpoints of JAX: orbax-checkpoint saves and restores by either library, and each reads the other's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.peer_environment import NotInstalled, python_with

import chunkwise

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PACKAGES = ("orbax-checkpoint==0.12.8", "jax==0.12.0.1", "jaxlib==0.12.0.1", "tensorstore==0.1.86")
OURS = ("numcodecs", "isal", "deflate", "fastcrc", "ml_dtypes", "xxhash", "urllib3")
PROGRAM = Path(__file__).with_name("checkpoints.py")


@pytest.fixture(scope="module")
def python() -> str:
    try:
        return python_with((*PACKAGES, *OURS), "3.12", "orbax")
    except NotInstalled as e:
        pytest.skip(f"not run: orbax-checkpoint could not be installed: {e}")


def run(python: str, library: str, folder: Path, task: str) -> dict[str, str]:
    source = str(Path(chunkwise.__file__).parents[1])
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [python, PROGRAM, library, folder, task],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("library") == library
    return found


def test_each_library_saves_and_restores_its_own_and_the_others_checkpoints(python, tmp_path):
    for library in ("chunkwise", "tensorstore"):
        saved = run(python, library, tmp_path / library, "save")
        assert set(saved.values()) == {"ok"}, (library, saved)
        assert len(saved) == 11
    for reader, writer in (("chunkwise", "tensorstore"), ("tensorstore", "chunkwise")):
        restored = run(python, reader, tmp_path / writer, "load")
        assert set(restored.values()) == {"ok"}, (reader, writer, restored)
