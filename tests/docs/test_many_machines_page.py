"""The code on the page about many machines runs, and its commands succeed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import chunkwise
from chunkwise.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "many-machines.md").read_text()


def test_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(code, "many-machines.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "pass 2 of 2" in printed
    assert printed.splitlines()[-1] == "True"
    commands = re.findall(r"^\$ chunkwise (.*)$", PAGE, flags=re.MULTILINE)
    assert len(commands) == 6
    for command in commands:
        assert main(shlex.split(command)) == 0, command
    for name in ("columns.zarr", "again.zarr", "parts.zarr"):
        assert np.array_equal(chunkwise.read(name), names["values"])
