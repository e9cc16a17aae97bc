"""The code of docs/nwb.md runs, prints what it says, and its commands succeed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chunkwise.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "nwb.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.filterwarnings("ignore")  # pynwb's own
def test_the_page_runs_and_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed: list[str] = []
    names = {"print": lambda *a: printed.append(" ".join(map(str, a)))}
    promised = []
    for code in blocks("python"):
        exec(compile(code, "nwb.md", "exec"), names)
        promised += re.findall(r"print\(.*\)\s+# (.*)", code)
    assert printed == promised
    for line in "\n".join(blocks("console")).splitlines():
        assert main(line.removeprefix("$ chunkwise ").split()) == 0, line
