"""Processor time of rechunking planes to columns, compared with other out-of-core libraries.

Each library runs in a process of its own, with two workers and Zarr v2 on files, with the default codec of
zarr-python 2; its time and that of its workers is counted until all have ended.  The time of a run with a
small array, for starting and importing, is subtracted. Needs ``pip install cubed rechunker xarray-beam``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

LIBRARIES = {
    "bare calls": "numpy",
    "chunkwise": "chunkwise",
    "cubed": "cubed",
    "dask p2p": "distributed",
    "rechunker": "rechunker",
    "xarray-beam": "xarray-beam",
}
SMALL = (16, 64, 64)
MEMORY = 43_000_000


def copy_with_chunkwise(source: str, target: str, chunks: tuple[int, ...]) -> None:
    """Copy with two processes."""
    from chunkwise import copy
    from chunkwise.copying.executors import named_workers

    copy(source, target, chunks=chunks, memory=MEMORY, executor=named_workers("processes:2"), sync=False)


def copy_with_cubed(source: str, target: str, chunks: tuple[int, ...]) -> None:
    """Copy with two processes."""
    import cubed
    from cubed.runtime.create import create_executor

    spec = cubed.Spec(work_dir=f"{target}-work", allowed_mem=MEMORY, reserved_mem=0)
    array = cubed.from_zarr(source, spec=spec).rechunk(chunks)
    executor = create_executor("processes", {"max_workers": 2})
    cubed.to_zarr(array, target, executor=executor)


def _dask_array(source: str) -> Any:
    import dask.array

    return dask.array.from_zarr(source)


def copy_with_dask(source: str, target: str, chunks: tuple[int, ...]) -> None:
    """Copy by distributed's shuffle between two workers."""
    import dask
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster), dask.config.set({"array.rechunk.method": "p2p"}):
        _dask_array(source).rechunk(chunks).to_zarr(target, compressor=_compressor())


def copy_with_rechunker(source: str, target: str, chunks: tuple[int, ...]) -> None:
    """Copy with dask's scheduler of processes."""
    import dask
    import zarr
    from rechunker import rechunk

    plan = rechunk(
        zarr.open(source),
        target_chunks=chunks,
        max_mem=MEMORY,
        target_store=target,
        temp_store=f"{target}-between",
        target_options={"compressor": _compressor()},
    )
    with dask.config.set(scheduler="processes", num_workers=2):
        plan.execute()


def copy_with_xarray_beam(source: str, target: str, chunks: tuple[int, ...]) -> None:
    """Copy with Beam's runner of one machine."""
    import apache_beam as beam
    import xarray_beam as xbeam
    from apache_beam.options.pipeline_options import PipelineOptions

    dataset, found = xbeam.open_zarr(source, consolidated=False)
    sizes = dict(zip(dataset["a"].dims, chunks, strict=True))
    options = PipelineOptions(direct_running_mode="multi_processing", direct_num_workers=2)
    with beam.Pipeline(runner="DirectRunner", options=options) as p:
        (
            p
            | xbeam.DatasetToChunks(dataset, found, split_vars=True)
            | xbeam.Rechunk(dataset.sizes, found, sizes, itemsize=2, max_mem=MEMORY)
            | xbeam.ChunksToZarr(target, xbeam.make_template(dataset), sizes)
        )


