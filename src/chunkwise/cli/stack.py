"""``chunkwise stack``: combine several arrays into one, saved as a spec that opens like an array."""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chunkwise import DataType, TensorStore, Unit, cast, concat, d, overlay, stack
from chunkwise.cli.command import INCOMPLETE, UsageError, message, show, text_of
from chunkwise.cli.options import parse_names
from chunkwise.cli.template_options import fill_value_of
from chunkwise.copying.copy_source import check_new_file, write_spec_file
from chunkwise.copying.losses import is_loss
from chunkwise.copying.pictures import arranged_planes, has_wildcard, is_picture, matching
from chunkwise.copying.quantities import format_shape, plural
from chunkwise.copying.resolve import ResolvedPlace, resolve
from chunkwise.copying.summary import Box, StackReport, report_stack
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.images.multiscale.array_axes import image_of_array

__all__ = ["add_arguments", "run"]

_EPILOG = """\
  chunkwise stack mosaic.json left.zarr@0,0 right.n5/s0@0,950        at the origin of each layer
  chunkwise stack days.json monday.zarr tuesday.zarr --concat t      one after the other
  chunkwise stack planes.json z0.zarr z1.zarr z2.zarr --stack 0      along a new dimension
  chunkwise stack scan.json 'scan/z*.tif'                            pictures as planes of a stack
  chunkwise stack mosaic.json --list tiles.csv                       lines such as tile7.zarr,0,950

Later layers lie over earlier ones.  OUT is JSON that `chunkwise.open`, `info`, `slice` and `pyramid` take.
It holds absolute paths, and the current shapes.  Layers whose data types, numbers of dimensions or names of
dimensions differ are refused; gaps and overlaps are reported.
"""

_WITH_ORIGIN = re.compile(r"(.+)@(-?\d+(?:,-?\d+)*)")
_MOST_SHOWN = 5


class _LayerPath(NamedTuple):
    path: str
    origin: tuple[int, ...] | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("out", metavar="OUT", help="file to write, *.json")
    parser.add_argument(
        "layers",
        metavar="LAYER",
        nargs="*",
        help="array, picture, glob, or PATH@ORIGIN such as tile.zarr@0,950",
    )
    parser.add_argument("--list", metavar="CSV", help="more layers: lines of a path and the origin")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--concat", metavar="AXIS", help="put layers after each other along a dimension")
    how.add_argument(
        "--stack", metavar="AXIS", type=int, help="put layers after each other along a new dimension"
    )
    parser.add_argument(
        "--axes",
        metavar="NAMES",
        type=parse_names,
        help="names of the dimensions of the result, such as t,y,x",
    )
    parser.add_argument("--cast", metavar="TYPE", help="convert layers of other data types")
    parser.add_argument("--fill-value", metavar="VALUE", help="what gaps read as (by default an error)")
    parser.add_argument("--no-gaps", action="store_true", help="fail if there are gaps")
    parser.add_argument("--no-overlaps", action="store_true", help="fail if layers overlap")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    parser.add_argument("--check", action="store_true", help="only check: write nothing")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if not arguments.out.endswith(".json"):
        raise UsageError(f"OUT must be called *.json, not {arguments.out}")
    if not arguments.check:
        check_new_file(arguments.out, overwrite=arguments.overwrite)
    paths = [layer for text in arguments.layers for layer in _layers_of(_parse_layer(text))]
    if arguments.list is not None:
        paths += _listed(arguments.list)
    if not paths:
        raise UsageError("there are no layers")
    lost: list[str] = []
    layers = _open(paths, None if arguments.cast is None else DataType(arguments.cast), lost)
    are_planes = len(paths) > 1 and all(is_picture(path) and origin is None for path, origin in paths)
    if are_planes and arguments.stack is None and arguments.concat is None:
        store, assumed = arranged_planes(layers, [path for path, _ in paths])
        if arguments.axes is None:
            message(assumed)
    else:
        store = _combined(layers, arguments)
    if arguments.axes is not None:
        store = _named(store, arguments.axes)
    report = report_stack(store)
    wrong = (arguments.no_gaps and report.n_missing > 0) or (arguments.no_overlaps and report.n_overlaps > 0)
    if not wrong and not arguments.check:
        write_spec_file(arguments.out, _spec(store), overwrite=arguments.overwrite)
    _report(arguments, paths, store, report, saved=not wrong and not arguments.check)
    lost += [note for note in image_of_array(store).notes if is_loss(note)]
    for note in lost:
        message(note)
    return 1 if wrong else INCOMPLETE if lost else 0


