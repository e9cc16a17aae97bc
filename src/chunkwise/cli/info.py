"""``chunkwise info``: describe an array or image and how much of it is stored, or this installation.

``--system`` shows versions, packages in use, and the machine.
"""

from __future__ import annotations

import argparse
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from chunkwise import TensorStore
from chunkwise.cli.command import UsageError, message, rows_as_lines, show
from chunkwise.copying.journal_document import read_journal
from chunkwise.copying.quantities import format_chunks, format_nbytes, format_ratio, format_shape, plural
from chunkwise.copying.resolve import ResolvedPlace, resolve
from chunkwise.copying.summary import (
    ArraySummary,
    Occupancy,
    file_format,
    is_stack,
    occupancy,
    report_stack,
    shape_text,
    stored_array,
    summarize,
)
from chunkwise.core.libraries import LIBRARIES, Library
from chunkwise.errors import ChunkwiseError, PermissionDeniedError, UnlistedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import PLATFORM_TRAITS, memory_limit, n_processors, shown_text, unit_text
from chunkwise.extension.trees import Node, read_attributes, walk
from chunkwise.images.conventions.ome_plates import Plate, Well
from chunkwise.images.multiscale.find_images import Multiscale
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Channel
from chunkwise.images.multiscale.open import open_multiscale
from chunkwise.version import __version__

__all__ = ["add_arguments", "run", "show_system"]

_SHOWN = 10


def _described(found: Multiscale) -> list[tuple[str, str]]:
    """Return rows that describe an image, a plate, a well or a collection."""
    if isinstance(found, MultiscaleImage):
        return _image(found)
    if isinstance(found, Plate):
        return [
            ("plate", found.name),
            ("rows", _names(found.rows)),
            ("columns", _names(found.columns)),
            ("wells", f"{len(found.wells)}: {_names(found.wells)}"),
            *_acquisitions(found),
            *_problems(found.problems),
        ]
    if isinstance(found, Well):
        return [("well", f"fields {_names(found.fields)}"), *_problems(found.problems)]
    return [("images", f"{found.convention}: {_names(found)}"), *_problems(found.problems)]


def _acquisitions(plate: Plate) -> list[tuple[str, str]]:
    names = [str(one.get("name") or one.get("id")) for one in plate.acquisitions if isinstance(one, dict)]
    return [("acquisitions", _names(names))] if names else []


def _image(image: MultiscaleImage) -> list[tuple[str, str]]:
    axes = ", ".join(
        f"{axis.name} ({axis.type}{', ' + axis.unit if axis.unit else ''})" for axis in image.axes
    )
    rows = [("labels" if image.is_labels else "image", f"{image.name} ({image.convention})"), ("axes", axes)]
    for number, (path, scale) in enumerate(zip(image.paths, image.scales, strict=True)):
        try:
            level = image.levels[number]
            shape = f"{level.dtype.name} {shape_text(level.shape)}"
        except ChunkwiseError as e:
            shape = f"can't be read: {e.message}"
        sizes = ", ".join(
            f"{size:g}{' ' + axis.unit if axis.unit else ''}"
            for size, axis in zip(scale, image.axes, strict=True)
        )
        rows.append((f"level {number}", f"{path}: {shape}, voxels of {sizes}"))
    if image.channels:
        rows.append(("channels", ", ".join(map(_channel, image.channels))))
    if image.label_colors:
        rows.append(("colours", f"{len(image.label_colors)} labels"))
    if not image.is_labels and image.labels:
        rows.append(("labels", _names(image.labels)))
    return [*rows, *_problems(image._metadata.problems)]


def _problems(problems: Sequence[str]) -> list[tuple[str, str]]:
    """Return a row for each problem; those of levels are in the rows of these."""
    more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    return [("problem", problem) for problem in (*problems[:_SHOWN], *more)]


def _channel(channel: Channel) -> str:
    return " ".join(filter(None, (channel.label or "-", f"#{channel.color}" if channel.color else "")))


