"""Plates and wells of OME-Zarr, with their fields of view.

Plates are large: a missing well or field is noticed when it is looked up, and doesn't affect the others.
`plate_image` shows a plate as one image: the first field of each well in its row and column, read on demand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import ChunkLayout, IndexDomain, TensorStore
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError, noted
from chunkwise.extension import JSON
from chunkwise.extension.inside import cached_property, explains_foreign_names, panel, plate_drawing, table
from chunkwise.extension.trees import map_requests
from chunkwise.groups.group import Group
from chunkwise.images.conventions.convention import ome_members, own_members
from chunkwise.images.conventions.ome_groups import (
    ImageCollection,
    Options,
    attempt,
    child_group,
    failures,
    image_of,
    labels_of_group,
    series_of,
)
from chunkwise.images.multiscale.image import Members, MultiscaleImage, placed
from chunkwise.images.multiscale.metadata import (
    Transformation,
    expect_list,
    expect_members,
    expect_text,
    metadata_file,
)

__all__ = ["Plate", "Well", "plate_image"]


class _Fields(ABC):
    """Fields of view by path."""

    @property
    @abstractmethod
    def fields(self) -> Mapping[str, MultiscaleImage]:
        """Fields of view by path."""

    def __getitem__(self, path: str) -> MultiscaleImage:
        return self.fields[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __contains__(self, path: object) -> bool:
        return path in self.fields


@explains_foreign_names("Well")
class Well(_Fields):
    """A well of a plate: its fields of view by path, such as ``well["0"]``."""

    def __init__(self, group: Group, options: Options) -> None:
        self._group = group
        self._where = metadata_file(group)
        own, at = ome_members(group.attrs, self._where)
        well = expect_members(own.get("well"), f"{at}well")
        paths = []
        self._acquisitions: dict[str, int | None] = {}
        for i, entry in enumerate(expect_list(well.get("images"), f"{at}well: images", "images", empty=True)):
            member = f"{at}well: images[{i}]"
            image = expect_members(entry, member)
            path = expect_text(image.get("path"), f"{member}: path", "the path of an image").strip("/")
            paths.append(path)
            acquisition = image.get("acquisition")
            self._acquisitions[path] = acquisition if isinstance(acquisition, int) else None
        self._fields = Members(
            lambda: paths, lambda path: image_of(child_group(group, path, self._where), options)
        )

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """The fields that are missing or can't be read; opens each of them."""
        return tuple(failures(self._fields, self._group))

    @property
    def location(self) -> str:
        """Location of the well."""
        return self._group.location.text

    @property
    def fields(self) -> Mapping[str, MultiscaleImage]:
        """Fields of view by path, such as ``"0"``; each is opened when it is looked up."""
        return self._fields

    def _present(self) -> list[str]:
        """Return the names of existing fields, from a listing of the well if possible."""
        names = attempt(lambda: set(self._group))
        if names is None:
            return [name for name in self._fields if attempt(lambda: self._fields[name]) is not None]  # noqa: B023
        return [name for name in self._fields if name.partition("/")[0] in names]

    @property
    def acquisitions(self) -> Mapping[str, int | None]:
        """Number of the acquisition of each field, as far as it is known."""
        return self._acquisitions

    def __repr__(self) -> str:
        return f"<chunkwise.Well with {len(self._fields)} fields, at {self.location}>"

    def _repr_html_(self) -> str:
        return panel("Well", table([("location", self.location), ("fields", ", ".join(self._fields))]))


