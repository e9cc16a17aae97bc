"""What is public, as lines of text: names with their parameters, commands, exit statuses, members of JSON.

python -m tests.golden.public_surface [--compare]

Writes tests/golden/surface/VERSION.txt, or fails unless it says what is public now.  A line that a version
had may go only with a line in the section *Changed* of the changelog (`test_public_surface`); new lines are
free.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import importlib
import inspect
import io
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.golden.kept_stores import write_nwb

import chunkwise
from chunkwise.cli.main import COMMANDS, main, make_parser
from chunkwise.version import __version__

SURFACES = Path(__file__).with_name("surface")
MODULES = ("", ".extension", ".testing", ".xarray", ".dask", ".hdmf", ".z5py", ".zarr", ".napari")
_PLAIN = (bool, int, float, str, bytes, type(None), tuple)


def surface() -> list[str]:
    """Return all lines, sorted."""
    lines = [line for module in MODULES for line in _names(importlib.import_module(f"chunkwise{module}"))]
    lines += _options(make_parser(), "chunkwise")
    lines += (f"exit status {status} | {meaning}" for status, meaning in _statuses())
    with tempfile.TemporaryDirectory() as folder:
        lines += _json(Path(folder).resolve())
    return sorted(set(lines))


# -- Python ----------------------------------------------------------------------------------------------


def _names(module: Any) -> Iterator[str]:
    for name in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(value):
            continue
        full = f"{module.__name__}.{name}"
        yield f"{full} |"
        if inspect.isclass(value) and value.__module__.startswith("chunkwise"):
            if issubclass(value, BaseException):
                yield from (f"{full} | is {c.__name__}" for c in value.__mro__[1:] if c is not object)
            for member in dir(value):
                if (not member.startswith("_") or member == "__init__") and _is_own(value, member):
                    yield from _member(f"{full}.{member}", value, member)
        elif callable(value):
            yield from _parameters(full, value)


def _is_own(cls: type, member: str) -> bool:
    owner = next((c for c in cls.__mro__ if member in vars(c)), None)
    return owner is not None and owner.__module__.startswith("chunkwise") and hasattr(cls, member)


def _member(full: str, cls: type, name: str) -> Iterator[str]:
    value = inspect.getattr_static(cls, name)
    yield f"{full} |" + (f" {value.value!r}" if isinstance(value, enum.Enum) else "")
    if not isinstance(value, property) and callable(getattr(cls, name)):
        yield from _parameters(full, getattr(cls, name))


def _parameters(full: str, function: Callable[..., Any]) -> Iterator[str]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    for at, (name, parameter) in enumerate(parameters.items()):
        if name.startswith("_"):
            continue
        text = str(parameter.kind.description)
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            text += f", {at}"
        if parameter.default is not parameter.empty:
            default = parameter.default
            text += f", {default!r}" if isinstance(default, _PLAIN) else ", has a default"
        yield f"{full}({name}) | {text}"


# -- commands --------------------------------------------------------------------------------------------


def _options(parser: argparse.ArgumentParser, command: str) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield f"{command} {name} |"
                yield from _options(inner, f"{command} {name}")
            continue
        for name in action.option_strings or [str(action.metavar or action.dest)]:
            yield f"{command} {name} | {'' if action.nargs is None else f'takes {action.nargs}'}"
            yield from (f"{command} {name} | {choice}" for choice in action.choices or ())
            if action.default not in (None, False, argparse.SUPPRESS):
                yield f"{command} {name} | {action.default!r} by default"


def _statuses() -> list[tuple[str, str]]:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    table = page.partition("| exit status | |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", table, flags=re.MULTILINE)
    return [(status, part.strip()) for status, text in rows for part in text.split(";")]


# -- JSON ------------------------------------------------------------------------------------------------

NO_JSON = {
    "serve": "prints where it serves, and stays",
    "view": "prints where it serves, and stays",
}


def _commands(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Make arrays and trees; yield a name and the words of commands that print all members there are."""
    values = np.arange(48, dtype="uint16").reshape(6, 8)
    for format in ("zarr3", "zarr2", "n5"):
        group = chunkwise.create_group(folder / format, format=format, attributes={"a": 1})
        group.create_array(
            "v", values, chunks=(4, 4), dimension_names=("y", "x"), dimension_units=("4 nm", "1 um")
        )
        group.create_array("w", values[0])
        group.create_link("l", "v")
    tree, array = str(folder / "zarr3"), str(folder / "zarr3/v")
    shards = str(folder / "shards")
    chunkwise.create_array(shards, values, chunks=(2, 4), shards=(4, 8), attributes={"a": 1})

    def to(name: str) -> str:
        return str(folder / name)

    yield "info", ["info", array]
    yield "info of shards", ["info", shards]
    yield "info of a group", ["info", tree]
    yield "info --system", ["info", "--system"]
    yield "ls", ["ls", tree]
    yield "tree", ["tree", tree]
    yield "attrs", ["attrs", array]
    yield "slice", ["slice", array, "--region", "0:2, 0:2"]
    yield "plan", ["plan", array]
    yield "create", ["create", to("made"), "--shape", "4,4", "--dtype", "uint8"]
    yield "cp", ["cp", array, to("copy"), "--chunk", "2,8", "--verify", "--quiet"]
    yield "cp -r", ["cp", "-r", tree, to("copies"), "--format", "zarr2", "--quiet"]
    yield "cp --dry-run", ["cp", array, to("no"), "--dry-run"]
    yield "cp -r --dry-run", ["cp", "-r", tree, to("no"), "--dry-run"]
    yield "status", ["status", to("copy")]
    yield "mv", ["mv", to("made"), to("moved")]
    yield "rm", ["rm", to("moved")]
    yield "migrate", ["migrate", str(folder / "zarr2")]
    yield "consolidate", ["consolidate", tree]
    yield "zip", ["zip", tree, to("tree.zip")]
    yield "verify", ["verify", tree]
    (folder / "copy/c/0/0").write_bytes(b"x")
    yield "verify of damage", ["verify", to("copy")]
    yield "diff", ["diff", tree, to("copies")]
    chunkwise.create_array(to("other"), values + 1, attributes={"b": 2})
    yield "diff of others", ["diff", array, to("other")]
    yield "pyramid", ["pyramid", array, to("image"), "--levels", "2", "--quiet"]
    yield "image", ["image", to("image")]
    yield "stack", ["stack", to("stack.json"), array, to("other"), "--concat", "0"]
    write_nwb(folder / "nwb", "zarr3")
    yield "nwb info", ["nwb", "info", to("nwb")]
    yield "nwb validate", ["nwb", "validate", to("nwb")]
    yield "nwb convert", ["nwb", "convert", to("nwb"), to("nwb.n5"), "--quiet"]
    yield "completion", ["completion", "bash"]
    yield "help", ["help", "ls"]


