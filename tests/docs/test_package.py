"""Statements about the package in several files agree; release/check.py checks the built ones."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from itertools import chain
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


def requirements() -> list[tuple[str, str]]:
    """Return the name and the lowest version of each package that is required, also by an extra."""
    project = PYPROJECT["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    found = [
        re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", line) for line in (*project["dependencies"], *extras)
    ]
    return [(each[1].lower().replace("_", "-"), each[2]) for each in found if each]  # else other extras


@pytest.mark.parametrize("name", sorted({name for name, _ in requirements()}))
def test_minimums_are_the_same_everywhere_and_have_been_run(name: str) -> None:
    """release/versions.py has passed with the lowest version that each requirement allows."""
    (least,) = {version for other, version in requirements() if other == name}
    run = json.loads((ROOT / "release" / "versions.json").read_text())["lowest"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", run["date"]) and run["python"].startswith("3.11.")
    assert f"{run['packages'][name]}.0.0".startswith(f"{least}.")
    recipe = (ROOT / "release/conda/recipe.yaml").read_text()
    told = re.findall(rf"^ +- (?:python-)?{name.replace('-', '[-_]')} >=(\S+)$", recipe, flags=re.MULTILINE)
    assert set(told) <= {least}


def test_the_page_of_dependencies_lists_what_is_required() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    table = page.partition("| reason for this one |")[2].partition("\n\n")[0]
    wanted = [re.split(r"[\[>;]", line)[0] for line in PYPROJECT["project"]["dependencies"]]
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", table, flags=re.MULTILINE)) == sorted(wanted)


def test_mutants_that_change_nothing_are_of_lines_that_are_there() -> None:
    for known in json.loads((ROOT / "release" / "equivalent.json").read_text()):
        lines = (ROOT / "src" / known["file"]).read_text().splitlines()
        assert known["text"] in map(str.strip, lines), known
        assert known["why"] and known["what"]
