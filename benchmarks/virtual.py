"""Stacks, downsampling and pyramids, compared with TensorStore.

    python benchmarks/virtual.py [--quick] [--repeat N] [--parts stack,layers,downsample,pyramid]
                                 [--directory DIR] [--json FILE]

Both libraries run in this process and take turns, with their default settings; the medians count.  Files lie
in memory if there is such a directory, so caches are warm.  "direct" reads the layers themselves into one
array, all at the same time.  The cost of a stack is its time divided by that; the cost of a stack of specs is
its time divided by that of opening and reading the layers.  "at first" is the speed relative to TensorStore
with all acts in turn and without warming up. The speed of downsampling counts the elements that are read, and
is compared with copying as many.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tensorstore

import chunkwise

LIBRARIES = {"chunkwise": chunkwise, "tensorstore": tensorstore}
METHODS = ("stride", "mean", "min", "max", "median", "mode")


def by_turns(repeat: int, **acts: Callable[[], Any]) -> dict[str, float]:
    """Return the median of the seconds of each act; they take turns, after one turn to warm up."""
    times: dict[str, list[float]] = {name: [] for name in acts}
    for turn in range(repeat + 1):
        for name in acts if turn % 2 else reversed(acts):
            start = time.perf_counter()
            acts[name]()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: median(taken) for name, taken in times.items()}


def repeat_for(seconds: float, act: Callable[[], Any]) -> None:
    """Repeat an action."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        act()


def file_spec(driver: str, path: Path | str) -> dict[str, Any]:
    """Return the spec of an array on disk."""
    return {"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}


def raw_or(codec: str) -> list[Any]:
    """Return a Zarr v3 chain."""
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    return [little] if codec == "raw" else [little, {"name": codec, "configuration": {"level": 1}}]


class Stacks:
    """A volume in disjoint layers, read as a whole."""

    def __init__(self, work: Path, edge: int, per_side: int, codec: str) -> None:
        self.edge, self.part = edge, edge // per_side
        volume = np.random.default_rng(0).integers(0, 400, (edge,) * 3).astype("u2")
        self.volume = volume
        self.specs = []
        for number, place in enumerate(np.ndindex(*(per_side,) * 3)):
            at = [p * self.part for p in place]
            box = tuple(slice(a, a + self.part) for a in at)
            spec = file_spec("zarr3", work / f"{codec}-{per_side}-{number}")
            metadata = {
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [min(64, self.part)] * 3}},
                "codecs": raw_or(codec),
            }
            layer = chunkwise.open(
                {**spec, "metadata": metadata}, create=True, dtype="uint16", shape=[self.part] * 3
            )
            layer.result().write(volume[box]).result()
            output = [{"input_dimension": d, "offset": -a} for d, a in enumerate(at)]
            where = {"input_inclusive_min": at, "input_shape": [self.part] * 3, "output": output}
            self.specs.append({**spec, "transform": where})

    def stack_spec(self) -> dict[str, Any]:
        return {"driver": "stack", "dtype": "uint16", "layers": self.specs}

    def measure(self, repeat: int) -> dict[str, float]:
        """Return seconds: of direct reads, stacks of open arrays, stacks of specs; and of each at first."""
        acts: dict[str, Callable[[], Any]] = {}
        for name, library in LIBRARIES.items():
            layers = [library.open(spec, read=True).result() for spec in self.specs]

            def direct(layers: Any = layers, library: Any = library, reopen: bool = False) -> Any:
                if reopen:
                    layers = [library.open(spec, read=True).result() for spec in self.specs]
                out = np.empty(self.volume.shape, "u2")
                target = library.array(out)
                futures = []
                for layer in layers:
                    if library is chunkwise:
                        box = zip(layer.origin, layer.shape, strict=True)
                        view = out[tuple(slice(a, a + n) for a, n in box)]
                        futures.append(layer._array.read_into(layer._array.bounded(layer._transform), view))
                    else:
                        futures.append(target[layer.domain].write(layer))
                for future in futures:
                    future.result()
                return out

            stack = library.overlay(layers)
            spec = library.open(self.stack_spec()).result()
            acts[f"{name} direct"] = direct
            acts[f"{name} opened"] = lambda direct=direct: direct(reopen=True)
            acts[f"{name} stack"] = lambda stack=stack: stack.read().result()
            acts[f"{name} specs"] = lambda spec=spec: spec.read().result()
            for act in ("direct", "opened", "stack", "specs"):
                assert np.array_equal(acts[f"{name} {act}"](), self.volume)
        # At first all acts take turns.  Then only those that are compared do: opening keeps one processor
        # busy, and the other takes milliseconds to wake up.
        first = by_turns(repeat, **acts)
        times = {f"{name}, first": seconds for name, seconds in first.items()}
        for name in ("chunkwise stack", "tensorstore stack"):
            repeat_for(1.0, acts[name])
        for group in (("direct", "stack"), ("opened", "specs")):
            times |= by_turns(repeat, **{name: act for name, act in acts.items() if name.endswith(group)})
        return times


