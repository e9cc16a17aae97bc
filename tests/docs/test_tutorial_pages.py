"""The tutorial and the page on appending: all blocks run in order, and print what they say."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chunkwise.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("page", "n_printed"), [("tutorial", 10), ("appending", 5)])
def test_all_blocks_run_and_print_what_they_say(page, n_printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{page}.md").read_text()
    names, printed, promised = {}, [], []
    names["print"] = lambda *values: printed.append(" ".join(map(str, values)))
    for language, code in re.findall(r"```(python|console)\n(.*?)```", text, flags=re.DOTALL):
        if language == "python":
            exec(compile(code, f"{page}.md", "exec"), names)
            promised += re.findall(r"^print\(.*\)\s+# (.*)$", code, flags=re.MULTILINE)
            continue
        for line in code.splitlines():
            assert main(shlex.split(line.removeprefix("$ chunkwise "))) == 0, line
    assert len(printed) == len(promised) >= n_printed
    for found, said in zip(printed, promised, strict=True):
        assert "\n" in found or said == found or said.startswith(f"{found}: "), (found, said)
    if page == "tutorial":
        drawn, shown = (
            np.asarray(Image.open(path)) for path in ("brain.png", DOCS / "pictures/tutorial.png")
        )
        assert drawn.shape == shown.shape and np.abs(drawn.astype(int) - shown).mean() < 2
