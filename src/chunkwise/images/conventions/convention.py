"""``Convention``: the properties of axes, levels and channels that a convention stores, and where.

A convention is read, written and edited by one module.  Readers, pyramids, copies, the server and edits ask
its `Convention`; none of them knows a member of its documents.  Attributes of OME-Zarr, which images of all
conventions may have, are known here by their names, wherever a version puts them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chunkwise.copying.conventions import OME_OF_GROUPS
from chunkwise.extension import JSON
from chunkwise.extension.trees import FormatName, Location, tree_format
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import ImageAxis, Transformation, expect_members

__all__ = [
    "LABEL",
    "N5_NAMES",
    "OME_MEMBERS",
    "PRECOMPUTED_NAME",
    "Change",
    "Convention",
    "Edit",
    "Kept",
    "Level",
    "NewImage",
    "PyramidConvention",
    "image_label_of",
    "label_properties",
    "marked_as_labels",
    "n_images",
    "ome_members",
    "other_members",
    "own_members",
    "plain",
    "says_labels",
    "with_channels",
    "without_image",
]


# -- members of OME-Zarr ------------------------------------------------------------------------------

LABEL = "image-label"
"""Attribute of what holds labels."""

OME_MEMBERS: tuple[str, ...] = ("ome", *OME_OF_GROUPS, "version", "_creator")
"""Attributes of groups in all versions."""

_DISPLAY = "omero"  # names, colours and contrast of channels


def ome_members(attributes: Mapping[str, JSON], where: str) -> tuple[Mapping[str, JSON], str]:
    """Return the members of OME-Zarr, and the file and member that they are in."""
    if "ome" in attributes:
        return expect_members(attributes["ome"], f'{where}: "ome"'), f"{where}: ome/"
    return attributes, f"{where}: "


def own_members(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the members of OME-Zarr, wherever they are; they need not be valid."""
    ome = attributes.get("ome")
    return ome if isinstance(ome, Mapping) else attributes


def n_images(attributes: Mapping[str, Any]) -> int:
    """Return the number of images that the attributes of a group list; 0 of others."""
    listed = own_members(attributes).get("multiscales")
    return len(listed) if isinstance(listed, list) else 0


def image_label_of(document: Mapping[str, Any]) -> dict[str, JSON]:
    """Return the attributes of labels, without those that are valid only for their own location."""
    for own in (document.get("ome"), document):  # of one made from OME-Zarr, they may be beside
        label = own.get(LABEL) if isinstance(own, Mapping) else None
        if isinstance(label, Mapping) and label:
            return {name: value for name, value in label.items() if name not in ("version", "source")}
    return {}


def says_labels(attributes: Mapping[str, Any]) -> bool:
    """Return True if attributes say that a group or an array holds labels."""
    return any(isinstance(own, Mapping) and LABEL in own for own in (attributes, attributes.get("ome")))


