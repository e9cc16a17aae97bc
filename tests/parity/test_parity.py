"""Snippets that are run with TensorStore and with chunkwise, and must print the same.

The text files hold them, with ``---`` between; the last expression of each is what is compared, or the
built-in type and the text of what it raises.  Under ``# another text`` the type alone is compared: there
chunkwise says more, or TensorStore prints the signature of a C++ function.
"""

from __future__ import annotations

import ast
import copy
import pickle
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise

PAYLOAD = re.compile(r" \[(?:source|tensorstore_spec|transform|domain|os_error)[^\n]*", re.DOTALL)
MARK = "# another text\n"


def snippets() -> list[Any]:
    out = []
    for path in sorted(Path(__file__).parent.glob("*.txt")):
        for number, text in enumerate(path.read_text().split("\n---\n")):
            out.append(pytest.param(text, id=f"{path.stem}-{number}"))
    return out


def outcome(text: str, ts: ModuleType) -> tuple[str, str]:
    """Return the printed value of the last expression, or the built-in exception and its text."""

    def new(dtype: str, shape: list[int], path: str, context: Any = None) -> Any:
        spec = {"driver": "n5", "kvstore": f"memory://{path}"}
        return ts.open(spec, create=True, dtype=dtype, shape=shape, context=context).result()

    def stored() -> tuple[Any, dict[str, str]]:
        context = ts.Context()
        new("uint16", [3, 4], "a", context)
        return context, {"driver": "n5", "kvstore": "memory://a"}

    names = {
        "ts": ts,
        "np": np,
        "copy": copy,
        "pickle": pickle,
        "small": lambda: new("uint16", [3, 4], "a"),
        "grid": lambda: new("uint8", [20, 30], ""),
        "stored": stored,
        "caching": lambda: ts.Context({"cache_pool": {"total_bytes_limit": 1000000}}),
    }
    *statements, last = ast.parse(text).body
    try:
        exec(compile(ast.Module(statements, []), "snippet", "exec"), names)
        if not isinstance(last, ast.Expr):
            exec(compile(ast.Module([last], []), "snippet", "exec"), names)
            return "value", "None"
        return "value", repr(eval(compile(ast.Expression(last.value), "snippet", "eval"), names))
    except Exception as e:
        return type(e).__mro__[0].__name__ if ts is tensorstore else builtins_of(e), PAYLOAD.sub("", str(e))


def builtins_of(error: Exception) -> str:
    return " ".join(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")


@pytest.mark.parametrize("text", snippets())
def test_a_snippet_does_what_it_does_in_tensorstore(text: str) -> None:
    kind, theirs = outcome(text, tensorstore)
    own_kind, own = outcome(text, chunkwise)
    assert kind != "NameError", f"the snippet itself is wrong: {theirs}"
    assert kind in own_kind.split(), own
    if not text.startswith(MARK):
        assert own == theirs