def _parse_layer(text: str) -> _LayerPath:
    found = _WITH_ORIGIN.fullmatch(text)
    if found is None:
        return _LayerPath(text, None)
    return _LayerPath(found[1], tuple(map(int, found[2].split(","))))


def _layers_of(layer: _LayerPath) -> list[_LayerPath]:
    """Return the layers that a glob matches."""
    if layer.origin is not None or not has_wildcard(layer.path):
        return [layer]
    return [_LayerPath(path, None) for path in matching(layer.path)]


def _listed(path: str) -> list[_LayerPath]:
    """Return the layers of a list, each line of which is a path, and perhaps whole numbers."""
    expected = "expected a CSV file with a path and the origin in each line, such as tile7.zarr,0,950"
    paths = []
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
    except OSError as e:
        raise UsageError(f"--list {path}: {e.strerror or e}; {expected}") from None
    except (UnicodeDecodeError, csv.Error) as e:
        raise UsageError(f"--list {path}: {e}; {expected}") from None
    for number, row in enumerate(rows, 1):
        if not row or not row[0].strip() or row[0].lstrip().startswith("#"):
            continue
        try:
            origin = tuple(int(x) for x in row[1:])
        except ValueError:
            raise UsageError(f"{path}, line {number}: expected a path and whole numbers") from None
        paths.append(_LayerPath(row[0].strip(), origin or None))
    return paths


def _open(paths: Sequence[_LayerPath], dtype: DataType | None, lost: list[str]) -> list[TensorStore]:
    """Return all layers at their origins; report every one that can't be opened before failing.

    What a stack can't keep is added to `lost`.
    """
    layers, errors = [], []
    for path, origin in paths:
        try:
            layer = _described(resolve(path), lost, placed=origin is None)
            layer = layer[d[:].mark_bounds_implicit[False]] if layer.rank else layer
            if origin is not None:
                if len(origin) != layer.rank:
                    raise InvalidArgumentError(
                        f"the origin has {len(origin)} numbers, but there are {layer.rank} dimensions"
                    )
                layer = layer.translate_to[origin]
            if dtype is not None and layer.dtype != dtype:
                layer = cast(layer, dtype)
            layers.append(layer)
        except (ChunkwiseError, OSError, ValueError) as e:
            text = text_of(e)
            errors.append(text if path in text else f"{path}: {text}")
    if not errors:
        errors = _disagreements(paths, layers)
    for error in errors[:-1][: 2 * _MOST_SHOWN]:
        message(error)
    if errors:
        raise InvalidArgumentError(errors[-1])
    return _labelled(layers)


def _described(found: ResolvedPlace, lost: list[str], *, placed: bool) -> TensorStore:
    """Return the array at a place; of an image that a file describes, with the sizes and place it gives."""
    # A stack looks for the image of a layer, which need not find that file.
    whole, image = found.as_array(of_image=True), found.image
    if found.images is None or image is None:
        return whole
    layer: TensorStore = image.levels[0]
    exact = zip(layer.origin, image.scales[0], image.translations[0], strict=True)
    if placed and any(abs(at * size - start) > 1e-6 * size for at, size, start in exact):
        start = ", ".join(f"{start:g}" for start in image.translations[0])
        lost.append(f"{found.named}: the position {start} is lost but for whole voxels")
    if all(unit is not None for unit in layer.dimension_units):
        return layer
    units = [Unit(size, axis.unit) for size, axis in zip(image.scales[0], image.axes, strict=True)]
    return overlay([layer], dimension_units=units)