def _names(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")


def show_system(arguments: argparse.Namespace) -> None:
    """Print the information of ``info --system``."""
    info = _system_info()
    show(arguments, info, *_lines(info))


def _lines(info: dict[str, JSON]) -> Iterator[str]:
    info = {**info, "memory": format_nbytes(info["memory"])}
    yield from rows_as_lines(((k, v) for k, v in info.items() if not isinstance(v, dict)), 16)
    for part in ("libraries", "files", "packages"):
        yield f"\n{part}"
        for label, value in info[part].items():
            yield f"  {label:<14} {value or 'not installed'}"
    yield "\nextras"
    for extra, packages in info["extras"].items():
        found = ", ".join(f"{name} {version or 'not installed'}" for name, version in packages.items())
        yield f"  {extra:<14} {found}"


def _system_info() -> dict[str, JSON]:
    """Return the information as JSON; a package that is not installed has no version."""
    packages, extras = _packages()
    return {
        "chunkwise": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "processors": n_processors(),
        "memory": memory_limit(),
        "libraries": {library.work: _used(library) for library in LIBRARIES},
        "files": dict(PLATFORM_TRAITS),
        "packages": packages,
        "extras": extras,
    }


def _used(library: Library[Any]) -> str | None:
    try:
        library()
    except ImportError:
        return None
    return str(library.used)


def _packages() -> tuple[dict[str, str | None], dict[str, dict[str, str | None]]]:
    """Return the versions of the required packages, and those of each extra."""
    required: dict[str, str | None] = {}
    extras: dict[str, dict[str, str | None]] = {}
    try:
        requirements = requires("chunkwise") or []
    except PackageNotFoundError:  # a source tree that isn't installed
        requirements = []
    for requirement in requirements:
        name = re.split(r"[^\w.-]", requirement)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if extra is None and "sys_platform" not in requirement:
            required[name] = _version(name)
        elif extra is not None and extra[1] != "all":  # that one has those of the others
            extras.setdefault(extra[1], {})[name] = _version(name)
    return required, extras


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "path", metavar="PATH", nargs="?", help="array or group, or *.json with the spec of a view"
    )
    parser.add_argument(
        "--system",
        action="store_true",
        help="instead of a PATH: versions, packages in use, the machine",
    )
    parser.add_argument(
        "--no-count", action="store_true", help="don't count the stored chunks, which means listing them"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.system == (arguments.path is not None):
        raise UsageError("info takes a PATH or --system, and not both")
    if arguments.system:
        if arguments.no_count:
            raise UsageError("--no-count is for a PATH, not for --system")
        show_system(arguments)
        return 0
    found = resolve(arguments.path)
    if found.array is not None and found.is_spec:
        _view(arguments, found.array)
        return 0
    if found.array is not None:
        return _other(arguments, found, found.array)
    node = found.as_node(damaged=True)
    if node.error and node.kind == "array":
        found.as_node()
    if node.kind == "group":
        return _group(found, arguments)
    summary = summarize(node)
    error = uncounted = ""
    stored: Occupancy | None = None
    try:
        array = stored_array(node)
        if not arguments.no_count:
            stored = occupancy(node, array)
    except UnlistedError:
        uncounted = "not counted, since a web server doesn't list its keys"
    except PermissionDeniedError:
        uncounted = "not counted, since the keys may not be listed"
    except ChunkwiseError as e:
        error = e.message
    attributes = read_attributes(node.location)
    out = _as_json(shown_text(arguments.path), node, summary, attributes, stored, error)
    show(arguments, out, *rows_as_lines([*_rows(node, summary, attributes, stored), *_stored_row(uncounted)]))
    if error:
        message(f"this array can't be read: {error}")
        return 1
    return 0


def _stored_row(uncounted: str) -> list[tuple[str, str]]:
    return [("stored", uncounted)] if uncounted else []


def _view(arguments: argparse.Namespace, store: TensorStore) -> None:
    """Describe the array of a spec; for a stack also its layers.  No layer is opened."""
    spec = store.spec().to_json()
    stacked = is_stack(store)
    layers = spec["layers"] if stacked else []
    drivers = Counter(_driver(layer) for layer in layers)
    report = report_stack(store) if stacked else None
    out: dict[str, JSON] = {
        "path": shown_text(arguments.path),
        "kind": "array",
        "driver": spec["driver"],
        "dtype": store.dtype.name,
        "domain": store.domain.to_json(),
        "shape": list(store.shape),
        "dimension_units": [None if unit is None else str(unit) for unit in store.dimension_units],
    }
    kinds = ", ".join(f"{n} {name}" for name, n in drivers.most_common())
    what = f"stack of {plural(len(layers), 'layer')} ({kinds})" if stacked else f"view ({spec['driver']})"
    rows = [("format", what), ("shape", format_shape(store.shape)), ("dtype", store.dtype.name)]
    if any(store.origin):
        rows.append(("origin", ", ".join(map(str, store.origin))))
    rows += _named(store.domain.labels, store.dimension_units)
    if report is not None:
        out.update(drivers=dict(drivers), **{**report.to_json(), "domain": out["domain"]})
        if store.fill_value is not None:
            rows.append(("fill value", str(store.fill_value)))
        rows.append(("gaps", plural(report.n_missing, "element") if report.n_missing else "none"))
        overlapping = f"{plural(report.n_overlaps, 'pair')} of layers, {report.n_hidden:,} hidden"
        rows.append(("overlaps", overlapping if report.n_overlaps else "none"))
    show(arguments, out, *rows_as_lines(rows))


def _named(names: Sequence[str | None] | None, units: Sequence[object] | None) -> list[tuple[str, str]]:
    """Return names and units of dimensions, if any."""
    shown = [None if unit is None else unit_text(str(unit)) for unit in units or ()]
    given = (("dimensions", names), ("units", shown))
    return [(label, ", ".join(v or "-" for v in values)) for label, values in given if values and any(values)]


def _driver(layer: JSON) -> str:
    if isinstance(layer, str):
        return layer.rpartition("|")[2].partition(":")[0]
    while isinstance(layer.get("base"), dict):
        layer = layer["base"]
    return str(layer.get("driver"))


def _group(found: ResolvedPlace, arguments: argparse.Namespace) -> int:
    node = found.as_node(damaged=True)
    n_arrays: int | None = None
    n_groups: int | None = None
    try:
        kinds = Counter(walked.node.kind for walked in walk(node) if walked.name)
        n_arrays, n_groups = kinds["array"], kinds["group"]
        contents = f"{plural(n_arrays, 'array')}, {plural(n_groups, 'group')}"
    except UnlistedError:
        contents = "unknown, since a web server doesn't list its keys"
    attributes = read_attributes(node.location)
    image = _image_rows(found)
    out = {
        "path": shown_text(arguments.path),
        "format": node.format,
        "kind": "group",
        "arrays": n_arrays,
        "groups": n_groups,
        "attributes": attributes,
        **({"image": dict(image)} if image else {}),
    }
    format = file_format(node) or (node.rules.title if node.format else "directory")
    rows = [
        ("format", f"{format} group{' (implicit)' if node.implicit else ''}"),
        ("contains", contents),
        ("attributes", str(len(attributes))),
    ]
    if read_journal(node.location) is not None:
        out["unfinished"] = True
        rows.append(("unfinished", "a copy to this place; `chunkwise status` shows how far it is"))
    show(arguments, out, *rows_as_lines(rows + image))
    return 0


def _other(arguments: argparse.Namespace, place: ResolvedPlace, array: TensorStore) -> int:
    """Describe a picture, a precomputed volume or a stack of pictures."""
    image = open_multiscale(place)
    found = _described(image)
    for note in image.assumed if isinstance(image, MultiscaleImage) else ():
        message(note)
    kind = "volume" if place.is_volume else "array"
    out = {"path": shown_text(arguments.path), "kind": kind, "shape": list(array.shape), "image": dict(found)}
    show(arguments, out, *rows_as_lines(found))
    return 0


def _image_rows(place: ResolvedPlace) -> list[tuple[str, str]]:
    """Return the description of the image, plate, or other images in a group; nothing without them."""
    try:
        return [] if place.found_images is None else _described(place.found_images)
    except ChunkwiseError as e:
        return [("image", f"can't be read: {e.message}")]


def _rows(
    node: Node, summary: ArraySummary, attributes: dict[str, JSON], stored: Occupancy | None
) -> list[tuple[str, str]]:
    assert node.format is not None
    rows = [("format", file_format(node) or node.rules.title)]
    rows.append(("shape", "?" if summary.shape is None else format_shape(summary.shape)))
    rows.append(("dtype", summary.dtype or "?"))
    rows.append(("chunks", "?" if summary.chunks is None else format_chunks(summary.chunks)))
    if summary.shards is not None:
        rows.append(("shards", format_chunks(summary.shards)))
    rows.append(("codecs", ", ".join(summary.codecs) or "none"))
    if node.rules.has_fill_value:
        rows.append(("fill value", "null" if summary.fill_value is None else str(summary.fill_value)))
    rows += _named(summary.dimension_names, summary.dimension_units)
    rows.append(("attributes", str(len(attributes))))
    if stored is not None:
        noun = "chunk" if summary.shards is None else "shard"
        share = f"{stored.n_stored:,} of {plural(stored.n_possible, noun)}"
        if stored.inner is not None:
            share += f", {stored.inner.n_stored:,} of {plural(stored.inner.n_chunks, 'chunk')}"
        if stored.n_others and not stored.n_stored:
            share += f"; `chunkwise verify` says what {plural(stored.n_others, 'other key')} may be"
        rows.append(("stored", share))
        size = f"{format_nbytes(stored.stored_nbytes)} for {format_nbytes(stored.nbytes)}"
        if stored.ratio is not None:
            size += f" ({format_ratio(stored.ratio)})"
        rows.append(("size", size))
    return rows


def _as_json(
    path: str,
    node: Node,
    summary: ArraySummary,
    attributes: dict[str, JSON],
    stored: Occupancy | None,
    error: str,
) -> dict[str, JSON]:
    out: dict[str, JSON] = {
        "path": path,
        "format": node.format,
        "kind": "array",
        **summary._asdict(),
        "attributes": attributes,
        "metadata": dict(node.document),
    }
    if stored is not None:
        out["stored"] = {
            "chunks": stored.n_stored,
            "possible_chunks": stored.n_possible,
            "bytes": stored.stored_nbytes,
            "decoded_bytes": stored.nbytes,
            "ratio": stored.ratio,
        }
        if stored.inner is not None:
            out["stored"]["inner_chunks"] = stored.inner.n_stored
            out["stored"]["possible_inner_chunks"] = stored.inner.n_chunks
    if error:
        out["error"] = error
    return out
