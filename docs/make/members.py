"""The tables of JSON members, made from the code that parses them."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

from chunkwise import catalogue

_TYPES = {
    "expect_bool": "boolean",
    "expect_int": "integer",
    "_int32": "integer",
    "expect_number": "number",
    "expect_string": "string",
    "expect_object": "object",
    "expect_array": "array",
    "parse_array": "array",
    "expect_one_of": "one of",
}


def page() -> str:
    """Return the page of the members of codecs, stores, drivers and context resources."""
    lines = ["# Members of JSON specs", "", "These tables are made from the code that reads the members.", ""]
    for title, table in (
        ("Key-value stores", catalogue.KVSTORES),
        ("Array drivers", catalogue.DRIVERS),
        ("Context resources", catalogue.CONTEXT_RESOURCES),
        ("Codecs", catalogue.CODECS),
        ("Chunk grids", catalogue.GRIDS),
        ("Chunk key encodings", catalogue.KEY_ENCODINGS),
    ):
        lines += [f"## {title}", "", "| name | member | value | if left out |", "|---|---|---|---|"]
        for name, entry in table.items():
            rows = list(_members(*entry.target.split(":")))
            lines += [f"| `{name}` | `{member}` | {kind} | {default} |" for member, kind, default in rows]
            if not rows:
                lines.append(f"| `{name}` | | | |")
        lines.append("")
    return "\n".join(lines)


def _members(module: str, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and default of each member that a class, its bases, or a folder of a driver takes."""
    value = getattr(importlib.import_module(module), name)
    if (
        isinstance(value, type)
        and is_dataclass(value)
        and isinstance(getattr(value, "members", None), Mapping)
    ):
        for field in fields(value):
            if field.name in value.members:
                yield field.name, str(field.type).replace("|", "or"), f"`{field.default}`"
        return
    if isinstance(value, type):
        sources = [base for base in value.__mro__ if base.__module__.startswith("chunkwise.")]
        texts = [textwrap.dedent(inspect.getsource(base)) for base in reversed(sources)]
    elif hasattr(importlib.import_module(module), "_parse"):  # several drivers have one module
        texts = [inspect.getsource(part) for part in (value, importlib.import_module(module)._parse)]
    elif module.startswith("chunkwise.driver."):
        folder = Path(inspect.getfile(value)).parent
        texts = [path.read_text() for path in sorted(folder.glob("*.py")) if path.stem in _PARSERS]
    else:
        texts = [textwrap.dedent(inspect.getsource(value))]
    seen: dict[str, tuple[str, str]] = {}
    for text in texts:
        for member, kind, default in _taken(ast.parse(text)):
            seen.setdefault(member, (kind, default))
    for member, (kind, default) in seen.items():
        yield member, kind, default


_PARSERS = {"spec", "format", "constraints", "spec_members"}


def _taken(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    for call in ast.walk(tree):
        if not (
            isinstance(call, ast.Call) and len(call.args) >= 2 and isinstance(call.args[0], ast.Constant)
        ):
            continue
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if called not in ("take", "ranked") or not isinstance(call.args[0].value, str):
            continue
        default = _default(call.args[2]) if len(call.args) > 2 else "required" if called == "take" else ""
        yield call.args[0].value, _kind(call.args[1]), default


def _kind(check: ast.expr) -> str:
    """Return the type that a check asks for, with its bounds or choices."""
    while isinstance(check, ast.Lambda):
        check = check.body
    arguments: list[ast.expr] = []
    if isinstance(check, ast.Call):
        arguments, check = check.args[1:], check.func
    name = check.attr if isinstance(check, ast.Attribute) else getattr(check, "id", "")
    kind = _TYPES.get(name)
    if kind is None:
        return name.replace("parse_", "").replace("expect_", "").replace("_", " ").strip()
    if kind == "integer" and len(arguments) == 2:
        return f"integer, {ast.unparse(arguments[0])} to {ast.unparse(arguments[1])}"
    if kind == "one of" and arguments:
        return f"one of `{ast.unparse(arguments[0])}`"
    return kind


def _default(value: ast.expr) -> str:
    text = ast.unparse(value)
    return "" if text in ("None", "MISSING") else f"`{text}`".replace("|", "or")
