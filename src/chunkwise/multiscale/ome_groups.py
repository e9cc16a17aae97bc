"""Content of OME-Zarr groups: images with their labels, plates, wells, and series of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from chunkwise.api.tensorstore import TensorStore
from chunkwise.binding import JSON
from chunkwise.errors import InvalidArgumentError, NodeNotFoundError, NotFoundError
from chunkwise.groups.group import Group
from chunkwise.hierarchy.attributes import ATTRIBUTES_KEYS
from chunkwise.html import panel, plate_drawing, table
from chunkwise.multiscale.image import Members, MultiscaleImage, placed
from chunkwise.multiscale.metadata import ImageMetadata, expect_list, expect_members, expect_text
from chunkwise.multiscale.ome_zarr import ome_members, parse_ome_image

__all__ = [
    "ImageCollection",
    "Options",
    "Plate",
    "Well",
    "image_of",
    "labels_of_group",
    "metadata_file",
    "open_level_of",
    "series_of",
]


class Options(NamedTuple):
    """Options of reading images; see `chunkwise.multiscale.open.open_multiscale`."""

    strict: bool = True
    drafts: bool = False


class ImageCollection(Members[MultiscaleImage]):
    """Images that belong together, by name, such as the setups of BigDataViewer; opened on look-up."""

    def __init__(
        self,
        names: Callable[[], Sequence[str]],
        open: Callable[[str], MultiscaleImage],
        *,
        convention: str,
        location: str,
    ) -> None:
        super().__init__(names, open)
        self._convention, self._location = convention, location

    @property
    def convention(self) -> str:
        """``bdv``, ``n5-viewer``, ``bioformats2raw`` or ``labels``."""
        return self._convention

    @property
    def location(self) -> str:
        """Location of the group."""
        return self._location

    def __repr__(self) -> str:
        return f"<chunkwise.ImageCollection ({self._convention}) at {self._location} {super().__repr__()}>"


class Well:
    """A well of a plate, with an image for each field of view."""

    def __init__(self, group: Group, options: Options) -> None:
        self._group = group
        self._where = metadata_file(group)
        own, at = ome_members(group.attrs, self._where)
        well = expect_members(own.get("well"), f"{at}well")
        paths = []
        self._acquisitions: dict[str, int | None] = {}
        for i, entry in enumerate(expect_list(well.get("images"), f"{at}well: images", "images")):
            member = f"{at}well: images[{i}]"
            image = expect_members(entry, member)
            path = expect_text(image.get("path"), f"{member}: path", "the path of an image").strip("/")
            paths.append(path)
            acquisition = image.get("acquisition")
            self._acquisitions[path] = acquisition if isinstance(acquisition, int) else None
        self._fields = Members(
            lambda: paths, lambda path: image_of(_child(group, path, self._where), options)
        )

    @property
    def location(self) -> str:
        """Location of the well."""
        return self._group.location.text

    @property
    def fields(self) -> Mapping[str, MultiscaleImage]:
        """Fields of view by path, such as ``"0"``; each is opened when it is looked up."""
        return self._fields

    @property
    def acquisitions(self) -> Mapping[str, int | None]:
        """Number of the acquisition of each field, as far as it is known."""
        return self._acquisitions

    def __repr__(self) -> str:
        return f"<chunkwise.Well with {len(self._fields)} fields, at {self.location}>"

    def _repr_html_(self) -> str:
        return panel("Well", table([("location", self.location), ("fields", ", ".join(self._fields))]))


class Plate:
    """A plate with wells; `open_multiscale` opens one by reading its own document only."""

    def __init__(self, group: Group, options: Options) -> None:
        self._group = group
        self._where = metadata_file(group)
        own, self._at = ome_members(group.attrs, self._where)
        self._document = expect_members(own.get("plate"), f"{self._at}plate")
        self._rows = _names(self._document.get("rows"), f"{self._at}plate: rows")
        self._columns = _names(self._document.get("columns"), f"{self._at}plate: columns")
        # The paths of thousands of wells are looked at when a well, or their names, are asked for.
        self._listed = expect_list(self._document.get("wells"), f"{self._at}plate: wells", "wells")
        self._wells = Members(self._well_paths, lambda path: Well(_child(group, path, self._where), options))

    def _well_paths(self) -> list[str]:
        paths = []
        for i, entry in enumerate(self._listed):
            member = f"{self._at}plate: wells[{i}]"
            path = expect_text(
                expect_members(entry, member).get("path"), f"{member}: path", "the path of a well"
            )
            row, slash, column = path.partition("/")
            if not slash or row not in self._rows or column not in self._columns:
                raise InvalidArgumentError(
                    f"{member}: path: expected the names of a row and a column, joined by a slash, but "
                    f'received "{path}"'
                )
            paths.append(path)
        return paths

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
        """Wells by path, such as ``"A/1"``; each is opened when it is looked up.

        Raises
        ------
        InvalidArgumentError
            At the first look, if the path of a well is missing or is none of a row and a column.
        """
        return self._wells

    @property
    def fields(self) -> Mapping[str, MultiscaleImage]:
        """Fields of view of all wells by path, such as ``"A/1/0"``.

        A look-up reads the document of one well; names and their number take those of all wells.
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
            raise KeyError(path) from None

    def __iter__(self) -> Iterator[str]:
        return (f"{path}/{name}" for path, well in self._wells.items() for name in well.fields)

    def __len__(self) -> int:
        return sum(len(well.fields) for well in self._wells.values())


