"""The public names are a promise: what appears or goes shows in ``public_names.txt``.

python tests/api/test_public_names.py    writes the file anew; read the difference before it is committed
"""

import inspect
from pathlib import Path

import chunkwise

SNAPSHOT = Path(__file__).with_name("public_names.txt")


def public_names():
    """Return each public name, and those of its classes' members, sorted."""
    names = []
    for name in dir(chunkwise):
        value = getattr(chunkwise, name)
        if name.startswith("_") or (inspect.ismodule(value) and name not in ("ocdbt", "xarray")):
            continue
        names.append(name)
        if inspect.isclass(value) and value.__module__.startswith("chunkwise"):
            # Names of other libraries, whose errors say what to write instead, are not had.
            members = [m for m in dir(value) if not m.startswith("_") and hasattr(value, m)]
            names += [f"{name}.{member}" for member in members]
        if inspect.ismodule(value):
            names += [f"{name}.{member}" for member in value.__all__]
    return sorted(names)


def test_public_names():
    """No public name has come or gone without its line in the snapshot."""
    assert public_names() == SNAPSHOT.read_text().splitlines()


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(public_names()) + "\n")
