"""chunkwise compared with TensorStore and zarr-python: whole-array reads and writes, small reads, opening.

    python benchmarks/compare.py [--quick] [--only PATTERN,...] [--operations read,write,small,sync]
                                 [--peers tensorstore,zarr,fused] [--rounds N] [--edge N] [--cold]
                                 [--json FILE] [--docs FILE]

Each library runs in a process of its own, with its default settings; they take turns, so that other load
affects all of them equally.  Files lie in memory if there is such a directory (``--directory`` for another),
so caches are warm; those of the rows "with sync" lie on disk, and a write ends when it is there. What is read
is checked once for each library.  Figures are ratios of medians: how many times as fast as the other library
chunkwise is.  "(cpu)" is the same for the processor time of all threads and child processes, which hardly
depends on other load.  "(memory)" is the same for the peak of the process's memory beyond the data to write.

A quick run of a few cells, and a run with more data than processors' caches hold, read from the disk:

    python benchmarks/compare.py --quick --only "zarr3 raw *,zarr3 blosc 32" --peers tensorstore --rounds 7
    python benchmarks/compare.py --edge 1024 --cold --only "zarr3 * 64" --peers tensorstore --rounds 1 \\
        --operations read,write
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shlex
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
_PASSES = 3
_MORE = {"write": 2, "write with sync": 2}  # times as many turns, for what varies more than a read


Answer = dict[str, Any]
"""Figures of a peer: ``seconds`` and, perhaps, ``cpu``."""


Samples = dict[str, list[Answer]]
"""The answers of each peer."""


def by_turns(peers: list[Peer], repeat: int, act: Callable[[Peer], Answer], warm: bool = False) -> Samples:
    """Return the figures of `act` for each peer, after one turn to warm up, if needed."""
    answers: Samples = {peer.name: [] for peer in peers}
    for turn in range(int(warm), repeat + 1):
        for peer in peers if turn % 2 else reversed(peers):
            answer = act(peer)
            if turn:
                answers[peer.name].append(answer)
    return answers


def medians(answers: Samples) -> dict[str, dict[str, float]]:
    """Return the median of each figure for each peer."""
    return {
        name: {key: median(answer[key] for answer in given) for key in given[0]}
        for name, given in answers.items()
    }


class Comparison:
    """All measurements of one run."""

    def __init__(self, options: argparse.Namespace, edge: int, peers: dict[str, Peer], work: Path) -> None:
        self.edge = edge
        self.cold = options.cold
        self.repeat = options.rounds
        self.many = 6 * options.rounds + 1  # where a turn is short and a ratio is near its bound
        self.turns = [options.rounds, *[-(-options.rounds * 2 // 3)] * (_PASSES - 1)]
        self.samples: dict[tuple[str, str], Samples] = {}
        self.checked: set[tuple[str, str]] = set()
        self.operations = options.operations.split(",")
        self.ours = peers["chunkwise"]
        self.peers = [peer for name, peer in peers.items() if name != "chunkwise"]
        self.work = work
        self.results: list[Result] = []

    def make(self, cell: Cell, directory: Path) -> dict[str, Any]:
        """Make the array of `cell`, without chunks; return the part of a command that names it."""
        path = f"{directory / cell.name.replace(' ', '-').replace('/', '-')}/"
        tensorstore.open(cell.spec(path, self.edge), create=True, delete_existing=True).result()
        return {"driver": cell.driver, "path": path}

    def add(self, row: str, operation: str, peer: Peer, times: dict[str, dict[str, float]]) -> None:
        """Keep the ratios, and show them."""
        ours, theirs = times[self.ours.name], times[peer.name]
        for key in ours:
            name = operation if key == "seconds" else f"{operation} ({key})"
            result = Result(row, name, peer.name, ours[key], theirs[key])
            if key == "seconds" or (peer.name == "tensorstore" and operation != "write with sync"):
                self.results.append(result)
            scale, unit = (2.0**-20, "MiB") if key == "memory" else (1000, "ms")
            shown = f"{scale * result.ours:9.3f} {scale * result.theirs:9.3f} {unit}"
            print(f"  {row:18} {name:18} {shown} {result.ratio:6.2f}x {peer.name}", flush=True)

    def planes(self, peer: Peer) -> int:
        # zarr-python takes long, so both sides use a quarter of the array.
        return self.edge if peer.name == "tensorstore" else max(128, self.edge // 4)

    def several(
        self, row: str, operation: str, peer: Peer, number: int, act: Callable[[Peer], Answer], few: int
    ) -> None:
        """Run the turns of a pass; TensorStore's are added up and shown after the last pass."""
        peers = [self.ours, peer]
        if peer.name != "tensorstore":
            if number == 0:
                self.add(row, operation, peer, medians(by_turns(peers, few, act)))
            return
        known = self.samples.setdefault((row, operation), {p.name: [] for p in peers})
        turns = self.turns[number] * _MORE.get(operation, 1)
        for name, given in by_turns(peers, turns, act, warm=number > 0).items():
            known[name] += given
        if number == _PASSES - 1:
            self.add(row, operation, peer, medians(known))

    def cell(self, cell: Cell, number: int) -> None:
        """Read and write one array in a pass."""
        array = self.make(cell, self.work)
        if "write" in self.operations:
            self.write(cell, array, "write", number)
        tensorstore_write(array, self.edge)
        if self.cold:
            os.sync()  # what isn't on the disk yet stays in memory
        for peer in self.peers if "read" in self.operations else ():
            if not self.able(peer, cell):
                continue
            planes = self.planes(peer)
            few = min(self.repeat, 2)

            def read(p: Peer, planes: int = planes, others: str = peer.name) -> Answer:
                check = (p.name + others, cell.name) not in self.checked
                self.checked.add((p.name + others, cell.name))
                if self.cold:
                    forget_files(array["path"])
                return p.ask(do="read", planes=planes, check=check, **array)

            self.several(cell.name, "read", peer, number, read, few)
        shutil.rmtree(array["path"])

    def write(
        self, cell: Cell, array: dict[str, Any], operation: str, number: int, sync: bool = False
    ) -> None:
        for peer in self.peers:
            if not self.able(peer, cell) or (sync and peer.name != "tensorstore"):
                continue
            planes = self.planes(peer)

            def write(p: Peer, planes: int = planes) -> Answer:
                clear(array["path"])
                return p.ask(do="write", planes=planes, sync=sync, **array)

            self.several(cell.name, operation, peer, number, write, 1)
            for p in (self.ours, peer) if number == 0 else ():
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

                    def act(p: Peer, do: str = do, array: dict[str, Any] = array) -> Answer:
                        return p.ask(do=do, **array)

                    times = medians(by_turns([self.ours, peer], self.many, act))
                    self.add(cell.name, operation, peer, times)
            shutil.rmtree(array["path"])


