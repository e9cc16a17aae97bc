"""Other projects' own tests, on chunkwise: fetched when they are run, nothing of them is kept."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

INI = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
addopts = -p no:npe2 -p no:cacheprovider
markers =
    gpu: needs a graphics processor
    slow_hypothesis: long sweeps
"""
STAND_IN = "import chunkwise\n\nchunkwise.install_as_tensorstore()\n"


class Project:
    """The source distribution of a project, and an environment that sees this one's packages too."""

    def __init__(self, name: str, version: str, work: Path, *packages: str) -> None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        fetch = ["download", "--quiet", "--no-deps", "--no-binary", name, "--dest", work, f"{name}{version}"]
        subprocess.run([*pip, *fetch], check=True, stdout=subprocess.DEVNULL)
        (archive,) = work.glob("*.tar.gz")
        with tarfile.open(archive) as found:
            found.extractall(work, filter="data")
        self.folder = work / archive.name.removesuffix(".tar.gz")
        self._work = work
        venv.create(work / "env")
        self._python = next(
            path for name in ("bin", "Scripts") for path in (work / "env" / name).glob("python*")
        )
        (site,) = (work / "env").rglob("site-packages")
        (site / "base.pth").write_text("\n".join(path for path in sys.path if path))
        if packages:
            install = ["install", "--quiet", "--no-deps", "--target", site, *packages]
            subprocess.run([*pip, *install], check=True, stdout=subprocess.DEVNULL)
        (work / "pytest.ini").write_text(INI)
        (work / "stand_in_plugin.py").write_text(STAND_IN)

    def failures(self, *arguments: str, **environment: str) -> tuple[set[str], int]:
        """Run its tests; return the names of those that fail, and how many pass."""
        command = [
            self._python,
            "-m",
            "pytest",
            "-c",
            self._work / "pytest.ini",
            "--rootdir",
            ".",
            "-q",
            "-rfE",
        ]
        ran = subprocess.run(
            [*command, "-rfE", "--tb=line", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self._work), **environment},
            capture_output=True,
            text=True,
        )
        passed = re.search(r"(\d+) passed", ran.stdout)
        assert passed, ran.stdout[-3000:] + ran.stderr
        return set(re.findall(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)), int(passed[1])


def test_zarr_python_with_our_pipeline(tmp_path: Path) -> None:
    """What fails with it is what fails without, and the test that asks which pipeline is the default."""
    version = importlib.metadata.version("zarr")
    project = Project("zarr", f"=={version}", tmp_path, "pytest-asyncio", "pytest-benchmark", "numpydoc")
    names = ["array", "indexing", "group", "api", "v2", "attributes", "config", "zarr", "sync"]
    chosen = ["tests/test_codecs", *(f"tests/test_{name}.py" for name in names)]
    theirs, _ = project.failures(*chosen)
    ours, n_passed = project.failures(*chosen, ZARR_CODEC_PIPELINE__PATH="chunkwise.zarr.CodecPipeline")
    asks = {name for name in ours if "test_config.py::test_config_codec_pipeline_class[" in name}
    assert ours - asks == theirs
    assert n_passed > 1000


PYDANTIC = ["pydantic", "pydantic-core", "pydantic-extra-types", "annotated-types", "typing-inspection"]
PROJECTS = {
    "ome-writers": (
        "==0.3.2",
        [*PYDANTIC, "useq-schema", "ome-writers==0.3.2"],
        ["tests/test_integration.py", "tests/test_chunk_buffer.py"],
    ),
}


@pytest.mark.parametrize("name", PROJECTS)
def test_projects_written_for_tensorstore(name: str, tmp_path: Path) -> None:
    """Their tests of TensorStore pass with `install_as_tensorstore`, as many as with TensorStore."""
    version, packages, chosen = PROJECTS[name]
    project = Project(name, version, tmp_path, *packages)
    theirs, n_theirs = project.failures(*chosen, "-k", "tensorstore")
    ours, n_ours = project.failures(*chosen, "-k", "tensorstore", "-p", "stand_in_plugin")
    assert (ours, n_ours) == (theirs, n_theirs)
