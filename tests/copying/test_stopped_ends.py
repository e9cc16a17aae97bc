"""A process that is stopped while its copy ends, for longer than others wait, and then goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.copying import journal
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.places import lease
from chunkwise.core.kvstore.places.staging import JOURNAL
from chunkwise.errors import AbortedError, ChunkwiseError, DeadlineExceededError

OLD, FIRST, SECOND = (np.full((16, 16), value, "u2") for value in (7, 1, 2))

PROGRAM = """
import json, os, signal, sys
import chunkwise as cw
from chunkwise.copying.planned_copy import PlannedCopy
from chunkwise.core.kvstore.places import lease

folder, kind, step = json.loads(sys.argv[1])
left = [-1]
publish = PlannedCopy.publish

def counted(self):
    left[0] = step
    return publish(self)

def count(event, arguments):
    if left[0] >= 0 and folder in str(arguments[:2]) and event in EVENTS:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGSTOP)

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.listdir", "os.scandir"}
PlannedCopy.publish = counted
sys.addaudithook(count)
lease._SILENCE = 1.0
cw.copy(folder + "/first.zarr", folder + "/group.zarr/a", **KINDS[kind])
"""
KINDS: dict[str, dict[str, Any]] = {
    "over": {"overwrite": True, "chunks": (8, 8)},
    "new": {"chunks": (8, 8)},
}
STEPS = {"over": 60, "new": 14}
CASES = [(kind, step) for kind, n in STEPS.items() for step in range(n)]


@pytest.mark.parametrize(
    ("kind", "step"),
    [case if case == ("over", 25) else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_nothing_is_written_late(
    kind: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = cw.create_group(tmp_path / "group.zarr")
    if kind == "over":
        group.create_array("a", OLD, chunks=(8, 8))
    for name, values in (("first", FIRST), ("second", SECOND)):
        cw.create_array(tmp_path / f"{name}.zarr", values, chunks=(8, 8))
    program = PROGRAM.replace("KINDS", repr(KINDS))
    child = subprocess.Popen(
        [sys.executable, "-c", program, json.dumps([str(tmp_path), kind, step])], stderr=subprocess.PIPE
    )
    while (state := _state(child.pid)) not in "TZX":
        time.sleep(0.01)
    for module in (journal, lease):
        monkeypatch.setattr(module, "_SILENCE", 1.0)
    taken_over = True
    try:
        # The time a writer waits for the lock of a key, 60 s by default.
        locking = cw.Context({"file_io_locking": {"mode": "os", "acquire_timeout": "2s"}})
        there = {"driver": "file", "path": f"{tmp_path}/group.zarr/a/"}
        spec = cw.KvStore.open(there, context=locking).result()
        cw.copy(tmp_path / "second.zarr", spec, overwrite=True, chunks=(8, 8))
    except DeadlineExceededError as e:  # the one that is stopped holds the lock of this key
        assert state == "T" and "another writer holds it" in str(e)
        taken_over = False
    finally:
        if state == "T":
            os.kill(child.pid, signal.SIGCONT)
        _, text = child.communicate(timeout=60)
    assert not child.returncode or b"chunkwise.errors." in text, text.decode()
    found = cw.read(tmp_path / "group.zarr/a")
    if child.returncode:  # it has found that another process was at work
        expected = [SECOND] if taken_over else [OLD]
    else:
        expected = [FIRST, SECOND]
    assert any(np.array_equal(found, values) for values in expected), (found, text.decode())
    assert not any(report.bad for report in cw.verify(tmp_path / "group.zarr/a"))
    try:  # nothing is in the way of the next
        cw.copy(tmp_path / "second.zarr", tmp_path / "group.zarr/a", overwrite=True, chunks=(8, 8))
    except ChunkwiseError as e:
        raise AssertionError(text.decode()) from e
    assert np.array_equal(cw.read(tmp_path / "group.zarr/a"), SECOND)


@pytest.mark.parametrize("replaces", [False, True])
def test_a_copy_that_others_began_again_is_exchanged_back(
    replaces: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process was stopped after its last look, just before the call of the system."""
    source, place = tmp_path / "first.zarr", tmp_path / "a.zarr"
    cw.create_array(source, FIRST, chunks=(8, 8))
    cw.create_array(place, OLD)
    beside, begun = tmp_path / ".a.zarr.chunkwise-new", list[bool]()
    for name in ("move_directory", "exchange_directories"):
        do = getattr(FileStore, name)

        def others_first(self: FileStore, new: str, *names: str, do: Any = do) -> Any:
            if not begun:
                begun.append(True)
                (beside / "zarr.json").unlink()
                (beside / JOURNAL).write_text("of another process")
                if not replaces:
                    shutil.rmtree(place)
            return do(self, new, *names)

        monkeypatch.setattr(FileStore, name, others_first)
    with pytest.raises(AbortedError, match="another process has begun again"):
        cw.copy(source, place, overwrite=True)
    assert (beside / JOURNAL).read_text() == "of another process"
    assert not replaces or np.array_equal(cw.read(place), OLD)
    assert replaces or not place.exists()


def _state(pid: int) -> str:
    """Return the state of a process of Linux: T if it is stopped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"
