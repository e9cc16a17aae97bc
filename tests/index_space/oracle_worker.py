"""Evaluates chains of expressions with TensorStore, in a process of its own: some of them abort it.

Reads lines of JSON, ``[start, step, ...]``, and answers each with a line of JSON, one text per expression.
A step is applied to the last value that was obtained.
"""

import json
import sys

import numpy as np


def evaluate(source, names):
    """Return the value, or None, and a text: the repr, or the built-in exception."""
    try:
        value = eval(source, names)
    except Exception as e:
        kinds = (IndexError, TypeError, ValueError)
        return None, "!" + next((kind.__name__ for kind in kinds if isinstance(e, kind)), type(e).__name__)
    text = repr(value)
    return value, f"{text} {value.to_json()!r}" if hasattr(value, "to_json") else text


def run_chain(chain, names):
    """Return the texts of a chain and the last value."""
    current, first = evaluate(chain[0], names)
    texts = [first]
    for step in chain[1:]:
        value, text = evaluate("current" + step, names | {"current": current})
        texts.append(text)
        if value is not None:
            current = value
    return texts, current


def names_of(module):
    """Return what expressions can use, from TensorStore or from the module under test."""
    return {
        "np": np,
        "d": module.d,
        "inf": module.inf,
        "Dim": module.Dim,
        "Domain": module.IndexDomain,
        "Map": module.OutputIndexMap,
        "Transform": module.IndexTransform,
    }


if __name__ == "__main__":
    import tensorstore

    for line in sys.stdin:
        texts, _ = run_chain(json.loads(line), names_of(tensorstore))
        print(json.dumps(texts), flush=True)