def stacks(work: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure stacks of few large layers, of many small ones, and of very many of one small chunk each."""
    rows = []
    large = 128 if options.quick else 256
    for codec in ("raw", "zstd"):
        for edge, per_side in ((large, 2), (large, 4), (large // 2, 8)):
            times = Stacks(work, edge, per_side, codec).measure(options.repeat)
            rows.append(
                {
                    "what": f"{per_side**3} layers of {edge // per_side}³ {codec}",
                    "cost": times["chunkwise stack"] / times["chunkwise direct"],
                    "at first": times["tensorstore stack, first"] / times["chunkwise stack, first"],
                    "cost of specs": times["chunkwise specs"] / times["chunkwise opened"],
                    "as fast as tensorstore": times["tensorstore stack"] / times["chunkwise stack"],
                    "as fast as tensorstore, specs": times["tensorstore specs"] / times["chunkwise specs"],
                }
            )
            print(_text(rows[-1]), flush=True)
            for path in work.iterdir():
                shutil.rmtree(path)
    return rows


def layers(work: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Open ten thousand layers, and read a little."""
    n = 10_000
    side = 100
    for number in range(4):  # those that are read
        chunkwise.open(
            file_spec("zarr3", work / f"tile-{5050 + number % 2 + side * (number // 2)}"),
            create=True,
            dtype="uint16",
            shape=[64, 64],
        ).result()
    specs = []
    for i in range(n):
        at = [64 * (i // side), 64 * (i % side)]
        output = [{"input_dimension": d, "offset": -a} for d, a in enumerate(at)]
        where = {"input_inclusive_min": at, "input_shape": [64, 64], "output": output}
        specs.append({**file_spec("zarr3", work / f"tile-{i}"), "transform": where})
    spec = {"driver": "stack", "dtype": "uint16", "layers": specs}
    opened = by_turns(
        max(3, options.repeat // 2),
        **{name: lambda lib=lib: lib.open(spec).result() for name, lib in LIBRARIES.items()},
    )
    region = np.s_[64 * 50 + 60 : 64 * 50 + 68, 64 * 50 + 60 : 64 * 50 + 68]
    views = {name: lib.open(spec).result()[region] for name, lib in LIBRARIES.items()}
    small = by_turns(
        options.repeat, **{name: lambda view=view: view.read().result() for name, view in views.items()}
    )
    row = {
        "what": f"{n} layers",
        "open, seconds": opened["chunkwise"],
        "open, seconds of tensorstore": opened["tensorstore"],
        "read of 4 layers, milliseconds": 1e3 * small["chunkwise"],
        "read of 4 layers, milliseconds of tensorstore": 1e3 * small["tensorstore"],
    }
    print(_text(row), flush=True)
    return [row, elements(options)]


def elements(options: argparse.Namespace) -> dict[str, Any]:
    """Read layers in memory, of a few elements each: as they are, and given by their elements."""
    n, edge = 2500, 4
    specs = []
    for i in range(n):
        at = [edge * (i // 50), edge * (i % 50)]
        output = [{"input_dimension": d, "offset": -a} for d, a in enumerate(at)]
        where = {"input_inclusive_min": at, "input_shape": [edge] * 2, "output": output}
        given = np.full((edge, edge), i).tolist()
        specs.append({"driver": "array", "dtype": "int32", "array": given, "transform": where})
    acts: dict[str, Callable[[], Any]] = {}
    for name, library in LIBRARIES.items():
        spec = library.open({"driver": "stack", "layers": specs}).result()
        open_layers = library.overlay([library.open(layer).result() for layer in specs])
        acts[f"{name} specs"] = lambda spec=spec: spec.read().result()
        acts[f"{name} open"] = lambda stack=open_layers: stack.read().result()
    row: dict[str, Any] = {"what": f"{n} layers of {edge}² in memory, µs"}
    row |= {name: 1e6 * seconds / n for name, seconds in by_turns(options.repeat, **acts).items()}
    print(_text(row), flush=True)
    return row


def downsampling(work: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Downsample whole volumes by 2 in each dimension, stored as raw chunks of 64³."""
    rows = []
    edge = 128 if options.quick else 256
    rng = np.random.default_rng(0)
    for dtype in ("uint8", "uint16", "int32", "float32", "float64"):
        values = (rng.random((edge,) * 3) * 250).astype(dtype)
        spec = file_spec("zarr3", work / dtype)
        metadata = {
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [64] * 3}},
            "codecs": raw_or("raw"),
        }
        store = chunkwise.open({**spec, "metadata": metadata}, create=True, dtype=dtype, shape=values.shape)
        store.result().write(values).result()
        bases = {name: lib.open(spec, read=True).result() for name, lib in LIBRARIES.items()}
        for method in METHODS:
            views = {name: lib.downsample(bases[name], [2] * 3, method) for name, lib in LIBRARIES.items()}
            acts = {name: lambda view=view: view.read().result() for name, view in views.items()}
            out = np.empty_like(values)
            times = by_turns(
                options.repeat if method not in ("median", "mode") else 2,
                **acts,
                copy=lambda out=out, values=values: np.copyto(out, values),
                read=lambda base=bases["chunkwise"]: base.read().result(),
            )
            rows.append(
                {
                    "what": f"{method} of {dtype}",
                    "MB/s": values.nbytes / times["chunkwise"] / 1e6,
                    "MB/s of copying": values.nbytes / times["copy"] / 1e6,
                    "of the speed of reading": times["read"] / times["chunkwise"],
                    "as fast as tensorstore": times["tensorstore"] / times["chunkwise"],
                }
            )
            print(_text(rows[-1]), flush=True)
    return rows


def pyramids(work: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Write a whole pyramid."""
    edge = 128 if options.quick else 256
    image = np.random.default_rng(0).integers(0, 400, (edge,) * 3).astype("u2")
    rows = []
    for convention in ("ome-ngff-0.5", "n5-viewer"):
        path = work / f"pyramid-{convention}"

        def write(path: Path = path, convention: str = convention) -> None:
            chunkwise.downsample_pyramid(
                chunkwise.array(image),
                path,
                convention=convention,
                chunks=[64] * 3,
                codec="zstd:1",
                sync=False,
                overwrite=True,
            ).result()

        seconds = by_turns(2, write=write)["write"]
        row = {"what": f"pyramid {convention}, zstd:1", "MB/s": image.nbytes / seconds / 1e6}
        print(_text(row), flush=True)
        rows.append(row)
    return rows


PARTS = {"stack": stacks, "layers": layers, "downsample": downsampling, "pyramid": pyramids}


def _text(row: dict[str, Any]) -> str:
    figures = (f"{name} {value:.3g}" for name, value in row.items() if name != "what")
    return f"{row['what']:32} " + "   ".join(figures)


def main() -> int:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller volumes")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--directory", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    for name in options.parts.split(","):
        work = Path(tempfile.mkdtemp(dir=options.directory))
        print(f"== {name}", flush=True)
        try:
            results[name] = PARTS[name](work, options)
        finally:
            shutil.rmtree(work)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
