"""Runs programs, one for each line of stdin, by one library, and prints what each of their steps gives.

    python child.py {chunkwise,tensorstore}

A line is a JSON list of steps: Python expressions, or `name = expression`.  The answer is a JSON list with an
outcome for each step up to the first that fails: a value in a plain form, or the class of the error.
"""

import importlib
import json
import math
import os
import shutil
import sys
import tempfile
import warnings

import numpy as np

ERRORS = (IndexError, KeyError, OverflowError, NotImplementedError, TypeError, ValueError, AttributeError)


def plain(value, folder):
    """Return a value as JSON that is the same for equal values of both libraries."""
    if isinstance(value, bool | str | type(None)):
        return value.replace(folder, "D") if isinstance(value, str) else value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return ["bytes", value.decode("latin-1").replace(folder, "D")]
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        wide = (
            array.astype("complex128" if array.dtype.kind == "c" else "float64")
            if _is_inexact(array)
            else array
        )
        return ["array", array.dtype.name, list(array.shape), _numbers(wide.tolist(), folder)]
    if isinstance(value, dict):
        # Each database has a name of its own.
        return {str(key): "" if key == "uuid" else plain(item, folder) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, folder) for item in value]
    if type(value).__name__ == "TensorStore":
        return ["TensorStore", str(value.domain), value.dtype.name]
    name = type(value).__name__
    if name in ("Batch", "Context", "Future", "KvStore", "Transaction"):
        return [name]
    if name in ("dtype", "DataType"):
        return ["dtype", value.name]
    if name == "OpenMode":
        return [name, str(value)]
    if hasattr(value, "to_json"):
        return ["CodecSpec" if name.endswith("CodecSpec") else name, plain(value.to_json(), folder)]
    return [name, str(value).replace(folder, "D")]


def _is_inexact(array):
    return array.dtype.kind in "fc" or (
        array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize <= 2
    )


def _numbers(value, folder):
    if isinstance(value, list):
        return [_numbers(item, folder) for item in value]
    if isinstance(value, complex):
        return [_numbers(value.real, folder), _numbers(value.imag, folder)]
    return plain(value, folder)


def run(steps, ts, folder):
    """Return the outcome of each step up to the first that fails."""
    scope = {"ts": ts, "np": np, "json": json, "D": folder}
    out = []
    for step in steps:
        name, equals, expression = step.partition(" = ")
        if not (equals and name.isidentifier()):
            name, expression = "_", step
        try:
            scope[name] = eval(expression, scope)
            out.append(plain(scope[name], folder))
        except Exception as e:
            found = next((kind.__name__ for kind in ERRORS if isinstance(e, kind)), type(e).__name__)
            return [*out, {"error": found, "text": str(e).replace(folder, "D")[:200]}]
    return out


def main():
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    ts = importlib.import_module(sys.argv[1])
    print(json.dumps(ts.__name__), flush=True)
    for line in sys.stdin:
        folder = tempfile.mkdtemp()
        try:
            print(json.dumps(run(json.loads(line), ts, folder)), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    os._exit(0)  # TensorStore's threads may outlive what they use


if __name__ == "__main__":
    main()
