"""The command as a process: exit status, streams, signals; a few runs, since each takes a while."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from child_process import Children
from cli_arrays import Run, make, read

from chunkwise.core.trees.node import JOURNAL

Start = Callable[..., subprocess.Popen[str]]
COMMAND = [sys.executable, "-m", "chunkwise.cli"]


@pytest.fixture
def start(children: Children) -> Start:
    """Run the command as a process that ends with the test."""

    def start(*arguments: object) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return children.start([*COMMAND, *map(str, arguments)], text=True, **pipes)

    return start


def test_streams_and_status(start: Start, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr3", np.zeros((4, 4), "u1"), (2, 2))
    process = start("info", tmp_path / "a", "--json")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "") and json.loads(out)["shape"] == [4, 4]
    process = start("info", tmp_path / "missing")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "") and err.startswith(
        "chunkwise: there is no array or group at "
    )
    process = start("frobnicate")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "") and "frobnicate" in err


def test_ctrl_c_during_a_copy(start: Start, run: Run, tmp_path: Path) -> None:
    values = np.random.default_rng(0).poisson(20, (1 << 11, 1 << 11)).astype("u2")
    make(tmp_path / "a", "zarr3", values, (1 << 9, 1 << 9))
    options = ["--format", "zarr2", "--chunk", "128,128", "--memory", "1.2MB", "--codec", "xz:9", "--no-sync"]
    process = start("cp", tmp_path / "a", tmp_path / "b", *options)
    journal = tmp_path / "b" / JOURNAL
    deadline = time.monotonic() + 30
    while len(list(tmp_path.glob("b/?.?"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    last = "chunkwise: interrupted; --resume goes on where it stopped"
    assert err.splitlines()[-1] == last and "Traceback" not in err and not out
    assert journal.exists() and not (tmp_path / "b/.zarray").exists()
    assert 0 < sum(stop - start for start, stop in json.loads(journal.read_text())["done"][-1]) < 256
    assert [p.name for p in tmp_path.glob("b/*") if p.name.endswith("lock")] == []
    fast = [option if option != "xz:9" else "none" for option in options]
    assert run("cp", tmp_path / "a", tmp_path / "b", *fast, "--resume").status == 1
    assert run("cp", tmp_path / "a", tmp_path / "b", *fast, "--overwrite").status == 0
    assert np.array_equal(read(tmp_path / "b"), values)


def test_a_reader_that_goes_away_is_no_failure_of_ours(start: Start, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr3", np.arange(100_000), (100_000,))
    process = start("slice", tmp_path / "a", "--json")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 1 and err == ""


UNPRIVILEGED = """
import os, sys
from chunkwise.cli.main import main
root = sys.argv[1]
def run(where):
    return [main(a.split()) for a in (
        f"create {root}/{where}/x.zarr --shape 3 --dtype uint8",
        f"cp {root}/{where}/a.zarr {root}/{where}/y.zarr --quiet",
        f"attrs {root}/{where}/a.zarr set k 1",
        f"slice {root}/{where}/a.zarr --npy {root}/{where}/z.npy",
    )]
assert run("open") == [0, 0, 0, 0]  # and everything is imported
if os.getuid() == 0:
    os.seteuid(65534)
print(run("closed"))
"""


def test_a_directory_that_cannot_be_written() -> None:
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        for name in ("open", "closed"):
            make(Path(root, name, "a.zarr"), "zarr3", np.zeros((4, 4), "u1"), (2, 2))
        for directory in (Path(root, "closed", "a.zarr"), Path(root, "closed")):
            directory.chmod(0o555)
        process = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED, root],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        Path(root, "closed").chmod(0o755)
        Path(root, "closed", "a.zarr").chmod(0o755)
        assert process.stdout.splitlines()[-1] == "[1, 1, 1, 1]"
        lines = [line for line in process.stderr.splitlines() if "closed" in line]
        assert len(lines) == 4 and all("ermission" in line for line in lines), process.stderr
        assert [p.name for p in Path(root, "closed").iterdir()] == ["a.zarr"]


def test_a_killed_driver(start: Start, run: Run, tmp_path: Path) -> None:
    """What is left by a driver that was killed, with its workers or without, is finished by others."""
    values = np.random.default_rng(0).poisson(20, (1 << 10, 1 << 10)).astype("u2")
    make(tmp_path / "a", "zarr3", values, (1 << 3, 1 << 10))
    options = ["--chunk", "1024,8", "--memory", "200kB", "--codec", "xz:9", "--no-sync", "--quiet"]
    assert "pass 2 of 2" in run("cp", tmp_path / "a", tmp_path / "b", *options, "--dry-run").out
    assert not (tmp_path / "b").exists()
    resume: list[str] = []
    for workers in ("threads:1", "processes:1"):
        process = start("cp", tmp_path / "a", tmp_path / "b", *options, *resume, "--on", workers)
        deadline = time.monotonic() + 60
        before = len(list(tmp_path.glob("b/**/*")))
        while len(list(tmp_path.glob("b/**/*"))) < before + 8 and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.01)
        process.kill()
        process.wait()
        status = run("status", tmp_path / "b")
        assert status.status == 1 and "pass 1 of 2" in status.out and "has ended" in status.err
        resume = ["--resume"]
    again = run("cp", tmp_path / "a", tmp_path / "b", *options, "--resume", "--verify", "--on", "threads:2")
    assert again.status == 0, again.err
    assert np.array_equal(read(tmp_path / "b"), values)
    assert run("status", tmp_path / "b").status == 0
