"""``chunkwise cp``: copy an array, or a hierarchy, to another location, format, chunking or compression."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import NamedTuple

from chunkwise.cli.command import INCOMPLETE, UsageError, add_quiet, message, progress_of, show
from chunkwise.cli.cp_tree import run_copy, run_copy_tree, run_shown, show_copy, show_left
from chunkwise.cli.nwb import copy_nwb
from chunkwise.cli.options import add_flags, add_memory, add_on, copy_options, index_of, select, workers_of
from chunkwise.cli.template_options import (
    add_template_arguments,
    check_ranks,
    choose_format,
    template_options,
)
from chunkwise.copying.array_options import for_format
from chunkwise.copying.conventions import is_converted, is_hdmf_file
from chunkwise.copying.copy import ArrayCopy
from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.copying.copy_source import CopySource, source_of
from chunkwise.copying.losses import CopyReport
from chunkwise.copying.narrowing import MisfitError, measure
from chunkwise.copying.quantities import format_duration, format_nbytes, format_pace, format_ratio
from chunkwise.copying.resolve import ResolvedPlace, resolve
from chunkwise.copying.summary import occupancy, stored_array
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.inside import is_url, parse_json, shown_text
from chunkwise.extension.trees import VOLUME, Location, find_node, is_volume, locate, require_node
from chunkwise.groups.copy_tree import LAYOUTS

__all__ = ["PRICES", "add_arguments", "parse_prices", "price_json", "price_lines", "run"]

_SHARD = 1000
_WORTH_SAYING = 1.0  # dollars


class Prices(NamedTuple):
    """US dollars per million requests; writing and listing cost the same."""

    get: float
    put: float
    what: str = ""  # the storage class, for list prices
    page: str = ""  # the provider's page with these prices
    read: str | None = None  # when that page, or a stored copy, was read; None if it couldn't be read

    def __str__(self) -> str:
        if self.read is None:
            return f"{self.what}, not confirmed: see {self.page}, or give yours with --prices"
        return f"{self.what}: {self.page}, read {self.read}"


# Other sources give the same prices for S3.  Azure's page of sample prices (2024-07-26) has 0.44 and 5.50,
# which it says are examples; other sources publish those below (2023).
PRICES: Mapping[str, Prices] = {
    "s3": Prices(0.40, 5.00, "S3 Standard in us-east-1", "https://aws.amazon.com/s3/pricing/"),
    "gcs": Prices(
        0.40,
        5.00,
        "Google Cloud Storage, Standard in one region",
        "https://cloud.google.com/storage/pricing-examples",
        "2026-11-24",
    ),
    "azure": Prices(
        0.50,
        6.50,
        "Azure Blob Storage, hot and locally redundant",
        "https://azure.microsoft.com/pricing/details/storage/blobs/",
    ),
}
"""List prices by the driver of the kvstore; an option of the command line replaces them."""


def parse_prices(text: str) -> Prices:
    """Return the prices that ``{"get": 0.4, "put": 5}`` or a file with it says; raise for anything else."""
    if not text.lstrip().startswith("{"):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError) as e:
            raise InvalidArgumentError(
                f"prices: expected JSON or the name of a file with it, but received {text!r} ({e})"
            ) from None
    try:
        found = parse_json(text)
    except ValueError as e:
        raise InvalidArgumentError(f"prices: expected JSON, but received {text!r} ({e})") from None
    good = isinstance(found, dict) and set(found) == {"get", "put"}
    if not good or not all(isinstance(n, int | float) and n >= 0 for n in found.values()):
        raise InvalidArgumentError(
            'prices: expected {"get": ..., "put": ...}, US dollars for a million requests, '
            f"but received {text}"
        )
    return Prices(**found)


def price_lines(
    plan: CopyPlan, source: Prices | None, target: Prices | None, n_chunks: int | None
) -> Iterator[str]:
    """Yield the requests of a copy, and their prices where they are known.

    Parameters
    ----------
    plan : CopyPlan
    source, target : Prices or None
        None if requests cost nothing, or the price is unknown.
    n_chunks : int or None
        Chunks that are written one by one; None if they are in shards.
    """
    cost = price_json(plan, source, target)
    yield f"requests: about {cost['get']:,} to read and {cost['put']:,} to write, if everything is stored"
    if source is not None or target is not None:
        reading, writing = (_dollars(cost[name] or 0.0) for name in ("get_dollars", "put_dollars"))
        yield f"price of the requests: {reading} to read and {writing} to write"
        for prices in dict.fromkeys([source, target]):
            if prices is not None and prices.what:
                yield f"list prices of {prices}"
    if n_chunks is not None and target is not None and n_chunks * target.put / 1e6 >= _WORTH_SAYING:
        each, shards = (_dollars(n * target.put / 1e6) for n in (n_chunks, -(-n_chunks // _SHARD)))
        yield (
            f"{n_chunks:,} chunks that are objects of their own cost {each} to write; "
            f"in shards of {_SHARD:,} (--shard, zarr3) they cost {shards}"
        )


def price_json(plan: CopyPlan, source: Prices | None, target: Prices | None) -> dict[str, JSON]:
    """Return the numbers of requests and their prices, as JSON."""
    gets = [source, *[target] * (len(plan.passes) - 1)]
    known = [n * p.get / 1e6 for n, p in zip(plan.n_gets, gets, strict=True) if p is not None]
    return {
        "get": sum(plan.n_gets),
        "put": sum(plan.n_puts),
        "get_dollars": sum(known) if known else None,
        "put_dollars": None if target is None else sum(plan.n_puts) * target.put / 1e6,
        "list_prices": [str(p) for p in dict.fromkeys([source, target]) if p is not None and p.what],
    }


def _dollars(amount: float) -> str:
    return f"${amount:,.0f}" if amount >= 100 else f"${amount:.2f}"


_EPILOG = """\
Options you leave out are copied from the source, as far as the new format can hold them.  The format too,
unless DST's name or group decides it.  A copy of a file that is neither Zarr nor N5, such as TIFF or HDF5,
keeps its chunks; format and codec are those of a new array.  Memory use doesn't depend on the size.

