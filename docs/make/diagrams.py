"""Diagrams of the guides: keys, the requests of a read, copies and writers.

Keys, ranges, plans, sizes and errors come from real arrays.
"""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path

import numpy as np
from make.shapes import arrow, box, code, label, svg

import chunkwise as ts
from chunkwise import errors

FORMATS = {"zarr3": "Zarr v3", "zarr2": "Zarr v2", "n5": "N5"}


def keys() -> str:
    """Return the files of the same tree in three formats."""
    columns = {}
    with tempfile.TemporaryDirectory() as place:
        for name, title in FORMATS.items():
            root = Path(place) / name
            tree = ts.open_group(root, mode="w", format=name)
            tree.attrs["subject"] = "m7"
            tree.create_array("raw/em", np.ones((4, 6), "u1"), chunks=[2, 3])
            files = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
            columns[title] = sorted(files, key=lambda path: (path.count("/"), path))
    parts = []
    for column, (title, files) in enumerate(columns.items()):
        left = 10 + column * 215
        parts.append(label(left + 100, 22, title, 13))
        for row, file in enumerate(files):
            is_chunk = file.rsplit("/", 1)[1][-1].isdigit() if "/" in file else False
            parts.append(box(left, 34 + row * 26, 200, 22, "read" if is_chunk else "chunk"))
            parts.append(code(left + 8, 49 + row * 26, file))
    height = 44 + 26 * max(map(len, columns.values()))
    parts.append(label(325, height + 12, "green: chunks of the array raw/em; grey: documents"))
    return svg(660, height + 24, "One tree in three formats", parts)


def one_read() -> str:
    """Return the steps of one read, with the figures of `explain`."""
    layout = ts.ChunkLayout(read_chunk_shape=[32, 32], write_chunk_shape=[32, 32])
    spec = {"driver": "zarr3", "kvstore": "memory://one-read/"}
    array = ts.open(
        spec, create=True, delete_existing=True, dtype=ts.uint16, shape=[128, 128], chunk_layout=layout
    ).result()
    told = array[20:70, 40:60].explain()
    strategy = str(told.strategies[0]).partition(", by ")[0]
    steps = [
        ("index_space/", "array[20:70, 40:60]", "a domain and a transform; nothing is read"),
        ("plan/", f"{told.requests.n_chunks} chunks", "which cells, and which part of each goes where"),
        ("engine/", "read_strategy", strategy),
        (
            "kvstore/",
            f"GET c/0/1 … {told.requests.n_requests} requests",
            "bytes, or None for a missing chunk",
        ),
        (
            "codec/",
            f"{told.requests.n_decoded_bytes:,} bytes decoded",
            "into the result, or through a buffer",
        ),
        ("NumPy", f"{told.n_result_bytes:,} bytes", "the result"),
    ]
    parts = []
    for row, (folder, what, why) in enumerate(steps):
        y = 10 + row * 52
        parts += [box(10, y, 110, 36, "read"), label(65, y + 22, folder, 12)]
        parts += [code(135, y + 15, what), label(135, y + 31, why, 11, "start")]
        if row:
            parts.append(arrow(65, y - 15, 65, y - 1))
    return svg(620, 10 + len(steps) * 52, "One read, step by step", parts)


