"""Size and speed of codecs and levels on camera data, labels and floats.

``python benchmarks/codecs.py`` writes ``benchmarks/results/codecs.json``, which docs/choosing.md draws.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import chunkwise as ts

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "demo"))

from demo import microscope_volume  # noqa: E402 - found by what stands above

SHAPE = (128, 128, 128)
CHUNKS = [64, 64, 64]
CODECS = {
    "zstd": [f"zstd:{level}" for level in (1, 3, 6, 12)],
    "gzip": [f"gzip:{level}" for level in (1, 6)],
    "blosc zstd, bits shuffled": [f"blosc:zstd:{level}:bitshuffle" for level in (1, 5, 9)],
    "blosc lz4, bytes shuffled": [f"blosc:lz4:{level}:shuffle" for level in (1, 5, 9)],
}


def labels() -> np.ndarray:
    """Return cells with one label each, like a segmentation."""
    points = np.random.default_rng(3).uniform(0, SHAPE[0], (80, 3))
    nearest, found = np.full(SHAPE, np.inf), np.zeros(SHAPE, np.uint64)
    for number, point in enumerate(points, 1):
        distance = sum(
            (np.arange(n).reshape([-1] + [1] * (2 - i)) - point[i]) ** 2 for i, n in enumerate(SHAPE)
        )
        found[distance < nearest] = number
        np.minimum(nearest, distance, out=nearest)
    return found


def floats() -> np.ndarray:
    """Return a smooth field with noise in its last digits, like a simulation."""
    x, y, z = np.ogrid[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
    field = 280 + 10 * np.sin(x / 20) * np.cos(y / 15) + z / 30
    return (field + np.random.default_rng(5).normal(0, 1e-3, SHAPE)).astype(np.float32)


def measure(data: np.ndarray, codec: str, turns: int = 2) -> dict[str, float]:
    """Return the stored size as a fraction of the raw size, and MB/s of processor time to write and to
    read."""
    store = ts.KvStore.open("memory://").result()
    array = ts.create_array(store, data, chunks=CHUNKS, codec=codec, format="zarr3")
    stored = sum(len(store[key]) for key in store.list().result() if not key.endswith(b"zarr.json"))
    if not np.array_equal(array.read().result(), data):
        raise AssertionError(f"{codec} does not give back what was written")

    def speed(work: Callable[[], object]) -> float:
        times = []
        for _ in range(turns):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        return data.nbytes / 1e6 / float(np.median(times))

    read = speed(lambda: array.read().result())
    write = speed(lambda: array.write(data).result())
    return {"size": round(stored / data.nbytes, 4), "write": round(write, 1), "read": round(read, 1)}


def main() -> None:
    """Measure all codecs on all kinds of data and write the results."""
    kinds = {
        "camera, uint16": microscope_volume(SHAPE),
        "labels, uint64": labels(),
        "field, float32": floats(),
    }
    results = [
        {"data": kind, "family": family, "codec": codec, **measure(data, codec)}
        for kind, data in kinds.items()
        for family, codecs in CODECS.items()
        for codec in codecs
    ]
    path = HERE / "results" / "codecs.json"
    path.write_text("[\n" + ",\n".join(json.dumps(result) for result in results) + "\n]\n")
    print(path)


if __name__ == "__main__":
    main()
