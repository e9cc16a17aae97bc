"""Whole user jobs, compared with other libraries: the first table of docs/performance.md.

    python benchmarks/jobs.py [part of a job ...] [--turns 3] [--edge 256] [--codec zstd] [--seed 0]
                              [--peers tensorstore,zarr,zarrs,acquire_zarr,ngff_zarr]
                              [--python PEER=INTERPRETER] [--docs docs/performance.md] [--profile]

Each job of each library runs in a new process that has only imported the library; the libraries take turns.
The figures are ratios of medians, the peer's processor time (its children's included) divided by chunkwise's:
above 1, chunkwise took less.  In brackets is the same for wall time, which is meaningful only on a quiet
machine.  The results of a job are compared by a checksum.  A peer that isn't installed is left out;
zarr-python uses its FusedCodecPipeline if it has one.

With `--profile`, each process does its job twice.  The table has milliseconds of processor time (by the clock
in brackets): the first time, the second time, and of the first time what loads modules and what Python's
cyclic garbage collector takes.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from datetime import date
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

BEGIN, END = "<!-- jobs: begin -->", "<!-- jobs: end -->"
PEERS = {
    "tensorstore": ("tensorstore", "TensorStore"),
    "zarr": ("zarr", "zarr-python"),
    "zarrs": ("zarrs", "zarrs pipeline"),
    "acquire_zarr": ("acquire_zarr", "acquire-zarr"),
    "ngff_zarr": ("ngff_zarr", "ngff-zarr"),
}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BLOSC = {"cname": "lz4", "clevel": 1, "shuffle": "bitshuffle", "typesize": 2, "blocksize": 0}
CODECS: dict[str, dict[str, Any]] = {
    "zstd": {"name": "zstd", "configuration": {"level": 3}},
    "gzip": {"name": "gzip", "configuration": {"level": 5}},
    "blosc": {"name": "blosc", "configuration": BLOSC},
}
NO_SYNC = {"context": {"file_io_sync": False}}
N_SAMPLES, N_TILES, N_FRAMES, N_ROWS = 8000, 20, 120, 300


def checksum(values: Any) -> int:
    """Return a checksum of an array."""
    return zlib.crc32(np.ascontiguousarray(values).tobytes())


class Work(NamedTuple):
    """The context of a job."""

    who: str  # the library
    folder: Path  # of the inputs
    out: Path  # its output
    edge: int
    codec: str
    seed: int

    @property
    def library(self) -> Any:
        """Return chunkwise or TensorStore, which take the same specs."""
        return importlib.import_module(self.who)

    def random(self, more: int = 0) -> np.random.Generator:
        """Return random numbers that are the same for all libraries."""
        return np.random.default_rng(self.seed * 100 + more)

    def open(self, name: str, driver: str = "zarr3") -> Any:
        """Open an input."""
        return self.library.open({"driver": driver, "kvstore": f"file://{self.folder / name}/"}).result()

    def zarr(self, name: str) -> Any:
        """Open an input with zarr-python, by the fastest pipeline that there is."""
        import zarr

        pipelines = {
            "zarrs": "zarrs.ZarrsCodecPipeline",
            "zarr": "zarr.core.codec_pipeline.FusedCodecPipeline",
        }
        if self.who == "zarrs" or hasattr(
            importlib.import_module("zarr.core.codec_pipeline"), "FusedCodecPipeline"
        ):
            zarr.config.set({"codec_pipeline.path": pipelines[self.who]})
        return zarr.open_array(str(self.folder / name), mode="r")

    def layout(self, chunk: list[int], shard: list[int] | None = None, codec: str = "") -> dict[str, Any]:
        """Return members of the metadata of an array of Zarr v3."""
        codecs: list[Any] = [LITTLE, CODECS[codec or self.codec]]
        if shard is not None:
            configuration = {
                "chunk_shape": chunk,
                "codecs": codecs,
                "index_codecs": [LITTLE, {"name": "crc32c"}],
            }
            codecs = [{"name": "sharding_indexed", "configuration": configuration}]
        grid = {"name": "regular", "configuration": {"chunk_shape": shard or chunk}}
        return {"chunk_grid": grid, "codecs": codecs}

    def create(
        self,
        path: Path,
        shape: list[int],
        metadata: dict[str, Any],
        dtype: str = "uint16",
        driver: str = "zarr3",
    ) -> Any:
        """Create an array."""
        spec = {"driver": driver, "kvstore": f"file://{path}/", "metadata": metadata, **NO_SYNC}
        return self.library.open(spec, create=True, delete_existing=True, dtype=dtype, shape=shape).result()


Job = Callable[[Work], Any]
JOBS: dict[str, dict[str, Job]] = {}


def job(name: str, *who: str) -> Callable[[Job], Job]:
    """Add a function as the job `name` of some libraries."""

    def add(function: Job) -> Job:
        JOBS.setdefault(name, {}).update(dict.fromkeys(who, function))
        return function

    return add


def sums(read: Callable[..., Any], requests: Any) -> int:
    """Return the sum of everything that is read."""
    return sum(int(read(*request).sum()) for request in requests) & 0xFFFFFFFF


def boxes(work: Work) -> list[tuple[slice, ...]]:
    """Return boxes of 48³ somewhere in the volume."""
    corners = work.random(1).integers(0, work.edge - 48, (600, 3)).tolist()
    return [tuple(slice(at, at + 48) for at in corner) for corner in corners]


@job("600 boxes of 48³ from shards, one by one", "chunkwise", "tensorstore")
def read_boxes(work: Work) -> int:
    array = work.open("shards")
    return sums(lambda *box: array[box].read().result(), boxes(work))


@job("600 boxes of 48³ from shards, one by one", "zarr", "zarrs")
def read_boxes_by_zarr(work: Work) -> int:
    array = work.zarr("shards")
    return sums(lambda *box: array[box], boxes(work))


def batches(work: Work) -> Any:
    """Return 64 batches of 64 samples."""
    return work.random(2).permutation(N_SAMPLES)[: 64 * 64].reshape(64, 1, 64)


@job("64 shuffled batches of 64 samples, each a chunk", "chunkwise", "tensorstore")
def read_batches(work: Work) -> int:
    array = work.open("samples")
    return sums(lambda some: array[some].read().result(), batches(work))


@job("64 shuffled batches of 64 samples, each a chunk", "zarr", "zarrs")
def read_batches_by_zarr(work: Work) -> int:
    array = work.zarr("samples")
    return sums(lambda some: array.oindex[some], batches(work))


def points(work: Work) -> tuple[Any, ...]:
    """Return 100,000 points of the volume."""
    return tuple(work.random(3).integers(0, work.edge, (3, 100_000)))


@job("100,000 points", "chunkwise", "tensorstore")
def read_points(work: Work) -> int:
    return checksum(work.open("chunks").vindex[points(work)].read().result())


@job("100,000 points", "zarr")
def read_points_by_zarr(work: Work) -> int:
    return checksum(work.zarr("chunks").vindex[points(work)])


@job("mosaic of 400 tiles by specs", "chunkwise", "tensorstore")
def read_mosaic(work: Work) -> int:
    layers = []
    for i in range(N_TILES):
        for j in range(N_TILES):
            at = [i * 128, j * 128]
            layers.append(
                {
                    "driver": "zarr3",
                    "kvstore": f"file://{work.folder}/tiles/{i}-{j}/",
                    "transform": {
                        "input_inclusive_min": at,
                        "input_exclusive_max": [n + 128 for n in at],
                        "output": [{"input_dimension": d, "offset": -n} for d, n in enumerate(at)],
                    },
                }
            )
    spec = {"driver": "stack", "layers": layers, "dtype": "uint16"}
    return checksum(work.library.open(spec).result().read().result())


@job("300 rows appended one by one", "chunkwise", "tensorstore")
def append(work: Work) -> Callable[[], int]:
    array = work.create(work.out, [0, 64, 64], work.layout([50, 64, 64]), "float32")
    for k in range(N_ROWS):
        array = array.resize(exclusive_max=[k + 1, 64, 64]).result()
        array[k].write(np.full((64, 64), k, np.float32)).result()
    return lambda: read_back(work.out)


@job("300 rows appended one by one", "zarr")
def append_by_zarr(work: Work) -> Callable[[], int]:
    import zarr

    array = zarr.create_array(
        str(work.out),
        shape=(0, 64, 64),
        chunks=(50, 64, 64),
        dtype="float32",
        compressors=CODECS[work.codec],
    )
    for k in range(N_ROWS):
        array.append(np.full((1, 64, 64), k, np.float32))
    return lambda: read_back(work.out)


def frames(work: Work) -> Any:
    """Return some frames of a camera, which come again and again."""
    return work.random(4).integers(0, 500, (16, 512, 512), dtype=np.uint16)


@job("120 frames acquired into shards", "chunkwise", "tensorstore")
def acquire(work: Work) -> Callable[[], int]:
    layout = work.layout([1, 256, 256], [40, 512, 512], "blosc")
    array, some = work.create(work.out, [N_FRAMES, 512, 512], layout), frames(work)
    for first in range(0, N_FRAMES, 40):
        together = np.stack([some[k % 16] for k in range(first, first + 40)])
        array[first : first + 40].write(together).result()
    return lambda: read_back(work.out)


@job("120 frames acquired into shards", "acquire_zarr")
def acquire_by_acquire_zarr(work: Work) -> Callable[[], int]:
    import acquire_zarr as aq

    dims = [
        aq.Dimension(
            name="t", kind=aq.DimensionType.TIME, array_size_px=0, chunk_size_px=1, shard_size_chunks=40
        )
    ]
    for name in "yx":
        dims.append(
            aq.Dimension(
                name=name,
                kind=aq.DimensionType.SPACE,
                array_size_px=512,
                chunk_size_px=256,
                shard_size_chunks=2,
            )
        )
    compression = aq.CompressionSettings(
        compressor=aq.Compressor.BLOSC1, codec=aq.CompressionCodec.BLOSC_LZ4, level=1, shuffle=2
    )
    settings = aq.ArraySettings(
        dimensions=dims, data_type=aq.DataType.UINT16, compression=compression, output_key="a"
    )
    stream = aq.ZarrStream(aq.StreamSettings(store_path=str(work.out), arrays=[settings]))
    some = frames(work)
    for k in range(N_FRAMES):
        stream.append(some[k % 16])
    stream.close()
    return lambda: read_back(work.out / "a")


@job("N5 to sharded Zarr v3", "chunkwise", "tensorstore")
def convert(work: Work) -> Callable[[], int]:
    source = work.open("source.n5", "n5")
    target = work.create(work.out, [work.edge] * 3, work.layout([32] * 3, [128] * 3))
    target.write(source).result()
    return lambda: read_back(work.out)


@job("pyramid of 3 levels", "chunkwise")
def pyramid(work: Work) -> Callable[[], int]:
    from chunkwise.cli.main import main

    main(["pyramid", str(work.folder / "chunks"), str(work.out), "--levels", "2", "--no-sync", "--quiet"])
    return lambda: read_back(work.out / "1")


@job("pyramid of 3 levels", "tensorstore")
def pyramid_by_tensorstore(work: Work) -> Callable[[], int]:
    source, library = work.open("chunks"), work.library
    work.create(work.out / "0", [work.edge] * 3, work.layout([64] * 3)).write(source).result()
    for level in (1, 2):
        above = library.open({"driver": "zarr3", "kvstore": f"file://{work.out}/{level - 1}/"}).result()
        smaller = library.downsample(above, [2] * 3, "mean")
        target = work.create(work.out / str(level), list(smaller.shape), work.layout([64] * 3))
        for first in range(0, smaller.shape[0], 64):
            part = slice(first, first + 64)
            target[part].write(smaller[part].read().result()).result()
    return lambda: read_back(work.out / "1")


@job("pyramid of 3 levels", "ngff_zarr")
def pyramid_by_ngff_zarr(work: Work) -> None:
    import dask.array
    import ngff_zarr

    image = ngff_zarr.to_ngff_image(dask.array.from_zarr(str(work.folder / "chunks")), dims=("z", "y", "x"))
    scales = ngff_zarr.to_multiscales(image, scale_factors=[2, 4], chunks=64)
    ngff_zarr.to_ngff_zarr(str(work.out), scales, version="0.5")


def read_back(path: Path) -> int:
    """Return the checksum of an array, as TensorStore reads it."""
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": f"file://{path}/"}
    return checksum(tensorstore.open(spec).result().read().result())


def prepare(work: Work) -> None:
    """Write the inputs of all jobs, by TensorStore, unless they are there."""
    if (work.folder / "ready").exists():
        return
    z, y, x = np.ogrid[: work.edge, : work.edge, : work.edge]
    volume = (1500 * (np.sin(z / 37) + np.cos(y / 23) * np.sin(x / 31) + 2)).astype(np.uint16)
    volume += work.random().integers(0, 32, volume.shape, dtype=np.uint16)
    shape, folder = list(volume.shape), work.folder
    blocks = {"blockSize": [64] * 3, "compression": {"type": "gzip", "level": 1}}
    work.create(folder / "source.n5", shape, blocks, driver="n5").write(volume).result()
    work.create(folder / "chunks", shape, work.layout([64] * 3)).write(volume).result()
    work.create(folder / "shards", shape, work.layout([32] * 3, [128] * 3)).write(volume).result()
    samples = work.random(5).integers(0, 60, (N_SAMPLES, 3, 64, 64), dtype=np.uint8)
    layout = work.layout([1, 3, 64, 64], [1000, 3, 64, 64])
    work.create(folder / "samples", list(samples.shape), layout, "uint8").write(samples).result()
    for i in range(N_TILES):
        for j in range(N_TILES):
            tile = volume[(i * N_TILES + j) % work.edge, :128, :128]
            work.create(folder / "tiles" / f"{i}-{j}", [128, 128], work.layout([128, 128])).write(
                tile
            ).result()
    (folder / "ready").touch()


class Figures(NamedTuple):
    """Medians of one library at one job."""

    seconds: float
    cpu: float
    mebibytes: float
    value: Any


def spent() -> float:
    """Return the processor time of this process and its children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def run_once(name: str, work: Work) -> None:
    """Do a job and print its figures: what the process of one library does."""
    for module in {"zarrs": ("zarr", "zarrs"), "ngff_zarr": ("ngff_zarr", "dask.array")}.get(
        work.who, (work.who,)
    ):
        importlib.import_module(module)
    importlib.import_module("tensorstore")  # reads the output, outside of the measurement
    cpu, began = spent(), time.perf_counter()
    value = JOBS[name][work.who](work)
    seconds, cpu = time.perf_counter() - began, spent() - cpu
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps([seconds, cpu, peak / 1024, value() if callable(value) else value]))


