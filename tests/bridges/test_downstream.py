"""Other projects' own tests, on chunkwise: fetched when they are run, nothing of them is kept."""

from __future__ import annotations

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
STAND_IN = "import chunkwise\n\nchunkwise.install_as_{}()\n"


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
        for library in ("tensorstore", "z5py"):
            (work / f"stand_in_for_{library}.py").write_text(STAND_IN.format(library))

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
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(self._work), "."]), **environment},
            capture_output=True,
            text=True,
        )
        passed = re.search(r"(\d+) passed", ran.stdout)
        assert passed, ran.stdout[-3000:] + ran.stderr
        return set(re.findall(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)), int(passed[1])


# Minor versions, and the Python that they need.
ZARR = {"3.1": (3, 11), "3.2": (3, 12), "3.3": (3, 12), "3.4": (3, 12)}


@pytest.mark.parametrize(
    "version", [version for version, python in ZARR.items() if sys.version_info >= python]
)
def test_zarr_python_with_our_pipeline(version: str, tmp_path: Path) -> None:
    """What fails with it is what fails without, and the test that asks which pipeline is the default."""
    newest = f"~={version}.0"
    tools = ("pytest-asyncio", "pytest-benchmark", "numpydoc")
    project = Project("zarr", newest, tmp_path, f"zarr{newest}", *tools)
    names = ["array", "indexing", "group", "api", "v2", "attributes", "config", "zarr", "sync"]
    chosen = ["tests/test_codecs", *(f"tests/test_{name}.py" for name in names)]
    theirs, _ = project.failures(*chosen)
    ours, n_passed = project.failures(*chosen, ZARR_CODEC_PIPELINE__PATH="chunkwise.zarr.CodecPipeline")
    asks = {name for name in ours if "test_config.py::test_config_codec_pipeline_class[" in name}
    assert ours - asks == theirs
    assert n_passed > 1000


PYDANTIC = ["pydantic", "pydantic-core", "pydantic-extra-types", "annotated-types", "typing-inspection"]
SKIMAGE = ["scikit-image", "scipy", "networkx", "imageio", "lazy-loader"]
SKAN = ["skan", "numba", "llvmlite", "toolz", "pandas", "python-dateutil", "matplotlib"]
ELF = (
    "io_tests/test_files.py",
    "io_tests/test_zarr_wrapper.py",
    "wrapper",
    "transformation",
    "skeleton/test_io.py",
)
PROJECTS = {
    "ome-writers": (
        "==0.3.2",
        [*PYDANTIC, "useq-schema", "ome-writers==0.3.2"],
        ["tests/test_integration.py", "tests/test_chunk_buffer.py", "-k", "tensorstore"],
        "tensorstore",
        15,
    ),
    "pybdv": ("==0.6.0", [*SKIMAGE, "tqdm"], ["test", "-k", "N5 or Zarr or util"], "z5py", 70),
    "python-elf": (
        "==0.9.2",
        [*SKIMAGE, *SKAN, "bioimage-cpp", "pooch", "platformdirs", "requests"],
        [f"test/{name}" for name in ELF],
        "z5py",
        60,
    ),
}


@pytest.mark.parametrize("name", PROJECTS)
def test_projects_written_for_another_library(name: str, tmp_path: Path) -> None:
    """As many of their tests pass with chunkwise in the library's place as with the library."""
    version, packages, chosen, library, at_least = PROJECTS[name]
    project = Project(name, version, tmp_path, *packages)
    theirs, n_theirs = project.failures(*chosen)
    ours, n_ours = project.failures(*chosen, "-p", f"stand_in_for_{library}")
    assert (ours, n_ours) == (theirs, n_theirs)
    assert n_ours >= at_least
