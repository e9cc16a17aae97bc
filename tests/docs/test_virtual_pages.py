"""The pages on virtual arrays, pyramids, images, chunks, copies and pictures run and print what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from chunkwise.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)


def _promised(code: str) -> list[str]:
    """Return the output promised by comments after a print and by comment lines at the end."""
    inline = r"print\(.*\)  # (.*)"
    return [m[1] or m[2] for m in re.finditer(rf"{inline}|^# (.*)$", code, flags=re.MULTILINE)]


@pytest.mark.parametrize(
    "page", ["virtual.md", "pyramids.md", "multiscale.md", "choosing.md", "convert.md", "precomputed.md"]
)
def test_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed: list[str] = []
    names = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    n_promised = 0
    for language, text in BLOCK.findall((DOCS / page).read_text()):
        if language == "console":
            for line in text.splitlines():
                assert main(shlex.split(line.removeprefix("$ chunkwise "))) == 0, line
            continue
        printed.clear()
        exec(compile(text, page, "exec"), names)
        assert printed == _promised(text)
        n_promised += len(printed)
    assert n_promised >= 2
