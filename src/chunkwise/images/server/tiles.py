"""Parts of planes of an image as a browser draws them: decoded, scaled, in types that it has.

A damaged chunk doesn't fail the tile: the rest is drawn, and the chunk is named.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.trees import ChunkedArray, Location
from chunkwise.images.multiscale.grey import to_real
from chunkwise.images.multiscale.sampling import Bounds, box_nbytes, read_box
from chunkwise.images.server.answer import can_tell_size, stored_size

__all__ = [
    "MOST_PIXELS",
    "Damage",
    "Plane",
    "check_plane",
    "chunks_in",
    "for_browsers",
    "read_cells",
    "read_plane",
]

MOST_PIXELS = 1 << 22
_MOST_CHUNKS = 4096
_LONGEST = 500  # characters of a value in a table
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

    @property
    def pixels(self) -> tuple[int, int]:
        """Numbers of rows and columns of pixels."""
        n_rows, n_columns = (-(-(stop - start) // self.step) for start, stop in (self.rows, self.columns))
        return n_rows, n_columns

    def bounds(self) -> Bounds:
        """Return from and to, by dimension of the array."""
        sides = {self.down: self.rows, self.across: self.columns}
        return tuple(sides.get(dim, (at, at + 1)) for dim, at in enumerate(self.at))

    def steps(self) -> list[int]:
        """Return the elements for each pixel, by dimension of the array."""
        return [self.step if dim in (self.down, self.across) else 1 for dim in range(len(self.at))]

    def nbytes(self, view: TensorStore) -> int:
        """Return the memory that reading it takes."""
        return box_nbytes(view, self.bounds(), self.steps())


class Damage(NamedTuple):
    """A chunk that can't be read."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    message: str


def read_plane(view: TensorStore, plane: Plane, *, is_labels: bool) -> tuple[npt.NDArray[Any], list[Damage]]:
    """Return the pixels of a plane, rows first, and the chunks that could not be read, whose pixels are 0."""
    check_plane(view, plane)
    values, damages = _read(view, plane, is_labels=is_labels)
    return for_browsers(values), damages


def read_cells(view: TensorStore, plane: Plane, field: str) -> tuple[list[list[Any]], list[Damage]]:
    """Return the texts of values, rows first, None for one that can't be read.

    A list of records has their fields as columns; `field` chooses one, also of the records of a plane.
    """
    values, damages = _read(view, plane, is_labels=True)
    names = values.dtype.names
    if names and field:
        values = values[field]
    elif names and plane.across is None:
        values = np.array([[row[name] for name in names] for row in values[:, 0]], object)
    cells: list[list[Any]] = [[_text(value) for value in row] for row in values]
    for one in damages:
        for row in cells[slice(*(n - plane.rows[0] for n in one.rows))]:
            columns = (
                range(*(n - plane.columns[0] for n in one.columns))
                if plane.across is not None
                else range(len(row))
            )
            for column in columns:
                row[column] = None
    return cells, damages


def _text(value: object) -> str:
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            value = value.decode()
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _read(view: TensorStore, plane: Plane, *, is_labels: bool) -> tuple[npt.NDArray[Any], list[Damage]]:
    values, damaged = read_box(view, plane.bounds(), plane.steps(), is_labels=is_labels)
    shown = [dim for dim in (plane.down, plane.across) if dim is not None]
    values = values.transpose([*shown, *(dim for dim in range(view.rank) if dim not in shown)])
    damages = []
    for bounds, message in damaged:
        rows, columns = ((0, 1) if dim is None else bounds[dim] for dim in (plane.down, plane.across))
        damages.append(Damage(rows, columns, message))
    return values.reshape(plane.pixels), damages


def check_plane(view: TensorStore, plane: Plane) -> None:
    """Raise InvalidArgumentError if an array has no such plane, or it has too many pixels."""
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
    if plane.step < 1 or prod(plane.pixels) > MOST_PIXELS:
        raise InvalidArgumentError(f"a tile of {plane.n_elements:,} elements, 1:{plane.step}, is too large")


def for_browsers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values in a type that browsers have."""
    if values.dtype.str[1:] not in _IN_BROWSERS:
        values = to_real(values)
        if values.dtype.str[1:] not in _IN_BROWSERS:
            values = values.astype(np.float32)
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<"))


def chunks_in(view: TensorStore, plane: Plane) -> dict[str, Any]:
    """Return the stored chunks that a plane meets: place, key, size in bytes or None for a missing one."""
    check_plane(view, plane._replace(step=max(plane.step, plane.n_elements // MOST_PIXELS + 1)))
    array, node = view._array, view._whole_node(placed=True)
    if node is None or not isinstance(array, ChunkedArray):
        return {"chunks": [], "note": "this array is computed; it has no chunks of its own"}
    stored, location = array.stored, node.location
    cells = []
    for dim, (start, stop) in enumerate(plane.bounds()):
        first, last = stored.grid.cell(dim, start)[0], stored.grid.cell(dim, stop - 1)[0]
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
