"""Other projects' own tests, on chunkwise: fetched when they are run, nothing of them is kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

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
# iohub's conftest downloads example data when it is imported; tests of them fail with either library.
NO_DOWNLOADS = """
import sys, types
import hypothesis, numpy, pytest

class Patient(hypothesis.settings):
    # Its tests have deadlines, which a machine with other work does not keep.
    def __init__(self, *parents, **options):
        super().__init__(*parents, **{**options, "deadline": None})

hypothesis.settings = Patient
sys.modules["tests.conftest"] = types.ModuleType("tests.conftest")
sys.modules["tests.conftest"].hcs_ref = "no-data"

@pytest.fixture
def rng():
    return numpy.random.default_rng(42)
"""


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
        (work / "no_downloads.py").write_text(NO_DOWNLOADS)
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


OF_ZARR_ITSELF = (
    "test_config_codec_pipeline_class[",  # which pipeline is the default
    "test_sharding_partial_shard_read__index_chunk_slice_fails[",  # replaces a method of its shard index
    "test_encoded_subchunk_write_order[morton]",  # the order of chunks in a shard, which no metadata say
)
# Minor versions, and the Python that they need.
ZARR = {"3.1": (3, 11), "3.2": (3, 12), "3.3": (3, 12), "3.4": (3, 12)}


@pytest.mark.parametrize(
    "version", [version for version, python in ZARR.items() if sys.version_info >= python]
)
def test_zarr_python_with_our_pipeline(version: str, tmp_path: Path) -> None:
    """What fails with it is what fails without, and tests of what is not zarr-python's own then."""
    newest = f"~={version}.0"
    tools = ("pytest-asyncio", "pytest-benchmark", "numpydoc")
    project = Project("zarr", newest, tmp_path, f"zarr{newest}", *tools)
    names = ["array", "indexing", "group", "api", "v2", "attributes", "config", "zarr", "sync"]
    chosen = ["tests/test_codecs", *(f"tests/test_{name}.py" for name in names)]
    theirs, _ = project.failures(*chosen)
    ours, n_passed = project.failures(*chosen, ZARR_CODEC_PIPELINE__PATH="chunkwise.zarr.CodecPipeline")
    assert {name for name in ours if not name.partition("::")[2].startswith(OF_ZARR_ITSELF)} == theirs
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
IOHUB = "natsort ndtiff blosc2 ndindex numexpr tqdm ome_zarr lazy-loader deprecated wrapt rich markdown-it-py"
IOHUB += " mdurl pygments ome-zarr-models pydantic-zarr ngff-zarr itkwasm wasmtime importlib_resources"
IOHUB += " iohub==0.3.0a7"
# The tests with TensorStore of ome-writers: layouts, and behaviours.
LAYOUTS = (
    "y64_x64-uint16 c2_y64_x64-uint8 t2_c3_z4_y128_x128-uint16 t2_z4_c3_y128_x128-uint16 "
    "p2_z3_y128_x128-uint16 t3_p2_y128_x128-uint16 plate-t3_p3_c2_z4_y128_x128-uint16 "
    "tNone_c2_z3_y128_x128-uint16 "
    "tNone_y128_x128-uint16 tNone_z8_y64_x64-uint16 z16_y64_x64-uint16 t2_z8_c4_y64_x64-uint16 "
    "z17_y64_x64-uint16 p2_z8_y64_x64-uint16 t2_p4_c2_y64_x64-uint16 t4_y512_x512-uint16"
)
OME_WRITERS = [
    f"tests/test_integration.py::{name}]"
    for name in (
        *(f"test_cases[tensorstore-{layout}" for layout in LAYOUTS.split()),
        "test_overwrite_safety[tensorstore",
        "test_skip_frames[tensorstore",
        "test_append_too_many_frames[tensorstore",
    )
]

CLI = "test/test_convert_to_bdv.py"


class Chosen(NamedTuple):
    """Tests of a project, and what becomes of them with either library."""

    version: str
    packages: list[str]
    arguments: list[str]
    library: str
    n_passed: int
    failing: Mapping[str, str] = MappingProxyType({})  # why


PROJECTS = {
    # The only one of this release that has TensorStore; later releases need Python 3.12.
    "iohub": Chosen(
        "==0.3.0a7",
        [*PYDANTIC, *SKIMAGE, *IOHUB.split()],
        ["--noconftest", "-p", "no_downloads", "tests/ngff/test_ngff.py::test_ome_zarr_to_tensorstore"],
        "tensorstore",
        1,
    ),
    "ome-writers": Chosen(
        "==0.3.2",
        [*PYDANTIC, "useq-schema", "ome-writers==0.3.2"],
        OME_WRITERS,
        "tensorstore",
        len(OME_WRITERS),
    ),
    "pybdv": Chosen(
        "==0.6.0",
        [*SKIMAGE, "tqdm"],
        ["test", "-k", "N5 or Zarr or util"],
        "z5py",
        76,
        {f"{CLI}::TestConvertToBdvN5::test_cli_simple": "its command is not installed"},
    ),
    # Six more are skipped: they need data from the network, or pyn5 as well.
    "python-elf": Chosen(
        "==0.9.2",
        [*SKIMAGE, *SKAN, "bioimage-cpp", "pooch", "platformdirs", "requests"],
        [f"test/{name}" for name in ELF],
        "z5py",
        69,
    ),
}


@pytest.mark.parametrize("name", PROJECTS)
def test_projects_written_for_another_library(name: str, tmp_path: Path) -> None:
    """The tests that are known to pass with the library do so with chunkwise in its place; no others fail."""
    chosen = PROJECTS[name]
    project = Project(name, chosen.version, tmp_path, *chosen.packages)
    expected = set(chosen.failing), chosen.n_passed
    assert project.failures(*chosen.arguments) == expected
    assert project.failures(*chosen.arguments, "-p", f"stand_in_for_{chosen.library}") == expected
