"""Figures of copies on many workers, a row of the table each: ``scale.py {rechunk,threads,damage}``.

Bytes, memory, processes and findings are exact and don't depend on how busy the machine is; bytes and memory
are what ``/proc`` says of each worker, so this runs on Linux only.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import chunkwise as cw


def worker_figures(_: int = 0) -> tuple[int, dict[str, float]]:
    """Return the process of this worker, and what it has read, written and used."""
    time.sleep(0.2)  # so that every worker gets one of these
    io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    children = [Path(name).read_text().split() for name in glob.glob("/proc/self/task/*/children")]
    return os.getpid(), {
        "read": int(io["rchar"]),
        "written": int(io["wchar"]),
        "peak": int(status["VmHWM"].split()[0]) * 1024,
        "cpu": time.process_time(),
        "threads": int(status["Threads"]),
        "children": sum(map(len, children)),
    }


def all_workers(executor: Executor, n: int) -> dict[int, dict[str, float]]:
    """Return the figures of all `n` workers."""
    found: dict[int, dict[str, float]] = {}
    while len(found) < n:
        found |= dict(executor.map(worker_figures, range(2 * n)))
    return found


def make_planes(path: Path, shape: tuple[int, ...]) -> int:
    """Make an array in planes of values that don't compress well; return its bytes."""
    array = cw.create_array(path, shape=shape, dtype="u2", chunks=(1, *shape[1:]), codec="zstd:1")
    r = np.random.default_rng(0)
    for i in range(0, shape[0], 64):
        part = r.integers(0, 4096, (min(64, shape[0] - i), *shape[1:]), "u2")
        array[i : i + len(part), ...].write(part).result()
    return int(np.prod(shape)) * 2


def rechunk(folder: Path, shape: tuple[int, ...], memory: int, n: int) -> dict[str, Any]:
    """Copy planes to columns on `n` processes."""
    nbytes = make_planes(folder / "planes.zarr", shape)
    make_planes(folder / "warm.zarr", (4, 8, 8))
    with ProcessPoolExecutor(n, mp_context=get_context("spawn")) as executor:
        for i in range(n):  # loads the libraries
            cw.copy(folder / "warm.zarr", folder / f"warm-{i}.zarr", chunks=(4, 2, 2), executor=executor)
        before = all_workers(executor, n)
        started, cpu = time.monotonic(), time.process_time()
        report = cw.copy(
            folder / "planes.zarr",
            folder / "columns.zarr",
            chunks=(shape[0], 64, 64),
            memory=memory,
            executor=executor,
            sync=False,
        )
        seconds, cpu = time.monotonic() - started, time.process_time() - cpu
        after = all_workers(executor, n)
    stored = sum(f.stat().st_size for f in (folder / "planes.zarr").rglob("*") if f.is_file())
    total = {
        name: sum(after[p][name] - before[p][name] for p in after) for name in ("read", "written", "cpu")
    }
    return {
        "array": nbytes,
        "stored": stored,
        "memory": memory,
        "passes": len(report.plan.passes),
        "tasks": report.plan.n_tasks,
        "read, times what is stored": total["read"] / stored,
        "written, times what is stored": total["written"] / stored,
        "peak of a worker": max(each["peak"] for each in after.values()),
        "of that before the copy": max(each["peak"] for each in before.values()),
        "processor time of the workers": total["cpu"],
        "processor time of the driver": cpu,
        "seconds": seconds,
        "threads of a worker": max(each["threads"] for each in after.values()),
        "processes of a worker": max(each["children"] for each in after.values()),
    }


def threads(folder: Path) -> dict[str, Any]:
    """Store with a Dask worker that has one thread; count the threads and processes that this starts."""
    from distributed import Client, LocalCluster

    make_planes(folder / "a.zarr", (128, 256, 256))
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        executor = client.get_executor()
        before = executor.submit(worker_figures).result()[1]
        cw.copy(folder / "a.zarr", folder / "b.zarr", chunks=(128, 32, 32), executor=executor, sync=False)
        after = executor.submit(worker_figures, 1).result()[1]
    return {f"{name} more": after[name] - before[name] for name in ("threads", "children")}


def damage(folder: Path, n: int) -> dict[str, Any]:
    """Injure a copy `n` times; count what `chunkwise.verify`, which doesn't have the source, finds."""
    r = random.Random(0)
    values = np.random.default_rng(0).integers(0, 4096, (32, 32, 32), "u2")
    cw.create_array(folder / "a.zarr", values, chunks=(8, 8, 8), codec="zstd:1")
    objects = sorted(f for f in (folder / "a.zarr").rglob("*") if f.is_file() and "c" in f.parts)
    found: dict[str, list[bool]] = {"flip": [], "swap": [], "missing": []}
    command = [sys.executable, "-m", "chunkwise", "verify", str(folder / "a.zarr")]
    assert subprocess.run(command, capture_output=True).returncode == 0
    for i in range(n):
        kind = list(found)[i % 3]
        one, other = r.sample(objects, 2)
        kept = {path: path.read_bytes() for path in (one, other)}
        if kind == "flip":
            data = bytearray(kept[one])
            data[r.randrange(len(data))] ^= 1 << r.randrange(8)
            one.write_bytes(data)
        elif kind == "swap":
            one.write_bytes(kept[other])
            other.write_bytes(kept[one])
        else:
            one.unlink()
        found[kind].append(subprocess.run(command, capture_output=True).returncode != 0)
        for path, data in kept.items():
            path.write_bytes(data)
    return {kind: f"{sum(each)} of {len(each)}" for kind, each in found.items()}


def main() -> None:
    """Print the figures of a row as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", choices=("rechunk", "threads", "damage"))
    parser.add_argument("--shape", default="256,1024,1024", help="of the array that is rechunked")
    parser.add_argument("--memory", type=int, default=43_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--number", type=int, default=30, help="of injuries")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chunkwise-") as name:
        folder = Path(name)
        if arguments.row == "rechunk":
            shape = tuple(map(int, arguments.shape.split(",")))
            found = rechunk(folder, shape, arguments.memory, arguments.workers)
        else:
            found = threads(folder) if arguments.row == "threads" else damage(folder, arguments.number)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
