"""The tables of JSON members, made from the code that parses them."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from chunkwise.core.base import catalogue
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.specs.driver_spec import SpecMembers

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

_CALLED = {
    "": "object",
    "ContextSpec": "object",
    "Schema": "object",
    "age": 'seconds, or text such as `"1h"`',
    "array data type": "data type",
    "as directory": "kvstore",
    "axes": "array of strings",
    "azure container": "string",
    "base": "spec of an array",
    "base url": "string",
    "bit": "integer",
    "block size": "array of integers",
    "chain": "array of codecs",
    "check method": "string",
    "check transformers": "array, empty",
    "cname": "string",
    "compression": "codec",
    "compressor": "codec",
    "config": "object",
    "constraints": "object",
    "data type": "data type",
    "dict": "object",
    "dtype": "data type",
    "elements": "array",
    "encoding": "string",
    "filters": "array of codecs",
    "float": "number",
    "float or None": "number",
    "gcs bucket": "string",
    "grid": "object",
    "grid shape": "array of integers",
    "indent": "integer",
    "inner": "array of codecs",
    "int": "integer",
    "int or None": "integer",
    "keys": "object",
    "kvstore": "kvstore",
    "kvstore spec": "kvstore",
    "multiscale": "object",
    "no coordinator": "refused",
    "offset": "array of integers",
    "order": "array of integers",
    "parse": "object",
    "partial": "string",
    "pointer": "string",
    "preset": "integer",
    "ranked": "array",
    "recheck": 'boolean, `"open"` or seconds since the epoch',
    "resolution": "array of numbers",
    "scalar": "number",
    "scale": "object",
    "separators": "array of strings",
    "set dtype": "data type",
    "shape": "array of integers",
    "shuffle": "integer or string",
    "store": "an open store, in Python only",
    "str": "string",
    "str or None": "string",
    "take factors": "array of integers",
    "take rank": "integer",
    "take layers": "array of specs",
    "tuple": "array",
    "uint64": "integer",
    "unsigned": "integer",
    "version": "integer or string",
    "xyz": "array of integers",
}
"""The word for the values that each check or Python type accepts; others have none."""


def page() -> str:
    """Return the page of the members of codecs, stores, drivers and context resources."""
    lines = [
        "# Members of JSON specs",
        "",
        "These tables are made from the code that reads the members. A member that is left out, and has no "
        "value in the last column, follows from others, or from what is stored.",
        "",
    ]
    for title, parser in (("All arrays", SpecMembers), ("Chunked arrays", ChunkedSpec)):
        lines += [f"## {title}", "", "| member | value | if left out |", "|---|---|---|"]
        rows = _taken(ast.parse(textwrap.dedent(inspect.getsource(parser))))
        lines += [f"| `{member}` | {kind} | {default} |" for member, kind, default in rows]
        lines.append("")
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
                yield field.name, _typed(str(field.type)), _json(field.default)
        return
    names = [getattr(value, names, ()) for names in ("required", "optional", "members")]  # of NumCodecs
    for member in chain(*(found for found in names if isinstance(found, tuple))):
        yield member, "", "required" if member in getattr(value, "required", ()) else ""
    if isinstance(getattr(value, "options_of", None), Mapping):
        yield from ((member, "string", "") for member in dict.fromkeys(chain(*value.options_of.values())))
    if isinstance(value, type):
        sources = [base for base in value.__mro__ if base.__module__.startswith("chunkwise.")]
        texts = [textwrap.dedent(inspect.getsource(base)) for base in reversed(sources)]
    elif isinstance(value, partial):  # several drivers have one module
        texts = [inspect.getsource(value.func)]
    elif module.endswith(".format"):
        folder = Path(inspect.getfile(value)).parent
        texts = [path.read_text() for path in sorted(folder.glob("*.py")) if path.stem in _PARSERS]
    else:  # with the functions and classes of the module that it calls
        named = [vars(inspect.getmodule(value)).get(name) for name in value.__code__.co_names]
        own = [one for one in named if getattr(one, "__module__", "") == module]
        called = [one for one in own if inspect.isroutine(one) or inspect.isclass(one)]
        texts = [textwrap.dedent(inspect.getsource(function)) for function in (value, *called)]
    seen: dict[str, tuple[str, str]] = {}
    for text in texts:
        for member, kind, default in _taken(ast.parse(text)):
            seen.setdefault(member, (kind, default))
    for member, (kind, default) in seen.items():
        yield member, kind, default


_PARSERS = {"spec", "format", "constraints"}


def _taken(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    for call in ast.walk(tree):
        if not (
            isinstance(call, ast.Call) and len(call.args) >= 2 and isinstance(call.args[0], ast.Constant)
        ):
            continue
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if called not in ("take", "ranked", "member") or not isinstance(call.args[0].value, str):
            continue
        default = _default(call.args[2]) if len(call.args) > 2 else "" if called == "ranked" else "required"
        yield call.args[0].value, _kind(call.args[1]), default


def _kind(check: ast.expr) -> str:
    """Return the type that a check expects, with its bounds or choices."""
    while isinstance(check, ast.Lambda | ast.IfExp):
        check = check.orelse if isinstance(check, ast.IfExp) else check.body
    arguments: list[ast.expr] = []
    if isinstance(check, ast.Call):
        arguments, check = check.args[1:], check.func
    name = check.attr if isinstance(check, ast.Attribute) else getattr(check, "id", "")
    kind = _TYPES.get(name)
    if kind is None:
        return _called(name.replace("parse_", "").replace("expect_", "").replace("_", " ").strip())
    if kind == "integer" and len(arguments) == 2:
        least, most = (ast.unparse(bound) for bound in arguments)
        return f"`{least}`" if least == most else f"integer, {least} to {most}" if "_" not in most else kind
    if kind == "one of" and arguments:
        return _one_of(arguments[0])
    return kind


def _typed(annotation: str) -> str:
    """Return the word for a type of Python."""
    if annotation.startswith("Literal"):
        return _one_of(ast.parse(annotation.removeprefix("Literal")).body[0].value)
    return _called(annotation.replace("|", "or"))


def _called(check: str) -> str:
    return _CALLED.get(check, "")


def _one_of(choices: ast.expr) -> str:
    try:
        values = ast.literal_eval(choices)
    except ValueError:  # they have a name in the module
        return "string"
    return "one of " * (len(values) > 1) + ", ".join(_json(value) for value in values)


def _default(value: ast.expr) -> str:
    """Return a default in JSON; nothing if it depends on other members."""
    try:
        return _json(ast.literal_eval(value))
    except ValueError:
        return ""


def _json(value: object) -> str:
    if value is None or value == (None, None):
        return ""
    return f"`{json.dumps(value, default=str)}`"
