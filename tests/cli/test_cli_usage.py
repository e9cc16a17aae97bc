"""What people type before they have read the help: names, plurals, short options, mistakes."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
from cli_arrays import Run, make

from chunkwise.cli.command import text_of
from chunkwise.cli.main import COMMANDS, CommandParser, make_parser
from chunkwise.errors import ChunkwiseError, noted
from chunkwise.version import __version__


def parsers(parser: CommandParser) -> list[CommandParser]:
    """Return a parser, and those of all commands and actions below it."""
    out = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            out += [each for command in action.choices.values() for each in parsers(command)]
    return out


ALL = {parser.prog.removeprefix("chunkwise").strip(): parser for parser in parsers(make_parser())}
ROOT = ALL.pop("")
PLURALS = ("chunk", "shard", "codec")


def test_without_a_command_it_prints_the_help_with_commands_in_groups(run: Run) -> None:
    shown = run()
    assert shown.status == 0 and shown.err == ""
    listed = [
        line.split()[0] for line in shown.out.splitlines() if line.startswith("    ") and line[4] != " "
    ]
    assert listed == list(COMMANDS)
    assert shown.out == run("--help").out == run("help").out
    headings = [line.strip(" :") for line in shown.out.splitlines() if line.endswith(":") and line[0] == " "]
    assert headings[:3] == ["look", "make and copy", "check"]


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(run: Run, option: str) -> None:
    assert run(option).out == f"chunkwise {__version__}\n"


@pytest.mark.parametrize("name", ALL)
def test_help_of_a_command_is_what_its_option_prints(run: Run, name: str) -> None:
    words = name.replace(" PATH", "").split()
    shown = run("help", *words)
    assert (shown.status, shown.err) == (0, "")
    given = words[:1] + ["x"] * name.count("PATH") + words[1:]
    assert shown.out == run(*given, "--help").out
    assert run("help", *words, "--json").json == {"command": words, "help": shown.out.removesuffix("\n")}


@pytest.mark.parametrize("name", [name for name in ALL if name != "nwb"])  # which does nothing itself
def test_a_wrong_option_shows_its_command_and_the_nearest_option(run: Run, name: str) -> None:
    words = name.replace("PATH", "x").split()
    wanted = [
        action for action in ALL[name]._actions if not action.option_strings and action.nargs in (None, "+")
    ]
    given = ["zsh" if action.choices else "1" for action in wanted]
    needed = ["--shape", "4", "--dtype", "u1"] if name == "create" else []
    result = run(*words, *given, *needed, "--jsn")
    assert result.status == 2 and result.out == ""
    assert result.err.startswith(f"usage: chunkwise {name}")
    assert result.err.endswith('chunkwise: there is no option --jsn; did you mean "--json"?\n')


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["inf", "x"], 'there is no command "inf"; did you mean "info"?'),
        (["help", "veryfi"], 'there is no command "veryfi"; did you mean "verify"?'),
        (["help", "cp", "x"], 'there is no action "x": this command has none'),
        (["attrs", "x", "gt"], 'there is no action "gt"; did you mean "get"? (known: get, rm, set)'),
        (["nwb", "convrt"], 'there is no action "convrt"; did you mean "convert"?'),
        (["cp", "a", "b", "--format", "zar3"], '--format: there is no "zar3"; did you mean "zarr3"?'),
        (["cp", "a", "b", "c", "d"], "too many arguments: c d\n"),
        (["cp", "a", "b", "--chunk", "2", "2"], "too many arguments: 2; sizes are one argument, with commas"),
        (["create", "a", "8", "8", "--shape", "8"], "sizes are one argument"),
        (["slice", "a", "0:2,0:3"], "a region is an option: --region '0:2,0:3'"),
        (["slice", "a", "[0:2,", "...]"], "a region is an option: --region '0:2,...'"),
        (["attrs", "set", "a", "k", "1"], "PATH comes first: chunkwise attrs PATH"),
        (["tree", "-L", "1"], 'did you mean "--depth"?'),
        (["ls", "-r", "x"], 'no option -r; did you mean "--depth"?'),
        (["dump", "-h", "x"], 'there is no command "dump"; did you mean "tree -a"? (known: attrs'),
        (["convert", "a", "b"], 'there is no command "convert"; did you mean "cp -r"?'),
        (["cp", "a", "b", "--chnk=4"], 'there is no option --chnk; did you mean "--chunk'),
        (["cp", "a", "b", "--compressor", "zstd"], 'no option --compressor; did you mean "--codec"?'),
        (["cp", "a", "b", "--threads=4"], 'no option --threads; did you mean "--on"?'),
        (["pyramid", "a", "b", "--max_layer", "3"], 'no option --max_layer; did you mean "--levels"?'),
        (["serve", "a", "--bind", "0.0.0.0"], 'no option --bind; did you mean "--host"?'),
        (["cp", "a", "b", "--zzz"], "there is no option --zzz\n"),
    ],
)
def test_mistakes_are_told_with_what_was_meant(run: Run, words: list[str], text: str) -> None:
    result = run(*words)
    assert result.status == 2 and text in result.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["attrs", "a.zarr", "set", "units", "mV"], "text is '\"mV\"'"),
        (["attrs", "a.zarr", "set", "title", "two words"], "text is '\"two words\"'"),
        (["attrs", "a.zarr", "set", "day", "2020-01-01"], "text is '\"2020-01-01\"'"),
        (["attrs", "a.zarr", "set", "on", "True"], "; true is written so in JSON"),
        (["mv", "g.zarr/x", "g.zarr/h"], "a place in it is PATH/NAME"),
        (["cp", "a.npy", "b.zarr"], "numpy.load"),
    ],
)
def test_habits_of_shells_are_answered(
    run: Run, words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("a.zarr", "g.zarr/x", "g.zarr/h/y"):
        make(tmp_path / path, "zarr3", np.zeros(2, "u1"), (2,))
    (tmp_path / "g.zarr/h/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    np.save("a.npy", np.zeros(3))
    result = run(*words)
    assert result.status != 0 and text in result.err


def test_every_option_in_the_singular_has_a_plural_and_quiet_is_short() -> None:
    for name, parser in ALL.items():
        options = parser._option_string_actions
        for singular, plural in [(f"--{word}", f"--{word}s") for word in PLURALS] + [("--quiet", "-q")]:
            assert options.get(singular) is options.get(plural), name
    assert ALL["pyramid"]._option_string_actions["--chunks"].dest == "chunk"


@pytest.mark.parametrize("ending", ["", "s"])
def test_plurals_mean_the_same(run: Run, tmp_path: Path, ending: str) -> None:
    options = {"chunk": "4,2", "shard": "8,8", "codec": "zstd:5"}
    words = [word for name, value in options.items() for word in (f"--{name}{ending}", value)]
    assert (
        run("create", tmp_path / "a", "--shape", "8,8", "--dtype", "u1", "--format", "zarr3", *words).status
        == 0
    )
    found = run("info", tmp_path / "a", "--json").json
    assert (found["chunks"], found["shards"], found["codecs"]) == ([4, 2], [8, 8], ["zstd:5"])
    # A beginning that both names have is still enough.
    assert run("cp", tmp_path / "a", tmp_path / "b", "--chun", "2,2", "--shar", "4,4", "--quie").status == 0


def test_ls_is_one_level_of_tree(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("a", "g.zarr/h/b", "plain/deep/c", "empty/d"):
        make(tmp_path / path, "zarr3", np.zeros(2, "u1"), (2,))
    (tmp_path / "empty/d/zarr.json").unlink()
    names = ["", "a", "g.zarr", "plain"]
    assert [node["name"] for node in run("ls", tmp_path, "--json").json] == names
    assert run("ls", tmp_path).out == run("tree", "--depth", 1, tmp_path).out
    monkeypatch.chdir(tmp_path)
    assert [node["name"] for node in run("ls", "--json").json] == names
    assert len(run("ls", "--depth", "2", "--json").json) == 6


def every(cls: type[ChunkwiseError]) -> list[type[ChunkwiseError]]:
    return [cls, *(each for below in cls.__subclasses__() for each in every(below))]


@pytest.mark.parametrize("cls", every(ChunkwiseError), ids=lambda cls: cls.__name__)
def test_messages_have_no_status_words(cls: type[ChunkwiseError]) -> None:
    error = noted(cls("Error opening a: there is none"), "look there")
    assert text_of(error) == "Error opening a: there is none; look there"
    assert cls.status in str(error)  # which programs look for


@pytest.mark.parametrize(
    ("region", "told"),
    [
        ("64,0", '"64" in region "64,0" is no part of dimension 0 ("y"), which is [0, 64)'),
        ("0,-9", '"-9" in region "0,-9" is no part of dimension 1, which is [0, 8)'),
        ("::3,5:9", '"5:9" in region "::3,5:9" is no part of dimension 1, which is [0, 8)'),
        ("...,9:5:-1", '"9:5:-1" in region "...,9:5:-1" is no part of dimension 1, which is [0, 8)'),
        ("5:2,:", '"5:2" in region "5:2,:" is no part of dimension 0 ("y"), which is [0, 64)'),
    ],
)
@pytest.mark.parametrize("command", ["slice", "plan", "cp", "pyramid"])
def test_regions_outside_are_told_in_their_own_words(
    run: Run, tmp_path: Path, command: str, region: str, told: str
) -> None:
    names = {"metadata": {"dimension_names": ["y", None]}}
    make(tmp_path / "a", "zarr3", np.zeros((64, 8), "u1"), (64, 8), **names)
    target = [tmp_path / "b"] if command in ("cp", "pyramid") else []
    result = run(command, tmp_path / "a", *target, "--region", region)
    assert (result.status, result.err) == (1, f"chunkwise: {told}\n")
    assert not (tmp_path / "b").exists()