def tensorstore_write(array: dict[str, Any], edge: int) -> None:
    """Fill an array with another library, for reading."""
    spec = {"driver": array["driver"], "kvstore": {"driver": "file", "path": array["path"]}}
    context = tensorstore.Context({"file_io_sync": False})
    tensorstore.open(spec, context=context).result().write(DATA[:edge]).result()


def forget_files(path: str) -> None:
    """Let the system forget the files below a directory, so that they are read from the disk."""
    for folder, _, names in os.walk(path):
        for name in names:
            descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def clear(path: str) -> None:
    """Delete the chunks of an array."""
    for entry in os.scandir(path):
        if entry.is_dir():
            shutil.rmtree(entry.path)


def matching(cells: list[Cell], patterns: str) -> list[Cell]:
    """Return the cells that match one of the comma-separated patterns."""
    return [cell for cell in cells if any(fnmatch.fnmatch(cell.name, p) for p in patterns.split(","))]


DATA = np.empty(0)


def main() -> int:
    """Run the comparison."""
    global DATA
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="256³ and fewer cells")
    parser.add_argument(
        "--only",
        "--cells",
        default="*",
        metavar="PATTERN,...",
        help="names of cells, such as 'zarr3 blosc *,n5 raw 64'",
    )
    parser.add_argument("--operations", default="read,write,small,sync", help="which of these")
    parser.add_argument("--peers", default="tensorstore,zarr,fused")
    parser.add_argument("--rounds", "--repeat", type=int, default=3, help="turns of each library")
    parser.add_argument("--edge", type=int, help="extent of the array in each dimension")
    parser.add_argument("--cold", action="store_true", help="read files from the disk, not from memory")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument(
        "--docs",
        type=Path,
        help="write the table to this file; a complete run does so to docs/performance.md",
    )
    parser.add_argument("--directory", help="where the arrays lie; by default in memory")
    parser.add_argument("--disk", help="where those of the rows with sync lie", default=None)
    parser.add_argument("--cache", type=Path, default=HERE.parent / "build" / "benchmarks")
    options = parser.parse_args()
    edge = options.edge or (256 if options.quick else 512)
    operations = options.operations.split(",")
    if wrong := set(operations) - {"read", "write", "small", "sync"}:
        parser.error(f"unknown operations: {', '.join(sorted(wrong))}")
    usual = not (options.quick or options.cold or options.edge)
    complete = usual and options.only == "*" and len(operations) == 4
    if complete and options.docs is None and options.peers == "tensorstore,zarr,fused":
        options.docs = HERE.parent / "docs" / "performance.md"
    memory = options.directory or ("/dev/shm" if os.path.isdir("/dev/shm") and not options.cold else None)
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
            if "small" in operations:
                comparison.small()
            chosen = matching(known, options.only) or matching(CELLS, options.only)
            for number in range(_PASSES):
                for cell in chosen if {"read", "write"} & set(operations) else ():
                    comparison.cell(cell, number)
                for cell in chosen:
                    if cell.name in DISK and "sync" in operations:
                        array = comparison.make(cell, Path(disk))
                        comparison.write(cell, array, "write with sync", number, sync=True)
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
        command = shlex.join(["python", "benchmarks/compare.py", *sys.argv[1:]])
        options.docs.write_text(document(options.docs, comparison.results, versions, missing, edge, command))
    return 0


if __name__ == "__main__":
    sys.exit(main())
