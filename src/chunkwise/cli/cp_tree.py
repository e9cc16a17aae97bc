"""``chunkwise cp -r``: copy a whole hierarchy, from one format to another."""

from __future__ import annotations

import argparse
import time
from typing import Any

from chunkwise.cli.command import UsageError, message, print_json
from chunkwise.cli.options import workers_of
from chunkwise.cli.progress import open_progress
from chunkwise.cli.quantities import format_pace, plural
from chunkwise.cli.template_options import choose_format, template_options
from chunkwise.groups.copy_tree import copy_tree, open_target
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import require_node
from chunkwise.hierarchy.walk import walk
from chunkwise.tools.stored_node import array_nbytes
from chunkwise.tools.tree_copy import CopyReport

__all__ = ["INCOMPLETE", "run_copy_tree"]

INCOMPLETE = 3
"""Exit status of a copy that lacks something of the source, since the format has no place for it."""

_ONE_ARRAY = {
    "region": "--region",
    "chunk": "--chunk",
    "fill_value": "--fill-value",
    "names": "--dimension-names",
    "units": "--units",
    "part": "--part",
    "dry_run": "--dry-run",
}


def run_copy_tree(arguments: argparse.Namespace, source: Location, destination: Location) -> int:
    """Copy the group at `source` and all in it; return `INCOMPLETE` if something was left out."""
    for option, name in _ONE_ARRAY.items():
        if getattr(arguments, option) not in (None, False):
            raise UsageError(f"{name} is for single arrays; the arrays of a hierarchy keep theirs")
    if arguments.shard not in (None, "none"):
        raise UsageError("--shard SIZES is for single arrays; in a hierarchy, only --shard none")
    root = require_node(source)
    if arguments.layout is not None:
        return _copy_image(arguments, source, destination)
    workers = workers_of(arguments)
    format = choose_format(arguments, destination, root.format)
    if format == "zarr1":
        raise UsageError("Zarr v1 has no groups")
    nbytes = sum(array_nbytes(node) or 0 for _, node in walk(root) if node.kind == "array" and not node.error)
    started = time.monotonic()
    with open_progress("copying", nbytes, 0, show=not arguments.quiet) as progress:
        report = copy_tree(
            source,
            destination,
            format=format,
            resume=arguments.resume,
            overwrite=arguments.overwrite,
            verify=arguments.verify,
            sync=not arguments.no_sync,
            cast=arguments.cast or "error",
            executor=workers,
            memory=arguments.memory,
            progress=lambda _, nbytes: progress.advance(nbytes),
            **template_options(arguments),
        )
    return _report(arguments, format, report, time.monotonic() - started)


def _copy_image(arguments: argparse.Namespace, source: Location, destination: Location) -> int:
    """Copy the image at `source` in the layout of a viewer of N5."""
    if arguments.on is not None or arguments.memory is not None:
        raise UsageError("--layout doesn't go with --on or --memory")
    if arguments.format not in (None, "n5"):
        raise UsageError(f"--layout {arguments.layout} is N5, not {arguments.format}")
    if arguments.cast == "scale":
        raise UsageError("--cast scale would scale each array by itself; it is for single arrays")
    from chunkwise.pyramid.image_copy import ImageCopy  # which not every copy needs

    image = ImageCopy(source, destination, arguments.layout, template_options(arguments))
    if not (arguments.overwrite or arguments.resume):
        image.check_free()
    open_target(destination, "n5", resume=arguments.resume, overwrite=arguments.overwrite)
    started = time.monotonic()
    with open_progress("copying", image.nbytes, 0, show=not arguments.quiet) as progress:
        report = image.run(
            resume=arguments.resume,
            verify=arguments.verify,
            sync=not arguments.no_sync,
            cast=arguments.cast or "error",
            progress=lambda _, nbytes: progress.advance(nbytes),
        )
    return _report(arguments, "n5", report, time.monotonic() - started)


def _report(arguments: argparse.Namespace, format: str, report: CopyReport, seconds: float) -> int:
    lost = [(path, f"array is left out: {why}") for path, why in report.left_out]
    lost += [(path, note) for path, note in report.notes if _is_loss(note)]
    kept = [(path, note) for path, note in report.notes if not _is_loss(note)]
    for path, note in (*kept, *lost):
        message(f"{path or '.'}: {note}")
    if arguments.json:
        out: dict[str, Any] = {
            "source": arguments.source,
            "destination": arguments.destination,
            "format": format,
            "groups": report.n_groups,
            "arrays": report.n_arrays,
            "links": report.n_links,
            "bytes": report.nbytes,
            "seconds": seconds,
            "verified": arguments.verify,
            "notes": [{"path": path, "note": note} for path, note in kept],
            "left_out": [{"path": path, "note": note} for path, note in lost],
        }
        print_json(out)
    else:
        parts = [plural(report.n_groups, "group"), plural(report.n_arrays, "array")]
        if report.n_links:
            parts.append(plural(report.n_links, "link"))
        text = f"{', '.join(parts)}, {format_pace(report.nbytes, seconds)}"
        if arguments.verify:
            text += "; every element compared: equal"
        if lost:
            text += f"; {plural(len(lost), 'thing')} left out"
        print(f"{arguments.source} -> {arguments.destination} ({format}): {text}")
    return INCOMPLETE if lost else 0


def _is_loss(note: str) -> bool:
    return "left out" in note