class Profile:
    """Processor seconds of loading modules and of Python's cyclic garbage collector."""

    def __init__(self) -> None:
        self.loading = self.collecting = 0.0
        self._depth = 0
        self._began = 0.0
        importer = sys.modules["_frozen_importlib"]
        self._load, importer._find_and_load = importer._find_and_load, self._timed
        gc.callbacks.append(self._collected)

    def _timed(self, *args: Any) -> Any:
        began = time.process_time()
        self._depth += 1
        try:
            return self._load(*args)
        finally:
            self._depth -= 1
            if not self._depth:
                self.loading += time.process_time() - began

    def _collected(self, phase: str, _: Any) -> None:
        if phase == "start":
            self._began = time.process_time()
        else:
            self.collecting += time.process_time() - self._began


def run_twice(name: str, work: Work) -> None:
    """Do a job twice and print where its time goes: what a process with `--profile` does."""
    importlib.import_module(work.who)
    importlib.import_module("tensorstore")
    known, profile, figures = len(sys.modules), Profile(), []
    for _ in range(2):
        cpu, began = spent(), time.perf_counter()
        JOBS[name][work.who](work)
        figures += [spent() - cpu, time.perf_counter() - began]
        if len(figures) == 2:
            figures += [len(sys.modules) - known, profile.loading, profile.collecting]
        shutil.rmtree(work.out, ignore_errors=True)
    print(json.dumps(figures))


