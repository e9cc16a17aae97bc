"""chunkwise.hdmf compared with hdmf-zarr and HDF5: opening and writing NWB files.

    python benchmarks/nwb.py [--release 0.14|0.13] [--repeat N] [--only NAME] [--json FILE]

========== ==========================================================================================
objects    500 time series
electrodes 10,000 rows that refer to groups
trials     5,000 rows that refer to time series
series     one of 200 MB, noise of 12 bits
text       a table of 200,000 rows with two columns of text
========== ==========================================================================================

hdmf-zarr and HDF5 write the files that they open; chunkwise opens hdmf-zarr's.  Each library runs in a
process of its own, and they take turns.  Opening is `NWBZarrIO(path).read()`, with all references resolved.
`read_builder` is the work of the backend itself; the rest is hdmf's making of containers.  Figures are
medians of processor time and of wall time; other load changes the former less.

Last comes the number of requests for opening a session in a bucket, on a server of the tests (`--only s3`).
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
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("hdmf", "remote", "")]

NAMES = ("objects", "electrodes", "trials", "series", "text")

# Runs in each environment: reads "open NAME PATH" and "write NAME PATH" lines, answers with seconds.
WORKER = """
import sys, time, warnings, datetime, shutil, json, os
warnings.simplefilter("ignore")
import numpy as np, pynwb
from hdmf.common import DynamicTable, VectorData
from pynwb import NWBFile, TimeSeries
options = {}
if sys.argv[1] == "chunkwise":
    from chunkwise.hdmf import NWBZarrIO as IO
    options = {"format": sys.argv[2]}
elif sys.argv[1] == "HDF5":
    from pynwb import NWBHDF5IO as IO
else:
    from hdmf_zarr import NWBZarrIO as IO

def make(name):
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    nwb = NWBFile(session_description="d", identifier=name, session_start_time=start)
    if name == "objects":
        for i in range(500):
            nwb.add_acquisition(TimeSeries(name=f"ts{i:04d}", data=np.arange(100.0), unit="V", rate=1.0))
    elif name == "electrodes":
        device = nwb.create_device(name="device")
        groups = [nwb.create_electrode_group(f"g{k}", "d", "l", device) for k in range(4)]
        for i in range(10000):
            nwb.add_electrode(group=groups[i % 4], location="x")
    elif name == "trials":
        for k in range(4):
            nwb.add_acquisition(TimeSeries(name=f"ts{k}", data=np.arange(9000.0), unit="V", rate=1.0))
        series = list(nwb.acquisition.values())
        for i in range(5000):
            nwb.add_trial(start_time=float(i), stop_time=i + 1.0, timeseries=[series[i % 4]])
    elif name == "series":
        data = np.random.default_rng(1).integers(-2048, 2048, (1_000_000, 100), "i2")
        nwb.add_acquisition(TimeSeries(name="raw", data=data, unit="V", rate=30000.0))
    else:
        columns = [VectorData(n, "d", data=[f"{n} {i % 977}" for i in range(200_000)]) for n in ("a", "b")]
        nwb.add_scratch(DynamicTable("words", "d", columns=columns))
    return nwb

def timed(work):
    wall, processor = time.perf_counter(), time.process_time()
    out = work()
    return out, [time.process_time() - processor, time.perf_counter() - wall]

def write(nwb, path):
    with IO(path, mode="w", **options) as io:
        io.write(nwb)

def read(io, name):
    nwb = io.read()
    if name == "electrodes":
        assert nwb.electrodes["group"][:][5].name == "g1"
    if name == "trials":
        assert nwb.trials["timeseries"][4999][0].timeseries.name == "ts3"
    if name == "series":
        assert nwb.acquisition["raw"].data[:].shape == (1_000_000, 100)
    if name == "text":
        assert nwb.scratch["words"]["a"][:][977] == "a 0"

pynwb.get_manager()
print("ready", flush=True)
for line in sys.stdin:
    action, name, path = line.split()
    if action == "write":
        nwb = make(name)
        shutil.rmtree(path, ignore_errors=True)
        print(json.dumps({"write": timed(lambda: write(nwb, path))[1]}), flush=True)
        continue
    began = time.perf_counter(), time.process_time()
    with IO(path, mode="r") as io:
        backend = timed(io.read_builder)[1]
        read(io, name)
        total = [time.process_time() - began[1], time.perf_counter() - began[0]]
    print(json.dumps({"read_builder": backend, "read": total}), flush=True)
