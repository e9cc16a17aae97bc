"""Progress in a terminal: one line that is drawn over, in colours unless they are unwanted."""

import os
import pty
import re
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import numpy as np
import pytest

import chunkwise as cw

COLOUR = re.compile(rb"\x1b\[(?:3|4|9)[0-9;]*m")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("terminal") / "a.zarr"
    cw.create_array(path, np.arange(64 * 64 * 64, dtype="u2").reshape(64, 64, 64), chunks=(4, 64, 64))
    return path


def in_terminal(command: list[str], n_columns: int, **environment: str) -> bytes:
    """Return what a command writes to a terminal of so many columns."""
    terminal, end = pty.openpty()
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", 24, n_columns, 0, 0))
    known = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "chunkwise", *command],
        stdin=end,
        stdout=end,
        stderr=end,
        env={**known, **environment},
    )
    os.close(end)
    out = b""
    try:
        while data := os.read(terminal, 1 << 16):
            out += data
    except OSError:  # on Linux the end of a terminal
        pass
    os.close(terminal)
    assert process.wait(100) == 0, out
    return out


@pytest.mark.each_once
@pytest.mark.parametrize("n_columns", [40, 80])
@pytest.mark.parametrize("term", ["xterm-256color", "tmux-256color"])
def test_a_line_that_is_drawn_over(source: Path, tmp_path: Path, term: str, n_columns: int) -> None:
    out = in_terminal(["cp", str(source), str(tmp_path / "b.zarr")], n_columns, TERM=term)
    assert COLOUR.search(out)
    assert b"\x1b[1A" not in out  # the cursor never goes up
    assert out.count(b"\n") == 2, out  # after the bar, and after the result
    assert b"100%" in out


@pytest.mark.parametrize(
    "environment", [{"TERM": "dumb"}, {"TERM": "xterm-256color", "NO_COLOR": "1"}], ids=lambda e: e["TERM"]
)
def test_without_colours(source: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    out = in_terminal(["cp", str(source), str(tmp_path / "b.zarr")], 80, **environment)
    assert not COLOUR.search(out)
    assert b"100%" in out
    if environment["TERM"] == "dumb":
        assert b"\x1b" not in out and b" of 1 task, " in out
