"""A program that was written for hdmf-zarr runs with the import replaced, and prints the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from peer_environment import peer_python

PROGRAM = Path(__file__).parent / "hdmf_zarr_program.py"

LOCATIONS = [f"site {i}" for i in range(5)]
EXPECTED = {
    "chunks": [25, 2],
    "codecs": ["zstd", "delta"],
    "shape": [100, 2],
    "rows": [[20, 21], [22, 23]],
    "sum": 999 * 1000 // 2,
    "region": ["site 1", "site 3"],
    "locations": LOCATIONS,
    "trials": ["stream"],
    "group": True,
    "linked": [999, 199],
    "exported": [999, LOCATIONS, ["stream"]],
    "back": [999, LOCATIONS, ["stream"]],
}


def _run(python: str, program: str, folder: Path, environment: dict[str, str]) -> Any:
    folder.mkdir()
    script = folder / "program.py"
    script.write_text(program)
    done = subprocess.run(
        [python, str(script), str(folder)], capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_it_runs_with_the_import_replaced(tmp_path: Path) -> None:
    program = PROGRAM.read_text().replace("hdmf_zarr.nwb", "chunkwise.hdmf")
    program = program.replace("from hdmf_zarr", "from chunkwise.hdmf")
    assert "hdmf_zarr import" not in program
    assert _run(sys.executable, program, tmp_path / "ours", dict(os.environ)) == EXPECTED


@pytest.mark.slow  # it makes an environment the first time
@pytest.mark.timeout(1500)
def test_it_prints_what_hdmf_zarr_prints(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    environment.pop("PYTHONPATH", None)
    found = _run(peer_python("0.13"), PROGRAM.read_text(), tmp_path / "theirs", environment)
    assert found == EXPECTED
