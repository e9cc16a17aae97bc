"""``chunkwise pyramid``: write an image at several resolutions."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import INCOMPLETE, UsageError, add_quiet, message, progress_of, show
from chunkwise.cli.options import (
    add_flags,
    add_memory,
    add_on,
    array_arguments,
    copy_options,
    parse_chunk_sizes,
    parse_codec,
    parse_names,
    parse_sizes,
    select,
    units_of,
    workers_of,
)
from chunkwise.copying.pictures import without_channel
from chunkwise.copying.quantities import format_pace, format_shape
from chunkwise.copying.resolve import resolve
from chunkwise.extension.trees import VOLUME
from chunkwise.images.conventions.known import PYRAMIDS
from chunkwise.images.pyramid.downsample_pyramid import DEFAULT_MEMORY, prepare_pyramid
from chunkwise.images.pyramid.plan import PyramidOptions
from chunkwise.images.pyramid.pyramid_work import Pyramid

__all__ = ["add_arguments", "run"]

_FLAGS = ("verify", "resume", "overwrite", "sync")

_EPILOG = """\
  chunkwise pyramid scan.zarr image.ome.zarr --units '40 nm,4 nm,4 nm'
  chunkwise pyramid mosaic.json em.n5/volume --convention cosem
  chunkwise pyramid labels.zarr image.ome.zarr/labels/cells --labels
  chunkwise pyramid em.n5/volume/s0                    writes s1, s2, ... beside it

SRC is an array, or a file with the spec of one, such as `chunkwise stack` makes.  Each level is made from the
one before.  Dimensions are put into the order of the convention, by their names: t, c, z, y, x in Zarr and
x, y, z, c, t in N5.  --axes and --units are in the order of SRC, without dimensions where --region has an
index; --factors, --chunk and --shard are in the order of the result.  An interrupted pyramid is not opened as
one; --resume continues it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "source", metavar="SRC", help="array, image file, folder of pictures, or *.json with its spec"
    )
    parser.add_argument(
        "destination",
        metavar="DST",
        nargs="?",
        help="group for all levels; without it, SRC is the first level and the others are written beside it",
    )
    parser.add_argument(
        "--region",
        metavar="REGION",
        help="only a part, such as '0,1,...' for one time and channel; it keeps its position in SRC",
    )
    parser.add_argument(
        "--convention",
        choices=(*PYRAMIDS, VOLUME),
        help="by default n5-viewer in *.n5, else ome-ngff-0.5",
    )
    parser.add_argument(
        "--method",
        choices=("mean", "min", "max", "median", "mode", "stride"),
        help="by default mean, or mode with --labels",
    )
    parser.add_argument(
        "--labels",
        action="store_true",
        help="elements are labels, which must not be averaged (by default if the image says so)",
    )
    parser.add_argument(
        "--factors",
        metavar="SIZES",
        type=_factors,
        help="such as 2,2,1, or for each level: 2,2,1;2,2,2 (by default those that make voxels cubes)",
    )
    parser.add_argument("--levels", type=int, metavar="N", help="number of levels below full resolution")
    parser.add_argument(
        "--axes", metavar="NAMES", type=parse_names, help="names of the dimensions, such as z,y,x"
    )
    parser.add_argument(
        "--units", metavar="UNITS", help="sizes of a voxel, such as '40 nm,4 nm,4 nm' or 'z=40 nm', or none"
    )
    parser.add_argument(
        "--chunk",
        metavar="SIZES",
        type=lambda text: parse_chunk_sizes(text, "chunks"),
        help="chunk shape, or by axis: z=16; by default that of SRC, or 64,64,64",
    )
    parser.add_argument(
        "--shard",
        metavar="SIZES",
        type=lambda text: parse_chunk_sizes(text, "shards"),
        help="shard shape, or by axis (ome-ngff-0.5), or none",
    )
    parser.add_argument("--codec", metavar="CODEC", type=parse_codec, help="as for `chunkwise create`")
    parser.add_argument("--name", help="name of the image; by default that of the group")
    add_memory(parser, "how much a worker process may use, such as 2GB")
    add_on(parser)
    add_flags(parser, _FLAGS)
    parser.add_argument(
        "--dry-run", action="store_true", help="print levels, tasks, bytes and requests; write nothing"
    )
    add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    found = resolve(arguments.source)
    if found.is_view and arguments.destination is None:
        raise UsageError("a pyramid of a spec file, or of pictures, needs a DST")
    if arguments.region is not None and arguments.destination is None:
        raise UsageError("a pyramid of a --region needs a DST")
    source = found
    if arguments.region is not None:
        source = found.part(select(without_channel(found.as_array(of_image=True)), arguments.region))
    options = PyramidOptions(
        convention=arguments.convention,
        method=arguments.method,
        labels=arguments.labels or None,
        factors=arguments.factors,
        levels=arguments.levels,
        axes=arguments.axes,
        units=units_of(arguments),
        name=arguments.name,
        arrays=array_arguments(arguments),
    )
    workers = workers_of(arguments, DEFAULT_MEMORY)
    work = prepare_pyramid(source, arguments.destination, options, copy_options(arguments), workers)
    if arguments.dry_run:
        plan = work.preview()
        for note in (*plan.assumed, *plan.left_out):
            message(note)
        show(arguments, plan.to_json(), *plan.lines())
        return 0
    work.begin()
    with progress_of(arguments, "pyramid", work.nbytes_to_do, 0, workers) as progress:
        made = work.write(lambda _: None, progress.advance)
    _report(arguments, made, progress.seconds)
    return INCOMPLETE if made.left_out else 0


def _report(arguments: argparse.Namespace, made: Pyramid, seconds: float) -> None:
    nbytes = sum(level.size * level.dtype.memory_dtype.itemsize for level in made.levels)
    levels = [
        (name, level.shape, list(factors))
        for name, level, factors in zip(made.names, made.levels, made.factors, strict=True)
    ]
    out = {
        "path": made.path,
        "convention": made.convention,
        "levels": [dict(zip(("path", "shape", "factors"), level, strict=True)) for level in levels],
        "bytes": nbytes,
        "seconds": seconds,
        "verified": arguments.verify,
        "left_out": list(made.left_out),
        "assumed": list(made.assumed),
    }
    for note in (*made.assumed, *made.left_out):
        message(note)
    lines = [
        f"{name:<6} {format_shape(shape):<24} factors {', '.join(map(str, factors))}"
        for name, shape, factors in levels
    ]
    checked = "; every element compared: equal" if arguments.verify else ""
    show(arguments, out, *lines, f"{made.path}: {made.convention}, {format_pace(nbytes, seconds)}{checked}")


def _factors(text: str) -> list[int] | list[list[int]]:
    levels = [list(parse_sizes(part, "factors")) for part in text.split(";")]
    return levels if len(levels) > 1 else levels[0]
