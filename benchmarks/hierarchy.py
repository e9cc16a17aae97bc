"""Trees compared with zarr-python: listing a large group, opening a large tree with consolidated metadata.

    python benchmarks/hierarchy.py [--children 100000] [--arrays 10000] [--repeat 3]
                                   [--formats zarr3,zarr2]

Both libraries take turns in one process, and the ratio of their best times is reported.  Both read the same
files, from the page cache.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import zarr

import chunkwise as cw

FORMATS = {"zarr3": 3, "zarr2": 2}


class Case(NamedTuple):
    """One operation of both libraries; their results must be equal."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]


def write_children(path: Path, n: int, format: str) -> None:
    """Make a group of `n` empty groups, without a library, since this isn't measured."""
    cw.create_group(path, format=format)
    key, text = ("zarr.json", '{"zarr_format":3,"node_type":"group","attributes":{}}')
    if format == "zarr2":
        key, text = ".zgroup", '{"zarr_format":2}'
    for i in range(n):
        child = path / f"child{i:06d}"
        child.mkdir()
        (child / key).write_text(text)


def write_consolidated(path: Path, n: int, format: str) -> None:
    """Make a tree of `n` arrays in groups of 100, with nothing but consolidated metadata."""
    array = cw.create_group("memory://", format=format).create_array(
        "a",
        shape=(1000, 1000),
        dtype="float32",
        dimension_names=["y", "x"],
        attributes={"units": "m", "n": [1, 2]},
    )
    copies: dict[str, Any] = {}
    for i in range(n):
        group = f"g{i // 100:04d}"
        if format == "zarr3":
            empty = {"kind": "inline", "must_understand": False, "metadata": {}}
            copies.setdefault(
                group,
                {"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata": empty},
            )
        else:
            copies.setdefault(f"{group}/.zgroup", {"zarr_format": 2})
            copies.setdefault(f"{group}/.zattrs", {})
    document = array.kvstore[b"zarr.json" if format == "zarr3" else b".zarray"]
    for i in range(n):
        name = f"g{i // 100:04d}/a{i:05d}"
        if format == "zarr3":
            copies[name] = json.loads(document)
        else:
            copies[f"{name}/.zarray"] = json.loads(document)
            copies[f"{name}/.zattrs"] = {"units": "m", "n": [1, 2], "_ARRAY_DIMENSIONS": ["y", "x"]}
    cw.create_group(path, format=format)
    if format == "zarr3":
        root = json.loads((path / "zarr.json").read_text())
        root["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": copies}
        (path / "zarr.json").write_text(json.dumps(root))
    else:
        copies[".zgroup"] = {"zarr_format": 2}
        whole = {"metadata": copies, "zarr_consolidated_format": 1}
        (path / ".zmetadata").write_text(json.dumps(whole))


def listing(path: Path, format: str) -> Case:
    """All names in a group."""

    def theirs() -> int:
        return len(list(zarr.open_group(str(path), mode="r", zarr_format=FORMATS[format]).keys()))

    return Case(
        f"list the names in a group ({format})",
        lambda: len(cw.open_group(path, format=format).keys()),
        theirs,
    )


def opening(path: Path, format: str) -> Case:
    """The tree, and one array of it."""

    def theirs() -> Any:
        tree = zarr.open_consolidated(str(path), mode="r", zarr_format=FORMATS[format])
        return tree["g0000/a00007"].shape

    return Case(
        f"open a consolidated tree ({format})",
        lambda: cw.open_group(path, format=format)["g0000/a00007"].shape,
        theirs,
    )


def all_arrays(path: Path, format: str) -> Case:
    """Shape and attributes of each array."""

    def ours() -> int:
        tree = cw.open_group(path, format=format)
        return sum(
            member.shape[0] + len(member.attrs)
            for _, member in tree.walk()
            if isinstance(member, cw.TensorStore)
        )

    def theirs() -> int:
        tree = zarr.open_consolidated(str(path), mode="r", zarr_format=FORMATS[format])
        return sum(
            member.shape[0] + len(member.attrs)
            for _, member in tree.members(max_depth=None)
            if isinstance(member, zarr.Array)
        )

    return Case(f"open a consolidated tree and each of its arrays ({format})", ours, theirs)


def measure(case: Case, repeat: int) -> tuple[float, float]:
    """Return the best times of both, in seconds; their runs take turns."""
    ours, theirs = [], []
    for _ in range(repeat):
        for run, times in ((case.ours, ours), (case.theirs, theirs)):
            started = time.perf_counter()
            result = run()
            times.append(time.perf_counter() - started)
            if run is case.ours:
                expected = result
            elif result != expected:
                raise SystemExit(f"{case.name}: results differ: {expected} and {result}")
    return min(ours), min(theirs)


def main() -> None:
    """Run the cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--children", type=int, default=100_000)
    parser.add_argument("--arrays", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--formats", default=",".join(FORMATS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    directory = Path(tempfile.mkdtemp())
    try:
        print(f"{'case':<60} {'chunkwise':>10} {'zarr-python':>12} {'ratio':>7}")
        for format in arguments.formats.split(","):
            write_children(directory / f"children-{format}", arguments.children, format)
            write_consolidated(directory / f"arrays-{format}", arguments.arrays, format)
            for case in (
                listing(directory / f"children-{format}", format),
                opening(directory / f"arrays-{format}", format),
                all_arrays(directory / f"arrays-{format}", format),
            ):
                ours, theirs = measure(case, arguments.repeat)
                print(f"{case.name:<60} {ours:>9.3f}s {theirs:>11.3f}s {theirs / ours:>6.1f}x", flush=True)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
