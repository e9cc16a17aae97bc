"""Figures of copies on many workers, a row of the table each: ``scale.py ROW``, see ``--help``.

Bytes, memory, processes and findings are exact and don't depend on how busy the machine is; bytes and memory
are what ``/proc`` says of each worker, so this runs on Linux only.
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
    import tensorstore

    r = random.Random(0)
    values = np.random.default_rng(0).integers(0, 4096, (32, 32, 32), "u2")
    cw.create_array(folder / "a.zarr", values, chunks=(32, 8, 8))
    cw.copy(folder / "a.zarr", folder / "b.zarr", chunks=(8, 8, 8), codec="zstd:1", keep_fingerprint=True)
    objects = sorted(f for f in (folder / "b.zarr").rglob("*") if f.is_file() and "c" in f.parts)
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(folder / "b.zarr")}}
    found = {kind: {"injuries": 0, "harmless": 0, "found": 0} for kind in ("flip", "swap", "missing")}

    def verified() -> bool:
        (report,) = cw.verify(folder / "b.zarr")
        return not report.bad

    assert verified()
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
        found[kind]["injuries"] += 1
        if not verified():
            found[kind]["found"] += 1
        else:  # a bit of a frame's header that decoders don't look at
            read = tensorstore.open(spec).result().read().result()
            found[kind]["harmless"] += bool(np.array_equal(read, values))
        for path, data in kept.items():
            path.write_bytes(data)
    assert verified()
    return found


_DRIVER = """
import json, sys
import chunkwise as cw
from chunkwise.tools.executors import named_workers

if __name__ == "__main__":
    source, target, on = map(json.loads, sys.argv[1:])
    cw.copy(source, target, chunks=(64, 8, 8), memory=100_000, executor=named_workers(on), resume=True)
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
    """Print the figures of a row as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", choices=("rechunk", "threads", "damage", "kills"))
    parser.add_argument("--shape", default="256,1024,1024", help="of the array that is rechunked")
    parser.add_argument("--memory", type=int, default=43_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--number", type=int, default=30, help="of injuries, or of drivers killed")
    parser.add_argument("--endpoint", help='of S3, with a bucket "kills" for the kills; by default files')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chunkwise-") as name:
        folder = Path(name)
        if arguments.row == "rechunk":
            shape = tuple(map(int, arguments.shape.split(",")))
            found = rechunk(folder, shape, arguments.memory, arguments.workers)
        elif arguments.row == "threads":
            found = threads(folder)
        elif arguments.row == "kills":
            found = kills(folder, arguments.number, arguments.endpoint)
        else:
            found = damage(folder, arguments.number)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
