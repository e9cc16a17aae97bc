"""Calls of everything public, one a line, that do in chunkwise what they do in TensorStore.

Values are compared by their text; of what is raised the built-in type is, for TensorStore's text often is
the signature of a C++ function.
"""

from __future__ import annotations

import ast
import asyncio
import copy
import gc
import pickle
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorstore

import chunkwise

FILES = sorted((Path(__file__).parent / "calls").glob("*.txt"))

# What is different on purpose: the call, and why.
DIFFERENT = {
    "ts.dtype('S5')": "NumPy's types of a fixed size are data types here",
    "ts.dtype(np.dtype('S5'))": "TensorStore forgets the size",
    "ts.dtype('uint4')": "an extension",
    "ts.dtype('<u2')": "NumPy's short names are names here",
    "ts.dtype('u2')": "NumPy's short names are names here",
    "a=np.arange(3,dtype='i4'); ts.array(a,dtype='i8')": "NumPy's short names are names here",
    "np.dtype(ts.int32)": "NumPy takes data types, by their `dtype`",
    "np.zeros(3, dtype=ts.int32)": "NumPy takes data types, by their `dtype`",
    "ts.int32 == None": "None is unequal, as it is to all objects of Python",
    "ts.OutputIndexMap([1.5])": "TensorStore cuts the fraction off",
    "ts.OutputIndexMethod(3)": "there is no such method",
    "ts.d[::0]": "a TypeError; TensorStore can't raise its own",
    "ts.ChunkLayout(codec_chunk_shape=[2])": "TensorStore sets the read chunk",
    "ts.Context()['ocdbt_coordinator'].to_json(include_defaults=True)": "there is no coordinator here",
    "ts.d['x':'y']": "a TypeError; TensorStore can't raise its own",
    "iter(ts.Schema(rank=2)) is None": "neither can be iterated over; TensorStore says so later",
    "ts.downsample(ts.Spec('memory://a/|n5'), [0, 3], 'mean')": "invalid factors are found at once",
    "ts.KvStore.TimestampedStorageGeneration(b'a', float('nan'))": "not a number is kept",
    "p, f = ts.Promise.new(); p.set_exception('a'); f.exception()": "what is set must be an exception",
    "p, f = ts.Promise.new(); x = []; f.add_done_callback(x.append); f.remove_done_callback(x.append)": (
        "methods are compared by equality, not identity"
    ),
    "t = ts.Transaction(); t.abort(); t.future.exception()": "errors have a class of their own",
    "s = new(); np.asarray(s.__array__(np.dtype('f4'))).dtype": "the type asked for is the one returned",
    "ts.array('abc').dtype": "text of a fixed size is a data type here",
    "ts.array([1, 2, 3]).with_transaction(ts.Transaction()).rank": "it fails at once, not when it is read",
    "ts.virtual_chunked(5, dtype='uint8', shape=[2, 3]).rank": "what can't be called is found at once",
    "s=new(); int(s[0,0])": "NumPy's meaning, where TensorStore has none",
    "s=new(); len(s)": "NumPy's meaning, where TensorStore has none",
    "s=new(); list(s)": "NumPy's meaning, where TensorStore has none",
    "s=new(); iter(s)": "NumPy's meaning, where TensorStore has none",
    "s=new(); np.from_dlpack(s)": "NumPy's meaning, where TensorStore has none",
    "s=new(); bool(s), s==s, s!=s[...], s==5, hash(s)==hash(s), s is s[...]": "== of arrays is an error",
}


def text_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value!r} {value.dtype} {value.flags.c_contiguous}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(text_of, value))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {text_of(v)}" for k, v in value.items()) + "}"
    return re.sub(r"<(?:tensorstore|chunkwise)[^>]* at 0x[0-9a-f]+>", "<object>", repr(value))


def outcome(call: str, ts: ModuleType) -> tuple[str, ...]:
    """Return "value" and its text, or the names of the built-in classes of what is raised."""

    def new(
        dtype: str = "uint16",
        shape: tuple[int, ...] = (3, 4),
        path: str = "a",
        context: Any = None,
        driver: str = "n5",
        **options: Any,
    ) -> Any:
        spec = {"driver": driver, "kvstore": f"memory://{path}"}
        options |= {"dtype": dtype, "shape": list(shape), "context": context}
        return ts.open(spec, create=True, **options).result()

    names = {
        "ts": ts,
        "np": np,
        "new": new,
        "copy": copy,
        "gc": gc,
        "pickle": pickle,
        "asyncio": asyncio,
        "ml_dtypes": ml_dtypes,
    }
    *statements, last = ast.parse(call).body
    assert isinstance(last, ast.stmt)
    try:
        exec(compile(ast.Module(statements, []), "call", "exec"), names)
        if not isinstance(last, ast.Expr):
            exec(compile(ast.Module([last], []), "call", "exec"), names)
            return "value", "None"
        return "value", text_of(eval(compile(ast.Expression(last.value), "call", "eval"), names))
    except Exception as e:
        return tuple(c.__name__ for c in type(e).__mro__ if c.__module__ == "builtins")


def alike(call: str) -> bool:
    theirs, own = outcome(call, tensorstore), outcome(call, chunkwise)
    assert theirs[0] != "NameError", f"the call itself is wrong: {call}"
    return own == theirs if theirs[0] == "value" else theirs[0] in own


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_calls_do_what_they_do_in_tensorstore(path: Path) -> None:
    calls = path.read_text().splitlines()
    assert [call for call in calls if not alike(call)] == []


@pytest.mark.filterwarnings("ignore")
def test_what_is_different_is_so_on_purpose() -> None:
    assert [call for call in DIFFERENT if alike(call)] == []
