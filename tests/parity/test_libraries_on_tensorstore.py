"""Libraries that import tensorstore, by each library: checkpoints of JAX, xarray-tensorstore, webknossos."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.peer_environment import python_with

import chunkwise

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CHECKPOINTS = ("orbax-checkpoint==0.12.8", "jax==0.12.0.1", "jaxlib==0.12.0.1")
OURS = ("numcodecs", "isal", "deflate", "fastcrc", "ml_dtypes", "xxhash", "urllib3")
PROGRAMS = Path(__file__).with_name("programs")
APPLICATIONS = {"neuroglancer": ("neuroglancer==2.41.2", 2), "webknossos": ("webknossos==4.3.3", 3)}  # steps
NEIGHBOURS = ("xarray-tensorstore==0.3.0", "ngff-zarr[tensorstore,dask-image]==0.50.0", "zarr==3.4.2")


def environment(label: str, *packages: str) -> str:
    return python_with((*packages, "tensorstore==0.1.86", *OURS), "3.12", label)


def run(python: str, program: str, library: str, folder: Path, *arguments: str) -> dict[str, str]:
    source = str(Path(chunkwise.__file__).parents[1])
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [python, PROGRAMS / program, library, folder, *arguments],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("library") == library
    return found


def test_each_library_saves_and_restores_its_own_and_the_others_checkpoints(tmp_path):
    python = environment("orbax-checkpoint", *CHECKPOINTS)
    for library in ("chunkwise", "tensorstore"):
        saved = run(python, "checkpoints.py", library, tmp_path / library, "save")
        assert set(saved.values()) == {"ok"}, (library, saved)
        assert len(saved) == 11
    for reader, writer in (("chunkwise", "tensorstore"), ("tensorstore", "chunkwise")):
        restored = run(python, "checkpoints.py", reader, tmp_path / writer, "load")
        assert set(restored.values()) == {"ok"}, (reader, writer, restored)


def test_xarray_tensorstore_and_ngff_zarr(tmp_path):
    python = environment("xarray-tensorstore and ngff-zarr", *NEIGHBOURS)
    for library in ("tensorstore", "chunkwise"):
        found = run(python, "neighbours.py", library, tmp_path / library)
        assert len(found) == 6
        assert set(found.values()) == {"ok"}, (library, found)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_applications(tmp_path, name):
    package, n_steps = APPLICATIONS[name]
    python = environment(name, package)
    for library in ("tensorstore", "chunkwise"):
        found = run(python, "applications.py", library, tmp_path / library, name)
        assert len(found) == n_steps
        assert set(found.values()) == {"ok"}, (library, found)