@explains_foreign_names("Plate")
class Plate(_Fields):
    """A plate: the fields of view of its wells by path, such as ``plate["A/1/0"]``.

    `open_multiscale` opens one by reading its own document only.
    """

    def __init__(self, group: Group, options: Options) -> None:
        self._group = group
        self._where = metadata_file(group)
        own, self._at = ome_members(group.attrs, self._where)
        self._document = expect_members(own.get("plate"), f"{self._at}plate")
        self._rows = _names(self._document.get("rows"), f"{self._at}plate: rows")
        self._columns = _names(self._document.get("columns"), f"{self._at}plate: columns")
        # The paths of thousands of wells are looked at when a well, or their names, are asked for.
        self._listed = expect_list(
            self._document.get("wells"), f"{self._at}plate: wells", "wells", empty=True
        )
        self._wells = Members(
            self._well_paths, lambda path: Well(child_group(group, path, self._where), options)
        )

    def _well_paths(self) -> list[str]:
        return self._paths[0]

    @cached_property
    def _paths(self) -> tuple[list[str], list[str]]:
        """Paths of wells, and problems with others."""
        paths, problems = [], []
        for i, entry in enumerate(self._listed):
            member = f"{self._at}plate: wells[{i}]"
            try:
                path = expect_text(
                    expect_members(entry, member).get("path"), f"{member}: path", "the path of a well"
                )
            except InvalidArgumentError as e:
                problems.append(e.message)
                continue
            row, slash, column = path.partition("/")
            if slash and row in self._rows and column in self._columns:
                paths.append(path)
            else:
                problems.append(
                    f"{member}: path: expected the names of a row and a column, joined by a slash, but "
                    f'received "{path}"'
                )
        return paths, problems

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Wells and fields that are missing or can't be read, and wrong paths.

        Opens each well and field, which takes long for a large plate on a server.
        """
        out = [*self._paths[1], *failures(self._wells, self._group)]

        def of_well(path: str) -> tuple[str, ...]:
            well = attempt(lambda: self._wells[path])
            return () if well is None else well.problems

        for problems in map_requests(self._group.location.store, of_well, list(self._wells)):
            out += problems
        return tuple(out)

    @property
    def name(self) -> str:
        """Name of the plate: that of the metadata, or else that of its group."""
        return str(self._document.get("name") or self._group.basename or self._group.location.name)

    @property
    def location(self) -> str:
        """Location of the plate."""
        return self._group.location.text

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of the rows."""
        return tuple(self._rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._columns)

    @property
    def wells(self) -> Mapping[str, Well]:
        """Wells that the plate names, by path, such as ``"A/1"``; each is opened when it is looked up."""
        return self._wells

    @property
    def fields(self) -> Mapping[str, MultiscaleImage]:
        """Fields of view of all wells by path, such as ``"A/1/0"``.

        A look-up reads the document of one well; listing or counting reads those of all wells.  Only existing
        fields are listed.
        """
        return _PlateFields(self._wells)

    @property
    def acquisitions(self) -> tuple[Mapping[str, JSON], ...]:
        """The acquisitions, as stored."""
        return tuple(self._document.get("acquisitions") or ())

    @property
    def metadata(self) -> Mapping[str, JSON]:
        """The member ``plate`` of the metadata, as stored."""
        return self._document

    def __repr__(self) -> str:
        return (
            f"<chunkwise.Plate {self.name!r}: {len(self._listed)} wells in {len(self._rows)} rows and "
            f"{len(self._columns)} columns, at {self.location}>"
        )

    def _repr_html_(self) -> str:
        # No well is opened for it.
        size = f"{len(self._rows)} × {len(self._columns)}"
        rows = [("location", self.location), ("rows × columns", size), ("wells", f"{len(self._wells):,}")]
        drawing = plate_drawing(self.rows, self.columns, self._wells)
        return panel(f"Plate {self.name}", table(rows), drawing)


class _PlateFields(Mapping[str, MultiscaleImage]):
    def __init__(self, wells: Mapping[str, Well]) -> None:
        self._wells = wells

    def __getitem__(self, path: str) -> MultiscaleImage:
        well, _, name = path.rpartition("/")
        try:
            return self._wells[well].fields[name]
        except KeyError:
            is_well = path in self._wells
            note = f"it is a well: plate.wells[{path!r}]" if is_well else "known are list(plate.fields)"
            raise noted(KeyError(path), note) from None

    def __contains__(self, path: object) -> bool:
        try:
            return isinstance(path, str) and self[path] is not None
        except (KeyError, NotFoundError):  # the plate lists wells that aren't stored
            return False

    def __iter__(self) -> Iterator[str]:
        for path in self._wells:
            well = attempt(lambda: self._wells[path])  # noqa: B023
            for name in () if well is None else well._present():
                yield f"{path}/{name}"

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _names(value: object, where: str) -> dict[str, None]:
    return {
        expect_text(expect_members(entry, f"{where}[{i}]").get("name"), f"{where}[{i}]: name", "a name"): None
        for i, entry in enumerate(expect_list(value, where, "names", empty=True))
    }


