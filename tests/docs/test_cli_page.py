"""The commands on the page about the command line do what it says, on a hierarchy like the one it shows."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from chunkwise.cli.main import COMMANDS, main, make_parser

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


def test_the_table_has_every_command() -> None:
    table = PAGE[PAGE.index("| command | |") : PAGE.index("| exit status | |")]
    rows = re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(COMMANDS)


def test_the_commands_that_take_a_spec_are_those_whose_help_says_so() -> None:
    (sentence,) = re.findall(r"of any format\. (.*?) also take a file `\*\.json`", PAGE, flags=re.DOTALL)
    told = set(re.findall(r"`(\w+)`", sentence))
    parser = make_parser()
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    found = {
        name
        for name, command in commands.choices.items()
        for action in command._actions
        if not action.option_strings and "*.json with" in (action.help or "")
    }
    assert told == found


def test_texts_name_commands_that_there_are() -> None:
    root = Path(__file__).parents[2]
    for path in (*(root / "src").rglob("*.py"), *(root / "docs").glob("*.md"), root / "README.md"):
        named = set(re.findall(r"(?:`|\$ )chunkwise ([a-z]+)", path.read_text()))
        assert named <= set(COMMANDS), path
