"""Parts of an image as the page draws them: planes, volumes, lines and lists of labels, in types of browsers.

A damaged chunk doesn't fail a tile: the rest is drawn, and the chunk is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.trees import ChunkedArray, Location
from chunkwise.images.multiscale.sampling import Bounds, box_nbytes, read_box, to_real
from chunkwise.images.server.answer import can_tell_size, stored_size
from chunkwise.images.server.image import ServedImage, shown_dims

__all__ = [
    "MOST_PIXELS",
    "Damage",
    "LabelList",
    "Line",
    "Plane",
    "Volume",
    "check_plane",
    "chunks_in",
    "find_labels",
    "find_line",
    "find_series",
    "find_volume",
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


# -- volumes and lines --------------------------------------------------------------------------------

# Content of the page beside slices: a volume small enough to be projected, and values along a line.

_MOST_VOXELS = 1 << 21  # that a browser draws
_MOST_READ = 1 << 24  # elements, for a projection
_MOST_POINTS = 2048
_MOST_LINES = 16


class Volume(NamedTuple):
    """A volume through an image, before it is read."""

    view: TensorStore  # of three dimensions
    order: tuple[int, ...]  # z, y, x
    factors: tuple[int, ...]  # elements for a voxel, along z, y, x
    level: int
    is_labels: bool

    def read(self) -> npt.NDArray[Any]:
        """Return voxels (z, y, x): the largest of their elements that are numbers; of labels the first.

        Voxels that can't be read are 0.
        """
        values = read_box(self.view, tuple((0, n) for n in self.view.shape), [1] * 3)[0].transpose(self.order)
        if self.is_labels:
            return for_browsers(values[tuple(slice(None, None, f) for f in self.factors)])
        values = to_real(values)
        for dim, factor in enumerate(self.factors):
            if factor > 1:
                values = np.fmax.reduceat(values, np.arange(0, values.shape[dim], factor), dim)
        return for_browsers(values)


def find_volume(image: ServedImage, at: Sequence[int]) -> Volume:
    """Return the finest level that is small enough to be drawn whole, or else the coarsest, made smaller.

    Raises
    ------
    UnsupportedError
        If the image is no volume, or all of its levels are so large that reading one takes long.
    InvalidArgumentError
        If `at` isn't an index into full resolution.
    """
    (x, y, z), _, _ = shown_dims(image)
    if x is None or y is None or z is None:
        raise UnsupportedError("a projection needs three dimensions of space")
    shape = image.levels[0].view.shape
    if len(at) != len(shape) or any(not 0 <= i < n for i, n in zip(at, shape, strict=True)):
        raise InvalidArgumentError(f"at: {tuple(at)} is outside of {tuple(shape)}")
    sizes = [prod(level.view.shape[dim] for dim in (x, y, z)) for level in image.levels]
    last = len(sizes) - 1
    number = next((n for n, size in enumerate(sizes) if size <= _MOST_VOXELS), last)
    if sizes[number] > _MOST_READ:
        raise UnsupportedError(
            f"no level is small enough to be projected: the smallest has {sizes[number]:,} elements, "
            f"of at most {_MOST_READ:,}; `chunkwise pyramid` makes smaller ones"
        )
    view = image.levels[number].view
    region: list[int | slice] = []
    for dim, (index, n) in enumerate(zip(at, view.shape, strict=True)):
        region.append(slice(None) if dim in (x, y, z) else min(index * n // shape[dim], n - 1))
    order = tuple(sorted((x, y, z)).index(dim) for dim in (z, y, x))
    lengths = [view.shape[dim] for dim in (z, y, x)]
    factors = [1, 1, 1]
    while prod(small := [-(-n // f) for n, f in zip(lengths, factors, strict=True)]) > _MOST_VOXELS:
        factors[small.index(max(small))] += 1
    return Volume(view[tuple(region)], order, tuple(factors), number, image.is_labels)


class Line(NamedTuple):
    """Elements on a line through a plane, before they are read."""

    view: TensorStore  # of one dimension

    def read(self) -> list[JSON]:
        """Return the values; None where a value isn't a number, or can't be read."""
        try:
            values = to_real(self.view.read().result())
        except UnsupportedError:
            raise
        except ChunkwiseError:
            if self.view.size == 1:
                return [None]
            view, middle = self.view.translate_to[0], self.view.size // 2
            return Line(view[:middle]).read() + Line(view[middle:]).read()
        return [n if np.isfinite(n) else None for n in values.tolist()]


def find_line(
    view: TensorStore, dims: tuple[int | None, int | None], at: Sequence[int], ends: Sequence[int]
) -> Line:
    """Return the elements nearest to a line from one row and column to another, both included.

    Raises
    ------
    InvalidArgumentError
        If there is no such line in the array.
    """
    (r0, c0, r1, c1), (down, across) = ends, dims
    n = min(max(abs(r1 - r0), abs(c1 - c0)) + 1, _MOST_POINTS)
    index: list[Any] = list(at)
    bounds: list[tuple[int, int]] = [(i, i) for i in at]
    if len(index) != view.rank or down == across:
        raise InvalidArgumentError(f"at, dims: expected {view.rank} numbers and two dimensions")
    for dim, first, last in ((down, r0, r1), (across, c0, c1)):
        if dim is not None and not 0 <= dim < view.rank:
            raise InvalidArgumentError(f"dims: there is no dimension {dim}")
        if dim is not None:
            index[dim] = np.rint(np.linspace(first, last, n)).astype(np.int64)
            bounds[dim] = (min(first, last), max(first, last))
    if any(low < 0 or high >= size for (low, high), size in zip(bounds, view.shape, strict=True)):
        raise InvalidArgumentError(f"line: {tuple(ends)} at {tuple(at)} is outside of {tuple(view.shape)}")
    return Line(view.vindex[tuple(index)])


def find_series(
    view: TensorStore,
    along: int | None,
    lines: int | None,
    at: Sequence[int],
    bounds: tuple[int, int],
    n: int,
) -> TensorStore:
    """Return a range along a dimension as rows, with the lines along another as columns.

    Raises
    ------
    InvalidArgumentError
        If there is no such range, or it has fewer than `n` elements.
    """
    if (
        along is None
        or along == lines
        or any(dim is not None and not 0 <= dim < view.rank for dim in (along, lines))
    ):
        raise InvalidArgumentError(f"dims: expected one or two dimensions of {view.rank}")
    if len(at) != view.rank or any(not 0 <= i < size for i, size in zip(at, view.shape, strict=True)):
        raise InvalidArgumentError(f"at: {tuple(at)} is outside of {tuple(view.shape)}")
    start, stop = bounds
    if not 0 <= start < stop <= view.shape[along] or not 1 <= n <= min(stop - start, _MOST_POINTS * 4):
        raise InvalidArgumentError(
            f"range: expected a part of {view.shape[along]} in {n} parts, not {start} to {stop}"
        )
    index = [
        slice(None) if dim == lines else slice(start, stop) if dim == along else i for dim, i in enumerate(at)
    ]
    part = view[tuple(index)]
    if lines is None:
        return part.translate_to[0][:, None]
    return (part if along < lines else part.transpose([1, 0])).translate_to[0, 0][
        :, : min(_MOST_LINES, view.shape[lines])
    ]


# -- lists of labels ----------------------------------------------------------------------------------

# The labels of an image as a list: how large each one is, and a place in it.

_MOST_LABELLED = 1 << 22  # elements
_MOST_LISTED = 1000


class LabelList(NamedTuple):
    """The labels at a position of dimensions that aren't space, before they are read."""

    image: ServedImage
    level: int
    bounds: Bounds
    steps: tuple[int, ...]
    wanted: str  # the only label that is looked for; "" for all

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        size = prod(ceil((hi - lo) / step) for (lo, hi), step in zip(self.bounds, self.steps, strict=True))
        return box_nbytes(self.image.levels[self.level].view, self.bounds, self.steps) + 40 * size

    def read(self) -> dict[str, JSON]:
        """Return labels as texts, the largest first, each with its part of the elements and a place in it."""
        values, _ = read_box(self.image.levels[self.level].view, self.bounds, self.steps)
        flat = values.reshape(-1)
        order = np.argsort(flat, kind="stable")
        labels, starts, counts = np.unique(flat[order], return_index=True, return_counts=True)
        middles = order[starts + counts // 2]  # an element of the label itself, about in its middle
        rows: list[JSON] = []
        by_size = [n for n in np.argsort(-counts, kind="stable").tolist() if labels[n] != 0]
        chosen = [n for n in by_size if not self.wanted or str(int(labels[n])) == self.wanted]
        for n in chosen[:_MOST_LISTED]:
            place = np.unravel_index(int(middles[n]), values.shape)
            row: list[JSON] = [
                str(int(labels[n])),
                counts[n] / flat.size,
                [self._full(*one) for one in enumerate(place)],
            ]
            rows.append(row)
        return {"labels": rows, "count": len(by_size), "sampled": self.level > 0 or max(self.steps) > 1}

    def _full(self, dim: int, index: np.intp) -> int:
        """Return the element of full resolution in the middle of one that was read."""
        image, at = self.image, self.bounds[dim][0] + int(index) * self.steps[dim]
        place = image.translations[self.level][dim] + at * image.scales[self.level][dim]
        full = round((place - image.translations[0][dim]) / image.scales[0][dim])
        return min(max(full, 0), image.levels[0].view.shape[dim] - 1)


def find_labels(image: ServedImage, at: Sequence[int], wanted: str = "") -> LabelList:
    """Return how the labels of an image are listed: from the finest level that is read quickly.

    Raises
    ------
    InvalidArgumentError
        If `at` isn't an index into full resolution, or `wanted` isn't a whole number.
    UnsupportedError
        If the elements aren't integers.
    """
    full = image.levels[0].view
    if full.dtype.memory_dtype.kind not in "iub":
        raise UnsupportedError(f"a list of labels needs integers, not {full.dtype.name}")
    if len(at) != full.rank or any(not 0 <= i < n for i, n in zip(at, full.shape, strict=True)):
        raise InvalidArgumentError(f"at: {tuple(at)} is outside of {tuple(full.shape)}")
    if wanted and not wanted.removeprefix("-").isdecimal():
        raise InvalidArgumentError(f"find: expected the number of a label, not {wanted!r}")
    dims = [dim for dim in shown_dims(image)[0] if dim is not None]
    sizes = [prod(level.view.shape[dim] for dim in dims) for level in image.levels]
    level = next((n for n, size in enumerate(sizes) if size <= _MOST_LABELLED), len(sizes) - 1)
    shape = image.levels[level].view.shape
    step = max(1, ceil((sizes[level] / _MOST_LABELLED) ** (1 / max(len(dims), 1))))
    bounds = tuple(
        (0, n) if dim in dims else (i := min(at[dim] * n // full.shape[dim], n - 1), i + 1)
        for dim, n in enumerate(shape)
    )
    return LabelList(
        image, level, bounds, tuple(step if dim in dims else 1 for dim in range(full.rank)), wanted
    )
