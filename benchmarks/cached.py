"""Small reads of cached chunks, compared with TensorStore; one array and caching rule for each row.

    python benchmarks/cached.py [--repeat N]

Both libraries read the same array of 64³ chunks in turn, in one process; a ratio says how many times as fast
chunkwise is.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tensorstore
from cells import Cell, camera_data

import chunkwise

EDGE = 128
CELLS = [Cell("zarr3", codec, 64) for codec in ("raw", "blosc", "zstd")]
SELECTIONS: dict[str, Any] = {"8³": (slice(10, 18),) * 3, "a row of two chunks": (5, 6)}
N_READS = 50


def measure(cell: Cell, path: str, repeat: int) -> None:
    """Print the medians for one array."""
    data = camera_data(EDGE)
    tensorstore.open(cell.spec(path, EDGE), create=True).result().write(data).result()
    for recheck in (False, "open", True):
        spec = {
            "driver": cell.driver,
            "kvstore": {"driver": "file", "path": path},
            "recheck_cached_data": recheck,
            "context": {"cache_pool": {"total_bytes_limit": 100_000_000}},
        }
        stores = [module.open(spec).result() for module in (chunkwise, tensorstore)]
        for name, index in SELECTIONS.items():
            for store in stores:
                if not np.array_equal(store[index].read().result(), data[index]):
                    raise ValueError(f"what was read of {cell.name} is wrong: {name}")
            taken: list[list[float]] = [[], []]
            for turn in range(repeat):
                for number in (0, 1) if turn % 2 else (1, 0):
                    store = stores[number]
                    start = time.perf_counter()
                    for _ in range(N_READS):
                        store[index].read().result()
                    taken[number].append((time.perf_counter() - start) / N_READS * 1e6)
            ours, theirs = map(median, taken)
            rule = f"recheck {recheck}"
            print(
                f"{cell.name:14} {rule:14} {name:20} {ours:7.1f} µs  TensorStore {theirs:7.1f} µs  "
                f"{theirs / ours:5.2f}x",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as work:
        for cell in CELLS:
            measure(cell, f"{work}/{cell.codec}/", options.repeat)


if __name__ == "__main__":
    main()