def metadata_file(group: Group) -> str:
    """Return the file that the attributes of a group are in, for errors."""
    node = group._node
    key = ATTRIBUTES_KEYS.get(node.format or "", node.key)
    return node.location.describe(key)


def image_of(group: Group, options: Options, name: str | None = None) -> MultiscaleImage:
    """Return the image in a group of OME-Zarr."""
    attributes = group.attrs.asdict()
    metadata = parse_ome_image(attributes, metadata_file(group), name=name, drafts=options.drafts)
    return MultiscaleImage(
        metadata,
        lambda number: open_level_of(group, metadata, number),
        location=group.location.text,
        labels=Members(lambda: _label_names(group), lambda label: image_of(_labels(group, label), options)),
    )


def open_level_of(
    group: Group,
    metadata: ImageMetadata,
    number: int,
    values_of: Callable[[TensorStore], TensorStore] = lambda store: store,
) -> TensorStore:
    """Open a level of an image, with the labels, units and origin that its metadata give it."""
    level = metadata.levels[number]
    store = group.get(level.path)
    if not isinstance(store, TensorStore):
        found = "nothing" if store is None else "a group"
        at = group.location.child(level.path).text
        raise InvalidArgumentError(f"{level.where}: expected an array at {at}, but there is {found}")
    store = values_of(store)
    if store.rank != len(metadata.axes):
        raise InvalidArgumentError(
            f"{level.where}: {store.rank} dimensions, but there are {len(metadata.axes)} axes"
        )
    return placed(store, metadata.axes, level.place, metadata.levels[0].place)


def labels_of_group(group: Group, options: Options) -> ImageCollection:
    """Return the images of a group called ``labels``."""
    names = _listed(group)
    return _images_below(group, lambda: names, options, "labels")


def series_of(group: Group, options: Options) -> ImageCollection:
    """Return the images that bioformats2raw numbers, ``0``, ``1``, …; those that its index lists, if any."""
    index = group.get("OME")
    own: Mapping[str, JSON] = {}
    if isinstance(index, Group):
        own, at = ome_members(index.attrs, metadata_file(index))
        if "series" in own:
            listed = expect_list(own["series"], f"{at}series", "paths", empty=True)
            own = {"series": [expect_text(path, f"{at}series", "paths") for path in listed]}

    def names() -> list[str]:
        if "series" in own:
            return list(own["series"])
        out: list[str] = []
        while isinstance(group.get(str(len(out))), Group):
            out.append(str(len(out)))
        return out

    return _images_below(group, names, options, "bioformats2raw")


def _images_below(
    group: Group, names: Callable[[], list[str]], options: Options, convention: str
) -> ImageCollection:
    return ImageCollection(
        names,
        lambda name: image_of(_child(group, name, metadata_file(group)), options),
        convention=convention,
        location=group.location.text,
    )


def _labels(group: Group, name: str) -> Group:
    return _child(group, f"labels/{name}", metadata_file(group))


def _label_names(group: Group) -> list[str]:
    try:
        labels = group.get("labels")
    except NotFoundError:
        return []
    return _listed(labels) if isinstance(labels, Group) else []


def _listed(group: Group) -> list[str]:
    own, at = ome_members(group.attrs, metadata_file(group))
    if "labels" not in own:
        return []
    names = expect_list(own["labels"], f"{at}labels", "names", empty=True)
    return [expect_text(name, f"{at}labels[{i}]", "a name").strip("/") for i, name in enumerate(names)]


def _child(group: Group, path: str, where: str) -> Group:
    try:
        found = group[path]
    except NodeNotFoundError:
        raise NotFoundError(
            f"{where} names {path}, but there is nothing at {group.location.child(path).text}"
        ) from None
    if not isinstance(found, Group):
        raise InvalidArgumentError(f"{where} names {path}, which is an array, not a group")
    return found


def _names(value: object, where: str) -> dict[str, None]:
    return {
        expect_text(expect_members(entry, f"{where}[{i}]").get("name"), f"{where}[{i}]: name", "a name"): None
        for i, entry in enumerate(expect_list(value, where, "names"))
    }