class Comparison:
    """Runs of all jobs, by chunkwise and its peers in turn."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.pythons = dict(pair.split("=", 1) for pair in options.python)
        root = Path(options.directory or tempfile.gettempdir())
        self.folder = root / f"chunkwise-jobs-{options.codec}-{options.edge}-{options.seed}"
        self.results: dict[str, dict[str, Figures]] = {}

    def work(self, who: str) -> Work:
        """Return what a library works with."""
        o = self.options
        return Work(who, self.folder, self.folder / "out" / who, o.edge, o.codec, o.seed)

    @cached_property
    def environment(self) -> dict[str, str]:
        """Environment of the processes; modules are compiled once, as after an installation."""
        return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {
            "PYTHONWARNINGS": "ignore"
        }

    def has(self, who: str) -> bool:
        """Return True if a library is installed in its interpreter."""
        module = PEERS.get(who, (who, ""))[0]
        command = [self.pythons.get(who, sys.executable), "-c", f"import {module}"]
        return subprocess.run(command, capture_output=True, env=self.environment).returncode == 0

    def turn(self, name: str, who: str) -> list[Any]:
        """Do a job once in a process of its own."""
        work = self.work(who)
        shutil.rmtree(work.out, ignore_errors=True)
        work.out.parent.mkdir(parents=True, exist_ok=True)
        command = [self.pythons.get(who, sys.executable), __file__, "--run", name, who]
        command += ["--profile"] * self.options.profile
        for option in ("edge", "codec", "seed", "directory"):
            value = getattr(self.options, option)
            command += [] if value is None else [f"--{option}", str(value)]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if done.returncode:
            raise SystemExit(f"{name}, {who}:\n{done.stderr}")
        figures: list[Any] = json.loads(done.stdout.splitlines()[-1])
        return figures

    def run(self) -> None:
        """Run all selected jobs."""
        subprocess.run(
            [sys.executable, __file__, "--prepare", *self._inputs()], check=True, env=self.environment
        )
        peers = [who for who in self.options.peers.split(",") if self.has(who)]
        for name, by in JOBS.items():
            if self.options.jobs and not any(part in name for part in self.options.jobs):
                continue
            who = ["chunkwise", *(peer for peer in peers if peer in by)]
            turns: dict[str, list[list[Any]]] = {one: [] for one in who}
            for number in range(self.options.turns + 1):
                for one in who:
                    figures = self.turn(name, one)
                    if number:  # the first turn compiles modules and fills the page cache
                        turns[one].append(figures)
            if self.options.profile:
                self.show_profile(name, turns)
                continue
            self.results[name] = {
                one: Figures(*(statistics.median(t[k] for t in runs) for k in range(3)), value=runs[0][3])
                for one, runs in turns.items()
            }
            self.show(name)

    def _inputs(self) -> list[str]:
        o = self.options
        return ["--edge", str(o.edge), "--codec", o.codec, "--seed", str(o.seed)] + (
            [] if o.directory is None else ["--directory", o.directory]
        )

    def show_profile(self, name: str, turns: dict[str, list[list[Any]]]) -> None:
        """Print a row for each library: what its processes with `--profile` have found."""
        for who, runs in turns.items():
            first, clock, modules, loading, collecting, again, clock_again = (
                statistics.median(column) for column in zip(*runs, strict=True)
            )
            cells = [f"{1e3 * first:.0f} ({1e3 * clock:.0f})", f"{1e3 * again:.0f} ({1e3 * clock_again:.0f})"]
            cells += [f"{modules:.0f}", f"{1e3 * loading:.0f}", f"{1e3 * collecting:.0f}"]
            print(f"| {name}: {who} | {' | '.join(cells)} |", flush=True)

    def show(self, name: str) -> None:
        """Print the figures of a job."""
        print(name)
        ours = self.results[name]["chunkwise"]
        for who, figures in self.results[name].items():
            same = (
                "" if None in (figures.value, ours.value) or figures.value == ours.value else "  OTHER VALUES"
            )
            print(
                f"  {who:14} {figures.cpu:7.3f} s of processor time ({figures.cpu / ours.cpu:5.2f})"
                f" {figures.seconds:7.3f} s by the clock ({figures.seconds / ours.seconds:5.2f})"
                f" {figures.mebibytes:5.0f} MiB{same}",
                flush=True,
            )

    def table(self) -> str:
        """Return the ratios as a Markdown table, with a mean for each peer."""
        peers = [who for who in PEERS if any(who in figures for figures in self.results.values())]
        lines = [
            f"| job | {' | '.join(PEERS[who][1] for who in peers)} | memory: chunkwise, TensorStore (MiB) |",
            f"|---|{'--:|' * len(peers)}--:|",
        ]
        ratios: dict[str, list[tuple[float, float]]] = {who: [] for who in peers}
        for name, figures in self.results.items():
            ours, cells = figures["chunkwise"], []
            for who in peers:
                if who not in figures:
                    cells.append("")
                    continue
                ratio = figures[who].cpu / ours.cpu, figures[who].seconds / ours.seconds
                ratios[who].append(ratio)
                cells.append(f"{ratio[0]:.2f} ({ratio[1]:.2f})")
            memory = f"{ours.mebibytes:.0f}"
            if "tensorstore" in figures:
                memory += f", {figures['tensorstore'].mebibytes:.0f}"
            lines.append(f"| {name} | {' | '.join(cells)} | {memory} |")
        means = []
        for who in peers:
            cpu, clock = (math.prod(along) ** (1 / len(along)) for along in zip(*ratios[who], strict=True))
            means.append(f"**{cpu:.2f}** ({clock:.2f})")
        lines.append(f"| **geometric mean** | {' | '.join(means)} | |")
        return "\n".join(lines)

    def conditions(self) -> str:
        """Return a sentence on the measurement and the machine."""
        o, versions = self.options, []
        for who in PEERS:
            if who not in self.pythons and any(who in figures for figures in self.results.values()):
                try:
                    versions.append(f"{PEERS[who][1]} {version(PEERS[who][0].replace('_', '-'))}")
                except PackageNotFoundError:
                    continue
        load = ", ".join(f"{n:.0f}" for n in os.getloadavg())
        profile = " --profile" * o.profile
        return (
            f"`python benchmarks/jobs.py --turns {o.turns} --edge {o.edge} --codec {o.codec} "
            f"--seed {o.seed}{profile}`, {date.today()}, "
            f"{os.cpu_count()} cores, {platform.machine()}, CPython {platform.python_version()}, "
            f"load average {load}; {', '.join(versions)}."
        )


def main() -> None:
    """Run the jobs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jobs", nargs="*", help="parts of the names of jobs; all by default")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--edge", type=int, default=256, help="edge of the volume")
    parser.add_argument("--codec", choices=CODECS, default="zstd")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--python", action="append", default=[], metavar="PEER=INTERPRETER")
    parser.add_argument("--directory", help="directory of inputs and outputs")
    parser.add_argument("--profile", action="store_true", help="print where the time of each job goes")
    parser.add_argument("--docs", type=Path, help="put the table into this page")
    parser.add_argument("--run", nargs=2, metavar=("JOB", "PEER"), help=argparse.SUPPRESS)
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    comparison = Comparison(options)
    if options.prepare:
        prepare(comparison.work("tensorstore"))
    elif options.run:
        run = run_twice if options.profile else run_once
        run(options.run[0], comparison.work(options.run[1]))
    elif options.profile:
        print(
            "| | first | again | modules | loading them | collector |\n|---|--:|--:|--:|--:|--:|", flush=True
        )
        comparison.run()
        print("\n" + comparison.conditions())
    else:
        comparison.run()
        print("\n" + comparison.conditions() + "\n\n" + comparison.table())
        if options.docs:
            page = options.docs.read_text(encoding="utf-8")
            head, tail = page.split(BEGIN)[0], page.split(END)[1]
            measured = f"{comparison.conditions()}\n\n{comparison.table()}"
            options.docs.write_text(f"{head}{BEGIN}\n\n{measured}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
