"""Arrays of zarr-python with its own codec pipeline and with chunkwise's, in turn, in one process.

    python benchmarks/zarr_pipeline.py [--repeat N]

A ratio says how many times as fast chunkwise's pipeline is; the last column is for processor time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import zarr
from cells import camera_data
from zarr.storage import LocalStore

EDGE = 128
PIPELINES = ("chunkwise.zarr.CodecPipeline", "zarr.core.codec_pipeline.BatchedCodecPipeline")
ARRAYS: dict[str, dict[str, Any]] = {
    "zstd 32³": {"chunks": (32,) * 3},
    "raw 32³": {"chunks": (32,) * 3, "compressors": None},
    "zstd 16³ in 64³": {"chunks": (16,) * 3, "shards": (64,) * 3},
}
SELECTIONS: dict[str, tuple[Any, int]] = {
    "8³": ((slice(10, 18),) * 3, 20),
    "a plane": ((5,), 5),
    "all": ((...,), 1),
}


def clock(work: Callable[[], Any], times: int) -> tuple[float, float]:
    """Return the time and the processor time of one call, in milliseconds."""
    start, used = time.perf_counter(), time.process_time()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times * 1e3, (time.process_time() - used) / times * 1e3


def measure(name: str, options: dict[str, Any], path: str, repeat: int) -> None:
    """Print the medians for one array."""
    data = camera_data(EDGE)
    zarr.create_array(LocalStore(path), data=data, **options)
    arrays = []
    for pipeline in PIPELINES:
        with zarr.config.set({"codec_pipeline.path": pipeline}):
            arrays.append(zarr.open_array(LocalStore(path), mode="r+"))
    for what, (selection, times) in SELECTIONS.items():
        part = data[selection]
        works: dict[str, list[Callable[[], Any]]] = {
            "read": [partial(array.__getitem__, selection) for array in arrays],
            "write": [partial(array.__setitem__, selection, part) for array in arrays],
        }
        for kind, both in works.items():
            taken: list[list[tuple[float, float]]] = [[], []]
            for turn in range(repeat):
                for number in (0, 1) if turn % 2 else (1, 0):
                    with zarr.config.set({"codec_pipeline.path": PIPELINES[number]}):
                        taken[number].append(clock(both[number], times))
            if not np.array_equal(arrays[0][selection], part):
                raise ValueError(f"what was read of {name} is wrong: {what}")
            (ours, our_cpu), (theirs, their_cpu) = (tuple(map(median, zip(*t, strict=True))) for t in taken)
            print(
                f"{name:16} {kind:6} {what:8} {ours:8.2f} ms  zarr-python {theirs:8.2f} ms  "
                f"{theirs / ours:5.2f}x  processor {their_cpu / our_cpu:5.2f}x",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=9)
    options = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as work:
        for number, (name, array) in enumerate(ARRAYS.items()):
            measure(name, array, f"{work}/{number}", options.repeat)


if __name__ == "__main__":
    main()
