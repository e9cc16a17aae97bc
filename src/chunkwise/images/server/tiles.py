"""Parts of planes of an image as a browser draws them: decoded, scaled, in types that it has.

A damaged chunk doesn't fail the tile: the rest is drawn, and the chunk is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore, downsample
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, UnsupportedError
from chunkwise.extension.trees import ChunkedArray, Location
from chunkwise.images.multiscale.grey import to_real
from chunkwise.images.server.content import can_tell_size, stored_size

__all__ = ["MOST_PIXELS", "Damage", "Plane", "chunks_in", "for_browsers", "read_plane"]

MOST_PIXELS = 1 << 22
_MOST_CHUNKS = 4096
_IN_BROWSERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")


class Plane(NamedTuple):
    """A rectangle of a plane through an array."""

    down: int | None  # dimensions; None for one that the array doesn't have
    across: int | None
    at: tuple[int, ...]  # index in each of the others
    rows: tuple[int, int]  # from and to
    columns: tuple[int, int]
    step: int = 1  # elements for each pixel, along both

    @property
    def n_elements(self) -> int:
        """Number of elements that are read."""
        return (self.rows[1] - self.rows[0]) * (self.columns[1] - self.columns[0])

    def region(self) -> tuple[int | slice, ...]:
        """Return what selects it of the array."""
        out: list[int | slice] = list(self.at)
        for dim, (start, stop) in ((self.down, self.rows), (self.across, self.columns)):
            if dim is not None:
                out[dim] = slice(start, stop)
        return tuple(out)


class Damage(NamedTuple):
    """A chunk that can't be read."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    message: str


def read_plane(view: TensorStore, plane: Plane, *, is_labels: bool) -> tuple[npt.NDArray[Any], list[Damage]]:
    """Return the pixels of a plane, rows first, and the chunks that could not be read, whose pixels are 0."""
    _check(view, plane)
    damages: list[Damage] = []
    try:
        values = _read(view, plane, is_labels=is_labels)
    except UnsupportedError:
        raise
    except ChunkwiseError:
        values, damages = _read_by_chunk(view, plane)
    return for_browsers(values), damages


def _check(view: TensorStore, plane: Plane) -> None:
    shape = view.shape
    if len(plane.at) != len(shape):
        raise InvalidArgumentError(f"at: expected {len(shape)} numbers, but received {len(plane.at)}")
    for number, (at, size) in enumerate(zip(plane.at, shape, strict=True)):
        if number not in (plane.down, plane.across) and not 0 <= at < size:
            raise InvalidArgumentError(f"at: {at} is outside of dimension {number}, which has {size}")
    for dim, (start, stop) in ((plane.down, plane.rows), (plane.across, plane.columns)):
        size = 1 if dim is None else shape[dim] if 0 <= dim < len(shape) else -1
        if not 0 <= start < stop <= size:
            raise InvalidArgumentError(f"box: expected a part of dimension {dim}, not {start} to {stop}")
    if plane.step < 1 or plane.n_elements > MOST_PIXELS * plane.step:
        raise InvalidArgumentError(f"a tile of {plane.n_elements:,} elements is too large")


def _read(view: TensorStore, plane: Plane, *, is_labels: bool) -> npt.NDArray[Any]:
    part = view[plane.region()] if view.rank else view
    if plane.step > 1:
        factors = [plane.step] * part.rank
        dtype = part.dtype.memory_dtype
        method = "mean" if not is_labels and dtype.kind in "iuf" else "stride"
        part = downsample(part, factors, method)
    return _arranged(part.read().result(), plane)


def _arranged(values: npt.NDArray[Any], plane: Plane) -> npt.NDArray[Any]:
    """Return values with rows first, also where there is only one row, or one column."""
    if plane.down is None or plane.across is None:
        return values.reshape(1, -1) if plane.down is None else values.reshape(-1, 1)
    return values if plane.down < plane.across else values.T


def _read_by_chunk(view: TensorStore, plane: Plane) -> tuple[npt.NDArray[Any], list[Damage]]:
    chunk = view.chunks or view.shape
    step = plane.step
    n_rows, n_columns = (-(-(stop - start) // step) for start, stop in (plane.rows, plane.columns))
    out = np.zeros((n_rows, n_columns), view.dtype.memory_dtype)
    damages = []
    for rows, columns in product(
        _cuts(plane.rows, 1 if plane.down is None else chunk[plane.down]),
        _cuts(plane.columns, 1 if plane.across is None else chunk[plane.across]),
    ):
        cell = plane._replace(rows=rows, columns=columns, step=1)
        try:
            values = _read(view, cell, is_labels=True)
        except ChunkwiseError as e:
            damages.append(Damage(rows, columns, e.message))
            continue
        offsets = rows[0] - plane.rows[0], columns[0] - plane.columns[0]
        row, column = (-(-offset // step) for offset in offsets)  # the first pixels that lie in the chunk
        taken = values[row * step - offsets[0] :: step, column * step - offsets[1] :: step]
        out[row : row + taken.shape[0], column : column + taken.shape[1]] = taken
    return out, damages


def _cuts(bounds: tuple[int, int], chunk: int) -> Iterator[tuple[int, int]]:
    start, end = bounds
    while start < end:
        stop = min(end, (start // chunk + 1) * chunk)
        yield start, stop
        start = stop


def for_browsers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values in a type that browsers have."""
    if values.dtype.str[1:] not in _IN_BROWSERS:
        values = to_real(values)
        if values.dtype.str[1:] not in _IN_BROWSERS:
            values = values.astype(np.float32)
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<"))


def chunks_in(view: TensorStore, plane: Plane) -> dict[str, Any]:
    """Return the stored chunks that a plane meets: place, key, size in bytes or None for a missing one."""
    _check(view, plane._replace(step=max(plane.step, plane.n_elements // MOST_PIXELS + 1)))
    array = view._array
    node = view._find_node().node
    if not isinstance(array, ChunkedArray) or node is None or array.domain.shape != view.shape:
        return {"chunks": [], "note": "this array is computed; it has no chunks of its own"}
    stored, location = array.stored, node.location
    cells = []
    limits: dict[int | None, tuple[int, int]] = {plane.down: plane.rows, plane.across: plane.columns}
    for dim, at in enumerate(plane.at):
        bounds = limits.get(dim, (at, at + 1))
        first, last = stored.grid.cell(dim, bounds[0])[0], stored.grid.cell(dim, bounds[1] - 1)[0]
        cells.append(range(first, last + 1))
    n = prod(map(len, cells))
    if n > _MOST_CHUNKS:
        return {"chunks": [], "note": f"{n:,} chunks are too many to show; zoom in"}
    rows = [_chunk(stored, location, cell, plane) for cell in product(*cells)]
    out: dict[str, Any] = {"chunks": rows}
    inner = None if stored.shard is None else stored.shard.grid.chunk_shape
    if inner is not None:
        out["inner"] = [1 if dim is None else inner[dim] for dim in (plane.down, plane.across)]
    return out


def _chunk(stored: Any, location: Location, cell: tuple[int, ...], plane: Plane) -> dict[str, Any]:
    key = stored.keys.key(cell)
    name = key.removeprefix(location.path)
    size = stored_size(location.store, location.path + name)
    place = []
    for dim in (plane.down, plane.across):
        lo, hi = (0, 1) if dim is None else stored.grid.bounds(dim, cell[dim])
        place += [lo, hi if dim is None else min(hi, stored.shape[dim])]
    out = {"key": name, "cell": list(cell), "box": place, "size": size}
    return out if can_tell_size(location.store) else {**out, "unknown": True}
