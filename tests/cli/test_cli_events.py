"""Events of commands that take long: a JSON object a line, with --json."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.cli.command import _Events
from chunkwise.cli.main import main
from chunkwise.copying.executors import TaskCounts, threads_here
from chunkwise.copying.progress import Lines

MEMBERS = {
    "event",
    "what",
    "bytes",
    "total_bytes",
    "tasks",
    "total_tasks",
    "workers",
    "seconds",
    "bytes_per_second",
    "seconds_left",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    group = cw.create_group(tmp_path / "tree.zarr", format="zarr3")
    group.create_array("a", np.arange(3000).reshape(30, 100), chunks=(10, 10), dimension_names=["y", "x"])
    for i in range(5):
        group.create_array(f"small/a{i}", np.arange(10))
    return tmp_path / "tree.zarr"


def events(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[Any, list[dict[str, Any]]]:
    """Return what a command prints with --json, and its events."""
    status = main([*command, "--json"])
    out, err = capsys.readouterr()
    assert status in (0, 1)
    found = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert all(event.keys() == MEMBERS for event in found)
    return json.loads(out), found


@pytest.mark.parametrize("command", ["cp", "cp -r", "verify", "diff", "pyramid"])
def test_what_they_say(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    a, b = str(tree / "a"), str(tmp_path / "b.zarr")
    words, nbytes, n_tasks = {
        "cp": (["cp", a, b, "--on", "threads:2"], 24_000, 1),
        "cp -r": (["cp", "-r", str(tree), b, "--on", "threads:2"], 24_400, 6),
        "verify": (["verify", str(tree), "--on", "threads:2"], None, 6),
        "diff": (["diff", a, a, "--on", "threads:2"], None, 1),
        "pyramid": (["pyramid", a, b, "--levels", "1", "--axes", "y,x", "--on", "threads:2"], None, None),
    }[command]
    result, found = events(capsys, *words)
    assert [event["event"] for event in (found[0], found[-1])] == ["begin", "end"]
    last = found[-1]
    assert last["workers"] == 2 and last["bytes"] > 0 and last["seconds"] >= 0
    assert last["tasks"] == last["total_tasks"] >= (n_tasks or 1)
    if nbytes is not None:
        assert last["bytes"] == last["total_bytes"] == nbytes and last["seconds_left"] in (0, None)
        assert (result.get("bytes") or result["copied_bytes"]) == nbytes
        assert last["total_tasks"] == n_tasks


def test_what_was_copied_before_counts(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "b.zarr")
    seen: list[str] = []

    def stop(path: str, nbytes: int) -> None:
        seen.append(path)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cw.copy_tree(tree, target, progress=stop)
    _, found = events(capsys, "cp", "-r", str(tree), target, "--resume")
    assert 0 < found[0]["bytes"] < found[0]["total_bytes"] == found[-1]["bytes"] == 24_400
    assert found[-1]["tasks"] < 6


def test_a_failure_is_no_end(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "small/a3/c/0").write_bytes(b"bad")
    assert main(["cp", "-r", str(tree), str(tmp_path / "b.zarr"), "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and json.loads(err.splitlines()[-2])["event"] == "stop"
    assert "small/a3" in err.splitlines()[-1]


def test_quiet_commands_have_none(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert events(capsys, "cp", "-r", str(tree), str(tmp_path / "b.zarr"), "--quiet")[1] == []


def test_rate_and_time_left() -> None:
    now, stream = [0.0], io.StringIO()
    workers = threads_here(3)
    with _Events("copying", 1000, 200, stream, lambda: now[0], workers) as display:
        workers.task_counts.n_expected = 8
        for _ in range(3):
            now[0] += 6
            workers.task_counts.n_done += 2
            display.advance(100)
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["event"] for event in found] == ["begin", "progress", "end"]
    assert found[1] == {
        "event": "progress",
        "what": "copying",
        "bytes": 400,
        "total_bytes": 1000,
        "tasks": 4,
        "total_tasks": 8,
        "workers": 3,
        "seconds": 12.0,
        "bytes_per_second": 17,
        "seconds_left": 36.0,
    }


def test_lines_say_tasks_and_workers() -> None:
    now, stream = [0.0], io.StringIO()
    workers = threads_here(2)
    workers.task_counts.n_begun, workers.task_counts.n_done = 3, 1
    with Lines("copying", 100, 0, stream, lambda: now[0], workers) as display:
        now[0] = 11
        display.advance(50)
    assert re.search("left  1 of 3 tasks, 2 workers", stream.getvalue().splitlines()[0])
    assert TaskCounts(2, 3, 7).n_tasks == 7 and TaskCounts(2, 9, 7).n_tasks == 9