If DST ends in a slash and is a directory that is neither an array nor a group, the copy is DST/NAME, with the
name of SRC.

An interrupted copy is not an array: its metadata is written last.  --resume continues where it stopped.

--overwrite replaces DST once the copy is complete.  Until then the old data can be read, also by
the copy itself: DST may be SRC.

With -r a whole hierarchy is copied: groups, arrays, attributes and links.  --chunk time=90,lat=8 and --shard
apply to each array that has dimensions of these names; other dimensions and arrays keep their chunks.  Sizes
without names need a tree whose arrays all have that number of dimensions.  --codec applies to all arrays; as
JSON, to all but those of text.  An NWB file in HDF5, or for another format, is converted as by
`chunkwise nwb convert`.  Exit status 3 says that the copy lacks something which the new format can't hold;
the messages, or "left_out" and "notes" in the JSON, say what.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "source",
        metavar="SRC",
        help="array to copy, file with one array or image, *.json with the spec of a view, or group with -r",
    )
    parser.add_argument("destination", metavar="DST", help="location of the copy")
    parser.add_argument("-r", "--recursive", action="store_true", help="copy a group and everything in it")
    add_template_arguments(parser, VOLUME)
    parser.add_argument(
        "--layout",
        choices=LAYOUTS,
        help="with -r: copy an image, with all its levels and nothing else, as N5 for this viewer, or as "
        "OME-Zarr 0.5 (0.4 in zarr2); the latter is the default if a group is nothing but an image and is "
        "copied to Zarr of another format",
    )
    parser.add_argument(
        "--region", metavar="REGION", help="copy only a part, such as '0, -1, 100:200' or '...,::2'"
    )
    add_flags(parser)
    add_memory(parser, "how much a process may use, such as 2GB; by default a quarter of the memory")
    add_on(parser)
    parser.add_argument(
        "--part",
        metavar="I/N",
        help="do one of N parts, as in a SLURM array; the part that finishes last, or --resume, completes "
        "the array",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print passes, tasks, bytes, requests and prices; copy nothing"
    )
    parser.add_argument(
        "--prices",
        metavar="JSON",
        help='for --dry-run, US dollars per million requests: {"get": 0.4, "put": 5}, or a file with '
        "that; by default the list prices of S3, Google Cloud and Azure",
    )
    add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.cast is not None and arguments.dtype is None:
        raise UsageError("--cast goes with --dtype")
    if arguments.layout is not None and not arguments.recursive:
        raise UsageError("--layout goes with -r and the group of an image")
    if arguments.prices is not None and not arguments.dry_run:
        raise UsageError("--prices goes with --dry-run")
    if arguments.part is not None:
        if arguments.overwrite:
            raise UsageError(
                "--overwrite would let each part delete what others have done; delete the destination first, "
                "once: `chunkwise rm`"
            )
        if arguments.cast == "scale":
            raise UsageError("with --cast scale each part would read the whole source first")
    arguments.destination = _inside_directory(arguments.source, arguments.destination)
    destination, found = locate(arguments.destination), resolve(arguments.source)
    to_volume = is_volume(destination, arguments.format)
    if arguments.recursive and (to_volume or _is_tree(found)):
        root = None if to_volume or found.array is not None else found.as_node()
        if root is not None and is_hdmf_file(root):
            format = choose_format(arguments, destination, root.own_format, kind="group")
            if is_converted(root, format):
                return copy_nwb(arguments, root)
        _tell(found.assumed)
        return run_copy_tree(arguments, found, destination)
    if arguments.layout is not None:
        raise UsageError(f"{shown_text(arguments.source)} is an array; --layout takes an image")
    if to_volume:
        return _copy_to_volume(arguments, found, destination)
    source = _only_source(found)
    _tell(found.assumed)
    if arguments.region is not None:
        source = source.part(index_of(source.store, arguments.region))
    return _copy(arguments, source, destination)


def _is_tree(found: ResolvedPlace) -> bool:
    """Return True for a group, and for a volume with its scales."""
    return found.is_volume or (found.array is None and found.as_node().kind == "group")


