"""The commands on the page about the command line do what it says, on a hierarchy like the one it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from chunkwise.cli.main import COMMANDS, main

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def test_the_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(code, "cli.md", "exec"), {})
    narrow, shown, *rest = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    lines = "".join([narrow, shown, *rest]).splitlines()
    for command in (line.removeprefix("$ chunkwise ") for line in lines if line.startswith("$")):
        capsys.readouterr()
        assert main(shlex.split(command)) == 0, command
        if command == "tree data.zarr":
            promised = shown.split("$ chunkwise cp")[0].splitlines()[1:]
            assert capsys.readouterr().out.splitlines() == promised
    assert set(re.findall(r"chunkwise (\w+)", PAGE)) <= set(COMMANDS)
