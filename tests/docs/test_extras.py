"""Errors about missing packages name extras that there are, and that bring the package."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from chunkwise.extras import _EXTRAS, needs

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(("package", "extra"), [*_EXTRAS.items(), ("Pillow", "cli")])
def test_the_extra_of_a_message_brings_the_package(package: str, extra: str) -> None:
    wanted = PROJECT["optional-dependencies"][extra]
    assert any(entry.lower().startswith(package.lower()) for entry in wanted)
    assert needs("this", package, extra) == f'this needs {package}: pip install "chunkwise[{extra}]"'
    assert needs("this", package) == f'this needs {package}: pip install "chunkwise[{_EXTRAS[package]}]"'


def test_a_package_of_no_extra_is_installed_by_itself() -> None:
    assert needs("this", "zfpy") == "this needs zfpy: pip install zfpy"
