"""Steps of a program that runs with one library: each is ok, wrong, or raises."""

import json
import os
from pathlib import Path


def _outcome(step):
    try:
        return "ok" if step() else "wrong values"
    except Exception as e:
        return f"{type(e).__name__}: {e}"[:500]


def report(library, steps):
    """Print what each step gives, and end the process."""
    where = Path(library.__file__).parent.name
    found = {name: _outcome(step) for name, step in steps.items()}
    print(json.dumps({"library": where, **found}), flush=True)
    os._exit(0)  # threads of TensorStore may outlive what they use
