"""Files as macOS has them, simulated: names of letters and case, and waiting for the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def platform() -> str:
    return "macos"


NAMES = """
import os, sys, unicodedata
from chunkwise.errors import FailedPreconditionError
from chunkwise.core.kvstore.files.file_store import FileStore
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


def test_names(run: Any, tmp_path: Path) -> None:
    """Composed and decomposed letters are one key, listed composed; another case is an error."""
    assert run(NAMES, tmp_path) == "refused\n[]\n"


SYNC = """
import os, sys
from chunkwise.core.kvstore.files.file_store import FileStore
FileStore(sys.argv[1], sync=False).write("k", b"1")
print(os.n_full_syncs)
FileStore(sys.argv[1]).write("k", b"2")
print(os.n_full_syncs)
"""


def test_the_drive_is_waited_for(run: Any, tmp_path: Path) -> None:
    """The file and its directory, where that is asked for."""
    assert run(SYNC, tmp_path) == "0\n2\n"
