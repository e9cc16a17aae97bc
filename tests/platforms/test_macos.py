"""Files as macOS has them, simulated: the contracts, names of letters and case, and waiting for the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chunkwise

HERE = Path(__file__).parent
SOURCE = str(Path(chunkwise.__file__).parents[1])
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join((str(HERE / "macos"), SOURCE))}


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param(["platforms/contract_of_files.py"], id="kvstores"),
        pytest.param(["drivers/test_driver_contract.py", "-k", "Sharded or Cropped"], id="drivers"),
        pytest.param(["docs/test_readme.py"], id="README"),
    ],
)
def test_suites_pass(children: Any, tmp_path: Path, tests: list[str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    process = children.start(
        [*command, "--basetemp", str(tmp_path / "t"), str(HERE.parent / tests[0]), *tests[1:]],
        env=ENVIRONMENT,
        cwd=HERE.parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    out, _ = process.communicate(timeout=280)
    assert process.returncode == 0, out.decode()[-4000:]


NAMES = """
import os, sys, unicodedata
from chunkwise.errors import FailedPreconditionError
from chunkwise.kvstore.file import FileStore
store = FileStore(sys.argv[1], sync=False)
composed, decomposed = "\\xe9/zarr.json", "e\\u0301/zarr.json"
assert unicodedata.normalize("NFD", composed) == decomposed != composed
store.write(composed, b"1")
assert os.listdir(sys.argv[1]) == ["e\\u0301"]
assert list(store.list()) == [composed] and store.list_children("").prefixes == ["\\xe9"]
assert store.read(decomposed).value == b"1"
store.write(decomposed, b"2")
assert store.read(composed).value == b"2" and list(store.list()) == [composed]
other = "\\xc9/zarr.json"
assert store.read(other).value is None and store.open_reader()(other) is None
assert store.read_ranges(other, [0], [1]) is None
into = store.open_into_reader()
assert into is None or into(other, memoryview(bytearray(1))) is None
try:
    store.write("\\xc9/zarr.json", b"3")
except FailedPreconditionError as e:
    print("refused")
assert store.read(composed).value == b"2"
store.delete_range()
print(os.listdir(sys.argv[1]))
"""


def _run(children: Any, code: str, *arguments: object) -> str:
    process = children.python(code, *arguments, env=ENVIRONMENT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()
    return str(out.decode())


def test_names(children: Any, tmp_path: Path) -> None:
    """Composed and decomposed letters are one key, listed composed; another case is an error."""
    assert _run(children, NAMES, tmp_path) == "refused\n[]\n"


SYNC = """
import os, sys
from chunkwise.kvstore.file import FileStore
FileStore(sys.argv[1], sync=False).write("k", b"1")
print(os.n_full_syncs)
FileStore(sys.argv[1]).write("k", b"2")
print(os.n_full_syncs)
"""


def test_the_drive_is_waited_for(children: Any, tmp_path: Path) -> None:
    """The file and its directory, where that is asked for."""
    assert _run(children, SYNC, tmp_path) == "0\n2\n"