def _json(folder: Path) -> Iterator[str]:
    seen = set()
    for name, words in _commands(folder):
        seen.add(words[0])
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            main([*words, "--json"])
        assert out.getvalue(), words
        for document in _documents(out.getvalue()):
            shape = [".: object"] if name == "attrs" else _shape(document)  # its members are the user's
            yield from (f"chunkwise {name} --json | {text}" for text in shape)
    missing = set(COMMANDS) - seen - set(NO_JSON)
    assert not missing, f"no line says what {missing} print"


def _documents(text: str) -> Iterator[Any]:
    while text := text.lstrip():
        document, end = json.JSONDecoder().raw_decode(text)
        yield document
        text = text[end:]


# Members that are names of nodes, attributes or packages, of which any may be there.
_ANY = {"attributes", "packages", "extras", "types", "namespaces"}
_KINDS: dict[type, str] = {
    dict: "object", list: "array", str: "text", bool: "true or false", int: "number", float: "number",
}  # fmt: skip


def _shape(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path and the JSON type of each member."""
    yield f"{path or '.'}: {_KINDS.get(type(value), 'null')}"
    if isinstance(value, dict) and path.rpartition(".")[2] not in _ANY:
        for name, member in value.items():
            yield from _shape(member, f"{path}.{name}")
    if isinstance(value, list):
        for member in value:
            yield from _shape(member, f"{path}[]")


def write() -> None:
    """Write what is public, or compare it with what is written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--compare", action="store_true")
    path, text = SURFACES / f"{__version__}.txt", "\n".join(surface()) + "\n"
    if not parser.parse_args().compare:
        path.write_text(text, encoding="utf-8")
    elif text != path.read_text(encoding="utf-8"):
        raise SystemExit(f"{path} is not what is public now: run `python -m tests.golden.public_surface`")


if __name__ == "__main__":
    write()
