"""``Convention``: the properties of axes, levels and channels that a convention stores, and where.

A convention is read, written and edited by one module.  Readers, pyramids, copies, the server and edits ask
its `Convention`; none of them knows a member of its documents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chunkwise.extension import JSON
from chunkwise.extension.trees import FormatName, Location, tree_format
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.image_axes import ImageAxis
from chunkwise.images.multiscale.metadata import Transformation

__all__ = [
    "N5_NAMES",
    "PRECOMPUTED_NAME",
    "Change",
    "Convention",
    "Edit",
    "Kept",
    "Level",
    "NewImage",
    "PyramidConvention",
    "plain",
]

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
