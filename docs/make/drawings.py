"""Drawings of real arrays and measured results, made by the build as SVG in the colours of the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import exp, log
from pathlib import Path

import numpy as np
from make import diagrams
from make.shapes import box, label, svg

import chunkwise as ts

ROOT = Path(__file__).parents[2]


def draw(name: str) -> str:
    """Return the drawing that a page names with ``<!-- drawing: chunks -->``."""
    return _DRAWINGS[name]()


def _array(shape: list[int], chunks: list[int], shards: list[int] | None = None) -> ts.TensorStore:
    layout = ts.ChunkLayout(read_chunk_shape=chunks, write_chunk_shape=shards or chunks)
    spec = {"driver": "zarr3", "kvstore": "memory://drawing/"}
    return ts.open(
        spec, create=True, delete_existing=True, dtype=ts.uint16, shape=shape, chunk_layout=layout
    ).result()


def _grid(
    x: float, y: float, scale: float, array: ts.TensorStore, part: tuple[slice, slice] | None
) -> list[str]:
    """Draw the chunks of an array of two dimensions; those that a part touches are filled."""
    rows, columns = array.chunk_layout.read_chunk.shape
    height, width = array.shape
    found = []
    for top in range(0, height, rows):
        for left in range(0, width, columns):
            touched = part is not None and (
                top < part[0].stop
                and top + rows > part[0].start
                and left < part[1].stop
                and left + columns > part[1].start
            )
            w, h = min(columns, width - left), min(rows, height - top)
            kind = "read" if touched else "chunk"
            found.append(box(x + left * scale, y + top * scale, w * scale, h * scale, kind))
    return found


def chunks() -> str:
    """Return an array in chunks, and those that a part of it touches, counted by `explain`."""
    array = _array([120, 200], [30, 40])
    part = (slice(20, 70), slice(90, 150))
    n = array[part].explain().requests.n_chunks
    parts = _grid(10, 10, 2, array, part)
    parts.append(box(10 + 90 * 2, 10 + 20 * 2, 60 * 2, 50 * 2, "hit"))
    parts.append(label(210, 275, f"array[20:70, 90:150] touches {n} of 20 chunks of 30 × 40"))
    return svg(420, 290, "Chunks that a part of an array touches", parts)


def shards() -> str:
    """Return shards with their inner chunks, and the ranges of one that are read."""
    array = _array([120, 240], [20, 20], [60, 80])
    part = (slice(10, 35), slice(90, 130))
    told = array[part].explain().requests
    parts = _grid(10, 10, 1.6, array, part)
    for top in range(0, 120, 60):
        for left in range(0, 240, 80):
            shard = box(10 + left * 1.6, 10 + top * 1.6, 80 * 1.6, 60 * 1.6, "line")
            parts.append(shard.replace("/>", ' stroke-width="3"/>'))
    caption = f"array[10:35, 90:130]: {told.n_chunks} inner chunks in {told.n_shards} of 6 stored objects"
    parts.append(label(200, 225, caption))
    return svg(400, 240, "Inner chunks of shards", parts)


def pyramid() -> str:
    """Return the levels of an array that was downsampled again and again."""
    level, x, parts = _array([128, 160], [32, 32]), 10.0, []
    for number in range(4):
        parts += _grid(x, 10, 1, level, (slice(0, 0), slice(0, 0)))
        parts.append(
            label(
                x + level.shape[1] / 2, 30 + level.shape[0], f"s{number}: {level.shape[0]} × {level.shape[1]}"
            )
        )
        x += level.shape[1] + 40
        smaller = ts.downsample(level, [2, 2], "mean").domain.shape
        level = _array([int(n) for n in smaller], [32, 32])
    return svg(x, 170, "Levels of a pyramid with their chunks", parts)


def stack() -> str:
    """Return three layers of a stack, and the layer from which each index is read."""
    layers = [
        ts.array(np.zeros((60, 110), "u1")).translate_to[0, 0],
        ts.array(np.zeros((50, 90), "u1")).translate_to[30, 70],
        ts.array(np.zeros((40, 60), "u1")).translate_to[10, 120],
    ]
    whole = ts.overlay(layers).domain
    parts = []
    for number, (layer, kind) in enumerate(zip(layers, ("chunk", "faint", "read"), strict=True)):
        (top, left), (height, width) = layer.domain.origin, layer.domain.shape
        parts.append(box(10 + left * 2, 10 + top * 2, width * 2, height * 2, kind))
        parts.append(label(24 + left * 2, 30 + top * 2, f"layer {number}", 12, "start"))
    caption = f"ts.overlay(layers).domain = {whole}: later layers lie on top"
    parts.append(label(200, 30 + whole.shape[0] * 2, caption))
    return svg(40 + whole.shape[1] * 2, 45 + whole.shape[0] * 2, "Layers of a stack", parts)


def volume() -> str:
    """Return a volume cut into chunks, one of which is taken out."""

    def face(kind: str, *corners: tuple[float, float, float]) -> str:
        places = ((160 + (j - i) * 34, 20 + (i + j) * 18 + k * 38) for i, j, k in corners)
        points = " ".join(f"{x:g},{y:g}" for x, y in places)
        return f'<polygon class="{kind}" points="{points}"/>'

    def top(kind: str, i: float, j: float, k: float) -> str:
        return face(kind, (i, j, k), (i + 1, j, k), (i + 1, j + 1, k), (i, j + 1, k))

    def left(kind: str, i: float, j: float, k: float) -> str:
        return face(kind, (i, j, k), (i, j + 1, k), (i, j + 1, k + 1), (i, j, k + 1))

    def right(kind: str, i: float, j: float, k: float) -> str:
        return face(kind, (i, j, k), (i + 1, j, k), (i + 1, j, k + 1), (i, j, k + 1))

    parts = [top("light", i, j, 0) for i in range(3) for j in range(4) if (i, j) != (2, 3)]
    parts += [left("read", 3, j, k) for j in range(4) for k in range(3) if (j, k) != (3, 0)]
    parts += [right("dark", i, 4, k) for i in range(3) for k in range(3) if (i, k) != (2, 0)]
    parts += [top("light", 2, 3, 1), left("read", 2, 3, 0), right("dark", 2, 3, 0)]  # where one is taken out
    i, j = 3.2, 4.2
    parts += [top("hit", i, j, 0), left("hit", i + 1, j, 0), right("hit", i, j + 1, 0)]
    parts.append(label(185, 290, "volume.zarr: 3 × 4 × 3 chunks; c/2/3/0 is one file"))
    return svg(420, 300, "A volume cut into chunks", parts)


def speed() -> str:
    """Return bars of the stored results of the comparison with peers."""
    results = json.loads((ROOT / "benchmarks" / "results" / "compare.json").read_text())["results"]
    peers = {"tensorstore": "TensorStore", "zarr": "zarr-python", "fused": "zarr-python, fused pipeline"}
    bars = []
    for operation in ("read", "write"):
        for peer, title in peers.items():
            ratios = [r["ratio"] for r in results if r["operation"] == operation and r["peer"] == peer]
            if ratios:
                bars.append((f"{operation}, beside {title}", exp(sum(map(log, ratios)) / len(ratios))))
    largest = max(ratio for _, ratio in bars)
    parts = []
    for number, (title, ratio) in enumerate(bars):
        y = 10 + number * 30
        parts.append(label(240, y + 16, title, 12, "end"))
        parts.append(box(250, y + 3, 300 * ratio / largest, 18, "read"))
        parts.append(label(256 + 300 * ratio / largest, y + 16, f"{ratio:.2f}", 12, "start"))
    at_one = 250 + 300 / largest
    parts.append(f'<line class="line" x1="{at_one:g}" x2="{at_one:g}" y1="5" y2="{10 + len(bars) * 30}"/>')
    parts.append(label(at_one, 28 + len(bars) * 30, "1: equally fast"))
    return svg(
        610, 40 + len(bars) * 30, "How many times as fast chunkwise is, geometric mean of all cells", parts
    )


def cells() -> str:
    """Return how many times as fast as TensorStore each whole read and write is."""
    return _dots("compare", "Whole reads and writes relative to TensorStore, by format, codec and chunk")


def remote_cells() -> str:
    """Return the same for arrays on a server that speaks S3."""
    return _dots("remote", "Reads and writes on S3 relative to TensorStore, by codec and chunk")


def _dots(name: str, title: str) -> str:
    """Draw the ratios to TensorStore in a file of results, on a logarithmic axis from 1/4 to 4."""
    results = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())["results"]
    kinds = {"read": "read", "write": "hit"}
    shown = [r for r in results if r["peer"] == "tensorstore" and r["operation"] in kinds]
    rows = list(dict.fromkeys(r["row"] for r in shown))

    def at(ratio: float) -> float:
        return 170 + 420 * (log(min(4, max(0.25, ratio))) - log(0.25)) / log(16)

    bottom = 30 + len(rows) * 20
    parts = []
    for tick in (0.25, 0.5, 1, 2, 4):
        parts.append(f'<path class="line" d="M{at(tick):g},24 L{at(tick):g},{bottom}"/>')
        parts.append(label(at(tick), bottom + 16, f"{tick:g}", 11))
    for number, row in enumerate(rows):
        parts.append(label(160, 44 + number * 20, row, 11, "end"))
    for result in shown:
        y = 40 + rows.index(result["row"]) * 20
        x = at(result["theirs"] / result["ours"])
        parts.append(f'<circle class="{kinds[result["operation"]]}" cx="{x:.1f}" cy="{y}" r="5"/>')
    for number, (operation, kind) in enumerate(kinds.items()):
        parts.append(f'<circle class="{kind}" cx="{300 + number * 90}" cy="11" r="5"/>')
        parts.append(label(310 + number * 90, 15, operation, 12, "start"))
    parts.append(label(at(1), bottom + 32, "how many times as fast as TensorStore; 1: equally fast", 12))
    return svg(620, bottom + 42, title, parts)


def codecs() -> str:
    """Return the stored sizes and speeds of codecs and levels, for each kind of data."""
    results = json.loads((ROOT / "benchmarks" / "results" / "codecs.json").read_text())
    families = dict.fromkeys(result["family"] for result in results)
    kinds = dict.fromkeys(result["data"] for result in results)
    shapes = dict(zip(families, ("hit", "read", "dark", "light"), strict=True))
    parts = []
    for row, what in enumerate(("write", "read")):
        speeds = [result[what] for result in results]
        low, high = log(min(speeds)), log(max(speeds))
        for column, kind in enumerate(kinds):
            left, top = 50 + column * 230, 30 + row * 220
            parts.append(box(left, top, 200, 160, "line"))
            parts.append(label(left + 100, top - 8, f"{kind}: {what}"))
            parts.append(label(left + 100, top + 190, "stored size, % of raw", 11))
            shown = [result for result in results if result["data"] == kind]
            largest = 1.1 * max(result["size"] for result in shown)
            parts += [
                label(left, top + 174, "0", 10),
                label(left + 200, top + 174, f"{100 * largest:.2g}", 10),
            ]
            for family in families:
                points = [
                    (
                        left + 200 * r["size"] / largest,
                        top + 150 - 140 * (log(r[what]) - low) / (high - low or 1),
                    )
                    for r in shown
                    if r["family"] == family
                ]
                line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
                parts.append(f'<polyline class="line" points="{line}"/>')
                parts += [box(x - 4, y - 4, 8, 8, shapes[family]) for x, y in points]
        parts.append(label(46, 40 + row * 220, f"{exp(high):.0f}", 10, "end"))
        parts.append(label(46, 182 + row * 220, f"{exp(low):.0f}", 10, "end"))
    parts.append(label(46, 14, "MB/s", 10, "end"))
    for number, (family, kind) in enumerate(shapes.items()):
        parts.append(box(50 + number * 175, 462, 10, 10, kind))
        parts.append(label(66 + number * 175, 472, family, 12, "start"))
    return svg(750, 490, "Stored size and speed of codecs", parts)


def layers() -> str:
    """Return the folders of the code from the public names down to the bytes."""
    rows = [
        ("cli/  images/  hdmf/  xarray/  dask/  …", "commands, images, bridges"),
        ("groups/  copying/", "trees as mappings, copies of arrays and trees"),
        ("core/  api/  trees/", "public names, nodes, attributes"),
        ("core/  arrays/", "open arrays, stored and virtual"),
        ("core/  engine/", "strategy, the read loop, the write loop, threads"),
        ("core/  driver/  specs/", "formats, specs, schemas"),
        ("core/  plan/  codec/  kvstore/", "which chunks, (de)compression, stores"),
        ("core/  index_space/  dtypes/  grid/  chunk_key/", "algebra on integers, types, keys"),
    ]
    parts = []
    for number, (folders, idea) in enumerate(rows):
        y = 10 + number * 46
        parts.append(box(10, y, 560, 36, "faint" if number % 2 else "chunk"))
        parts.append(label(24, y + 23, folders, 13, "start"))
        parts.append(label(556, y + 23, idea, 12, "end"))
    parts.append(label(290, 30 + len(rows) * 46, "imports go down only"))
    return svg(580, 45 + len(rows) * 46, "Layers of the code", parts)


_DRAWINGS: dict[str, Callable[[], str]] = {
    f.__name__: f
    for f in (chunks, shards, pyramid, stack, volume, speed, cells, remote_cells, codecs, layers)
} | diagrams.ALL
