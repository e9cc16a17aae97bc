"""Trees copied in parts by processes that know of each other only by what lies in the destination."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError

N_SMALL = 30
PLANES = np.random.default_rng(5).integers(0, 1 << 16, (32, 40, 36), "u2")
CHILD = """
import os, signal, sys
import chunkwise

source, target, format, part, dies_after = sys.argv[1:]
left = int(dies_after)

def progress(path, nbytes):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

report = chunkwise.copy_tree(
    source, target, format=format, part=part, memory=60_000, verify=True, keep_fingerprint=True, sync=False,
    progress=progress,
)
print(report.n_left)
"""


def make(path: Path) -> Path:
    tree = cw.create_group(path, format="zarr3", attributes={"title": "x"})
    tree.create_array("planes", PLANES, chunks=(1, 40, 36), codec="zstd:1")
    tree.create_array("g/blocks", PLANES[::-1], chunks=(8, 8, 8), shards=(16, 16, 16))
    for i in range(N_SMALL):
        tree.create_array(f"g/h{i % 4}/a{i}", np.arange(100) * i, attributes={"i": i}, chunks=(30,))
    tree.create_link("g/link", "/planes")
    return path


def start(*arguments: object, dies_after: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, *map(str, arguments), str(dies_after)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.strip()


def check(target: Path) -> None:
    """Compare with what was made, as zarr-python reads it."""
    tree: Any = zarr.open_group(target, mode="r")
    assert dict(tree.attrs) == {"title": "x"}
    assert np.array_equal(tree["planes"][:], PLANES)
    assert np.array_equal(tree["g/blocks"][:], PLANES[::-1])
    for i in range(N_SMALL):
        array = tree[f"g/h{i % 4}/a{i}"]
        assert np.array_equal(array[:], np.arange(100) * i) and array.attrs["i"] == i
    assert not list(target.rglob(".chunkwise*"))
    assert all(found.fingerprint for found in cw.verify(target) if found.kind == "array")


def test_three_processes_of_which_one_is_killed(tmp_path: Path) -> None:
    source, target, format = make(tmp_path / "a"), tmp_path / "b", "zarr2"
    running = [start(source, target, format, f"{n}/3", dies_after=9 * (n == 2)) for n in (1, 2, 3)]
    for process in (running[0], running[2]):
        assert int(end(process)) > 0
    running[1].communicate(timeout=120)
    assert running[1].returncode == -9
    with pytest.raises(ValueError, match="unfinished copy"):
        cw.open_group(target)
    state = json.loads((target / JOURNAL).read_text())
    assert state["owner"] is None
    assert end(start(source, target, format, "2/3")) == "None"
    check(target)
    assert end(start(source, target, format, "3/3")) == "None"  # there is nothing to do
    check(target)


def test_two_passes(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "columns"
    tree = cw.create_group(source)
    tree.create_array("planes", PLANES, chunks=(1, 40, 36))
    tree.create_array("g/again", PLANES + 1, chunks=(1, 40, 36))
    found = []
    for n in (2, 1, 3, 1, 2):
        report = cw.copy_tree(source, target, chunks=(32, 4, 4), memory=60_000, part=f"{n}/3", sync=False)
        found.append(report.n_left)
    # Who comes last begins the second pass at once.
    assert found[-1] is None and all(found[:-1]) and found == [*sorted(found[:-1], reverse=True), None]
    columns: Any = zarr.open_group(target, mode="r")
    assert columns["planes"].chunks == (32, 4, 4)
    assert np.array_equal(columns["planes"][:], PLANES) and np.array_equal(columns["g/again"][:], PLANES + 1)
    assert not list(target.rglob(".chunkwise*"))


def test_who_puts_parts_together_may_end_and_resume_does_what_they_have_left(tmp_path: Path) -> None:
    source, target = make(tmp_path / "a"), tmp_path / "b"
    options: dict[str, Any] = {"memory": 60_000, "sync": False, "keep_fingerprint": True}
    assert cw.copy_tree(source, target, part="2/2", **options).n_left

    def stop(path: str, nbytes: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # it has joined the part that there is, and done a task
        cw.copy_tree(source, target, resume=True, progress=stop, **options)
    assert not list(target.glob(".chunkwise-copy.*-of-*"))
    left = cw.copy_tree(source, target, part="2/2", **options).n_left
    assert left and cw.copy_tree(source, target, part="1/2", **options).n_left is None
    check(target)


def test_two_parts_at_once_and_other_options_are_refused(tmp_path: Path) -> None:
    source, target = make(tmp_path / "a"), tmp_path / "b"
    assert cw.copy_tree(source, target, part="2/2", sync=False).n_left
    for change in (
        {"part": "1/3"},
        {"part": "1/2", "format": "n5"},
        {"part": "1/2", "keep_fingerprint": True},
    ):
        with pytest.raises(FailedPreconditionError, match=r"can't be resumed: its .* is another one"):
            cw.copy_tree(source, target, sync=False, **change)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="overwrite would delete"):
        cw.copy_tree(source, target, part="1/2", overwrite=True)
    with pytest.raises(AlreadyExistsError, match="array or group at"):
        cw.copy_tree(source, make(tmp_path / "c"), format="zarr2", part="1/2")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = make(tmp_path / "a"), tmp_path / "b.n5"

    def run(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        text = capsys.readouterr()
        return status, text.out, text.err

    copy = ("cp", "-r", source, target, "--memory", "60000", "--no-sync", "--quiet")
    status, _, err = run(*copy, "--part", "1/2")
    assert status == 0 and "of all parts are left" in err
    status, out, _ = run("status", target)
    assert status == 1 and "part 1 of 2: " in out
    status, out, err = run(*copy, "--part", "2/2", "--verify")
    assert status == 0 and "32 arrays" in out, err
    assert "nothing to do" in run(*copy, "--part", "1/2")[2]
    assert run("diff", source, target, "--no-attributes")[0] == 0