def find_ome_images(
    group: Group, options: Options, name: str | None = None
) -> MultiscaleImage | Plate | Well | ImageCollection | None:
    """Return what a group of OME-Zarr says that it is; None if it is none."""
    own = own_members(group.attrs)
    if "plate" in own:
        return Plate(group, options)
    if "well" in own:
        return Well(group, options)
    if "multiscales" in own:
        return image_of(group, options, name)
    if "bioformats2raw.layout" in own:
        return series_of(group, options)
    return labels_of_group(group, options) if "labels" in own else None


def plate_image(plate: Plate) -> MultiscaleImage:
    """Return an image of all wells, each with the size of the first one; missing ones are zeros.

    Raises
    ------
    NotFoundError
        If there is no field in any well.
    """
    first = next(_first_fields(plate), None)
    if first is None:
        raise NotFoundError(f"{plate.location}: there is no field in any well")
    axes = first.axes
    space = [dim for dim, axis in enumerate(axes) if axis.type == "space"]
    down, across = space[-2:]
    levels = tuple(
        level._replace(place=Transformation(level.place.scale, (0.0,) * len(axes)))
        for level in first._metadata.levels
    )
    metadata = replace(first._metadata, name=plate.name, levels=levels, problems=())

    def open_level(number: int) -> TensorStore:
        tile = first.levels[number]
        shape = list(tile.shape)
        shape[down] *= len(plate.rows)
        shape[across] *= len(plate.columns)
        chunk = [n if dim in (down, across) else 1 for dim, n in enumerate(tile.shape)]

        def read(domain: IndexDomain, out: npt.NDArray[Any], _: Any) -> None:
            row, column = (domain.origin[dim] // tile.shape[dim] for dim in (down, across))
            path = f"{plate.rows[row]}/{plate.columns[column]}"
            found = _tile(plate, path, number, domain, tile.shape)
            out[...] = 0
            if found is not None:
                out[tuple(map(slice, found.shape))] = found

        from chunkwise import virtual_chunked  # which few images need

        whole = virtual_chunked(
            read, dtype=tile.dtype, shape=shape, chunk_layout=ChunkLayout(chunk_shape=chunk)
        )
        return placed(whole, axes, levels[number].place, levels[0].place)

    return MultiscaleImage(metadata, open_level, location=plate.location)


def _first_fields(plate: Plate) -> Iterator[MultiscaleImage]:
    """Yield the first field of each well that can be opened."""
    for path in plate.wells:
        found = _first_field(plate, path)
        if found is not None:
            yield found


def _first_field(plate: Plate, path: str) -> MultiscaleImage | None:
    """Return the first field of a well that can be opened; None if there is none."""
    if path not in plate.wells:
        return None
    try:
        fields = plate.wells[path].fields
    except ChunkwiseError:
        return None
    for name in fields:
        try:
            return fields[name].available()
        except ChunkwiseError:
            continue
    return None


def _tile(
    plate: Plate, path: str, number: int, domain: IndexDomain, shape: tuple[int, ...]
) -> npt.NDArray[Any] | None:
    """Return a part of a level of the first field of a well; None if there is no such well."""
    image = _first_field(plate, path)
    if image is None or number >= len(image.levels) or image.levels[number].rank != len(shape):
        return None
    level = image.levels[number]
    level = level.translate_to[(0,) * level.rank]
    starts = [at % n for at, n in zip(domain.origin, shape, strict=True)]
    ends = [min(start + n, size) for start, n, size in zip(starts, domain.shape, level.shape, strict=True)]
    if any(end <= start for start, end in zip(starts, ends, strict=True)):
        return None
    index = tuple(slice(start, end) for start, end in zip(starts, ends, strict=True))
    return np.asarray(level[index].read().result())
