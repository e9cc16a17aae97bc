"""``chunkwise slice``: print a region of an array, or save it as ``.npy`` or as a picture."""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import IndexDomain, TensorStore
from chunkwise.cli.command import UsageError, required, show, tell
from chunkwise.cli.options import add_view, view_of
from chunkwise.copying.copy_source import replacing
from chunkwise.copying.quantities import format_nbytes
from chunkwise.extension.inside import divide, shown_text, work_through
from chunkwise.images.multiscale.sampling import PERCENTILES

__all__ = ["add_arguments", "run"]

_EPILOG = """\
  chunkwise slice PATH --region '100:110, 110, :'             print
  chunkwise slice PATH --region '..., 0' --npy plane.npy      save for NumPy
  chunkwise slice PATH --region ':, :, 50' --png plane.png    one pixel for each element
  chunkwise slice PATH --orthogonal --png slices.png          three labelled slices through the middle

If the two dimensions of a region are called x and y, x is drawn to the right and y down; otherwise the
dimension whose elements are next to each other in a chunk is drawn to the right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_view(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--npy", metavar="OUT", help="save as a NumPy file")
    output.add_argument("--png", metavar="OUT", help="save as a picture")
    parser.add_argument(
        "--orthogonal", action="store_true", help="three slices through the middle, in one picture"
    )
    parser.add_argument(
        "--contrast",
        metavar="LOW,HIGH",
        help=f"percentiles drawn black and white (by default {PERCENTILES[0]},{PERCENTILES[1]})",
    )
    parser.add_argument("--depth", type=int, choices=(8, 16), default=8, help="bits of a grey level")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.orthogonal and arguments.png is None:
        raise UsageError("--orthogonal needs --png OUT")
    if arguments.orthogonal and arguments.depth != 8:
        raise UsageError("--orthogonal pictures have a --depth of 8")
    if arguments.png is not None:
        with required("--png", "Pillow", "cli"):
            import PIL  # noqa: F401
    percentiles = PERCENTILES if arguments.contrast is None else _percentiles(arguments.contrast)
    view = view_of(arguments)
    if arguments.npy is not None:
        _save_npy(view, arguments.npy)
        return _saved(arguments, arguments.npy, view)
    if arguments.png is not None:
        from chunkwise.cli.picture import orthogonal_picture, plain_picture

        title = "/".join(shown_text(arguments.path).rstrip("/").split("/")[-2:])
        if arguments.orthogonal:
            png = orthogonal_picture(view, title, percentiles)
        else:
            png = plain_picture(view, title, percentiles, arguments.depth)
        with replacing(arguments.png, overwrite=True) as part:
            part.write_bytes(png)
        return _saved(arguments, arguments.png, view)
    values = view.read().result()
    out = {"domain": view.domain.to_json(), "dtype": view.dtype.name}
    if arguments.json:
        out["values"] = _items(values)
    with np.printoptions(threshold=10_000, linewidth=110):
        show(arguments, out, values)
    return 0


def _percentiles(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f'--contrast: expected two percentiles such as 1,99, but received "{text}"'
        ) from None
    if not 0 <= low < high <= 100:
        raise UsageError(f"--contrast: expected 0 <= LOW < HIGH <= 100, but received {text}")
    return low, high


def _save_npy(view: TensorStore, path: str) -> None:
    """Write the region block by block, since it may be larger than memory."""
    dtype = view.dtype.memory_dtype
    if dtype.hasobject:
        raise UsageError(f"elements of type {view.dtype.name} can't be saved as .npy")
    with replacing(path, overwrite=True) as part:
        if view.size == 0:
            with part.open("wb") as file:
                np.lib.format.write_array(file, np.empty(view.shape, dtype))
        else:
            out = np.lib.format.open_memmap(part, mode="w+", dtype=dtype, shape=view.shape)
            origin = view.origin

            def work(block: IndexDomain) -> None:
                at = tuple(
                    slice(lo - first, hi - first)
                    for lo, hi, first in zip(block.inclusive_min, block.exclusive_max, origin, strict=True)
                )
                out[at if at else ...] = view[block].read().result()

            work_through(divide(view, view).domains(), work).result()
            out.flush()
            del out


def _saved(arguments: argparse.Namespace, path: str, view: TensorStore) -> int:
    saved = {"file": path, "shape": view.shape, "dtype": view.dtype.name}
    tell(arguments, saved, f"{path}: {format_nbytes(os.path.getsize(path))}")
    return 0


def _items(values: npt.NDArray[Any]) -> Any:
    """Return nested lists of JSON values; structured ones are objects."""
    if values.dtype.names is not None:
        if values.ndim:
            return [_items(values[i, ...]) for i in range(len(values))]
        return {name: _items(np.asarray(values[name])) for name in values.dtype.names}
    if values.dtype.isbuiltin == 2:  # of ml_dtypes, whose scalars JSON doesn't know
        return values.astype(np.int64 if "int" in values.dtype.name else np.float64).tolist()
    if values.dtype.kind in "mM":
        return values.astype(str).tolist()
    return values.tolist()