def copy_with_bare_calls(source: str, target: str, chunks: tuple[int, ...]) -> None:
    """Do the same traffic with bare calls of NumPy, codecs and files, as a lower bound."""
    codec = _compressor()
    document = json.loads(Path(source, ".zarray").read_text())
    (depth, *_), (_, height, width) = document["shape"], document["chunks"]
    many = max(1, min(depth, MEMORY // 4 // (height * width * 2)))  # planes of a task, by the same rule
    row = min(height, max(chunks[1], MEMORY // 4 // (depth * width * 2) // chunks[1] * chunks[1]))
    between = Path(target, "between")
    between.mkdir(parents=True)
    bands = range(0, height, row)
    index: dict[tuple[int, int], tuple[int, int]] = {}
    for z in range(0, depth, many):
        planes = np.empty((min(many, depth - z), height, width), "u2")
        for i in range(len(planes)):
            codec.decode(Path(source, f"{z + i}.0.0").read_bytes(), planes[i])
        with open(between / str(z), "wb") as file:
            for y in bands:
                part = codec.encode(np.ascontiguousarray(planes[:, y : y + row]))
                index[z, y] = file.tell(), len(part)
                file.write(part)
    for y in bands:
        band = np.empty((depth, min(row, height - y), width), "u2")
        for z in range(0, depth, many):
            with open(between / str(z), "rb") as file:
                file.seek(index[z, y][0])
                codec.decode(file.read(index[z, y][1]), band[z : z + many])
        for j in range(0, band.shape[1], chunks[1]):
            for x in range(0, width, chunks[2]):
                block = np.ascontiguousarray(band[:, j : j + chunks[1], x : x + chunks[2]])
                Path(target, f"0.{(y + j) // chunks[1]}.{x // chunks[2]}").write_bytes(codec.encode(block))
    for path in between.iterdir():
        path.unlink()
    between.rmdir()
    Path(target, ".zarray").write_text(json.dumps({**document, "chunks": list(chunks)}))


COPY = {
    "bare calls": copy_with_bare_calls,
    "chunkwise": copy_with_chunkwise,
    "cubed": copy_with_cubed,
    "dask p2p": copy_with_dask,
    "rechunker": copy_with_rechunker,
    "xarray-beam": copy_with_xarray_beam,
}


def _compressor() -> Any:
    from numcodecs import Blosc

    return Blosc()


def make_planes(folder: Path, shape: tuple[int, ...], data: str) -> None:
    """Make an array in planes, as a file of xarray has it: a smooth image with noise, or noise alone."""
    import chunkwise as cw

    cw.create_group(folder, format="zarr2")
    array = cw.create_array(
        folder / "a",
        shape=shape,
        dtype="u2",
        chunks=(1, *shape[1:]),
        codec="blosc:lz4:5:shuffle",
        format="zarr2",
    )
    (folder / "a" / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["z", "y", "x"]}')
    r = np.random.default_rng(0)
    for i in range(0, shape[0], 64):
        size = (min(64, shape[0] - i), *shape[1:])
        if data == "noise":
            part = r.integers(0, 4096, size, "u2")
        else:
            part = (2000 + np.cumsum(r.normal(0, 3, size), axis=2) + r.normal(0, 20, size)).astype("u2")
        array[i : i + len(part), ...].write(part).result()


def check(source: Path, target: Path, chunks: tuple[int, ...]) -> None:
    """Raise unless the copy has the right elements and chunks."""
    import chunkwise as cw

    one, other = cw.open(source).result(), cw.open(target).result()
    codecs = [json.loads((path / ".zarray").read_text())["compressor"] for path in (source, target)]
    assert codecs[0] == codecs[1], codecs
    assert other.chunk_layout.read_chunk.shape == chunks, other.chunk_layout
    n = one.shape[0]
    for i in range(0, n, 64):
        assert np.array_equal(
            one[i : min(i + 64, n)].read().result(), other[i : min(i + 64, n)].read().result()
        )


def measure(library: str, source: Path, target: Path, chunks: tuple[int, ...]) -> tuple[float, float]:
    """Return the processor time and the time by the clock of a copy in another process."""
    place = source if library == "xarray-beam" else source / "a"
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, __file__, "--only", library, str(place), str(target), json.dumps(chunks)]
    done = subprocess.run(command, capture_output=True, text=True)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - started
    if done.returncode:
        raise RuntimeError(f"{library}: {done.stderr[-2000:]}")
    check(source / "a", target / "a" if library == "xarray-beam" else target, chunks)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds


def main() -> None:
    """Print a row for each library that is installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="1024,512,512")
    parser.add_argument("--data", choices=("image", "noise"), default="image")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--only", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only is not None:
        library, source, target, chunks = arguments.only
        COPY[library](source, target, tuple(json.loads(chunks)))
        return
    shape = tuple(map(int, arguments.shape.split(",")))
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="chunkwise-") as name:
        folder = Path(name)
        make_planes(folder / "large", shape, arguments.data)
        make_planes(folder / "small", SMALL, arguments.data)
        for turn in range(arguments.turns):
            for library in arguments.libraries.split(","):
                place = folder / f"{library.replace(' ', '-')}-{turn}"
                start = measure(library, folder / "small", place / "small", (SMALL[0], 16, 16))
                whole = measure(library, folder / "large", place / "large", (shape[0], 64, 64))
                found.setdefault(library, []).append((whole[0] - start[0], whole[1] - start[1]))
                subprocess.run(["rm", "-rf", str(place)], check=True)
                print(f"{library}: {found[library][-1]}", file=sys.stderr, flush=True)
    ours = statistics.median(cpu for cpu, _ in found.get("chunkwise", [(float("nan"), 0)]))
    size = f"{np.prod(shape) * 2 / 1e6:,.0f} MB of {arguments.data}"
    print(f"{size}, {os.cpu_count()} processors, {arguments.turns} turns")
    for library, turns in found.items():
        cpu, seconds = (statistics.median(values) for values in zip(*turns, strict=True))
        try:
            name = f"{library} {version(LIBRARIES[library])}"
        except PackageNotFoundError:
            name = library
        print(f"{name}: {cpu:.1f} s of processor time ({ours / cpu:.2f} of it is ours), {seconds:.1f} s")


if __name__ == "__main__":
    main()
