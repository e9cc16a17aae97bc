"""``MultiscaleImage``: an image at several resolutions, whose levels are opened on demand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NoReturn, TypeVar, overload

import numpy as np
import numpy.typing as npt

from chunkwise import ChunkLayout, IndexDomain, TensorStore, Unit
from chunkwise.copying.new_array import open_array
from chunkwise.copying.resolve import Resolvable, ResolvedPlace
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, noted
from chunkwise.extension import JSON
from chunkwise.extension.inside import brief, explains_foreign_names, hooks, load, panel, table
from chunkwise.images.multiscale.metadata import (
    Axis,
    Channel,
    ImageMetadata,
    LevelMetadata,
    Transformation,
    unit_in,
    unit_text,
)

__all__ = ["Levels", "Members", "MultiscaleImage", "corner", "most_voted", "placed"]

T = TypeVar("T")


class Members(Mapping[str, T], Generic[T]):
    """A mapping whose names and values are looked up on demand."""

    def __init__(self, names: Callable[[], Sequence[str]], open: Callable[[str], T]) -> None:
        self._find_names = names
        self._open = open
        self._names: dict[str, None] | None = None
        self._opened: dict[str, T] = {}

    def _known(self) -> dict[str, None]:
        if self._names is None:
            self._names = dict.fromkeys(self._find_names())
        return self._names

    def __getitem__(self, name: str) -> T:
        if name not in self._opened:
            if name not in self._known():
                raise noted(KeyError(name), f"known: {self!r}")
            self._opened[name] = self._open(name)
        return self._opened[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known()

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._known()))

    def __len__(self) -> int:
        return len(self._known())

    def __repr__(self) -> str:
        names = list(self._known())
        more = f", … {len(names) - 10} more" if len(names) > 10 else ""
        return f"<{len(names)}: {', '.join(names[:10])}{more}>"


class Levels(Sequence[TensorStore]):
    """The arrays of an image, full resolution first; each is opened on demand."""

    def __init__(self, levels: Sequence[LevelMetadata], open: Callable[[int], TensorStore]) -> None:
        self._metadata = levels
        self._open = open
        self._opened: list[TensorStore | None] = [None] * len(levels)

    def __len__(self) -> int:
        return len(self._opened)

    @overload
    def __getitem__(self, number: int) -> TensorStore: ...
    @overload
    def __getitem__(self, number: slice) -> list[TensorStore]: ...
    def __getitem__(self, number: int | slice) -> TensorStore | list[TensorStore]:
        numbers = range(len(self._opened))[number]
        if isinstance(numbers, range):
            return [self[n] for n in numbers]
        store = self._opened[numbers]
        if store is None:
            store = self._opened[numbers] = self._open(numbers)
        return store

    def __repr__(self) -> str:
        return f"<{len(self)} levels: {'; '.join(f'{name} {text}' for name, text in self._rows())}>"

    def _repr_html_(self) -> str:
        return panel("Levels", table((f"level {name}", text) for name, text in self._rows()))

    def _rows(self) -> Iterator[tuple[str, str]]:
        """Yield the path and the known properties of each level, without opening any."""
        for level, store in zip(self._metadata, self._opened, strict=True):
            voxels = f"voxels of {', '.join(f'{size:g}' for size in level.place.scale)}"
            yield level.path, voxels if store is None else f"{brief(store)}, {voxels}"


@explains_foreign_names("MultiscaleImage")
class MultiscaleImage(Resolvable):
    """An image at several resolutions; `open_multiscale` opens one.

    Only the metadata of the image is read until a level is used.
    """

    def __init__(
        self,
        metadata: ImageMetadata,
        open_level: Callable[[int], TensorStore],
        *,
        location: str,
        labels: Mapping[str, MultiscaleImage] | None = None,
        chunks: Callable[[], tuple[int, ...] | None] | None = None,
        members: Sequence[str] | None = None,
    ) -> None:
        self._metadata = metadata
        self._location = location
        self._levels = Levels(metadata.levels, open_level)
        self._labels: Mapping[str, MultiscaleImage] = {} if labels is None else labels
        self._chunks = chunks  # of the arrays that levels are put together of
        self._own = members

    def __getitem__(self, *key: Any, **how: Any) -> NoReturn:
        raise TypeError("an image has levels, which are arrays: image.levels[0] is full resolution")

    __array__ = __getitem__  # NumPy would make the image an element

    def _resolve(self) -> ResolvedPlace:
        return ResolvedPlace(self._location, view=self._full_resolution(), image=self)

    def _full_resolution(self) -> TensorStore:
        """Return the first level: the stored array, or one that is put together of several."""
        if self._metadata.lacks:
            raise InvalidArgumentError(
                f"{self._location}: full resolution is missing: {self._metadata.lacks}; "
                f"open_multiscale opens the other levels, of which {self.paths[0]} is the finest"
            )
        level = most_voted(self.levels[0])
        node = level._whole_node(placed=True)
        return level if node is None else open_array(node.location, found=node, read=True)

    @property
    def name(self) -> str:
        """Name of the image: that of the metadata, or else that of its group."""
        return self._metadata.name or place_name(self._location)

    @property
    def location(self) -> str:
        """Location of the image, as it was given."""
        return self._location

    @property
    def convention(self) -> str:
        """``ome-ngff-0.1`` to ``ome-ngff-0.6``, ``n5-viewer``, ``cosem``, ``bdv``,
        ``paintera``; ``raw`` for arrays without metadata of an image."""
        return self._metadata.convention

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Name, type and unit of each dimension, in the order of the arrays."""
        return self._metadata.axes

    @property
    def levels(self) -> Levels:
        """The arrays, full resolution first.

        Dimensions have the names of the axes as labels and the size of a voxel as unit.  The origin is the
        position of the image in voxels of the level, rounded to whole ones; `translations` are exact.
        """
        return self._levels

    @property
    def paths(self) -> tuple[str, ...]:
        """Path of each level, from the group of the image."""
        return tuple(level.path for level in self._metadata.levels)

    @property
    def scales(self) -> tuple[tuple[float, ...], ...]:
        """Size of a voxel of each level, by dimension, in the units of the axes."""
        return tuple(level.place.scale for level in self._metadata.levels)

    @property
    def translations(self) -> tuple[tuple[float, ...], ...]:
        """Centre of the first voxel of each level, by dimension, in the units of the axes."""
        return tuple(level.place.translation for level in self._metadata.levels)

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems, such as levels and display members that are wrong or missing and were left out.

        This opens all levels.
        """
        return (*self._metadata.problems, *(why for _, why in self._unreadable()))

    @property
    def assumed(self) -> tuple[str, ...]:
        """Assumptions that no metadata confirms: names of axes, how names of files arrange pictures."""
        return self._metadata.assumed

    @property
    def _level_paths(self) -> frozenset[str]:
        """Paths in the group of the image that are its levels, or have nothing but levels in them."""
        return frozenset(self.paths if self._own is None else self._own)

    def _seen_from(self, path: str, location: str) -> MultiscaleImage:
        """Return the image as that of a group above its own, which is at `path` there."""
        levels = tuple(level._replace(path=f"{path}/{level.path}") for level in self._metadata.levels)
        return self._changed(replace(self._metadata, levels=levels), location=location, members=None)

    def _described_as(self, other: MultiscaleImage) -> MultiscaleImage:
        """Return the image with the metadata of another one; itself if that has other levels."""
        if other.paths != self.paths or len(other.axes) != len(self.axes):
            return self
        return self._changed(other._metadata)

    def _arranged(self, order: Sequence[int]) -> MultiscaleImage:
        """Return the image with its dimensions in another order."""
        levels = tuple(
            level._replace(place=Transformation(*(tuple(part[dim] for dim in order) for part in level.place)))
            for level in self._metadata.levels
        )
        axes = tuple(self.axes[dim] for dim in order)
        metadata = replace(self._metadata, axes=axes, levels=levels)
        return self._changed(metadata, lambda n: self._levels[n].transpose(order), chunks=None, members=None)

    def _unreadable(self) -> list[tuple[int, str]]:
        """Return the numbers of levels that can't be opened, and why; an OSError of a server is raised."""
        out = []
        for number in range(len(self._levels)):
            try:
                self._levels[number]
            except ChunkwiseError as e:
                out.append((number, e.message))
        return out

    def available(self) -> MultiscaleImage:
        """Return the image with the levels that can be opened; itself if that is all of them.

        Raises
        ------
        InvalidArgumentError
            If no level can be opened.
        """
        missing = self._unreadable()
        if not missing:
            return self
        kept = [n for n in range(len(self._levels)) if n not in dict(missing)]
        if not kept:
            raise InvalidArgumentError(missing[0][1])
        return self._with_levels(kept, self.problems)

    def _with_levels(self, kept: Sequence[int], problems: Sequence[str] = ()) -> MultiscaleImage:
        """Return the image with some of its levels alone."""
        levels = tuple(self._metadata.levels[n] for n in kept)
        metadata = replace(self._metadata, levels=levels, problems=(*problems,) or self._metadata.problems)
        return self._changed(metadata, lambda n: self._levels[kept[n]])

    def _changed(
        self, metadata: ImageMetadata, open_level: Callable[[int], TensorStore] | None = None, **others: Any
    ) -> MultiscaleImage:
        """Return the image with other metadata, and `others` of the arguments that it was made with."""
        own: dict[str, Any] = {"location": self._location, "labels": self._labels, "chunks": self._chunks}
        own |= {"members": self._own, **others}
        return MultiscaleImage(metadata, open_level or self._levels.__getitem__, **own)

    @property
    def stored_chunks(self) -> tuple[int, ...] | None:
        """Chunks of the first level as stored; None if unknown."""
        if self._chunks is not None:
            return self._chunks()
        known = [n for n in self._levels[0].chunk_layout.read_chunk.shape or () if n]
        return tuple(known) if known and len(known) == self._levels[0].rank else None

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Display of the channels, as far as the metadata has it."""
        return self._metadata.channels

    @property
    def is_labels(self) -> bool:
        """True if elements are labels of regions, not intensities."""
        return self._metadata.is_labels

    @property
    def label_colors(self) -> Mapping[int, tuple[int, int, int, int]]:
        """Red, green, blue and opacity, up to 255 each, of labels with a colour in the metadata."""
        return self._metadata.label_colors

    @property
    def labels(self) -> Mapping[str, MultiscaleImage]:
        """Images of labels that belong to this one, by name; each is opened when it is looked up."""
        return self._labels

    @property
    def metadata(self) -> Mapping[str, JSON]:
        """The attributes that describe the image, as stored."""
        return self._metadata.document

    def level_for(self, scale: float | str | Unit) -> int:
        """Return the number of the coarsest level whose voxels are not larger than `scale`.

        Parameters
        ----------
        scale : float, str or Unit
            Size along axes of space: a number in their own unit, or a length such as ``"200 nm"``.

        Returns
        -------
        int
            0, full resolution, if the voxels of all levels are larger.

        Raises
        ------
        ValueError
            If it isn't positive, or the unit of an axis can't be converted to that of `scale`.
        """
        unit = Unit(scale) if isinstance(scale, str) else scale
        limits = {}
        for dim, axis in enumerate(self.axes):
            if axis.type == "space":
                limits[dim] = unit_in(unit, axis.unit) if isinstance(unit, Unit) else float(unit)
        if not all(limit > 0 for limit in limits.values()):
            raise InvalidArgumentError(f"scale: expected a positive size, but received {scale!r}")
        fitting = [
            number
            for number, sizes in enumerate(self.scales)
            if all(sizes[dim] <= limit * (1 + 1e-9) for dim, limit in limits.items())
        ]
        return max(fitting, key=lambda n: float(np.prod([self.scales[n][dim] for dim in limits])), default=0)

    def view(self) -> Any:
        """Return a widget for notebooks: a slice of the image, and a slider for each other dimension.

        It talks through the kernel and needs no port.

        Raises
        ------
        ImportError
            If anywidget isn't installed; the extra ``notebook`` brings it.
        InvalidArgumentError
            If there are less than two dimensions, or one is empty.
        """
        load("anywidget", "view()")
        return hooks["notebook widget"](self)

    def __repr__(self) -> str:
        axes = ", ".join(
            f"{axis.name} ({unit_text(axis.unit)})" if axis.unit else axis.name for axis in self.axes
        )
        what = "labels" if self.is_labels else "image"
        return (
            f"<chunkwise.MultiscaleImage {self.name!r}: {self.convention} {what} with axes {axes}, "
            f"{len(self.levels)} levels, at {self._location}>"
        )

    def _repr_html_(self) -> str:
        # Levels are not opened for it.
        rows: list[tuple[str, object]] = [("convention", self.convention), ("location", self._location)]
        rows.append(("axes", ", ".join(f"{a.name} ({unit_text(a.unit) or a.type})" for a in self.axes)))
        rows += [(f"level {path}", text) for path, text in self._levels._rows()]
        if self.channels:
            rows.append(("channels", ", ".join(channel.label or "-" for channel in self.channels)))
        return panel(f"{'Labels' if self.is_labels else 'MultiscaleImage'} {self.name}", table(rows))


def place_name(location: str) -> str:
    """Return the last name of a location, or the file's name at the root of a file.

    >>> place_name("scans/a.tif|tiff-images:"), place_name("scans/a.tif|tiff-images:image1/")
    ('a.tif', 'image1')
    """
    return re.sub(r"(\|[a-z0-9-]+:/*)+$", "", location).rstrip("/|:").rpartition("/")[2].rpartition(":")[2]


def corner(scale: Sequence[float], at: Sequence[float], first: Sequence[float]) -> tuple[int, ...]:
    """Return where a level begins, in whole voxels; `first` has the sizes of voxels of the first level."""
    return tuple(
        int(np.floor((position - size / 2 + one / 2) / size + 0.5))
        for position, size, one in zip(at, scale, first, strict=True)
    )


def placed(
    store: TensorStore, axes: Sequence[Axis], place: Transformation, first: Transformation
) -> TensorStore:
    """Return the array of a level with the units, labels and origin that its metadata give it.

    `first` is the transformation of full resolution.  Voxels of all levels begin at a common corner, so that
    of a level whose first voxel is centred in a cell of 2 has the origin 0 as full resolution has.
    """
    units = tuple(
        Unit(size, axis.unit) if axis.unit or size != 1 else None
        for size, axis in zip(place.scale, axes, strict=True)
    )
    if hasattr(store._array, "with_units"):
        store = store._with_units(units)
    origin = corner(place.scale, place.translation, first.scale)
    return store.label[tuple(axis.name for axis in axes)].translate_to[origin] if axes else store


def most_voted(store: TensorStore) -> TensorStore:
    """Return an N5 label multiset, of lists of ``[label, count]``, as one of labels; others as they are.

    If several labels have the same count, the smallest wins.
    """
    if store.dtype.name != "json":
        return store
    from chunkwise import virtual_chunked  # which few images need

    def read(domain: IndexDomain, out: npt.NDArray[Any], _: Any) -> None:
        values = store[domain].read().result()
        for at in np.ndindex(out.shape):
            out[at] = _winner(values[at])

    chunks = store.chunk_layout.read_chunk.shape
    shape = tuple(n or size for n, size in zip(chunks or (None,) * store.rank, store.shape, strict=True))
    return virtual_chunked(
        read,
        dtype=np.dtype(np.uint64),
        domain=store.domain,
        chunk_layout=ChunkLayout(chunk_shape=shape, grid_origin=store.origin),
        dimension_units=store.dimension_units,
    )


def _winner(entry: Any) -> int:
    return min(entry, key=lambda pair: (-pair[1], pair[0]))[0] if entry else 0
