"""``chunkwise cp -r``: copy a whole hierarchy, from one format to another."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from chunkwise.cli.command import INCOMPLETE, UsageError, message, progress_of, show
from chunkwise.cli.options import copy_options, workers_of
from chunkwise.cli.template_options import template_options
from chunkwise.copying.losses import CopyReport, array_left_out, is_loss
from chunkwise.copying.planned_copy import PlannedCopy
from chunkwise.copying.quantities import format_nbytes, format_pace, plural
from chunkwise.copying.resolve import ResolvedPlace
from chunkwise.copying.tree_copy import TreeCopy
from chunkwise.errors import OptionError
from chunkwise.extension import JSON
from chunkwise.extension.inside import shown_text
from chunkwise.extension.trees import Location
from chunkwise.groups.copy_tree import prepare_tree_copy

if TYPE_CHECKING:
    from chunkwise.images.pyramid.volume_copy import VolumeCopy

__all__ = ["run_copy", "run_copy_tree", "run_shown", "show_copy", "show_left"]


def run_copy_tree(arguments: argparse.Namespace, source: ResolvedPlace, destination: Location) -> int:
    """Copy a group with everything in it, or an image; return `INCOMPLETE` if something was left out."""
    for option in ("region", "prices"):
        if getattr(arguments, option) is not None:
            raise UsageError(f"--{option} is for single arrays; the arrays of a hierarchy keep theirs")
    if arguments.format == "zarr1":
        raise UsageError("Zarr v1 has no groups")
    options, how, workers = template_options(arguments), copy_options(arguments), workers_of(arguments)
    try:
        work = prepare_tree_copy(
            source, destination, arguments.format, arguments.layout, options, how, workers
        )
    except OptionError as e:
        if e.message.startswith("layout: "):
            raise UsageError(f"--{e.message}") from None
        raise
    return run_copy(arguments, work)


def run_shown(arguments: argparse.Namespace, work: PlannedCopy) -> tuple[CopyReport, float]:
    """Run a copy that has begun, showing its progress; return its report and the seconds it took."""
    what, done = "copying", work.nbytes_done
    total: int | None = work.nbytes * (1 if work.complete or not arguments.verify else 2)
    if work.complete:
        if not arguments.verify:
            return work.run(), 0.0
        what, done = "comparing", 0
    elif arguments.verify:
        what = "copying and comparing"
    if arguments.verify and arguments.part:
        total = None  # the part that finishes last compares the share of others too
    with progress_of(arguments, what, total, done, work.workers) as progress:

        def advance(path: str, nbytes: int) -> None:
            progress.advance(nbytes)

        return work.run(advance, advance), progress.seconds


def show_copy(
    arguments: argparse.Namespace, format: str, out: Mapping[str, JSON], text: str, *lines: str
) -> None:
    """Print the numbers of copied nodes, or of those to copy."""
    ends = {
        "source": shown_text(arguments.source),
        "destination": shown_text(arguments.destination),
        "format": format,
    }
    show(arguments, {**ends, **out}, f"{ends['source']} -> {ends['destination']} ({format}): {text}", *lines)


def show_left(arguments: argparse.Namespace, left: Sequence[int]) -> None:
    """Say how many tasks of each pass are left for other parts."""
    at = next((at for at, n in enumerate(left) if n), None)
    if at is None:
        message(f"part {arguments.part} is done; another process makes, or has made, the copy")
        return
    of = f"of pass {at + 1} of {len(left)}, " if len(left) > 1 else ""
    n_left = plural(left[at], "task")
    message(f"part {arguments.part} is done as far as it can be; {of}{n_left} of all parts are left")


def run_copy(arguments: argparse.Namespace, work: TreeCopy | VolumeCopy) -> int:
    """Make a copy, or show its plan."""
    if arguments.dry_run:
        _show_plan(arguments, work)
        return 0
    work.begin()
    report, seconds = run_shown(arguments, work)
    if work.complete:
        message("nothing to do: the copy is there already")
    if report.n_left is not None:
        show_left(arguments, [report.n_left])
        return 0
    return _report(arguments, work.format, report, seconds)


def _show_plan(arguments: argparse.Namespace, work: TreeCopy | VolumeCopy) -> None:
    """Print what a copy would do."""
    plan = work.plan
    found = plan.to_json()
    if not arguments.json:
        _say(*plan.notes, *_left_out(plan.left_out))
    size = f"{_counts(found['groups'], found['arrays'], found['links'])}, {format_nbytes(plan.nbytes)}"
    lines = [f"{path}: {job.plan}" for path, job in plan.large.items()]
    if plan.small:
        lines.insert(0, f"{plural(len(plan.small), 'small array')}, each a task of one pass")
    show_copy(arguments, work.format, found, size, *lines)


def _report(arguments: argparse.Namespace, format: str, report: CopyReport, seconds: float) -> int:
    lost = report.losses
    kept = [(path, note) for path, note in report.notes if not is_loss(note)]
    _say(*kept, *lost)
    out = {
        "groups": report.n_groups,
        "arrays": report.n_arrays,
        "links": report.n_links,
        "bytes": report.nbytes,
        "seconds": seconds,
        "verified": arguments.verify,
        "notes": [{"path": path, "note": note} for path, note in kept],
        "left_out": [{"path": path, "note": note} for path, note in lost],
    }
    counts = _counts(report.n_groups, report.n_arrays, report.n_links)
    text = f"{counts}, {format_pace(report.nbytes, seconds)}"
    if arguments.verify:
        text += "; every element compared: equal"
    if lost:
        text += f"; {plural(len(lost), 'thing')} left out"
    show_copy(arguments, format, out, text)
    return INCOMPLETE if lost else 0


def _say(*notes: tuple[str, str]) -> None:
    for path, note in notes:
        message(f"{path or '.'}: {note}")


def _left_out(arrays: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return ((path, array_left_out(why)) for path, why in arrays)


def _counts(n_groups: int, n_arrays: int, n_links: int) -> str:
    links = [plural(n_links, "link")] if n_links else []
    return ", ".join([plural(n_groups, "group"), plural(n_arrays, "array"), *links])
