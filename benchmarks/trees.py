"""Copies of trees of tiny arrays: requests and processor time for an array, between all formats.

    python benchmarks/trees.py [--arrays 200]

Requests are those that stores in memory answer, of the source and of the copy.  What a tree costs as a whole
is left out: a tree is copied, and one of twice as many arrays, and the difference counts.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import chunkwise
from chunkwise.kvstore.adapter.trace import TraceStore
from chunkwise.kvstore.memory import MemoryStore

FORMATS = ("zarr3", "zarr2", "n5")


def copied(source_format: str, format: str, n: int) -> tuple[int, int, float]:
    """Copy a tree of `n` arrays; return the requests to either side and the processor time in seconds."""
    source, target = TraceStore(MemoryStore()), TraceStore(MemoryStore())
    group = chunkwise.create_group(source, format=source_format)
    for i in range(n):
        group.create_array(f"g{i % 4}/a{i}", np.arange(1, 101) + i, chunks=(100,), attributes={"i": i})
    source.requests.clear()
    started = time.process_time()
    chunkwise.copy_tree(source, target, format=format)
    return len(source.requests), len(target.requests), time.process_time() - started


def main() -> None:
    """Print a row for each pair of formats."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arrays", type=int, default=200)
    n = parser.parse_args().arrays
    print(f"{'from':<6} {'to':<6} {'read':>6} {'made':>6} {'both':>6}  ms of processor time an array")
    for source in FORMATS:
        for target in FORMATS:
            once, twice = (copied(source, target, m) for m in (n, 2 * n))
            read, made, seconds = ((b - a) / n for a, b in zip(once, twice, strict=True))
            print(f"{source:<6} {target:<6} {read:6.2f} {made:6.2f} {read + made:6.2f}  {seconds * 1e3:.1f}")


if __name__ == "__main__":
    main()