def _copy_to_volume(arguments: argparse.Namespace, found: ResolvedPlace, destination: Location) -> int:
    """Copy an array to a precomputed volume."""
    array = found.as_array()
    source = found.part(array if arguments.region is None else select(array, arguments.region))
    from chunkwise.images.pyramid.volume_copy import copy_to_volume  # which few copies need

    options, how = template_options(arguments), copy_options(arguments)
    work = copy_to_volume(source, destination, options, how, workers_of(arguments))
    for note in work.assumed:
        message(note)
    return run_copy(arguments, work)


def _tell(assumed: str) -> None:
    if assumed:
        message(assumed)


def _only_source(found: ResolvedPlace) -> CopySource:
    """Return the array at a place; raise UsageError for a group, and for a file of several arrays."""
    try:
        return source_of(found)
    except InvalidArgumentError as e:
        if found.kind == "directory":
            raise
        what = e.message if found.is_file else f"{found.named} is a group"
        raise UsageError(f"{what}; -r copies it with all that is in it") from None


def _inside_directory(source: str, destination: str) -> str:
    """Return the destination; for an existing plain ``DIRECTORY/``, the path of the source's name in it."""
    at, name = Path(destination), PurePath(source.rstrip("/")).name
    ends = destination.endswith(("/", os.sep)) and not is_url(source) and not is_url(destination)
    if not ends or name in ("", ".", "..") or not at.is_dir() or at.resolve() == Path(source).resolve():
        return destination
    node = find_node(locate(destination))
    return destination if node is not None and not node.undeclared else str(at / name)


def _copy(arguments: argparse.Namespace, source: CopySource, destination: Location) -> int:
    """Copy one array."""
    format = choose_format(arguments, destination, source.template.format)
    options = template_options(arguments, source.store.dtype)
    check_ranks(options, source.store.rank)
    options = for_format(options, format)
    extent = None
    if arguments.cast == "scale":
        size = source.store.size * source.store.dtype.memory_dtype.itemsize
        with progress_of(arguments, "measuring", size) as progress:
            extent = measure(source.store, progress.advance)
    workers = workers_of(arguments)
    copy = ArrayCopy(
        source,
        destination,
        format,
        options,
        copy_options(arguments),
        extent=extent,
        workers=workers,
    )
    if arguments.dry_run:
        _show_plan(arguments, copy, source.location, destination)
        return 0
    copy.begin()
    known = copy.plan.notes
    for _, note in known:
        message(note)
    if copy.complete:
        message("nothing to do: the copy is there already")
    elif copy.nbytes_done:
        message(f"going on after {format_nbytes(copy.nbytes_done)}")
    try:
        report, seconds = run_shown(arguments, copy)
    except MisfitError as e:
        raise MisfitError(f"{e.message}; --cast chooses how such values are stored") from None
    for _, note in report.notes[len(known) :]:
        message(note)
    if copy.left is not None:
        show_left(arguments, copy.left)
        return 0
    _report(arguments, copy, report, destination, format, seconds)
    return INCOMPLETE if report.losses else 0


def _show_plan(arguments: argparse.Namespace, copy: ArrayCopy, source: JSON, destination: Location) -> None:
    """Print what a copy would do, and what it would cost."""
    if arguments.prices is not None:
        own = parse_prices(arguments.prices)
        prices: tuple[Prices | None, Prices | None] = own, own
    else:
        drivers = source.get("driver") if isinstance(source, dict) else None, destination.base.get("driver")
        prices = PRICES.get(str(drivers[0])), PRICES.get(str(drivers[1]))
    sharded = copy.target.chunk_layout.read_chunk.shape != copy.target.chunk_layout.write_chunk.shape
    n_chunks = None if sharded else copy.passes.n_puts[-1]
    out = {**copy.passes.to_json(), "requests": price_json(copy.passes, *prices)}
    show(arguments, out, copy.passes, *price_lines(copy.passes, *prices, n_chunks))


def _report(
    arguments: argparse.Namespace,
    copy: ArrayCopy,
    report: CopyReport,
    destination: Location,
    format: str,
    seconds: float,
) -> None:
    node = require_node(destination)
    stored = occupancy(node, stored_array(node), inside=False)
    copied = copy.nbytes - copy.nbytes_done
    out = {
        "shape": copy.target.shape,
        "dtype": copy.target.dtype.name,
        "bytes": copy.nbytes,
        "stored_bytes": stored.stored_nbytes,
        "copied_bytes": copied,
        "seconds": seconds - copy.seconds_compared,
        "verified": arguments.verify,
        "notes": [note for _, note in copy.plan.notes],
    }
    text = format_pace(copied, seconds - copy.seconds_compared) if copied else format_nbytes(copied)
    if stored.ratio is not None:
        text += f", stored in {format_nbytes(stored.stored_nbytes)} ({format_ratio(stored.ratio)})"
    if arguments.verify:
        text += f"; every element compared in {format_duration(copy.seconds_compared)}: equal"
    show_copy(arguments, format, out, text)
