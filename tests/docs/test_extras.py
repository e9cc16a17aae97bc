"""Errors about missing packages name extras that there are, and that bring the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from chunkwise.core.base.extras import _EXTRAS, needs

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(("package", "extra"), [*_EXTRAS.items(), ("Pillow", "cli")])
def test_the_extra_of_a_message_brings_the_package(package: str, extra: str) -> None:
    wanted = PROJECT["optional-dependencies"][extra]
    assert any(entry.lower().startswith(package.lower()) for entry in wanted)
    assert needs("this", package, extra) == f'this needs {package}: pip install "chunkwise[{extra}]"'
    assert needs("this", package) == f'this needs {package}: pip install "chunkwise[{_EXTRAS[package]}]"'


def test_a_package_of_no_extra_is_installed_by_itself() -> None:
    assert needs("this", "zfpy") == "this needs zfpy: pip install zfpy"


def test_the_table_of_extras_is_that_of_the_project() -> None:
    page = (Path(__file__).parents[2] / "docs" / "dependencies.md").read_text()
    rows = re.findall(r"^\| `\[(\w+)\]` \| (.*?) \|", page, flags=re.MULTILINE)
    told = {
        extra: set(re.findall(r"[a-z]\w+", re.sub(r"\(.*?\)", "", names.lower()))) for extra, names in rows
    }
    told.pop("all")
    extras = {name: wanted for name, wanted in PROJECT["optional-dependencies"].items() if name != "all"}
    assert told == {
        name: {re.split(r"[\[>;]", entry)[0] for entry in wanted} for name, wanted in extras.items()
    }
