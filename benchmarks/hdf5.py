"""Reads of an HDF5 file compared with h5py, in wall time and processor time: one table.

    python benchmarks/hdf5.py [--edge 256] [--chunk 64] [--turns 7] [--cache BYTES]

The whole array, a plane, and 50 boxes of the size of a chunk, for each kind of compression, by chunkwise with
two threads and by h5py, which keeps no chunks in memory unless ``--cache`` says so.  Both read the same file,
in turn; medians.  What is read is checked.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from cells import camera_data

import chunkwise

KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "gzip": {"compression": "gzip", "compression_opts": 4, "shuffle": True},
    "lzf": {"compression": "lzf", "shuffle": True},
}


def measure(read: Callable[[Any], Any], array: Any, data: Any) -> tuple[float, float]:
    """Return milliseconds by the clock and of the processors of one read."""
    clock, work = time.perf_counter(), time.process_time()
    found = np.asarray(read(array))
    out = (time.perf_counter() - clock) * 1e3, (time.process_time() - work) * 1e3
    np.testing.assert_array_equal(found, data)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edge", type=int, default=256)
    parser.add_argument("--chunk", type=int, default=64)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--cache", type=int, default=0)
    arguments = parser.parse_args()
    edge, chunk = arguments.edge, arguments.chunk
    data = camera_data(edge)
    corners = np.random.default_rng(0).integers(0, edge - chunk, (50, 3))
    context = chunkwise.Context({"data_copy_concurrency": {"limit": 2}})
    print(f"{'':6} {'act':6} {'chunkwise ms':>14} {'h5py ms':>10} {'clock':>7} {'processor':>10}")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x.h5"
        with h5py.File(path, "w") as file:
            for kind, options in KINDS.items():
                file.create_dataset(kind, data=data, chunks=(chunk,) * 3, **options)
        with h5py.File(path, rdcc_nbytes=arguments.cache) as file:
            for kind in KINDS:
                ours = chunkwise.open(f"{path}|hdf5:{kind}", context=context).result()
                theirs = file[kind]
                boxes = [tuple(slice(i, i + chunk) for i in corner) for corner in corners.tolist()]
                acts: dict[str, tuple[Callable[[Any], Any], Any]] = {
                    "read": (lambda a: a[...], data),
                    "plane": (lambda a: a[edge // 2], data[edge // 2]),
                    "boxes": (
                        lambda a, boxes=boxes: np.stack([np.asarray(a[box]) for box in boxes]),
                        np.stack([data[box] for box in boxes]),
                    ),
                }
                for act, (read, expected) in acts.items():
                    times: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
                    for _ in range(arguments.turns):
                        times["ours"].append(measure(read, ours, expected))
                        times["theirs"].append(measure(read, theirs, expected))
                    (clock, work), (their_clock, their_work) = (
                        tuple(map(statistics.median, zip(*times[name], strict=True))) for name in times
                    )
                    print(
                        f"{kind:6} {act:6} {clock:14.1f} {their_clock:10.1f} {their_clock / clock:7.2f} "
                        f"{their_work / work:10.2f}"
                    )


if __name__ == "__main__":
    main()
