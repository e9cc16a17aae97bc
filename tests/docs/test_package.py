"""Statements about the package in several files agree; release/check.py checks the built ones."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import chunkwise
from chunkwise.cli.main import main

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def check() -> Any:
    spec = importlib.util.spec_from_file_location("release_check", ROOT / "release" / "check.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_is_one(check: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.check_versions() == chunkwise.__version__
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"chunkwise {chunkwise.__version__}\n"


def test_the_conda_recipe_requires_what_the_package_requires(check: Any) -> None:
    check.check_requirements()


def test_the_page_at_the_package_index_has_no_relative_links(check: Any) -> None:
    text = (ROOT / "README.md").read_text()
    assert check.relative_links(text)
    for change in PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    assert check.relative_links(text) == []
    assert f"{PYPROJECT['project']['urls']['Documentation']}tensorstore/#deliberate-differences)" in text


def test_the_oldest_python_is_the_first_of_the_classifiers() -> None:
    project = PYPROJECT["project"]
    versions = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert project["requires-python"] == f">={versions[0]}"
    assert versions == [f"3.{minor}" for minor in range(11, 11 + len(versions))]
