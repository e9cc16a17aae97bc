"""Workers don't outlive the process that started them, also if that is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import chunkwise as cw

_DRIVER = """
import sys
import chunkwise as cw
from chunkwise.copying.executors import named_workers

def stop(nbytes):
    print("at work", flush=True)
    while True:
        sys.stdin.read()

if __name__ == "__main__":
    cw.copy(sys.argv[1], sys.argv[2], executor=named_workers("processes:2"), progress=stop)
"""


def test_workers_of_a_killed_driver_end(tmp_path: Path) -> None:
    values = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    cw.create_array(tmp_path / "a.zarr", values, chunks=(8, 64))
    script = tmp_path / "driver.py"
    script.write_text(_DRIVER)
    command = [sys.executable, str(script), str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr")]
    driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert driver.stdout is not None
    assert driver.stdout.readline() == b"at work\n"
    driver.kill()
    # The workers have inherited the pipe: it ends when the last of them does.
    out, _ = driver.communicate(timeout=60)
    assert out == b""
