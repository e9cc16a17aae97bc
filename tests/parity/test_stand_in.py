"""``install_as_tensorstore``, ``install_as_z5py``: programs that import them get chunkwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_tensorstore_is_chunkwise() -> None:
    """Modules and names are those of chunkwise, also if installed twice, and there is no other module."""
    found = run(
        "import chunkwise; chunkwise.install_as_tensorstore(); chunkwise.install_as_tensorstore()\n"
        "import tensorstore as ts, importlib.util\n"
        "from tensorstore import Spec, TensorStore\n"
        "from tensorstore import *\n"
        "assert ts.open is chunkwise.open and Spec is chunkwise.Spec and ts.virtual_chunked and ts.d\n"
        "assert 'open' in dir(ts) and importlib.util.find_spec('tensorstore')\n"
        "a = ts.open({'driver': 'zarr3', 'kvstore': 'memory://'}, create=True, dtype=ts.uint8, shape=[4])\n"
        "a.result()[1:3] = 7; print(a.result().read().result().tolist())\n"
        "try:\n    import tensorstore.no_such_module\nexcept ModuleNotFoundError as e:\n    print(e)\n"
        "try:\n    ts.no_such_name\nexcept AttributeError as e:\n    print(e)\n"
    )
    assert found.stdout.splitlines() == [
        "[0, 7, 7, 0]",
        "No module named 'tensorstore.no_such_module'",
        "module 'chunkwise' has no attribute 'no_such_name'",
    ], found.stderr


def test_a_tensorstore_that_is_imported_already_is_told() -> None:
    found = run("import tensorstore, chunkwise; chunkwise.install_as_tensorstore()")
    assert "tensorstore is imported already; install_as_tensorstore() has to be called" in found.stderr


def test_z5py_is_chunkwise(tmp_path: Path) -> None:
    found = run(
        "import chunkwise; chunkwise.install_as_z5py(); chunkwise.install_as_z5py()\n"
        "import z5py, chunkwise.z5py as ours\n"
        "from z5py import *\n"
        "from z5py.dataset import Dataset; from z5py.group import Group\n"
        "from z5py.attribute_manager import AttributeManager\n"
        "assert z5py.File is ours.File is File and z5py.dataset.Dataset is ours.Dataset is Dataset\n"
        f"f = z5py.N5File({str(tmp_path / 'a.n5')!r}, 'a')\n"
        "assert isinstance(f, Group) and isinstance(f.attrs, AttributeManager)\n"
        "d = f.create_dataset('d', shape=(4,), dtype='u1'); d[1:3] = 7\n"
        "print(d[:].tolist(), type(d) is Dataset)\n"
        "try:\n    import z5py.util\nexcept ModuleNotFoundError as e:\n    print(e)\n"
    )
    assert found.stdout.splitlines() == ["[0, 7, 7, 0] True", "No module named 'z5py.util'"], found.stderr


def test_a_z5py_that_is_imported_already_is_told() -> None:
    found = run("import z5py, chunkwise; chunkwise.install_as_z5py()")
    assert "z5py is imported already; install_as_z5py() has to be called" in found.stderr
