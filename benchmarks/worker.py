"""One library in a process of its own: runs commands of the parent, and answers with the seconds they took.

    python worker.py {chunkwise,tensorstore,zarr,fused}

Commands are lines of JSON on standard input, answers are lines of JSON on standard output.  Only NumPy and
the one library are imported, so this runs under any interpreter that has them.
"""

from __future__ import annotations

import glob
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

LOOPS = 400


class TensorStoreLike:
    """TensorStore, or chunkwise, which has the same interface."""

    def __init__(self, module: Any) -> None:
        self.ts = module

    def open(self, command: dict[str, Any]) -> Any:
        return self.ts.open(
            {
                "driver": command["driver"],
                "kvstore": command.get("s3") or {"driver": "file", "path": command["path"]},
                "context": {"file_io_sync": command.get("sync", False)},
            },
            open=True,
        ).result()

    def region(self, array: Any, planes: int) -> Any:
        return array[:planes, ...]

    def read(self, region: Any) -> np.ndarray:
        return region.read().result()

    def write(self, region: Any, data: np.ndarray) -> None:
        region.write(data).result()

    def point(self, array: Any, i: int, j: int, k: int) -> np.ndarray:
        return array[i, j, k : k + 8].read().result()

    def index(self, array: Any, i: int, j: int, k: int) -> Any:
        return array[i, j, k : k + 8]


class ZarrPython:
    """zarr-python, with the codec pipeline that its configuration names."""

    def __init__(self, pipeline: str | None) -> None:
        import zarr

        self.zarr = zarr
        if pipeline is not None:
            zarr.config.set({"codec_pipeline.path": pipeline})

    def open(self, command: dict[str, Any]) -> Any:
        if "s3" not in command:
            return self.zarr.open_array(command["path"], mode="r+")
        from obstore.store import S3Store

        s3 = command["s3"]
        config = {"endpoint": s3["endpoint"], "region": s3["aws_region"]}
        bucket = S3Store(s3["bucket"], config=config, client_options={"allow_http": True})
        store = self.zarr.storage.ObjectStore(bucket)
        return self.zarr.open_array(store, path=s3["path"].rstrip("/"), mode="r+")

    def region(self, array: Any, planes: int) -> Any:
        return array, planes

    def read(self, region: Any) -> np.ndarray:
        array, planes = region
        return array[:planes]

    def write(self, region: Any, data: np.ndarray) -> None:
        array, planes = region
        array[:planes] = data

    def point(self, array: Any, i: int, j: int, k: int) -> np.ndarray:
        return array[i, j, k : k + 8]


def library(name: str) -> tuple[Any, str]:
    """Return the adapter of the library, and its version."""
    if name == "chunkwise":
        import chunkwise

        return TensorStoreLike(chunkwise), "of this tree"
    if name == "tensorstore":
        from importlib.metadata import version

        import tensorstore

        return TensorStoreLike(tensorstore), version("tensorstore")
    fused = "zarr.core.codec_pipeline.FusedCodecPipeline" if name == "fused" else None
    peer = ZarrPython(fused)
    return peer, peer.zarr.__version__


def each(action: Callable[[], Any], n: int) -> dict[str, float]:
    """Return the seconds and the processor time of each of the `n` things that `action` does."""
    cpu = time.process_time()
    taken = seconds(action)
    return {"seconds": taken / n, "cpu": (time.process_time() - cpu) / n}


def processor_time() -> float:
    """Return the processor time of this process and its running children."""
    total = time.process_time()
    for children in glob.glob("/proc/self/task/*/children"):
        with suppress(FileNotFoundError), open(children) as numbers:
            for number in numbers.read().split():
                with open(f"/proc/{number}/stat") as stat:
                    user, system = stat.read().rpartition(")")[2].split()[11:13]
                total += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return total


def forget_peak() -> None:
    """Let the peak of this process's memory begin again."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def memory(known: int) -> dict[str, float]:
    """Return the peak of this process's memory in bytes, without `known` ones, if the system tells it."""
    with suppress(OSError), open("/proc/self/status") as lines:
        (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM")]
        return {"memory": int(peak) * 1024 - known}
    return {}


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> None:
    peer, version = library(sys.argv[1])
    data = np.empty(0)
    python = "{}.{}.{}".format(*sys.version_info[:3])

    def run(command: dict[str, Any]) -> dict[str, Any]:
        nonlocal data
        do = command["do"]
        if do == "hello":
            return {"version": version, "python": python}
        if do == "data":
            data = np.load(command["path"])
            return {}
        if do == "open":
            return each(lambda: [peer.open(command) for _ in range(50)], 50)
        array = peer.open(command)
        if do in ("point", "index"):
            rng = np.random.default_rng(0)
            places = rng.integers(0, [n - 8 for n in data.shape], (LOOPS, 3)).tolist()
            act = getattr(peer, do)
            act(array, *places[0])
            return each(lambda: [act(array, *p) for p in places], LOOPS)
        planes = command["planes"]
        region = peer.region(array, planes)
        forget_peak()
        cpu = processor_time()
        if do == "write":
            taken = seconds(lambda: peer.write(region, data[:planes]))
            return {"seconds": taken, "cpu": processor_time() - cpu, **memory(data.nbytes)}
        out: list[np.ndarray] = []
        taken = seconds(lambda: out.append(peer.read(region)))
        cpu, peak = processor_time() - cpu, memory(data.nbytes)
        if command["check"] and not np.array_equal(out[0], data[:planes]):
            raise ValueError("what was read is not what was written")
        return {"seconds": taken, "cpu": cpu, **peak}

    for line in sys.stdin:
        try:
            answer = run(json.loads(line))
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
