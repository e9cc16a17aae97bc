"""The page about the structure names files, functions and layers that there are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "chunkwise"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FILES = sorted(set(re.findall(r"`([\w/]+\.py)`", PAGE)))
QUESTIONS = re.findall(r"^\| (.*\?) \| `(.*?)` \| (.*) \|$", PAGE, flags=re.MULTILINE)
DEFINED = sorted(set(re.findall(r"`(\w+)` in `([\w/]+\.py)`", PAGE)))


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_there(path: str) -> None:
    assert (SOURCE / path).is_file()


@pytest.mark.parametrize(("name", "path"), DEFINED)
def test_a_function_is_where_the_page_says(name: str, path: str) -> None:
    assert re.search(rf"^(def|class) {name}\b", (SOURCE / path).read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize(("question", "text", "answer"), QUESTIONS)
def test_a_question_takes_one_search_and_two_files(question: str, text: str, answer: str) -> None:
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if text in path.read_text()}
    files = re.findall(r"`([\w/]+\.py)`", answer)
    assert len(QUESTIONS) == 10
    assert found == {files[0]}
    assert len(files) <= 2


@pytest.mark.parametrize(("room", "number"), [("", 0), ("core", 1)])
def test_the_layers_are_those_that_import_linter_holds(room: str, number: int) -> None:
    """The page has a table of the rooms, and below it one of the rooms of the core."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][
        number
    ]
    assert contract["containers"] == [f"chunkwise.{room}".removesuffix(".")]
    held = [set(layer.split(" | ")) for layer in reversed(contract["layers"])]
    told: list[set[str]] = [set() for _ in held]
    table = PAGE.split("| layer | folder | idea |\n")[number + 1].partition("\n\n")[0]
    for layer, first in re.findall(r"^\| (\d+) \| (.*?) \|", table, flags=re.MULTILINE):
        told[int(layer)] |= {
            name.removesuffix("/").removesuffix(".py") for name in re.findall(r"`(.*?)`", first)
        }
    assert told == held
    folders = {
        path.name for path in (SOURCE / room).iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert folders - {"extension"} == {name for name in set().union(*told) if (SOURCE / room / name).is_dir()}
