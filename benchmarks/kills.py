"""Kills of workers and drivers of copies at random times: ``kills.py [--endpoint URL]``.

Each copy is resumed on another executor, and compared as TensorStore reads it.  Runs on Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import chunkwise as cw

_DRIVER = """
import json, sys
import chunkwise as cw
from chunkwise.copying.executors import named_workers

if __name__ == "__main__":
    source, target, on = map(json.loads, sys.argv[1:])
    cw.copy(source, target, chunks=(64, 8, 8), memory=300_000, executor=named_workers(on), resume=True)
"""
_RESUMED_ON = ("threads:2", "processes:2")
_KILLS_A_ROUND = 5


def kills(folder: Path, n_rounds: int, endpoint: str | None) -> dict[str, Any]:
    """Kill workers and then the driver of copies at random times; resume on another executor, and compare."""
    import tensorstore

    r = random.Random(0)
    shape = (64, 256, 256)
    values = np.random.default_rng(0).integers(0, 4096, shape, "u2")

    def place(name: str) -> dict[str, Any]:
        if endpoint is None:
            return {"driver": "file", "path": f"{folder}/{name}/"}
        s3 = {"driver": "s3", "bucket": "kills", "endpoint": endpoint, "aws_region": "us-east-1"}
        return {**s3, "path": f"{name}/"}

    cw.create_array(place("planes"), values, chunks=(1, 256, 256), codec="zstd:1")
    script = folder / "driver.py"
    script.write_text(_DRIVER)
    found = {"workers killed": 0, "drivers killed": 0, "copies": 0, "resumed": 0, "elements that differ": 0}

    def start(target: dict[str, Any], on: str) -> subprocess.Popen[bytes]:
        arguments = [json.dumps(each) for each in (place("planes"), target, on)]
        return subprocess.Popen([sys.executable, str(script), *arguments], stderr=subprocess.PIPE)

    while found["drivers killed"] < n_rounds or found["workers killed"] < n_rounds * _KILLS_A_ROUND:
        target = place(f"copy-{found['copies']}")
        found["copies"] += 1
        driver = start(target, "processes:2")
        n_killed = 0
        while driver.poll() is None:
            time.sleep(r.uniform(0.0, 0.5))
            workers = _workers_of(driver.pid)
            if n_killed == _KILLS_A_ROUND:
                time.sleep(r.uniform(0.0, 2.0))
                if driver.poll() is None:
                    driver.kill()
                    found["drivers killed"] += 1
                break
            if workers:
                os.kill(r.choice(workers), signal.SIGKILL)
                n_killed += 1
        found["workers killed"] += n_killed
        assert driver.stderr is not None
        driver.stderr.close()
        if driver.wait():
            again = start(target, _RESUMED_ON[found["resumed"] % 2])
            _, text = again.communicate()
            assert again.returncode == 0, text.decode()
            found["resumed"] += 1
        spec = {"driver": "zarr3", "kvstore": target}
        copied = tensorstore.open(spec).result().read().result()
        found["elements that differ"] += int(np.count_nonzero(copied != values))
        cw.KvStore.open(target).result().delete_range(cw.KvStore.KeyRange()).result()
        print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def _workers_of(pid: int) -> list[int]:
    """Return the worker processes of a driver."""
    found = []
    for name in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, Path(name).read_text().split()):
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(child)
    return found


def main() -> None:
    """Print what was killed and what differs as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--number",
        type=int,
        default=20,
        help="number of drivers to kill; five times as many workers are killed",
    )
    parser.add_argument("--endpoint", help='URL of an S3 server with a bucket "kills"; by default files')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chunkwise-") as name:
        print(json.dumps(kills(Path(name), arguments.number, arguments.endpoint), indent=1))


if __name__ == "__main__":
    main()