def _labelled(layers: list[TensorStore]) -> list[TensorStore]:
    """Return layers with names of dimensions that only attributes say, if all say the same."""
    if any(any(layer.domain.labels) for layer in layers):
        return layers
    names = _names_of(layers[0])
    if not all(names) or len(set(names)) < len(names) or any(_names_of(one) != names for one in layers[1:]):
        return layers
    return [layer.label[names] for layer in layers]


def _names_of(layer: TensorStore) -> tuple[str, ...]:
    return tuple(axis.name for axis in image_of_array(layer).axes)


def _disagreements(paths: Sequence[_LayerPath], layers: Sequence[TensorStore]) -> list[str]:
    """Return how layers differ from the first one."""
    first, out = layers[0], []
    for (path, _), layer in zip(paths[1:], layers[1:], strict=True):
        if layer.rank != first.rank:
            out.append(f"{path} has {layer.rank} dimensions, but {paths[0].path} has {first.rank}")
        elif layer.dtype != first.dtype:
            out.append(
                f"{path} is {layer.dtype.name}, but {paths[0].path} is {first.dtype.name}; "
                "--cast TYPE converts"
            )
    return out


def _combined(layers: list[TensorStore], arguments: argparse.Namespace) -> TensorStore:
    options: dict[str, Any] = {}
    if arguments.fill_value is not None:
        options["fill_value"] = fill_value_of(arguments.fill_value, layers[0].dtype)
    if arguments.stack is not None:
        return stack(layers, arguments.stack, **options)
    if arguments.concat is not None:
        axis = arguments.concat
        return concat(layers, int(axis) if re.fullmatch(r"-?[0-9]+", axis) else axis, **options)
    return overlay(layers, **options)


def _named(store: TensorStore, names: Sequence[str | None]) -> TensorStore:
    if len(names) != store.rank:
        raise UsageError(f"--axes: expected {store.rank} names, for {format_shape(store.shape)}")
    return store.label[tuple(name or "" for name in names)]


def _spec(store: TensorStore) -> dict[str, JSON]:
    """Return the minimal spec of the stack, with units, which are unknown until a layer is open."""
    spec = store.spec(minimal_spec=True).to_json()
    units = store.dimension_units
    if any(unit is not None for unit in units):
        schema = spec.setdefault("schema", {})
        schema["dimension_units"] = [None if unit is None else unit.to_json() for unit in units]
    return spec


def _report(
    arguments: argparse.Namespace,
    paths: Sequence[_LayerPath],
    store: TensorStore,
    report: StackReport,
    *,
    saved: bool,
) -> None:
    out = {"path": arguments.out if saved else None, "dtype": store.dtype.name, **report.to_json()}
    origin = ", ".join(map(str, store.origin))
    what = f"{plural(report.n_layers, 'layer')}, {store.dtype.name} {format_shape(store.shape)}"
    unsaved = "" if saved else " (not written)"
    show(arguments, out, f"{arguments.out}: {what} from [{origin}]{unsaved}")
    if arguments.json:
        return
    if report.n_missing:
        filled = "" if arguments.fill_value is None else f", which read as {arguments.fill_value}"
        message(f"gaps: {plural(report.n_missing, 'element')} in no layer{filled}")
        for box in report.gaps[:_MOST_SHOWN]:
            message(f"  {_region(box)}")
    if report.n_overlaps:
        hidden = plural(report.n_hidden, "element")
        message(f"overlaps: {plural(report.n_overlaps, 'pair')} of layers, {hidden} hidden")
        for overlap in report.overlaps[:_MOST_SHOWN]:
            above, below = paths[overlap.above].path, paths[overlap.below].path
            message(f"  {above} over {below} at {_region(overlap.box)}")


def _region(box: Box) -> str:
    return ", ".join(f"{a}:{b}" for a, b in zip(box.lower, box.upper, strict=True)) or "the only element"
