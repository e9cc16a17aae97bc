"""The glossary: each word has its class, and words that were given up name nothing."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "chunkwise"
WORDS, _, GIVEN_UP = (ROOT / "docs" / "glossary.md").read_text().partition("## Words that were given up")
DEFINED = re.findall(r"\| `(\w+)` in `([\w/]+\.py)` \|$", WORDS, flags=re.MULTILINE)
FOLDERS = re.findall(r"\| `([\w/]+/)` \|$", WORDS, flags=re.MULTILINE)
RETIRED = {
    word
    for row in re.findall(r"^\| (`.*?) \|", GIVEN_UP, flags=re.MULTILINE)
    for word in re.findall(r"\w+", row)
}


@cache
def names() -> dict[str, set[str]]:
    """Return the names of classes and public functions by module, inner ones included."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        kinds = (ast.ClassDef, ast.FunctionDef)
        found[path.relative_to(SOURCE).as_posix()] = {node.name for node in nodes if isinstance(node, kinds)}
    return found


def test_each_row_has_a_class_or_a_folder() -> None:
    rows = [line for line in WORDS.splitlines() if line.startswith("| ") and "| meaning |" not in line]
    assert len(rows) == len(DEFINED) + len(FOLDERS) > 40


@pytest.mark.parametrize(("name", "path"), DEFINED)
def test_a_word_is_defined_where_the_page_says(name: str, path: str) -> None:
    assert name in names().get(path, ())


def test_a_folder_is_there() -> None:
    assert all((SOURCE / folder).is_dir() for folder in FOLDERS)


def test_a_word_has_one_row() -> None:
    words = Counter(
        word.strip()
        for row in re.findall(r"^\| (?!word|---)(.*?) \|", WORDS, flags=re.MULTILINE)
        for word in row.split(",")
    )
    assert [word for word, n in words.items() if n > 1] == []


def test_a_word_that_was_given_up_names_nothing() -> None:
    """Neither a module, a class or a function."""
    assert RETIRED
    defined = {Path(path).stem for path in names()}.union(*names().values())
    assert RETIRED & defined == set()
