"""``chunkwise cp -r``: copy a whole hierarchy, from one format to another."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from chunkwise.cli.command import UsageError, message, print_json, show
from chunkwise.cli.options import workers_of
from chunkwise.cli.progress import progress_of
from chunkwise.cli.quantities import format_nbytes, format_pace, plural
from chunkwise.cli.template_options import choose_format, template_options
from chunkwise.groups.copy_tree import open_target, prepare_tree_copy
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import require_node
from chunkwise.tools.copy_plan import CopyPlan
from chunkwise.tools.tree_copy import CopyReport
from chunkwise.tools.tree_plan import TreePlan

__all__ = ["INCOMPLETE", "run_copy_tree", "show_left"]

INCOMPLETE = 3
"""Exit status of a copy that lacks something of the source, since the format has no place for it."""

_ONE_ARRAY = {
    "region": "--region",
    "chunk": "--chunk",
    "fill_value": "--fill-value",
    "names": "--dimension-names",
    "units": "--units",
    "prices": "--prices",
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
    started = time.monotonic()
    work = prepare_tree_copy(
        source,
        destination,
        format=format,
        options=template_options(arguments),
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        verify=arguments.verify,
        sync=not arguments.no_sync,
        cast=arguments.cast or "error",
        keep_fingerprint=arguments.keep_fingerprint,
        executor=workers,
        memory=arguments.memory,
        part=arguments.part,
    )
    if arguments.dry_run:
        _show_plan(arguments, format, work.plan)
        return 0
    work.begin()
    with progress_of(arguments, "copying", work.nbytes, work.nbytes_done, workers) as progress:
        report = work.run(lambda _, nbytes: progress.advance(nbytes))
    if work.complete:
        message("nothing to do: the copy is there already")
    if report.n_left is not None:
        show_left(arguments, [report.n_left])
        return 0
    return _report(arguments, format, report, time.monotonic() - started)


def show_left(arguments: argparse.Namespace, left: Sequence[int]) -> None:
    """Say how many tasks of each pass are left for other parts."""
    at = next((at for at, n in enumerate(left) if n), None)
    if at is None:
        message(f"part {arguments.part} is done; another process makes, or has made, the copy")
        return
    of = f"of pass {at + 1} of {len(left)}, " if len(left) > 1 else ""
    n_left = plural(left[at], "task")
    message(f"part {arguments.part} is done as far as it can be; {of}{n_left} of all parts are left")


def _copy_image(arguments: argparse.Namespace, source: Location, destination: Location) -> int:
    """Copy the image at `source` in the layout of a viewer of N5."""
    if arguments.part is not None:
        raise UsageError("--layout doesn't go with --part; --on has workers copy an image")
    if arguments.format not in (None, "n5"):
        raise UsageError(f"--layout {arguments.layout} is N5, not {arguments.format}")
    if arguments.cast == "scale":
        raise UsageError("--cast scale would scale each array by itself; it is for single arrays")
    from chunkwise.pyramid.image_copy import ImageCopy  # which not every copy needs

    image = ImageCopy(source, destination, arguments.layout, template_options(arguments))
    workers = workers_of(arguments)
    how = {
        "resume": arguments.resume,
        "sync": not arguments.no_sync,
        "cast": arguments.cast or "error",
        "memory": arguments.memory,
        "keep_fingerprint": arguments.keep_fingerprint,
    }
    if arguments.dry_run:
        _show_image_plan(arguments, image.nbytes, image.plans(workers=workers, **how))
        return 0
    if not (arguments.overwrite or arguments.resume):
        image.check_free()
    open_target(destination, "n5", resume=arguments.resume, overwrite=arguments.overwrite)
    started = time.monotonic()
    with progress_of(arguments, "copying", image.nbytes, workers=workers) as progress:
        report = image.run(
            workers=workers,
            verify=arguments.verify,
            progress=lambda _, nbytes: progress.advance(nbytes),
            **how,
        )
    return _report(arguments, "n5", report, time.monotonic() - started)


def _show_image_plan(arguments: argparse.Namespace, nbytes: int, plans: dict[str, CopyPlan]) -> None:
    """Print how the levels of an image would be copied."""
    out = {
        "source": arguments.source,
        "destination": arguments.destination,
        "format": "n5",
        "arrays": len(plans),
        "bytes": nbytes,
        "larger_arrays": {path: plan.to_json() for path, plan in plans.items()},
    }
    size = f"{plural(len(plans), 'array')}, {format_nbytes(nbytes)}"
    lines = (f"{path}: {plan}" for path, plan in plans.items())
    show(arguments, out, f"{arguments.source} -> {arguments.destination} (n5): {size}", *lines)


def _show_plan(arguments: argparse.Namespace, format: str, plan: TreePlan) -> None:
    """Print what a copy would do."""
    found = plan.to_json()
    if arguments.json:
        ends = {"source": arguments.source, "destination": arguments.destination, "format": format}
        print_json({**ends, **found})
        return
    for path, note in plan.notes:
        message(f"{path or '.'}: {note}")
    for path, why in plan.left_out:
        message(f"{path or '.'}: array is left out: {why}")
    parts = [plural(found["groups"], "group"), plural(found["arrays"], "array")]
    if plan.links:
        parts.append(plural(found["links"], "link"))
    parts.append(format_nbytes(plan.nbytes))
    print(f"{arguments.source} -> {arguments.destination} ({format}): {', '.join(parts)}")
    if plan.small:
        print(f"{plural(len(plan.small), 'small array')}, each a task of one pass")
    for path, job in plan.large.items():
        print(f"{path}: {job.plan}")


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