"""


class Worker:
    """One library in a process of its own."""

    def __init__(self, python: str, library: str, format: str) -> None:
        environment = {**os.environ, "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
        if library == "hdmf-zarr":  # its environment has packages of its own
            environment.pop("PYTHONPATH", None)
        self.library = library
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

    def ask(self, *words: str) -> dict[str, list[float]]:
        """Return the seconds of processor time and wall time by operation."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(*words, file=self.process.stdin, flush=True)
        answer: dict[str, list[float]] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def measure(release: str, repeat: int, names: list[str], work: Path) -> list[dict[str, Any]]:
    """Return a row for each file, operation and library, with medians in seconds."""
    from peer_environment import peer_python

    format = "zarr3" if release == "0.14" else "zarr2"
    ours = Worker(sys.executable, "chunkwise", format)
    peer = Worker(peer_python(release), "hdmf-zarr", format)
    workers = [peer, ours, Worker(sys.executable, "HDF5", format)]
    rows = []
    try:
        for name in names:
            times: dict[tuple[str, str], list[list[float]]] = {}
            own = {w.library: str(work / f"{name}-{w.library}.nwb") for w in workers}
            opened = {**own, "chunkwise": own["hdmf-zarr"]}
            for action, paths in (("write", own), ("open", opened)):
                for _ in range(repeat):
                    for worker in workers:
                        for key, seconds in worker.ask(action, name, paths[worker.library]).items():
                            times.setdefault((key, worker.library), []).append(seconds)
            for (key, library), found in times.items():
                processor, wall = (median(column) for column in zip(*found, strict=True))
                rows.append(
                    {"file": name, "what": key, "library": library, "processor": processor, "wall": wall}
                )
    finally:
        for worker in workers:
            worker.close()
    return rows


def count_requests() -> list[dict[str, Any]]:
    """Return the number of requests for opening a session in a bucket, by format."""
    from nwb_content import CONTENT, new_file
    from servers import free_port, new_s3_bucket, server

    import chunkwise as ts
    from chunkwise.hdmf import NWBZarrIO

    os.environ |= {"AWS_ACCESS_KEY_ID": "CWTESTKEY", "AWS_SECRET_ACCESS_KEY": "cwtestsecret"}
    rows = []
    with tempfile.TemporaryDirectory() as work:
        port, front = free_port(), free_port()
        remote = ROOT / "tests" / "remote"
        url, between = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{front}"
        moto = [sys.executable, str(remote / "moto_server.py"), str(port)]
        proxy = [sys.executable, str(remote / "proxy.py"), str(front), url]
        with server(moto, port, Path(work) / "moto"), server(proxy, front, Path(work) / "proxy"):
            import urllib.request

            for format in ("zarr2", "zarr3", "n5"):
                nwb = new_file("session")  # a container has one source for good
                for name in ("ecephys", "ophys", "intervals", "images", "series"):
                    CONTENT[name](nwb)
                spec = {"driver": "s3", "bucket": new_s3_bucket(url), "path": "session.nwb/"}
                with NWBZarrIO(ts.KvStore.open({**spec, "endpoint": url}).result(), "w", format=format) as io:
                    io.write(nwb)
                body = json.dumps({"delay": 0, "faults": []}).encode()
                reset = urllib.request.Request(f"{between}/proxy", data=body, method="PUT")
                urllib.request.urlopen(reset, timeout=30).close()
                with NWBZarrIO(ts.KvStore.open({**spec, "endpoint": between}).result()) as io:
                    io.read()
                    with urllib.request.urlopen(f"{between}/proxy", timeout=30) as answer:
                        rows.append({"format": format, "requests": len(json.load(answer))})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--release", choices=("0.14", "0.13"), default="0.14")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=(*NAMES, "s3"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if arguments.only != "s3":
        names = list(NAMES) if arguments.only is None else [arguments.only]
        with tempfile.TemporaryDirectory() as work:
            rows = measure(arguments.release, arguments.repeat, names, Path(work))
        print(f"seconds, median of {arguments.repeat}; hdmf-zarr {arguments.release}")
        print(f"{'file':11s} {'what':13s} {'library':10s} processor    clock")
        for row in rows:
            print(
                f"{row['file']:11s} {row['what']:13s} {row['library']:10s} "
                f"{row['processor']:9.3f} {row['wall']:8.3f}"
            )
    if arguments.only in (None, "s3"):
        requests = count_requests()
        for row in requests:
            print(f"opening a session in S3 as {row['format']}: {row['requests']} requests")
        rows += requests
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
