"""``chunkwise pyramid``: write an image at several resolutions."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from chunkwise.cli.command import UsageError, message, print_json
from chunkwise.cli.options import add_on, memory_of, parse_codec, parse_names, parse_sizes, workers_of
from chunkwise.cli.progress import Progress, progress_of
from chunkwise.cli.quantities import format_duration, format_nbytes, format_rate, format_shape
from chunkwise.cli.region import select
from chunkwise.engine.future import Future
from chunkwise.fork import new_lock
from chunkwise.hierarchy.location import locate
from chunkwise.pyramid.convention import CONVENTIONS
from chunkwise.pyramid.downsample_pyramid import DEFAULT_MEMORY, downsample_pyramid
from chunkwise.pyramid.pyramid_writer import Pyramid, PyramidProgress
from chunkwise.spec.unit import Unit
from chunkwise.tools.spec_file import open_source, read_spec_file

__all__ = ["add_arguments", "run"]

_EPILOG = """\
  chunkwise pyramid scan.zarr image.ome.zarr --units '40 nm,4 nm,4 nm'
  chunkwise pyramid mosaic.json em.n5/volume --convention cosem
  chunkwise pyramid labels.zarr image.ome.zarr/labels/cells --labels
  chunkwise pyramid em.n5/volume/s0                    writes s1, s2, ... beside it

SRC is an array, or a file with the spec of one, such as `chunkwise stack` makes.  Each level is made of the
one before.  Dimensions are put into the order of the convention, by their names: t, c, z, y, x in Zarr and
x, y, z, c, t in N5; --axes and --units are in the order of SRC, without those where --region has an index,
--factors, --chunk and --shard in that of the result.  An interrupted pyramid is none; --resume goes on with
it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("source", metavar="SRC", help="array, or *.json with its spec")
    parser.add_argument(
        "destination",
        metavar="DST",
        nargs="?",
        help="group for all levels; without it SRC is the first level, and the others come beside it",
    )
    parser.add_argument(
        "--region",
        metavar="REGION",
        help="of a part only, such as '0,1,...' for one time and channel; what begins at 100 stays there",
    )
    parser.add_argument(
        "--convention",
        choices=tuple(CONVENTIONS),
        help="by default what the place says: n5-viewer in *.n5, else ome-ngff-0.5",
    )
    parser.add_argument(
        "--method",
        choices=("mean", "min", "max", "median", "mode", "stride"),
        help="by default mean, for --labels mode",
    )
    parser.add_argument("--labels", action="store_true", help="elements are labels, which aren't mixed")
    parser.add_argument(
        "--factors", metavar="SIZES", help="such as 2,2,1, or for each level: 2,2,1;2,2,2 (by default what "
        "makes voxels cubes)"
    )  # fmt: skip
    parser.add_argument("--levels", type=int, metavar="N", help="how many beside full resolution")
    parser.add_argument("--axes", metavar="NAMES", help="names of the dimensions, such as z,y,x")
    parser.add_argument("--units", metavar="UNITS", help="sizes of a voxel, such as '40 nm,4 nm,4 nm'")
    parser.add_argument("--chunk", metavar="SIZES", help="chunk shape; by default that of SRC, or 64,64,64")
    parser.add_argument("--shard", metavar="SIZES", help="shard shape (ome-ngff-0.5)")
    parser.add_argument("--codec", metavar="CODEC", help="as for `chunkwise create`")
    parser.add_argument("--name", help="of the image; by default that of the group")
    parser.add_argument("--memory", metavar="SIZE", help="how much a worker process may use, such as 2GB")
    add_on(parser)
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted pyramid")
    parser.add_argument("--overwrite", action="store_true", help="delete levels that are there first")
    parser.add_argument("--no-sync", action="store_true", help="don't wait for the disk")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    is_spec = read_spec_file(arguments.source) is not None
    if is_spec and arguments.destination is None:
        raise UsageError("a pyramid of a spec file needs a DST")
    if arguments.region is not None and arguments.destination is None:
        raise UsageError("a pyramid of a --region needs a DST")
    source: Any
    if is_spec or arguments.region is not None:
        source = select(open_source(arguments.source), arguments.region or "...")
    else:
        source = locate(arguments.source)
    sizes = {
        name: None if value is None else parse_sizes(value, option)
        for name, value, option in (
            ("chunks", arguments.chunk, "chunk"),
            ("shards", arguments.shard, "shard"),
        )
    }
    units = None if arguments.units is None else _units(arguments.units)
    lock = new_lock()
    latest: list[PyramidProgress] = []

    def progress(now: PyramidProgress) -> None:
        with lock:
            latest[:] = [now]

    started = time.monotonic()
    workers = workers_of(arguments, DEFAULT_MEMORY)
    future = downsample_pyramid(
        source,
        arguments.destination,
        convention=arguments.convention,
        method=arguments.method,
        labels=arguments.labels,
        factors=None if arguments.factors is None else _factors(arguments.factors),
        levels=arguments.levels,
        axes=None if arguments.axes is None else parse_names(arguments.axes),
        units=units,
        codec=None if arguments.codec is None else parse_codec(arguments.codec),
        name=arguments.name,
        executor=workers,
        memory=memory_of(arguments),
        sync=not arguments.no_sync,
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        progress=progress,
        **sizes,
    )
    made = _wait(future, latest, lambda nbytes: progress_of(arguments, "pyramid", nbytes, 0, workers))
    _report(arguments, made, time.monotonic() - started)
    return 0


def _wait(future: Future[Pyramid], latest: list[PyramidProgress], show: Callable[[int], Progress]) -> Pyramid:
    """Show progress until the pyramid is there."""
    level, display, shown = -1, None, 0
    try:
        while True:
            try:
                made: Pyramid | None = future.result(timeout=0.2)
            except TimeoutError:
                made = None
            if latest:
                now = latest[0]
                if display is None:
                    display = show(now.nbytes)
                    display.__enter__()
                if now.level != level:
                    level = now.level
                display.advance(now.nbytes_done - shown)
                shown = now.nbytes_done
            if made is not None:
                return made
    except KeyboardInterrupt:
        future.cancel()
        message("stopped; --resume goes on with what has been written")
        raise
    finally:
        if display is not None:
            display.__exit__(*sys.exc_info())


def _report(arguments: argparse.Namespace, made: Pyramid, seconds: float) -> None:
    nbytes = sum(level.size * level.dtype.memory_dtype.itemsize for level in made.levels)
    if arguments.json:
        print_json(
            {
                "path": made.path,
                "convention": made.convention,
                "levels": [
                    {"path": name, "shape": list(level.shape), "factors": list(factors)}
                    for name, level, factors in zip(made.names, made.levels, made.factors, strict=True)
                ],
                "bytes": nbytes,
                "seconds": seconds,
            }
        )
        return
    for name, level, factors in zip(made.names, made.levels, made.factors, strict=True):
        print(f"{name:<6} {format_shape(level.shape):<24} factors {', '.join(map(str, factors))}")
    print(
        f"{made.path}: {made.convention}, {format_nbytes(nbytes)} in {format_duration(seconds)} "
        f"({format_rate(nbytes, seconds)})"
    )


def _units(text: str) -> list[Unit | None]:
    return [Unit(unit) if unit else None for unit in parse_names(text)]


def _factors(text: str) -> list[int] | list[list[int]]:
    levels = [list(parse_sizes(part, "factors")) for part in text.split(";")]
    return levels if len(levels) > 1 else levels[0]
