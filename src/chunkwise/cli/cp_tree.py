"""``chunkwise cp -r``: copy a whole hierarchy, from one format to another."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence

from chunkwise.cli.command import INCOMPLETE, UsageError, message, show
from chunkwise.cli.options import workers_of
from chunkwise.cli.progress import progress_of
from chunkwise.cli.region import select
from chunkwise.cli.template_options import choose_format, template_options
from chunkwise.copying.copy_options import CopyOptions, flags_of_copies
from chunkwise.copying.copy_report import CopyReport
from chunkwise.copying.losses import array_left_out, is_loss
from chunkwise.copying.part import parse_part
from chunkwise.copying.planned_copy import PlannedCopy
from chunkwise.copying.quantities import format_nbytes, format_pace, plural
from chunkwise.copying.resolve import ResolvedPlace
from chunkwise.copying.tree_plan import TreePlan
from chunkwise.extension import JSON
from chunkwise.extension.trees import VOLUME, Location, tree_format
from chunkwise.groups.copy_tree import prepare_tree_copy

__all__ = ["copy_options", "run_copy_tree", "run_copy_volume", "run_shown", "show_copy", "show_left"]

_ONE_ARRAY = {
    "region": "--region",
    "prices": "--prices",
}
_OF_ARRAYS = {"fill_value": "--fill-value", "dimension_names": "--dimension-names", "units": "--units"}


def run_copy_tree(arguments: argparse.Namespace, found: ResolvedPlace, destination: Location) -> int:
    """Copy a group and everything in it; return `INCOMPLETE` if something was left out."""
    root = found.as_node()
    for_viewer = arguments.layout not in (None, "ome-zarr")
    own = root.own_format if found.images is None else None
    format = "n5" if for_viewer else choose_format(arguments, destination, own, kind="group")
    to_ngff = _is_to_ngff(arguments, found, format)
    _check_options(arguments)
    if arguments.layout == "ome-zarr" and tree_format(format).has_containers:
        raise UsageError(f"--layout ome-zarr is Zarr, not {format}: --format zarr3 or zarr2")
    if to_ngff or arguments.layout is not None:
        return _copy_image(arguments, found, destination, format if to_ngff else "n5")
    workers = workers_of(arguments)
    work = prepare_tree_copy(
        found, destination, format, template_options(arguments), copy_options(arguments), workers
    )
    return _run(arguments, format, work)


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


def run_copy_volume(arguments: argparse.Namespace, found: ResolvedPlace, destination: Location) -> int:
    """Copy a precomputed volume with all its scales, as an image of OME-Zarr."""
    format = choose_format(arguments, destination, kind="group")
    if format not in ("zarr3", "zarr2") or arguments.layout not in (None, "ome-zarr"):
        raise UsageError(
            f"{arguments.source} is a precomputed volume; -r copies its scales to OME-Zarr, and without -r "
            "the first one is copied as an array"
        )
    _check_options(arguments)
    return _copy_image(arguments, found, destination, format)


def run_copy_to_volume(arguments: argparse.Namespace, found: ResolvedPlace, destination: Location) -> int:
    """Copy an array, or with -r an image with all its levels, to a precomputed volume."""
    if arguments.layout is not None:
        raise UsageError("--layout is of N5 and OME-Zarr, not of a precomputed volume")
    if arguments.recursive:
        _check_options(arguments)
    else:
        array = found.as_array()
        found = found.part(array if arguments.region is None else select(array, arguments.region))
    from chunkwise.images.pyramid.volume_copy import copy_to_volume  # which few copies need

    options, how = template_options(arguments), copy_options(arguments)
    work = copy_to_volume(found, destination, options, how, workers_of(arguments))
    for note in work.assumed:
        message(note)
    return _run(arguments, VOLUME, work)


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that are for single arrays."""
    for option, name in _ONE_ARRAY.items():
        if getattr(arguments, option) not in (None, False):
            raise UsageError(f"{name} is for single arrays; the arrays of a hierarchy keep theirs")


