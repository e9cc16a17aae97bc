"""A group in N5, as conventions of images look at it: attributes, levels and members, each read once."""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise import TensorStore
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import cached_property
from chunkwise.extension.trees import Location, read_attributes
from chunkwise.groups.group import Group
from chunkwise.images.conventions.ome_groups import metadata_file

__all__ = ["LEVEL_MEMBERS", "N5_MEMBERS", "N5Group", "attributes_if_there"]

LEVEL_MEMBERS = (
    "pixelResolution", "downsamplingFactors", "transform", "affineTransform", "axes", "units", "resolution",
    "isLabelMultiset", "multiScale", "offset",
)  # fmt: skip
"""Attributes that say what a level is."""

N5_MEMBERS = (
    "n5", "axes", "units", "unit", "resolution", "offset", "scales", "downsamplingFactors", "pixelResolution",
    "multiscales", "multiScale", "painteraData", "isLabelMultiset", "dataType", "name",
)  # fmt: skip
"""Attributes that say what a group is."""


class N5Group:
    """A group in N5; what is asked of it is read once."""

    def __init__(self, group: Group) -> None:
        self.group, self.location = group, group.location

    @cached_property
    def attributes(self) -> dict[str, JSON]:
        """Its attributes."""
        return self.group.attrs.asdict()

    def numbered(self, prefix: str) -> list[str]:
        """Return the members called `prefix` and a number, in order; without a gap if none are listed."""
        try:
            names = list(self.group)
        except UnsupportedError:
            names = []
            while self.group.get(f"{prefix}{len(names)}") is not None:
                names.append(f"{prefix}{len(names)}")
        found = [name for name in names if name.startswith(prefix) and _is_number(name.removeprefix(prefix))]
        return sorted(found, key=lambda name: int(name.removeprefix(prefix)))

    def groups(self, prefix: str) -> list[str]:
        """Return the groups called `prefix` and a number."""
        return [name for name in self.numbered(prefix) if isinstance(self.group.get(name), Group)]

    def child(self, name: str) -> N5Group:
        """Return a group in it; raise NotFoundError if there is none."""
        found = self.group.get(name)
        if not isinstance(found, Group):
            raise NotFoundError(f"there is no group at {self.location.child(name).text}")
        return N5Group(found)

    @cached_property
    def has_levels(self) -> bool:
        """True if it has levels, or says so."""
        return "multiscales" in self.attributes or bool(self._stores[0])

    @cached_property
    def has_transforms(self) -> bool:
        """True if each level has its own place, as in COSEM."""
        stores = {} if "multiscales" in self.attributes else self._stores[0]
        return "multiscales" in self.attributes or any("transform" in s.attrs for s in stores.values())

    def stores(self) -> tuple[dict[int, TensorStore], list[str]]:
        """Return the arrays s0, s1, … by number, and which of them are missing or can't be read.

        Raises
        ------
        InvalidArgumentError
            If there is none.
        """
        if not self._stores[0]:
            raise InvalidArgumentError(f"{metadata_file(self.group)}: there is no array s0 below it")
        return self._stores

    @cached_property
    def _stores(self) -> tuple[dict[int, TensorStore], list[str]]:
        group = self.group
        stores, problems = {}, []
        there = {int(name[1:]): name for name in self.numbered("s")}
        for number in range(max(there, default=-1) + 1):
            at = group.location.describe(f"s{number}/attributes.json")
            try:
                store = group.get(there.get(number, f"s{number}"))
            except ChunkwiseError as e:
                problems.append(f"level s{number} can't be read: {e.message}")
                continue
            if isinstance(store, TensorStore):
                stores[number] = store
            else:
                problems.append(f"level s{number} is missing: there is no dataset at {at}")
        if not stores:
            return {}, problems
        rank = next(iter(stores.values())).rank
        for number, store in list(stores.items()):
            if store.rank != rank:
                problems.append(f"level s{number} has {store.rank} dimensions, but the first has {rank}")
                del stores[number]
        return stores, problems

    def is_labels(self, path: str, attributes: Mapping[str, JSON]) -> bool:
        """Return True if an image is one of labels: Paintera says so, or what was copied from labels."""
        data = attributes.get("painteraData")
        if isinstance(data, dict) and data.get("type") == "label":
            return True
        first = self.group.get(path)
        each = [attributes, first.attrs] if isinstance(first, TensorStore) else [attributes]
        return any("image-label" in own or own.get("isLabelMultiset") is True for own in each)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def attributes_if_there(location: Location) -> dict[str, JSON]:
    """Return the attributes of a group; none if there is no group."""
    try:
        return read_attributes(location)
    except NotFoundError:
        return {}
