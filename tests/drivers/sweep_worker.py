"""Writers that the sweeps start: ``sweep_worker.py overlap SPEC ...``, ``sweep_worker.py endless SPEC``."""

from __future__ import annotations

import json
import random
import sys

import numpy as np

import chunkwise as ts


def overlap(spec: dict, worker: int, n_workers: int, n_writes: int) -> None:
    """Make partial writes, each into chunks that the other workers write too, none into their elements."""
    store = ts.open(spec).result()
    rows = store.shape[0]
    rng = random.Random(worker)
    for _ in range(n_writes):
        # Each worker has its own columns; rows are any, several chunks at a time.
        a, b = sorted(rng.sample(range(rows + 1), 2))
        mine = store[a:b, worker::n_workers]
        mine.write(np.full(mine.shape, rng.randrange(1, 60000), np.uint16)).result()


def endless(spec: dict) -> None:
    """Write the whole array again and again, each time with the next number, and say when to kill."""
    store = ts.open(spec).result()
    print("ready", flush=True)
    number = 0
    while True:
        number += 1
        if number % 2:
            store.write(np.full(store.shape, number, np.uint16)).result()
        else:
            store[1 : store.shape[0] - 1].write(np.uint16(number)).result()


if __name__ == "__main__":
    what, spec, *rest = sys.argv[1:]
    if what == "overlap":
        overlap(json.loads(spec), *map(int, rest))
    else:
        endless(json.loads(spec))