def ranges() -> str:
    """Return the bytes of a shard, and those that a partial read requests."""
    spec = {"driver": "zarr3", "kvstore": "memory://ranges/"}
    layout = ts.ChunkLayout(read_chunk_shape=[32, 32], write_chunk_shape=[128, 128])
    array = ts.open(
        spec,
        create=True,
        delete_existing=True,
        dtype=ts.uint16,
        shape=[128, 128],
        chunk_layout=layout,
        codec=ts.CodecSpec({"driver": "zarr3", "codecs": [{"name": "zstd"}]}),
    ).result()
    y, x = np.mgrid[:128, :128]
    array.write((y * x // (1 + x)).astype("u2")).result()
    shard = array.kvstore["c/0/0"]
    index = np.frombuffer(shard[-(16 * 16 + 4) : -4], "<u8").reshape(16, 2)
    wanted = {0, 1, 4, 5}
    scale, parts = 600 / len(shard), []
    for cell, (start, nbytes) in enumerate(index):
        kind = "hit" if cell in wanted else "chunk"
        parts.append(box(10 + start * scale, 30, nbytes * scale, 40, kind))
        if nbytes * scale > 22:
            parts.append(label(10 + (start + nbytes / 2) * scale, 54, f"{cell // 4},{cell % 4}", 10))
    width = (16 * 16 + 4) * scale
    parts.append(box(10 + (len(shard) - 16 * 16 - 4) * scale, 30, width, 40, "read"))
    parts.append(label(310, 20, f"c/0/0: {len(shard):,} bytes, 16 inner chunks and their index (green)"))
    parts.append(label(310, 92, "array[0:64, 0:64]: the index, then neighbouring chunks in one request"))
    return svg(620, 104, "Byte ranges of a shard", parts)


def passes() -> str:
    """Return the two passes of a copy from rows to columns, as `plan_copy` plans it."""
    with tempfile.TemporaryDirectory() as place:
        source, destination = Path(place) / "a.zarr", Path(place) / "b.zarr"
        ts.create_array(source, np.zeros((64, 64), "u2"), chunks=[1, 64], format="zarr3")
        plan = ts.plan_copy(source, destination, chunks=[64, 4], memory="4kB").to_json()
    first, second = plan["passes"]
    inner = plan["intermediate"]["chunks"]
    parts = []

    def grid(
        left: float, title: str, rows: int, columns: int, task: tuple[int, int] | None, kind: str
    ) -> None:
        parts.append(label(left + 80, 18, title))
        for top in range(0, 64, rows):
            for x in range(0, 64, columns):
                hit = task is not None and x < task[1] and top < task[0]
                shape = (left + x * 2.5, 28 + top * 2.5, columns * 2.5, rows * 2.5)
                parts.append(box(*shape, kind if hit else "chunk"))

    block, column = first["block_shape"], second["block_shape"]
    grid(10, "source", 1, 64, (block[0], block[1]), "hit")
    grid(230, "intermediate, in shards", inner[0], inner[1], (block[0], block[1]), "hit")
    grid(450, "destination", 64, 4, (column[0], column[1]), "read")
    parts += [
        box(230 + k * inner[1] * 2.5, 28 + j * inner[0] * 2.5, inner[1] * 2.5, inner[0] * 2.5, "read")
        for j in range(64 // inner[0])
        for k in range(column[1] // inner[1])
    ]
    parts += [arrow(174, 108, 226, 108), arrow(394, 108, 446, 108)]
    parts.append(label(200, 212, f"pass 1: {first['tasks']} tasks"))
    parts.append(label(420, 212, f"pass 2: {second['tasks']} tasks"))
    return svg(620, 224, "The passes of a copy that turns rows into columns", parts)


def writers() -> str:
    """Return two writers of one chunk; the second finds a new generation."""
    parts = [label(60, 24, "writer A", 12, "end"), label(60, 154, "writer B", 12, "end")]
    parts.append(label(60, 89, "c/3/7", 12, "end"))
    parts += [box(70, 75, 150, 22, "chunk"), box(220, 75, 190, 22, "faint"), box(410, 75, 200, 22, "read")]
    parts += [
        label(145, 90, "generation 1", 11),
        label(315, 90, "2: A's part", 11),
        label(510, 90, "3: both parts", 11),
    ]
    steps = [
        (95, 75, 95, 32, "read", 24),
        (220, 32, 220, 75, "write if 1", 24),
        (120, 97, 120, 140, "read", 154),
        (280, 140, 280, 97, "write if 1: refused", 154),
        (340, 97, 340, 140, "read again", 170),
        (410, 140, 410, 97, "write if 2", 154),
    ]
    for x1, y1, x2, y2, words, y in steps:
        parts += [arrow(x1, y1, x2, y2), label(x1, y, words, 11)]
    return svg(620, 182, "Two writers of parts of one chunk: no update is lost", parts)


def origins() -> str:
    """Return the pixels of two levels of an image in the space of the image."""
    parts = []
    for number, (size, count) in enumerate(((24, 12), (48, 6), (96, 3))):
        top = 20 + number * 70
        parts.append(label(10, top + 26, f"level {number}", 12, "start"))
        for pixel in range(count):
            parts.append(box(90 + pixel * size, top + 10, size, 26, "read" if number == 0 else "chunk"))
            parts.append(
                f'<circle class="dot" cx="{90 + (pixel + 0.5) * size:g}" cy="{top + 23:g}" r="2.5"/>'
            )
        scale, shift = 0.4 * 2**number, 0.4 * (2**number - 1) / 2
        parts.append(label(392, top + 20, f"scale {scale:g} µm,", 11, "start"))
        parts.append(label(392, top + 36, f"translation {shift:g} µm", 11, "start"))
    parts.append(label(234, 226, "centres of pixels, in µm, from left to right"))
    return svg(520, 236, "Pixels of three levels in the space of the image", parts)


def dataset() -> str:
    """Return the arrays of a group, and how xarray joins them by dimension name."""
    rows = [
        ("time", ("time",), "coordinate"),
        ("lat", ("lat",), "coordinate"),
        ("lon", ("lon",), "coordinate"),
        ("temperature", ("time", "lat", "lon"), "variable"),
        ("station", ("lat", "lon"), "variable"),
    ]
    parts = [label(120, 20, "arrays of a group"), label(480, 20, "xarray.Dataset")]
    for row, (name, dimensions, kind) in enumerate(rows):
        y = 32 + row * 34
        parts += [box(10, y, 220, 26, "chunk"), code(20, y + 17, f"{name}  [{', '.join(dimensions)}]")]
        parts += [arrow(236, y + 13, 354, y + 13)]
        parts += [box(360, y, 240, 26, "read" if kind == "variable" else "faint")]
        parts.append(label(480, y + 17, f"{kind} {name}({', '.join(dimensions)})", 11))
    parts.append(label(295, 212, "shared dimension names join the arrays"))
    return svg(610, 224, "Arrays of a group as a dataset", parts)


def chain() -> str:
    """Return the size of a chunk in bytes after each codec of a chain."""
    y, x = np.mgrid[:64, :64]
    values = (500 + 400 * np.sin(np.hypot(x - 30, y - 20) / 9)).astype("u2")
    codecs = [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "zstd", "configuration": {"level": 3}},
        {"name": "crc32c"},
    ]
    sizes = []
    for count in range(2, len(codecs) + 1):
        spec = {"driver": "zarr3", "kvstore": "memory://chain/", "metadata": {"codecs": codecs[:count]}}
        array = ts.open(spec, create=True, delete_existing=True, dtype="uint16", shape=[64, 64]).result()
        array.write(values).result()
        sizes.append(len(array.kvstore["c/0/0"]))
    stages = ["64 × 64 uint16", "64 × 64 uint16", *(f"{size:,} bytes" for size in sizes)]
    parts = []
    for number, stage in enumerate(stages):
        left = 10 + number * 150
        kind = "chunk" if number < 2 else "read"
        parts += [box(left, 40, 100, 34, kind), label(left + 50, 61, stage, 11)]
        if number:
            parts.append(arrow(left - 48, 57, left - 2, 57))
            parts.append(code(left - 25, 32, codecs[number - 1]["name"], 11, "middle"))
    parts += [
        label(160, 96, "array → array"),
        label(310, 96, "array → bytes"),
        label(535, 96, "bytes → bytes"),
    ]
    return svg(720, 108, "A chunk on its way through a chain of codecs", parts)


def axes() -> str:
    """Return which dimension is contiguous in Zarr and in N5."""
    parts = []
    for left, title, order in ((10, "Zarr: shape (3, 4), C order", "C"), (330, "N5: dimensions [4, 3]", "F")):
        parts.append(label(left + 130, 20, title))
        numbers = np.arange(12).reshape(3, 4)
        for row in range(3):
            for column in range(4):
                x, y = left + column * 60, 34 + row * 34
                parts += [box(x, y, 60, 34, "chunk"), label(x + 30, y + 21, str(numbers[row, column]), 12)]
        parts.append(arrow(left + 10, 146, left + 230, 146))
        index = "array[y, x]" if order == "C" else "array[x, y]"
        parts.append(label(left + 120, 164, f"neighbours in memory; {index}", 11))
    parts.append(
        label(
            310,
            190,
            "The same bytes. chunkwise keeps the order that the file names; array.T is the other one.",
        )
    )
    return svg(620, 202, "Order of the dimensions in Zarr and N5", parts)


def session() -> str:
    """Return a part of an NWB file with a link and a reference."""
    nodes = [
        (10, 10, "/", "NWBFile"),
        (60, 50, "acquisition/ElectricalSeries", "a series; its electrodes are rows of"),
        (60, 90, "general/extracellular_ephys/electrodes", "this table, by an object reference"),
        (60, 130, "processing/behavior/position", "link to a series in another store"),
        (60, 170, "specifications/core/2.9.0", "cached specifications"),
    ]
    parts = []
    for x, y, name, what in nodes:
        parts += [
            box(x, y, 290, 28, "chunk"),
            code(x + 8, y + 18, name),
            label(x + 302, y + 18, what, 11, "start"),
        ]
        if x > 10:
            parts.append(f'<path class="arrow" d="M24,38 L24,{y + 14} L{x},{y + 14}"/>')
    parts.append(arrow(560, 76, 560, 92))
    return svg(620, 208, "A part of an NWB file", parts)


def doors() -> str:
    """Return the objects of other libraries that chunkwise opens."""
    left = [
        "zarr-python stores",
        "Icechunk sessions",
        "obstore",
        "fsspec, universal_pathlib",
        "VirtualiZarr, tifffile",
    ]
    right = ["open, open_group", "KvStore.open", "xarray engine", "cp, verify, serve", "Group, TensorStore"]
    parts = []
    for row, (a, b) in enumerate(zip(left, right, strict=True)):
        y = 10 + row * 36
        parts += [box(10, y, 190, 28, "chunk"), label(105, y + 18, a), arrow(204, y + 14, 254, 94)]
        parts += [box(420, y, 180, 28, "faint"), label(510, y + 18, b), arrow(364, 94, 416, y + 14)]
    parts += [box(258, 72, 104, 44, "read"), label(310, 98, "key-value store")]
    return svg(610, 196, "Stores of other libraries as key-value stores", parts)


def errors_tree() -> str:
    """Return the tree of exception classes."""
    found = [getattr(errors, name) for name in errors.__all__ if inspect.isclass(getattr(errors, name))]
    rows: list[tuple[int, type]] = []

    def add(parent: type, depth: int) -> None:
        for value in found:
            if value.__bases__[0] is parent:
                rows.append((depth, value))
                add(value, depth + 1)

    rows.append((0, errors.ChunkwiseError))
    add(errors.ChunkwiseError, 1)
    parts = []
    for row, (depth, value) in enumerate(rows):
        x, y = 10 + depth * 28, 8 + row * 21
        parts.append(code(x, y + 12, value.__name__))
        others = ", ".join(base.__name__ for base in value.__bases__[1:])
        parts.append(label(310, y + 12, others, 11, "start"))
        if depth:
            parts.append(f'<path class="arrow" d="M{x - 20},{y - 2} L{x - 20},{y + 8} L{x - 4},{y + 8}"/>')
    return svg(520, 14 + len(rows) * 21, "Exceptions, and the built-in ones that they also are", parts)


ALL = {
    "keys": keys,
    "one_read": one_read,
    "ranges": ranges,
    "passes": passes,
    "writers": writers,
    "origins": origins,
    "dataset": dataset,
    "chain": chain,
    "axes": axes,
    "session": session,
    "doors": doors,
    "errors": errors_tree,
}
