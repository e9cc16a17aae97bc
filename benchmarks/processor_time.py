"""Processor time per chunk, cell by cell, compared with TensorStore: one table.

    python benchmarks/processor_time.py [--edge 256] [--cells "zarr3 zstd 32,n5 blosc 64"] [--turns 5]

Prints microseconds of all threads for each chunk (for each inner chunk of shards) of a whole read, a whole
write, a plane and every third element, and TensorStore's time as a multiple of that.  Both libraries run in
this process, take turns and use the same files; figures are medians.  Unlike wall time, this hardly depends
on other load.  Reads are checked against the data.  It also measures a finished future and an indexing
expression.
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
from cells import CELLS, Cell, camera_data

import chunkwise

LIBRARIES = {"chunkwise": chunkwise, "tensorstore": tensorstore}
CONTEXT = {"file_io_sync": False}


def acts_on(
    library: Any, spec: dict[str, Any], data: np.ndarray[Any, Any]
) -> dict[str, Callable[[], np.ndarray[Any, Any] | None]]:
    """Return the acts that are measured, by name."""
    array = library.open(spec, context=library.Context(CONTEXT)).result()
    middle = data.shape[0] // 2
    return {
        "read": lambda: array.read().result(),
        "write": lambda: array.write(data).result(),
        "plane": lambda: array[middle].read().result(),
        "stride": lambda: array[::3, ::3, ::3].read().result(),
    }


EXPECTED: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "read": lambda data: data,
    "plane": lambda data: data[data.shape[0] // 2],
    "stride": lambda data: data[::3, ::3, ::3],
}


def n_chunks(cell: Cell, edge: int, act: str) -> int:
    """Return how many chunks an act touches; inner ones of shards."""
    along = math.ceil(edge / (cell.inner or cell.edge))
    return along**2 if act == "plane" else along**3


def measure(cell: Cell, data: np.ndarray[Any, Any], turns: int) -> dict[str, dict[str, float]]:
    """Return seconds of processor time by act and library."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    try:
        spec = cell.spec(f"{folder}/array/", data.shape[0])
        made = tensorstore.open(spec, create=True, context=tensorstore.Context(CONTEXT)).result()
        made.write(data).result()
        acts = {name: acts_on(library, spec, data) for name, library in LIBRARIES.items()}
        times: dict[str, dict[str, list[float]]] = {
            act: {name: [] for name in LIBRARIES} for act in acts["chunkwise"]
        }
        for turn in range(turns + 1):
            for act, by_library in times.items():
                for name, seconds in by_library.items():
                    began = time.process_time()
                    found = acts[name][act]()
                    taken = time.process_time() - began
                    if found is not None:
                        assert np.array_equal(found, EXPECTED[act](data)), f"{cell.name} {act} {name}"
                    if turn:  # the first one opens files and contexts
                        seconds.append(taken)
        return {act: {name: statistics.median(s) for name, s in by.items()} for act, by in times.items()}
    finally:
        shutil.rmtree(folder)


def small_acts() -> None:
    """Print the times of a finished future and of an indexing expression."""
    ready = chunkwise.Future
    transforms = {name: library.IndexTransform(input_shape=[100] * 3) for name, library in LIBRARIES.items()}
    rows: dict[str, Callable[[], object]] = {"a future that is done": lambda: ready(None).result()}
    for name, transform in transforms.items():
        rows[f"transform[3, 4, 5:13], {name}"] = lambda transform=transform: transform[3, 4, 5:13]
    for name, act in rows.items():
        print(f"{name}: {min(timeit.repeat(act, number=2000, repeat=10)) / 2000 * 1e6:.2f} us")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edge", type=int, default=256, help="extent of the volume in each dimension")
    parser.add_argument("--cells", default="", help="names, separated by commas; all if left out")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    wanted = [name.strip() for name in options.cells.split(",") if name.strip()]
    unknown = set(wanted) - {cell.name for cell in CELLS}
    if unknown:
        parser.error(f"unknown cells: {sorted(unknown)}; there are {[cell.name for cell in CELLS]}")
    data = camera_data(options.edge)
    ratios: dict[str, list[float]] = {}
    print(
        f"{'us of processor time per chunk':24}"
        + "".join(f"{act:>22}" for act in ("read", "write", "plane", "stride"))
    )
    for cell in CELLS:
        if wanted and cell.name not in wanted:
            continue
        row = f"{cell.name:24}"
        for act, times in measure(cell, data, options.turns).items():
            ours, theirs = times["chunkwise"], times["tensorstore"]
            ratios.setdefault(act, []).append(theirs / ours)
            row += f"{ours / n_chunks(cell, options.edge, act) * 1e6:>14.1f} ({theirs / ours:.2f}x)"
        print(row, flush=True)
    means = {act: statistics.geometric_mean(found) for act, found in ratios.items()}
    print(
        "TensorStore's time as a multiple of ours, geometric mean: "
        + ", ".join(f"{a} {m:.2f}" for a, m in means.items())
    )
    small_acts()


if __name__ == "__main__":
    main()
