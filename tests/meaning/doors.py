"""The doors of the library, each of which says what it finds at a place, or refuses it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import ChunkwiseError
from chunkwise.images.server.forms import first_shown
from chunkwise.images.server.sources import sources_of
from chunkwise.napari.reader import get_reader

REFUSED = "refused"


def _digest(values: Any) -> tuple[Any, ...]:
    values = np.asarray(values)
    return values.shape, str(values.dtype), int(values.astype("u8").sum()), int(values.flat[-1])


def _command(*words: str) -> str:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(list(words))
    if status not in (0, 3):
        raise ChunkwiseError(err.getvalue())
    return out.getvalue()


def _image(image: Any) -> tuple[Any, ...]:
    if not hasattr(image, "levels"):
        return ("collection",)
    level = image.levels[0].read().result()
    axes = tuple((axis.name, axis.unit) for axis in image.axes)
    return _digest(level), axes, image.scales[0], image.translations[0], image.is_labels


def _slice(place: Any, at: Path) -> object:
    _command("slice", str(place), "--npy", str(at / "a.npy"))
    return _digest(np.load(at / "a.npy"))


def _stack(place: Any, at: Path) -> object:
    _command("stack", str(at / "s.json"), str(place))
    return _digest(cw.open(json.loads((at / "s.json").read_text())).result().read().result())


def _copied(*words: str) -> Callable[[Any, Path], object]:
    def copy(place: Any, at: Path) -> object:
        out = at / "c.zarr"
        _command("cp", *words, str(place), str(out), "--format", "zarr3", "--quiet")
        return _of_tree(out)

    return copy


def _of_tree(path: Path) -> object:
    if json.loads((path / "zarr.json").read_text())["node_type"] == "array":
        return _digest(cw.open_array(path).read().result())
    group = cw.open_group(path)
    arrays = sorted((name, _digest(array.read().result())) for name, array in group.arrays())
    return arrays, "ome" in group.attrs


def _copy_tree(place: Any, at: Path) -> object:
    report = cw.copy_tree(place, at / "t.zarr", format="zarr3")
    return report.n_arrays, report.nbytes


def _copy(place: Any, at: Path) -> object:
    cw.copy(place, at / "y.zarr", format="zarr3")
    return _digest(cw.open_array(at / "y.zarr").read().result())


def _pyramid(place: Any, at: Path) -> object:
    _command("pyramid", str(place), str(at / "p.zarr"), "--levels", "1", "--quiet", "--no-sync")
    return _image(cw.open_multiscale(at / "p.zarr"))


def _downsampled(place: Any, at: Path) -> object:
    made = cw.downsample_pyramid(place, at / "d.zarr", levels=1, sync=False).result()
    return [level.shape for level in made.levels], cw.open_multiscale(at / "d.zarr").is_labels


def _served(place: Any, at: Path) -> object:
    _, image = first_shown(sources_of(place), plates=False)
    assert image is not None
    values = image.levels[0].view.read().result()
    return _digest(values), image.scales[0], image.translations[0], image.is_labels


def _napari(place: Any, at: Path) -> object:
    reader = get_reader(str(place))
    if reader is None:
        raise ChunkwiseError("no reader")
    return [(options["scale"], options["translate"], kind) for _, options, kind in reader(str(place))]


def _info(place: Any, at: Path) -> object:
    found = json.loads(_command("info", str(place), "--json"))
    return found["kind"], found.get("shape")


def _tree(place: Any, at: Path) -> object:
    found = json.loads(_command("tree", str(place), "--json"))
    return [(row["name"], row["kind"]) for row in found]


def _verified(place: Any, at: Path) -> object:
    reports = cw.verify(place)
    if any(report.bad for report in reports):
        raise ChunkwiseError("bad")
    return [report.kind for report in reports]


def _diff(place: Any, at: Path) -> object:
    return cw.diff(place, place)


DOORS: dict[str, Callable[[Any, Path], object]] = {
    "open": lambda place, at: _digest(cw.open(place, read=True).result().read().result()),
    "open_array": lambda place, at: _digest(cw.open_array(place).read().result()),
    "read": lambda place, at: _digest(cw.read(place)),
    "slice": _slice,
    "plan": lambda place, at: json.loads(_command("plan", str(place), "--json"))["n_result_bytes"],
    "stack": _stack,
    "pyramid": _pyramid,
    "downsample_pyramid": _downsampled,
    "copy": _copy,
    "cp": _copied(),
    "cp -r": _copied("-r"),
    "copy_tree": _copy_tree,
    "open_group": lambda place, at: sorted(cw.open_group(place)),
    "open_multiscale": lambda place, at: _image(cw.open_multiscale(place)),
    "napari": _napari,
    "serve": _served,
    "info": _info,
    "tree": _tree,
    "attrs": lambda place, at: json.loads(_command("attrs", str(place), "--json")),
    "verify": _verified,
    "diff": _diff,
}

PYTHON = {
    "open", "open_array", "read", "downsample_pyramid", "copy", "copy_tree", "open_group", "open_multiscale",
    "serve", "verify", "diff",
}  # fmt: skip
"""Doors that take specs and stores, not only text."""

ARRAY = {"open", "open_array", "read", "copy", "cp"}
EITHER = {"info", "tree", "verify", "diff"}
IMAGE = {"slice", "plan", "stack", "pyramid", "downsample_pyramid", "open_multiscale", "napari", "serve"}
GROUP = {"open_group", "copy_tree"}

TAKES: dict[str, set[str]] = {
    "array": ARRAY | EITHER | IMAGE | {"attrs", "cp -r"},
    "view": (ARRAY - {"open_array"}) | EITHER | IMAGE | {"cp -r"},
    "database": ARRAY | EITHER | IMAGE | {"attrs", "cp -r"},
    "pictures": (ARRAY - {"open", "open_array"}) | EITHER | IMAGE | {"cp -r"},
    "picture": ARRAY | EITHER | IMAGE | {"cp -r"},
    "volume": ARRAY | EITHER | IMAGE | {"cp -r"},
    "file": ARRAY | EITHER | IMAGE | GROUP | {"attrs", "cp -r"},
    "archive": (ARRAY - {"open"}) | EITHER | IMAGE | GROUP | {"attrs", "cp -r"},
    "packed": (ARRAY - {"open"}) | EITHER | IMAGE | {"attrs", "cp -r"},
    "packed volume": (ARRAY - {"open"}) | EITHER | IMAGE | {"cp -r"},
    "packed image": EITHER | IMAGE | GROUP | {"attrs"},
    "coarse": EITHER | GROUP | {"attrs", "cp -r", "napari", "serve"},
    "image": EITHER | IMAGE | GROUP | {"attrs", "cp -r"},
    "group": EITHER | GROUP | {"attrs", "cp -r"},
    "images": EITHER | GROUP | {"attrs", "open_multiscale", "napari", "serve"},
    "directory": {"info", "tree", "verify", "diff"},
    "references": set(),  # which are followed only if that is written out
    "unfinished": set(),
    "nothing": set(),
}
"""Doors that take a thing of each kind; all others refuse it, or take it in a way of their own."""

MUST_REFUSE: dict[str, set[str]] = {
    "image": ARRAY,
    "group": ARRAY | {"slice", "plan", "stack", "pyramid", "downsample_pyramid"},
    "images": ARRAY | {"slice", "plan", "stack", "pyramid", "downsample_pyramid"},
    "coarse": ARRAY | {"slice", "plan", "stack", "pyramid", "downsample_pyramid"},
    "packed": GROUP,
    "directory": (ARRAY | IMAGE | GROUP | {"cp -r"}) - {"serve"},  # which shows what is in it
    "unfinished": set(DOORS) - {"info", "tree", "verify"},
    "nothing": set(DOORS),
}


def ask(door: str, place: Any, at: Path) -> object:
    """Return what a door says of a place; `REFUSED` for an error of this library."""
    at.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return DOORS[door](place, at)
        except (ChunkwiseError, TypeError) as e:
            return (REFUSED, str(e))
