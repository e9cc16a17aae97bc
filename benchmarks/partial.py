"""Partial writes, appends, strided, reversed, orthogonal and point reads: TensorStore, zarr-python and
chunkwise.

    python benchmarks/partial.py [--edge N] [--repeat N] [--cells PATTERN] [--json FILE]

The libraries take turns in one process, on arrays that lie in memory if there is such a directory, without
waiting for a disk.  What is read is compared with NumPy, once for each library.  A ratio says how many
times as fast chunkwise is; for reads, the last column is chunkwise's time divided by that of decoding as many
whole chunks and indexing with NumPy (it must stay below 1.5).
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import tensorstore
import zarr
from cells import Cell, camera_data

import chunkwise

CELLS = [
    Cell("zarr3", "raw", 32),
    Cell("zarr3", "zstd", 64),
    Cell("zarr3", "blosc", 32),
    Cell("zarr3", "zstd", 128, 32),
    Cell("n5", "gzip", 64),
]
N_SMALL = 40


class Read(NamedTuple):
    """A selection, as functions of an array for NumPy, TensorStore (and chunkwise) and zarr-python."""

    name: str
    numpy: Callable[[Any], Any]
    store: Callable[[Any], Any]
    zarr: Callable[[Any], Any] | None
    share: Callable[[int, int], float]
    """Share of the chunks that is touched, given the extents of array and chunk."""


def reads(edge: int) -> list[Read]:
    """Return the selections of a cube of `edge` elements along each side."""
    rng = np.random.default_rng(3)
    some = np.sort(rng.choice(edge, edge // 5, replace=False))
    any_order = rng.integers(0, edge, edge // 4)
    points = tuple(rng.integers(0, edge, 10_000) for _ in range(3))
    box = (slice(5, edge - 7), slice(9, edge - 3), slice(11, edge - 5))
    grid = (some, any_order, some)
    most = tuple(np.flatnonzero(rng.random(edge) < 0.75) for _ in range(3))

    def plain(name: str, index: Any, share: Callable[[int, int], float] = lambda edge, chunk: 1.0) -> Read:
        return Read(name, lambda a: a[index], lambda s: s[index], lambda z: z[index], share)

    def orthogonal(name: str, index: Any, numpy_index: Any) -> Read:
        return Read(
            name,
            lambda a: a[numpy_index],
            lambda s: s.oindex[index],
            lambda z: z.oindex[index],
            lambda *_: 1.0,
        )

    every = slice(None)
    return [
        plain("box", box),
        plain("plane", (every, edge // 2), lambda edge, chunk: 1 / ceil(edge / chunk)),
        plain("every 2nd", (slice(None, None, 2),) * 3),
        plain("every 8th of rows", (..., slice(None, None, 8))),
        plain("reversed", (slice(None, None, -1),) * 3)._replace(zarr=None),
        orthogonal("orthogonal, planes", (some, every, every), some),
        orthogonal("orthogonal, rows", (every, every, some), (..., some)),
        orthogonal("orthogonal, all", grid, np.ix_(*grid)),
        orthogonal("orthogonal, most", most, np.ix_(*most)),
        Read(
            "10,000 points",
            lambda a: a[points],
            lambda s: s.vindex[points],
            lambda z: z.vindex[points],
            lambda *_: 1.0,
        ),
    ]


class Library:
    """One library, with its open array."""

    def __init__(self, name: str, cell: Cell, path: str) -> None:
        self.name = name
        if name == "zarr-python":
            self.array: Any = zarr.open_array(path, mode="r+")
            return
        module: Any = chunkwise if name == "chunkwise" else tensorstore
        spec = {"driver": cell.driver, "kvstore": {"driver": "file", "path": path}}
        self.array = module.open({**spec, "context": {"file_io_sync": False}}).result()

    def read(self, selection: Read) -> Any:
        """Return what is selected; None if the library has no such selection."""
        if self.name != "zarr-python":
            return selection.store(self.array).read().result()
        return None if selection.zarr is None else selection.zarr(self.array)

    def write(self, box: tuple[slice, ...], values: Any) -> None:
        if self.name == "zarr-python":
            self.array[box] = values
        else:
            self.array[box].write(values).result()

    def resize(self, shape: tuple[int, ...]) -> None:
        if self.name == "zarr-python":
            self.array.resize(shape)
        else:
            self.array = self.array.resize(exclusive_max=shape).result()


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


class Measurement:
    """All figures of one run."""

    def __init__(self, edge: int, repeat: int, work: Path) -> None:
        self.edge, self.repeat, self.work = edge, repeat, work
        self.data = camera_data(edge)
        self.results: list[dict[str, Any]] = []

    def turns(
        self, peers: list[Library], act: Callable[[Library], Any], whole: Callable[[], Any] | None = None
    ) -> dict[str, float]:
        """Return the median seconds of each library, and of `whole`; the first turn is to warm up."""
        actions = {peer.name: (lambda peer=peer: act(peer)) for peer in peers}
        if whole is not None:
            actions["whole"] = whole
        times: dict[str, list[float]] = {name: [] for name in actions}
        for turn in range(self.repeat + 1):
            for name in actions if turn % 2 else reversed(actions):
                taken = seconds(actions[name])
                if turn:
                    times[name].append(taken)
        return {name: median(taken) for name, taken in times.items()}

    def show(self, cell: Cell, operation: str, times: dict[str, float], limit: float | None = None) -> None:
        ours = times["chunkwise"]
        ratios = {name: taken / ours for name, taken in times.items() if name != "chunkwise"}
        self.results.append({"cell": cell.name, "operation": operation, "seconds": times, "limit": limit})
        text = "  ".join(f"{ratio:6.2f}x {name}" for name, ratio in ratios.items())
        bound = "" if limit is None else f"   {ours / limit:5.2f} of decoding and indexing"
        print(f"  {cell.name:18} {operation:20} {ours * 1e3:8.1f} ms  {text}{bound}", flush=True)

    def cell(self, cell: Cell) -> None:
        """Measure one array."""
        path = f"{self.work / cell.name.replace(' ', '-').replace('/', '-')}/"
        spec = cell.spec(path, self.edge)
        tensorstore.open(spec, create=True, delete_existing=True).result().write(self.data).result()
        names = ["chunkwise", "tensorstore", *(["zarr-python"] if cell.driver == "zarr3" else [])]
        peers = [Library(name, cell, path) for name in names]
        for selection in reads(self.edge):
            want = selection.numpy(self.data)
            able = [peer for peer in peers if peer.name != "zarr-python" or selection.zarr is not None]
            for peer in able:
                if not np.array_equal(peer.read(selection), want):
                    raise ValueError(f"{peer.name}: what was read of {cell.name} is wrong: {selection.name}")
            times = self.turns(
                able, lambda peer, s=selection: peer.read(s), lambda: peers[0].array.read().result()
            )
            whole = times.pop("whole")
            indexing = min(seconds(lambda s=selection: s.numpy(self.data).copy()) for _ in range(3))
            share = selection.share(self.edge, cell.inner or cell.edge)
            self.show(cell, selection.name, times, whole * share + indexing)
        self.writes(cell, peers)
        self.append(cell, spec, names)
        shutil.rmtree(path)

    def writes(self, cell: Cell, peers: list[Library]) -> None:
        """Overwrite a box that begins and ends inside chunks, and many small ones."""
        box = tuple(slice(7, self.edge - 9) for _ in range(3))
        source = np.ascontiguousarray(self.data[box][::-1])
        self.show(cell, "write a box", self.turns(peers, lambda peer: peer.write(box, source)))
        rng = np.random.default_rng(1)
        corners = rng.integers(0, self.edge - 8, (N_SMALL, 3)).tolist()
        cube = np.ascontiguousarray(self.data[:8, :8, :8])

        def small(peer: Library) -> None:
            for corner in corners:
                peer.write(tuple(slice(at, at + 8) for at in corner), cube)

        self.show(cell, f"{N_SMALL} writes of 8³", self.turns(peers, small))

    def append(self, cell: Cell, spec: dict[str, Any], names: list[str]) -> None:
        """Grow along the first axis, a few planes at a time, from nothing."""
        step = max(1, (cell.inner or cell.edge) // 2)
        path = spec["kvstore"]["path"]

        def appended(name: str) -> Callable[[], None]:
            tensorstore.open(spec, create=True, delete_existing=True).result().resize(
                exclusive_max=[0, self.edge, self.edge]
            ).result()
            peer = Library(name, cell, path)

            def act() -> None:
                for start in range(0, self.edge, step):
                    stop = min(self.edge, start + step)
                    peer.resize((stop, self.edge, self.edge))
                    peer.write((slice(start, stop), slice(None), slice(None)), self.data[start:stop])

            return act

        times: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(self.repeat + 1):
            for name in names if turn % 2 else reversed(names):
                taken = seconds(appended(name))
                got = Library("tensorstore", cell, path).array.read().result()
                if not np.array_equal(got, self.data):
                    raise ValueError(f"{name}: what was appended to {cell.name} is wrong")
                if turn:
                    times[name].append(taken)
        self.show(cell, f"append {step} planes", {name: median(taken) for name, taken in times.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edge", type=int, default=256, help="extent of the arrays, a cube")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--cells", default="*", help="which arrays, by name")
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--json", type=Path, help="where to put all seconds")
    options = parser.parse_args()
    memory = Path("/dev/shm")
    place = options.directory or (memory if os.access(memory, os.W_OK) else None)
    with tempfile.TemporaryDirectory(dir=place) as work:
        measurement = Measurement(options.edge, options.repeat, Path(work))
        for cell in CELLS:
            if fnmatch.fnmatch(cell.name, options.cells):
                measurement.cell(cell)
    if options.json is not None:
        options.json.write_text(json.dumps(measurement.results, indent=1))


if __name__ == "__main__":
    main()
