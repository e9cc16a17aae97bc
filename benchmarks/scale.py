"""Figures of copies on many workers, a row of the table each: ``scale.py ROW``, see ``--help``.

Bytes, memory, processes and findings are exact and don't depend on other load; bytes and memory come from
``/proc`` for each worker, so this runs on Linux only.
"""

from __future__ import annotations

import argparse
import glob
import json
import logging
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

import chunkwise as cw
from chunkwise.copying.executors import named_workers


def worker_figures(_: int = 0) -> tuple[int, dict[str, float]]:
    """Return the process id of this worker, and the bytes that it has read, written and used."""
    time.sleep(0.2)  # so that every worker gets a task
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
        "read, times the array": total["read"] / nbytes,
        "written, times the array": total["written"] / nbytes,
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
    """Damage a copy `n` times; count the cases that `chunkwise.verify` finds without the source."""
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


def scheduler(folder: Path, n_chunks: int) -> dict[str, Any]:
    """Store a Dask array of many small chunks; measure client and scheduler, which are in this process."""
    from distributed import Client, LocalCluster

    from chunkwise.dask import store, to_dask

    edge = round(n_chunks**0.5 / 20) * 20
    shape, shards = (edge * 8, edge * 8), (160, 160)
    options = {"shape": shape, "dtype": "u1", "chunks": (8, 8), "shards": shards}
    source = cw.create_array(folder / "a.zarr", **options)
    source.write(np.arange(edge * 8, dtype="u1")).result()
    copied = cw.create_array(folder / "b.zarr", **options)
    found: dict[str, Any] = {"chunks": edge**2}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        executor = client.get_executor()
        executor.submit(worker_figures).result()
        idle = _processor_time(lambda: time.sleep(10))  # heartbeats and statistics, independent of the work
        found["share of a processor when idle"] = idle[0] / idle[1]
        for name, work in (
            ("store", lambda: store(to_dask(source, chunks=(8, 8)), copied)),
            ("copy", lambda: cw.copy(folder / "a.zarr", folder / "c.zarr", executor=executor, sync=False)),
        ):
            cpu, seconds = _processor_time(work)
            found[f"{name}: seconds"] = seconds
            found[f"{name}: ms a chunk"] = cpu * 1e3 / edge**2
            found[f"{name}: ms a chunk, beyond idle"] = (cpu - seconds * idle[0] / idle[1]) * 1e3 / edge**2
    assert copied.read().result().any()
    return found


def _processor_time(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the processor time of this process, and the time by the clock."""
    started, cpu = time.monotonic(), time.process_time()
    work()
    return time.process_time() - cpu, time.monotonic() - started


def workers(folder: Path, shape: tuple[int, ...], memory: int, n: int, turns: int) -> dict[str, Any]:
    """Copy planes to columns by `n` processes and by as many workers of Dask, in turn."""
    from distributed import Client, LocalCluster

    make_planes(folder / "planes.zarr", shape)
    make_planes(folder / "warm.zarr", (4, 8, 8))
    found: dict[str, list[tuple[float, float]]] = {"processes": [], "dask": []}
    with (
        ProcessPoolExecutor(n, mp_context=get_context("spawn")) as pool,
        LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        executors = {"processes": pool, "dask": client.get_executor(pure=False)}
        for i in range(-1, turns):  # the first copies load the libraries
            for name, executor in executors.items():
                before = all_workers(executor, n)
                started = time.monotonic()
                source, target = ("warm" if i < 0 else "planes", folder / f"{name}-{i}.zarr")
                chunks = (4, 2, 2) if i < 0 else (shape[0], 64, 64)
                cw.copy(
                    folder / f"{source}.zarr",
                    target,
                    chunks=chunks,
                    memory=memory,
                    executor=executor,
                    sync=False,
                )
                seconds = time.monotonic() - started
                after = all_workers(executor, n)
                if i >= 0:
                    cpu = sum(after[p]["cpu"] - before[p]["cpu"] for p in after)
                    found[name].append((seconds, cpu))
                shutil.rmtree(target)
    medians = {name: [statistics.median(v) for v in zip(*each, strict=True)] for name, each in found.items()}
    return {
        "seconds, processor time of the workers": medians,
        "dask, times the seconds of processes": medians["dask"][0] / medians["processes"][0],
        "dask, times the processor time of processes": medians["dask"][1] / medians["processes"][1],
    }


def requests(n_chunks: int) -> dict[str, Any]:
    """Copy an array on a server of S3 that counts requests."""
    from collections import Counter

    from moto.server import create_backend_app
    from werkzeug.serving import make_server

    app, seen = create_backend_app("s3"), Counter[str]()

    def counted(environ: dict[str, Any], start_response: Any) -> Any:
        seen[environ["REQUEST_METHOD"]] += 1
        return app(environ, start_response)

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, counted, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    endpoint = f"http://127.0.0.1:{server.server_port}"
    place = {"driver": "s3", "bucket": "scale", "endpoint": endpoint, "aws_region": "us-east-1"}
    urlopen(Request(f"{endpoint}/scale", method="PUT"))
    values = np.random.default_rng(0).integers(0, 4096, (n_chunks * 64,), "u2")
    cw.create_array({**place, "path": "a/"}, values, chunks=(64,))
    found = {}
    for on in ("threads:2", "processes:2"):
        seen.clear()
        cw.copy({**place, "path": "a/"}, {**place, "path": f"{on}/"}, executor=named_workers(on))
        found[on] = {method: n / n_chunks for method, n in seen.items()}
    return {"chunks": n_chunks, "requests of each kind for a chunk": found}


def main() -> None:
    """Print the figures of a row as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", choices=("rechunk", "threads", "scheduler", "workers", "requests", "damage"))
    parser.add_argument("--shape", default="256,1024,1024", help="shape of the array that is rechunked")
    parser.add_argument("--memory", type=int, default=43_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--number", type=int, default=30, help="number of damages, chunks, or turns")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chunkwise-") as name:
        folder = Path(name)
        if arguments.row == "rechunk":
            shape = tuple(map(int, arguments.shape.split(",")))
            found = rechunk(folder, shape, arguments.memory, arguments.workers)
        elif arguments.row == "threads":
            found = threads(folder)
        elif arguments.row == "scheduler":
            found = scheduler(folder, arguments.number)
        elif arguments.row == "workers":
            shape = tuple(map(int, arguments.shape.split(",")))
            found = workers(folder, shape, arguments.memory, arguments.workers, arguments.number)
        elif arguments.row == "requests":
            found = requests(arguments.number)
        else:
            found = damage(folder, arguments.number)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
