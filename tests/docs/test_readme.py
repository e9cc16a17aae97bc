"""The README's code runs, in an empty directory, as a new user would run it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chunkwise.cli.main import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_tour_runs_and_its_commands_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python blocks first, then each command on what they made."""
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks("python")), "README.md", "exec"), {})
    (commands,) = blocks("console")
    for line in commands.splitlines():
        words = [word.strip("'") for word in line.removeprefix("$ chunkwise ").split()]
        assert main(words) == 0, line
    assert (tmp_path / "slice.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_tour_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment after a print is its output."""
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks("python"))
    printed: list[str] = []
    exec(compile(code, "README.md", "exec"), {"print": lambda *a: printed.append(" ".join(map(str, a)))})
    promised = re.findall(r"print\(.*?\)\s+# (.*)", code)
    assert printed == promised
