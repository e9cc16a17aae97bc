"""The commands on the page about the command line do what it says, on a hierarchy like the one it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.cli.main import COMMANDS, main

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def test_the_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    group = cw.open_group("data.zarr", "w")
    values = np.arange(64 * 64 * 32, dtype="u2").reshape(64, 64, 32)
    group.create_array("raw/s0", values, chunks=(32, 32, 16), codec="zstd:3")
    group.create_array("raw/s1", values[::2, ::2, ::2], chunks=(32, 32, 16), codec="zstd:3")
    group.create_link("latest", "/raw/s0")
    shown, *rest = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    lines = "".join([shown, *rest]).splitlines()
    for command in (line.removeprefix("$ chunkwise ") for line in lines if line.startswith("$")):
        capsys.readouterr()
        assert main(shlex.split(command)) == 0, command
        if command == "tree data.zarr":
            promised = shown.split("$ chunkwise cp")[0].splitlines()[1:]
            assert capsys.readouterr().out.splitlines() == promised
    assert set(re.findall(r"chunkwise (\w+)", PAGE)) <= set(COMMANDS)
