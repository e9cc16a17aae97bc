"""Differences of older hdmf releases; the oldest allowed pass the tests of this folder."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
from nwb_content import new_file
from peer_environment import python_with

from chunkwise.hdmf import NWBZarrIO, open_store
from chunkwise.hdmf.backend import schema as spec_cache

ROOT = Path(__file__).parents[2]


class OneAtATime:
    """A catalog that takes one reader, as those of hdmf 3 do."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def load_namespaces(self, path: str, reader: Any) -> dict[str, Any]:
        names = [namespace["name"] for namespace in reader.read_namespace(path)]
        self.loaded += names
        return {name: {} for name in names}


def test_included_namespaces_are_loaded_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings(), NWBZarrIO(tmp_path / "a", mode="w") as io:
        warnings.simplefilter("ignore")
        io.write(new_file())
    monkeypatch.setattr(spec_cache, "_TAKES_ALL", False)
    catalog = OneAtATime()
    found = spec_cache.load_cached_namespaces(open_store(tmp_path / "a"), catalog)
    assert catalog.loaded == ["hdmf-common", "hdmf-experimental", "core"]
    assert set(found) == set(catalog.loaded)
    assert spec_cache.load_cached_namespaces(open_store(tmp_path / "a"), OneAtATime(), ["core"]).keys() == {
        "core"
    }


@pytest.mark.slow  # it makes an environment the first time
@pytest.mark.timeout(3600)
def test_the_oldest_releases_that_are_allowed_pass() -> None:
    """Those are the lower bounds of the extra "nwb"; nothing is skipped."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = [bound.replace(">=", "==") for bound in project["optional-dependencies"]["nwb"]]
    assert [bound.partition("==")[0] for bound in oldest] == ["hdmf", "pynwb"]
    others = (
        "pytest>=8",
        "pytest-timeout>=2.3",
        "hypothesis>=6.100",
        "zarr>=3.1",
        "fsspec>=2024.6",
        "distributed>=2024.8",
    )
    needed = (*oldest, *project["dependencies"], *others)
    python = python_with(needed, "3.11", "-".join(oldest).replace("==", "-"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    pytest_options = ["-p", "no:cacheprovider", "-m", "not slow", "-rs", "--tb=short"]
    done = subprocess.run(
        [python, "-m", "pytest", *pytest_options, "tests/hdmf"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3500,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    assert re.search(r"\b[2-9]\d\d passed", done.stdout) and "skipped" not in done.stdout, done.stdout
