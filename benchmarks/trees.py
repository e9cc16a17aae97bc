"""Copies of trees of tiny arrays: requests and processor time for an array, between all formats.

    python benchmarks/trees.py [--arrays 200]
    python benchmarks/trees.py --files 10000

Requests to source and copy are counted in stores in memory.  To leave out the fixed cost of a tree, a second
tree with twice as many arrays is copied, and the difference counts.

With --files one worker process copies a tree of that many arrays in files; measured are the growth of the
driver's peak memory, and the processor time of both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

import chunkwise
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import ByteRange
from chunkwise.core.kvstore.store_base import SameKeysStore

FORMATS = ("zarr3", "zarr2", "n5")
REQUESTS = ("read", "read_ranges", "write", "delete", "delete_range", "list", "list_children")


class CountingStore(SameKeysStore):
    """A store in memory that counts its requests."""

    n_requests = 0

    def __getattribute__(self, name: str) -> Any:
        """Return a method, one that counts its calls if it is a request; a reader makes single reads."""
        if name == "open_reader":
            return lambda: lambda key, *span: self.read(key, byte_range=ByteRange(*span)).value
        if name not in REQUESTS:
            return super().__getattribute__(name)
        request = getattr(self.base, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.n_requests += 1
            return request(*arguments, **options)

        return counted


def copied(source_format: str, format: str, n: int) -> tuple[int, int, float]:
    """Copy a tree of `n` arrays; return the requests to either side and the processor time in seconds."""
    source, target = CountingStore(MemoryStore()), CountingStore(MemoryStore())
    group = chunkwise.create_group(source, format=source_format)
    for i in range(n):
        group.create_array(f"g{i % 4}/a{i}", np.arange(1, 101) + i, chunks=(100,), attributes={"i": i})
    source.n_requests = 0
    started = time.process_time()
    chunkwise.copy_tree(source, target, format=format)
    return source.n_requests, target.n_requests, time.process_time() - started


def in_files(folder: Path, n: int) -> dict[str, float]:
    """Copy a tree of `n` arrays of files; return what driver and worker took."""
    group = chunkwise.create_group(folder / "a")
    for j in range(100):
        group.create_group(f"g{j}")
    group.create_array("g0/a0", np.arange(1, 101), chunks=(100,), attributes={"i": 12345})
    one = (folder / "a/g0/a0/zarr.json").read_text()
    chunk = (folder / "a/g0/a0/c/0").read_bytes()
    for i in range(1, n):
        place = folder / f"a/g{i % 100}/a{i}"
        (place / "c").mkdir(parents=True)
        (place / "zarr.json").write_text(one.replace("12345", str(i)))
        (place / "c/0").write_bytes(chunk)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(time.process_time).result()
        before, of_worker = getrusage(RUSAGE_SELF).ru_maxrss, pool.submit(time.process_time).result()
        started, clock = time.process_time(), time.monotonic()
        chunkwise.copy_tree(folder / "a", folder / "b", executor=pool, sync=False)
        return {
            "arrays": n,
            "driver, MB of memory beyond what it had": (getrusage(RUSAGE_SELF).ru_maxrss - before) / 1e3,
            "driver, ms of processor time an array": (time.process_time() - started) / n * 1e3,
            "worker, ms of processor time an array": (
                (pool.submit(time.process_time).result() - of_worker) / n * 1e3
            ),
            "seconds by the clock": time.monotonic() - clock,
        }


def main() -> None:
    """Print a row for each pair of formats."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arrays", type=int, default=200)
    parser.add_argument("--files", type=int, help="number of arrays in files")
    parser.add_argument("--folder", help="where they are to be, for a while")
    arguments = parser.parse_args()
    if arguments.files is not None:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            print(json.dumps(in_files(Path(folder), arguments.files), indent=1))
        return
    n = arguments.arrays
    print(f"{'from':<6} {'to':<6} {'read':>6} {'made':>6} {'both':>6}  ms of processor time an array")
    for source in FORMATS:
        for target in FORMATS:
            once, twice = (copied(source, target, m) for m in (n, 2 * n))
            read, made, seconds = ((b - a) / n for a, b in zip(once, twice, strict=True))
            print(f"{source:<6} {target:<6} {read:6.2f} {made:6.2f} {read + made:6.2f}  {seconds * 1e3:.1f}")


if __name__ == "__main__":
    main()