def marked_as_labels(attributes: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the attributes that say so, of a group whose others don't; none if they do."""
    own = own_members(attributes)
    if LABEL in own:
        return {}
    return {LABEL: {}} if own is attributes else {"ome": {**own, LABEL: {}}}


def label_properties(document: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield labels with their properties in the attributes of an image; they need not be valid."""
    label = own_members(document).get(LABEL)
    listed = label.get("properties") if isinstance(label, Mapping) else None
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("label-value"), int):
            yield one["label-value"], {name: one[name] for name in one if name != "label-value"}


def with_channels(attributes: dict[str, JSON], names: Sequence[str]) -> dict[str, JSON]:
    """Return attributes with names of channels, if they have none."""
    if _DISPLAY in own_members(attributes):
        return attributes
    return {**attributes, _DISPLAY: {"channels": [{"label": name} for name in names]}}


def without_image(document: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the attributes of a group without those of its image, the others at their place."""
    own = own_members(document)
    others: dict[str, JSON] = {name: own[name] for name in own if name not in ("multiscales", LABEL)}
    if own is document:
        return others
    beside = {name: value for name, value in document.items() if name != "ome"}
    return {**beside, "ome": others} if set(others) - {"version"} else beside


def other_members(*images: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    """Return the attributes of two images, wherever they are; without channels that say the same."""
    found: list[dict[str, JSON]] = []
    for attributes in images:
        beside = {name: value for name, value in attributes.items() if name != "ome"}
        own = own_members(attributes)
        found.append(beside | {name: own[name] for name in own if own is attributes or name != "version"})
    shown = [others.get(_DISPLAY) for others in found]
    if _is_part(shown[0], shown[1]) or _is_part(shown[1], shown[0]):  # a copy has the defaults, too
        for others in found:
            others.pop(_DISPLAY, None)
    return found


def _is_part(a: JSON, b: JSON) -> bool:
    """Return True if `b` says all that `a` says."""
    if isinstance(a, dict) and isinstance(b, dict):
        return all(name in b and _is_part(value, b[name]) for name, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_is_part, a, b))
    return bool(a == b)


# -- conventions --------------------------------------------------------------------------------------

N5_NAMES = ("bdv", "paintera", "cosem", "n5-viewer")
PRECOMPUTED_NAME = "neuroglancer precomputed"


class Level(NamedTuple):
    """One resolution; all tuples have an entry for each axis."""

    shape: tuple[int, ...]
    step: tuple[int, ...]  # factors relative to the level before
    factors: tuple[int, ...]  # relative to the first level
    scale: tuple[float, ...]  # size of a voxel, in the axes' units
    translation: tuple[float, ...]  # centre of the first voxel, in the axes' units


class Kept(NamedTuple):
    """Members of a group's attributes, and properties that could not be kept."""

    name: str = ""
    omero: Mapping[str, JSON] = {}
    image_label: Mapping[str, JSON] = {}
    attributes: Mapping[str, JSON] = {}
    left_out: tuple[str, ...] = ()
    beside: Sequence[str] = ()  # notes among these on what is no part of the image


class NewImage(NamedTuple):
    """An image that is written, as the attributes of its group are to describe it."""

    axes: Sequence[ImageAxis]  # in the order of the arrays
    levels: Sequence[tuple[str, Level]]  # with their paths, full resolution first
    name: str = ""
    labels: bool = False
    data_type: str = ""
    method: str = ""  # by which levels were made
    source_image: str | None = None  # path of that which has these labels
    kept: Kept = Kept()


@dataclass(frozen=True)
class Change:
    """New units, sizes and positions of an image, and names of its channels."""

    units: tuple[str, ...]  # symbols, by dimension
    factors: tuple[float, ...]  # by which sizes of voxels change, by dimension
    places: tuple[Transformation, ...]  # of the levels
    names: Mapping[int, str] = field(default_factory=dict)  # of channels, by number
    colors: Mapping[int, str] = field(default_factory=dict)

    def moves(self, image: MultiscaleImage) -> bool:
        """Return True if the first voxel's corner is to be elsewhere in units of voxels."""
        first, wanted = image._metadata.levels[0].place, self.places[0]
        pairs = zip(first.scale, first.translation, wanted.scale, wanted.translation, strict=True)
        return any(abs(t / s - at / size) > 1e-9 for s, t, size, at in pairs)

    def resizes(self) -> bool:
        """Return True if sizes of voxels change."""
        return any(factor != 1 for factor in self.factors)


class Edit(NamedTuple):
    """A change of the attributes of a node, or of a document of another kind that has a key."""

    location: Location
    key: str | None  # None for attributes
    change: Callable[[Any], Any]


def plain(number: float) -> float:
    """Round a product to 14 digits: 0.04 * 1000 is 40, not 40.00000000000001."""
    return float(f"{number:.14g}")


class Convention(ABC):
    """A convention by which images are stored."""

    name: str
    has_channels = False  # it has names and colours of channels
    is_placed_in_voxels = False  # positions are whole voxels, so they change with sizes
    is_placed_at_its_group = False  # the position of an image is an attribute of its group
    reserved: frozenset[str]  # attributes of a group that describe an image
    level_members: frozenset[str] = frozenset()  # attributes of an array that say where a level lies

    def others(self, document: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the attributes of an image's group that say nothing of the image."""
        return {name: value for name, value in document.items() if name not in self.reserved}

    def beside(self, image: MultiscaleImage) -> list[str]:
        """Return notes on what is stored beside the levels, and a copy of the image lacks."""
        return []

    @abstractmethod
    def edits(self, image: MultiscaleImage, location: Location, change: Change) -> list[Edit]:
        """Return the edits that change an image; raise UnsupportedError for properties that have no place."""


class PyramidConvention(Convention):
    """A convention in which groups of levels are written."""

    format: FormatName
    prefix: str = ""  # of the names of levels; their number follows
    members: tuple[str, ...]  # attributes of a group that say what its levels are

    @property
    def slowest_first(self) -> bool:
        """True if x is the last axis; of N5 it is the first."""
        return not tree_format(self.format).reversed_axes

    @abstractmethod
    def check(self, axes: Sequence[ImageAxis], *, labels: bool, kind: str) -> None:
        """Raise InvalidArgumentError unless the convention can have these axes, in its own order."""

    def in_its_units(self, axes: list[ImageAxis], starts: list[float]) -> tuple[list[ImageAxis], list[float]]:
        """Return axes, and positions along them, in units that the convention can have together."""
        return axes, starts

    def has_own_units(self, level: Level) -> bool:
        """Return True if a level has its units in its array, where TensorStore reads them."""
        return True

    def level_attributes(
        self, axes: Sequence[ImageAxis], level: Level, start: Sequence[float] = (0.0,) * 3
    ) -> dict[str, JSON]:
        """Return the attributes of a level's array; `start` is where the group says that the image is."""
        return {}

    @abstractmethod
    def group_attributes(self, image: NewImage) -> dict[str, JSON]:
        """Return the attributes of the group of a pyramid."""

    def merged(
        self, stored: Mapping[str, JSON], made: Mapping[str, JSON], first: str, *, renamed: bool
    ) -> dict[str, JSON]:
        """Return the attributes of a group whose image has new levels; its first is called `first`."""
        return {**stored, **made}

    def cleared(self, stored: Mapping[str, JSON], first: str | None) -> dict[str, JSON]:
        """Return attributes without those of a pyramid; the level called `first` remains an image."""
        return {name: stored[name] for name in stored if first is not None or name not in self.members}
