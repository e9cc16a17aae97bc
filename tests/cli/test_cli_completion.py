"""Scripts for shells, and the man page: made from the parser, so that they hold every command and option."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkwise.cli.completion import _PATHS, SHELLS
from chunkwise.cli.main import COMMANDS, main, make_parser

# Positional arguments that are no paths.
OTHERS = {"COMMAND", "ACTION", "JSON", "KEY", "KEY JSON", "get | set | rm", None}


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from actions(command)


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_holds_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    assert [name for name in COMMANDS if name not in text] == []
    options = {o for action in actions(make_parser()) for o in action.option_strings if o.startswith("--")}
    dashes = "" if shell == "fish" else "--"
    assert [option for option in options if dashes + option.removeprefix("--") not in text] == []


def test_json_holds_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"shell": "fish", "script": script("fish", capsys).removesuffix("\n")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [("ver", "verify"), ("cp --form", "--format"), ("info vol", "volume.zarr"), ("completion f", "fish")],
)
def test_bash_completes(line: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    (tmp_path / "volume.zarr").mkdir()
    (tmp_path / "script").write_text(script("bash", capsys))
    words = ["chunkwise", *line.split()]
    program = (
        f"source ./script; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}\n"
        'COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}\n'
        f"_shtab_chunkwise chunkwise {words[-1]} {words[-2]}; echo ${{COMPREPLY[@]}}"
    )
    out = subprocess.run([bash, "-c", program], cwd=tmp_path, text=True, capture_output=True, check=True)
    assert out.stdout.split() == [expected]


def test_every_argument_is_known_to_be_a_path_or_not() -> None:
    positional = {action.metavar for action in actions(make_parser()) if not action.option_strings}
    assert positional - OTHERS <= set(_PATHS)


def test_without_its_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert 'completion needs shtab: pip install "chunkwise[cli]"' in capsys.readouterr().err
