"""chunkwise next to TensorStore and zarr-python: whole-array reads and writes, small reads, opening.

    python benchmarks/compare.py [--quick] [--cells PATTERN] [--peers tensorstore,zarr,fused]
                                 [--repeat N] [--json FILE] [--docs FILE]

Each library runs in a process of its own, with its default settings; they take turns, so that a busy
machine is as busy for all.  Files lie in memory if there is such a directory (``--directory`` for
another), so caches are warm; those of the rows "with sync" lie on disk, and a write ends when it is there.
What is read is checked once for each library.  Figures are ratios of medians: how many times as fast
chunkwise is as the other.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tensorstore
from cells import CELLS, DISK, QUICK, Cell, camera_data
from peers import Peer, PeerError, start
from report import Result, document, table

HERE = Path(__file__).resolve().parent


def by_turns(
    peers: list[Peer], repeat: int, act: Callable[[Peer], float], *, warm: bool = True
) -> dict[str, float]:
    """Return the median of what `act` says for each peer."""
    times: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for turn in range(repeat + warm):
        for peer in peers if turn % 2 else reversed(peers):
            taken = act(peer)
            if turn or not warm:
                times[peer.name].append(taken)
    return {name: median(taken) for name, taken in times.items()}


class Comparison:
    """All measurements of one run."""

    def __init__(self, options: argparse.Namespace, edge: int, peers: dict[str, Peer], work: Path) -> None:
        self.edge = edge
        self.repeat = options.repeat
        self.ours = peers["chunkwise"]
        self.peers = [peer for name, peer in peers.items() if name != "chunkwise"]
        self.work = work
        self.results: list[Result] = []

    def make(self, cell: Cell, directory: Path) -> dict[str, Any]:
        """Make the array of `cell`, without chunks; return the part of a command that names it."""
        path = f"{directory / cell.name.replace(' ', '-').replace('/', '-')}/"
        tensorstore.open(cell.spec(path, self.edge), create=True, delete_existing=True).result()
        return {"driver": cell.driver, "path": path}

    def add(self, row: str, operation: str, peer: Peer, times: dict[str, float]) -> None:
        """Keep a ratio, and show it."""
        result = Result(row, operation, peer.name, times[self.ours.name], times[peer.name])
        self.results.append(result)
        print(f"  {row:22} {operation:22} {result.ratio:6.2f}x {peer.name}", flush=True)

    def planes(self, peer: Peer) -> int:
        # zarr-python takes long: a quarter of the array will do, for either side.
        return self.edge if peer.name == "tensorstore" else max(128, self.edge // 4)

    def cell(self, cell: Cell) -> None:
        """Read and write one array."""
        array = self.make(cell, self.work)
        self.write(cell, array, "write", self.repeat)
        tensorstore_write(array, self.edge)
        for peer in self.peers:
            if not self.able(peer, cell):
                continue
            planes = self.planes(peer)
            checked: set[str] = set()

            def read(p: Peer, planes: int = planes, checked: set[str] = checked) -> float:
                check = p.name not in checked
                checked.add(p.name)
                return p.seconds(do="read", planes=planes, check=check, **array)

            repeat = 2 * self.repeat + 1 if peer.name == "tensorstore" else min(self.repeat, 2)
            self.add(cell.name, "read", peer, by_turns([self.ours, peer], repeat, read))
        shutil.rmtree(array["path"])

    def write(
        self, cell: Cell, array: dict[str, Any], operation: str, repeat: int, sync: bool = False
    ) -> None:
        for peer in self.peers:
            if not self.able(peer, cell) or (sync and peer.name != "tensorstore"):
                continue
            planes = self.planes(peer)

            def write(p: Peer, planes: int = planes) -> float:
                clear(array["path"])
                return p.seconds(do="write", planes=planes, sync=sync, **array)

            turns = repeat if peer.name == "tensorstore" else 1  # and one to warm up
            times = by_turns([self.ours, peer], turns, write)
            self.add(cell.name, operation, peer, times)
            for p in (self.ours, peer):
                write(p)
                self.ours.seconds(do="read", planes=planes, check=True, **array)

    def able(self, peer: Peer, cell: Cell) -> bool:
        return cell.driver == "zarr3" or peer.name == "tensorstore"

    def small(self) -> None:
        """Small reads, opening and indexing."""
        for cell in (Cell("zarr3", "raw", 32), Cell("zarr3", "blosc", 32), Cell("n5", "gzip", 32)):
            array = self.make(cell, self.work)
            tensorstore_write(array, self.edge)
            for peer in self.peers:
                if not self.able(peer, cell):
                    continue
                for do, operation in (
                    ("point", "read of 8 elements"),
                    ("open", "open"),
                    ("index", "index"),
                ):
                    if do == "index" and peer.name != "tensorstore":
                        continue

                    def act(p: Peer, do: str = do, array: dict[str, Any] = array) -> float:
                        return p.seconds(do=do, **array)

                    self.add(
                        cell.name, operation, peer, by_turns([self.ours, peer], 2 * self.repeat + 1, act)
                    )
            shutil.rmtree(array["path"])


def tensorstore_write(array: dict[str, Any], edge: int) -> None:
    """Fill an array, so that what is read is what another library has written."""
    spec = {"driver": array["driver"], "kvstore": {"driver": "file", "path": array["path"]}}
    context = tensorstore.Context({"file_io_sync": False})
    tensorstore.open(spec, context=context).result().write(DATA[:edge]).result()


def clear(path: str) -> None:
    """Delete the chunks of an array."""
    for entry in os.scandir(path):
        if entry.is_dir():
            shutil.rmtree(entry.path)


DATA = np.empty(0)


def main() -> int:
    """Run the comparison."""
    global DATA
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="256³ and fewer cells")
    parser.add_argument("--cells", default="*", help="pattern of names, such as 'zarr3 blosc *'; 'small'")
    parser.add_argument("--peers", default="tensorstore,zarr,fused")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument(
        "--docs",
        type=Path,
        help="write the table to this file; a complete run does so to docs/performance.md",
    )
    parser.add_argument("--directory", help="where the arrays lie; by default in memory")
    parser.add_argument("--disk", help="where those of the rows with sync lie", default=None)
    parser.add_argument("--no-sync", action="store_true", help="leave those rows out")
    parser.add_argument("--cache", type=Path, default=HERE.parent / "build" / "benchmarks")
    options = parser.parse_args()
    edge = 256 if options.quick else 512
    complete = not (options.quick or options.no_sync) and options.cells == "*"
    if complete and options.docs is None and options.peers == "tensorstore,zarr,fused":
        options.docs = HERE.parent / "docs" / "performance.md"
    memory = options.directory or ("/dev/shm" if os.path.isdir("/dev/shm") else None)
    peers: dict[str, Peer] = {}
    missing: list[str] = []
    for name in ["chunkwise", *options.peers.split(",")]:
        try:
            peers[name] = start(name, options.cache)
        except PeerError as e:
            missing.append(str(e))
            print(e, flush=True)
    try:
        with (
            tempfile.TemporaryDirectory(dir=memory) as work,
            tempfile.TemporaryDirectory(dir=options.disk) as disk,
        ):
            DATA = camera_data(edge)
            np.save(f"{work}/data.npy", DATA)
            for peer in peers.values():
                peer.ask(do="data", path=f"{work}/data.npy")
            os.unlink(f"{work}/data.npy")
            comparison = Comparison(options, edge, peers, Path(work))
            known = QUICK if options.quick else CELLS
            if fnmatch.fnmatch("small", options.cells):
                comparison.small()
            chosen = [cell for cell in known if fnmatch.fnmatch(cell.name, options.cells)]
            if not chosen:
                chosen = [cell for cell in CELLS if fnmatch.fnmatch(cell.name, options.cells)]
            for cell in chosen:
                comparison.cell(cell)
            for cell in chosen:
                if cell.name in DISK and not options.no_sync:
                    array = comparison.make(cell, Path(disk))
                    comparison.write(cell, array, "write with sync", options.repeat, sync=True)
                    shutil.rmtree(array["path"])
    finally:
        for peer in peers.values():
            peer.stop()
    versions = {p.name: f"{p.version} on CPython {p.python}" for p in peers.values()}
    print(table(comparison.results))
    if options.json:
        figures = [result._asdict() | {"ratio": result.ratio} for result in comparison.results]
        options.json.write_text(json.dumps({"versions": versions, "results": figures}, indent=1))
    if options.docs:
        command = "python benchmarks/compare.py" + (" --quick" if options.quick else "")
        options.docs.write_text(document(options.docs, comparison.results, versions, missing, edge, command))
    return 0


if __name__ == "__main__":
    sys.exit(main())
