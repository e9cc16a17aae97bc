"""chunkwise.hdmf next to hdmf-zarr: opening and writing NWB files.

    python benchmarks/nwb.py [--release 0.14|0.13] [--repeat N] [--json FILE]

Two files: 500 time series, and an electrodes table of 10,000 rows that refer to groups.  hdmf-zarr writes
them, and both open the same files, each in a process of its own; they take turns.  Opening is
`NWBZarrIO(path).read()`, for the second file with all references resolved.  `read_builder`, which is what
the backend itself does, is told as well: the rest is hdmf's making of containers.
Figures are ratios of processor time (medians), since a busy machine changes that less than the time on the
clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "hdmf"))

# Runs in either environment: reads "open PATH" and "write NAME PATH" lines, answers with seconds.
WORKER = """
import sys, time, warnings, datetime, shutil, json
warnings.simplefilter("ignore")
import numpy as np, pynwb
from pynwb import NWBFile, TimeSeries
if sys.argv[1] == "chunkwise":
    from chunkwise.hdmf import NWBZarrIO
    options = {"format": sys.argv[2]}
else:
    from hdmf_zarr import NWBZarrIO
    options = {}

def make(name):
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    nwb = NWBFile(session_description="d", identifier=name, session_start_time=start)
    if name == "objects":
        for i in range(500):
            nwb.add_acquisition(TimeSeries(name=f"ts{i:04d}", data=np.arange(100.0), unit="V", rate=1.0))
    else:
        device = nwb.create_device(name="device")
        groups = [nwb.create_electrode_group(f"g{k}", "d", "l", device) for k in range(4)]
        for i in range(10000):
            nwb.add_electrode(group=groups[i % 4], location="x")
    return nwb

now = time.process_time
pynwb.get_manager()
print("ready", flush=True)
for line in sys.stdin:
    action, name, path = line.split()
    if action == "write":
        nwb = make(name)
        shutil.rmtree(path, ignore_errors=True)
        began = now()
        with NWBZarrIO(path, mode="w", **options) as io:
            io.write(nwb)
        print(json.dumps({"write": now() - began}), flush=True)
        continue
    began = now()
    with NWBZarrIO(path, mode="r") as io:
        io.read_builder()
        backend = now() - began
        nwb = io.read()
        if name == "references":
            assert nwb.electrodes["group"][:][5].name == "g1"
        total = now() - began
    print(json.dumps({"read_builder": backend, "read": total}), flush=True)
"""


class Worker:
    """One library in a process of its own."""

    def __init__(self, python: str, library: str, format: str) -> None:
        environment = {**os.environ, "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
        if library != "chunkwise":  # its environment has packages of its own
            environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [python, "-c", WORKER, library, format],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{library} did not start")

    def ask(self, *words: str) -> dict[str, float]:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(*words, file=self.process.stdin, flush=True)
        answer: dict[str, float] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def measure(release: str, repeat: int, work: Path) -> list[dict[str, Any]]:
    from peer_environment import peer_python

    format = "zarr3" if release == "0.14" else "zarr2"
    ours = Worker(sys.executable, "chunkwise", format)
    peer = Worker(peer_python(release), "hdmf-zarr", format)
    rows = []
    try:
        for name in ("objects", "references"):
            times: dict[str, dict[str, list[float]]] = {"ours": {}, "peer": {}}
            file = str(work / f"{name}.nwb.zarr")
            for _ in range(repeat):
                for who, worker, path in (
                    ("peer", peer, file),
                    ("ours", ours, str(work / f"{name}-ours.nwb.zarr")),
                ):
                    for key, seconds in worker.ask("write", name, path).items():
                        times[who].setdefault(key, []).append(seconds)
            for _ in range(repeat):
                for who, worker in (("peer", peer), ("ours", ours)):
                    for key, seconds in worker.ask("open", name, file).items():
                        times[who].setdefault(key, []).append(seconds)
            for key in times["ours"]:
                a, b = median(times["ours"][key]), median(times["peer"][key])
                rows.append({"file": name, "what": key, "chunkwise": a, "hdmf-zarr": b, "ratio": b / a})
    finally:
        ours.close()
        peer.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--release", choices=("0.14", "0.13"), default="0.14")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        rows = measure(arguments.release, arguments.repeat, Path(work))
    print(f"processor time in seconds, median of {arguments.repeat}; hdmf-zarr {arguments.release}")
    for row in rows:
        print(
            f"{row['file']:11s} {row['what']:13s} chunkwise {row['chunkwise']:7.3f}  "
            f"hdmf-zarr {row['hdmf-zarr']:7.3f}  ratio {row['ratio']:5.2f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