def copy_options(arguments: argparse.Namespace) -> CopyOptions:
    """Return how an array, a hierarchy or an image is to be copied."""
    part = None if arguments.part is None else parse_part(arguments.part)
    flags = {field.name: getattr(arguments, field.name) for field in flags_of_copies()}
    given = {name: value for name, value in flags.items() if value is not None}
    return CopyOptions(memory=arguments.memory, part=part, **given)


def show_copy(
    arguments: argparse.Namespace, format: str, out: Mapping[str, JSON], text: str, *lines: str
) -> None:
    """Print what was, or would be, copied."""
    ends = {"source": arguments.source, "destination": arguments.destination, "format": format}
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


def _is_to_ngff(arguments: argparse.Namespace, found: ResolvedPlace, format: str) -> bool:
    """Return True if images are to be copied as images of OME-Zarr."""
    if found.images is not None and arguments.layout is None:
        if format not in ("zarr3", "zarr2"):
            raise UsageError(
                f"{found.named} describes images, which -r copies to OME-Zarr, or to N5 with --layout bdv; "
                f"their container is {found.as_node().location.text}"
            )
        return True
    if arguments.layout is not None or format not in ("zarr3", "zarr2") or arguments.part is not None:
        return bool(arguments.layout == "ome-zarr")
    from chunkwise.images.pyramid.image_sources import is_whole_image

    # Unchanged attributes would not make a group of another format an image.
    root = found.as_node()
    return root.format != format and is_whole_image(root.location)


def _copy_image(
    arguments: argparse.Namespace, found: ResolvedPlace, destination: Location, format: str
) -> int:
    """Copy an image to OME-Zarr, or to N5 in the layout of a viewer."""
    if arguments.part is not None:
        raise UsageError("--layout doesn't go with --part; --on has workers copy an image")
    if format == "n5" and arguments.format not in (None, "n5"):
        raise UsageError(f"--layout {arguments.layout} is N5, not {arguments.format}")
    if arguments.cast == "scale":
        raise UsageError("--cast scale would scale each array by itself; it is for single arrays")
    for option, name in _OF_ARRAYS.items():
        if getattr(arguments, option) is not None:
            raise UsageError(f"{name} is for arrays; the levels of an image have those of its axes")
    if arguments.strict:
        raise UsageError(
            "--strict is for trees; of an image, the levels are copied, and other arrays are named"
        )
    from chunkwise.images.pyramid.image_plan import ImagePlan, image_copy  # which not every copy needs
    from chunkwise.images.pyramid.n5_image_plan import N5ImagePlan
    from chunkwise.images.pyramid.ngff_image_plan import NgffImagePlan

    assert found.location is not None
    images = None if found.images is None else found.images()
    options = template_options(arguments)
    image: ImagePlan
    if format == "n5":
        image = N5ImagePlan(found.location, destination, arguments.layout, options, images)
    else:
        image = NgffImagePlan(found.location, destination, format, options, images)
    return _run(arguments, format, image_copy(image, copy_options(arguments), workers_of(arguments)))


def _run(arguments: argparse.Namespace, format: str, work: PlannedCopy) -> int:
    """Make a copy, or show its plan."""
    if arguments.dry_run:
        _show_plan(arguments, format, work.plan)
        return 0
    work.begin()
    report, seconds = run_shown(arguments, work)
    if work.complete:
        message("nothing to do: the copy is there already")
    if report.n_left is not None:
        show_left(arguments, [report.n_left])
        return 0
    return _report(arguments, format, report, seconds)


def _show_plan(arguments: argparse.Namespace, format: str, plan: TreePlan) -> None:
    """Print what a copy would do."""
    found = plan.to_json()
    if not arguments.json:
        _say(*plan.notes, *_left_out(plan.left_out))
    size = f"{_counts(found['groups'], found['arrays'], found['links'])}, {format_nbytes(plan.nbytes)}"
    lines = [f"{path}: {job.plan}" for path, job in plan.large.items()]
    if plan.small:
        lines.insert(0, f"{plural(len(plan.small), 'small array')}, each a task of one pass")
    show_copy(arguments, format, found, size, *lines)


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
