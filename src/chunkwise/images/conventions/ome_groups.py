"""Content of OME-Zarr groups: images with their labels, and series of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from chunkwise import TensorStore
from chunkwise.errors import (
    ChunkwiseError,
    InvalidArgumentError,
    NodeNotFoundError,
    NotFoundError,
    UnsupportedError,
)
from chunkwise.extension import JSON
from chunkwise.extension.inside import explains_foreign_names, others_left
from chunkwise.extension.trees import Location, is_root_of_file, map_requests, read_document
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.convention import ome_members
from chunkwise.images.conventions.ome_metadata import parse_ome_image
from chunkwise.images.multiscale.image import Members, MultiscaleImage, placed
from chunkwise.images.multiscale.metadata import ImageMetadata, expect_list, expect_text, metadata_file

__all__ = [
    "ImageCollection",
    "Options",
    "attempt",
    "child_group",
    "failures",
    "image_in",
    "image_of",
    "is_listed_as_labels",
    "labels_of_group",
    "listed_labels",
    "series_of",
]


T = TypeVar("T")


class Options(NamedTuple):
    """Options of reading images; see `chunkwise.images.multiscale.open.open_multiscale`."""

    strict: bool = True
    drafts: bool = False


def attempt(look: Callable[[], T]) -> T | None:
    """Return the result of a look-up; None if it is missing or can't be read."""
    try:
        return look()
    except (InvalidArgumentError, NotFoundError, UnsupportedError):
        return None


def failures(members: Mapping[str, object], group: Group | None = None) -> list[str]:
    """Return why members can't be opened; those of a group in a slow store are opened several at a time."""

    def failure(name: str) -> str | None:
        try:
            members[name]
        except ChunkwiseError as e:
            return e.message
        return None

    found = map_requests(None if group is None else group.location.store, failure, list(members))
    return [message for message in found if message is not None]


@explains_foreign_names("ImageCollection")
class ImageCollection(Members[MultiscaleImage]):
    """Images that belong together, by name, such as the setups of BigDataViewer; opened on look-up."""

    def __init__(
        self,
        names: Callable[[], Sequence[str]],
        open: Callable[[str], MultiscaleImage],
        *,
        convention: str,
        location: str,
        problems: Sequence[str] = (),
    ) -> None:
        super().__init__(names, open)
        self._convention, self._location, self._problems = convention, location, problems

    @property
    def convention(self) -> str:
        """``bdv``, ``n5-viewer``, ``bioformats2raw`` or ``labels``."""
        return self._convention

    @property
    def location(self) -> str:
        """Location of the group."""
        return self._location

    @property
    def problems(self) -> tuple[str, ...]:
        """Images that are missing or can't be read; opens each image."""
        return (*self._problems, *failures(self))

    def __repr__(self) -> str:
        return f"<chunkwise.ImageCollection ({self._convention}) at {self._location} {super().__repr__()}>"


def image_of(
    group: Group, options: Options, name: str | None = None, *, number: int | None = None
) -> MultiscaleImage:
    """Return the image in a group of OME-Zarr: the first, that of a name, or that of a number."""
    attributes = group.attrs.asdict()

    def shape_of(path: str) -> tuple[int, ...] | None:
        store = attempt(lambda: group.get(path))
        return store.shape if isinstance(store, TensorStore) else None

    def labels_of(path: str) -> tuple[str, ...]:
        store = attempt(lambda: group.get(path))
        names = store.attrs.get("_ARRAY_DIMENSIONS") if isinstance(store, TensorStore) else None
        return tuple(map(str, names)) if isinstance(names, list) else ()

    metadata = parse_ome_image(
        attributes,
        metadata_file(group),
        name=name,
        number=number,
        drafts=options.drafts,
        shape_of=shape_of,
        labels_of=labels_of,
    )
    if not metadata.is_labels and is_listed_as_labels(group):
        metadata = replace(metadata, is_labels=True)
    if name is None and number is None and is_root_of_file(group.location):
        others = [name for name, _ in group.groups() if name.startswith("image")]
        if others:
            note = others_left(others, group.location.text)
            metadata = replace(metadata, problems=(*metadata.problems, note))
    labels = Members(lambda: _label_names(group), lambda label: image_of(_labels(group, label), options))
    return image_in(group, metadata, labels=labels)


def image_in(
    group: Group,
    metadata: ImageMetadata,
    values_of: Callable[[TensorStore, int], TensorStore] = lambda store, number: store,
    labels: Mapping[str, MultiscaleImage] | None = None,
) -> MultiscaleImage:
    """Return the image whose levels are in a group, with the names, units and origin of its metadata."""

    def open_level(number: int) -> TensorStore:
        level = metadata.levels[number]
        store = group.get(level.path)
        if not isinstance(store, TensorStore):
            found = "nothing" if store is None else "a group"
            at = group.location.child(level.path).text
            raise InvalidArgumentError(f"{level.where}: expected an array at {at}, but there is {found}")
        store = values_of(store, number)
        if store.rank != len(metadata.axes):
            raise InvalidArgumentError(
                f"{level.where}: {store.rank} dimensions, but there are {len(metadata.axes)} axes"
            )
        return placed(store, metadata.axes, level.place, metadata.levels[0].place)

    return MultiscaleImage(metadata, open_level, location=group.location.text, labels=labels)


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
        lambda name: image_of(child_group(group, name, metadata_file(group)), options),
        convention=convention,
        location=group.location.text,
    )


def _labels(group: Group, name: str) -> Group:
    return child_group(group, f"labels/{name}", metadata_file(group))


def _label_names(group: Group) -> list[str]:
    """Return the names in the attributes of the group ``labels``: one request, also where there is none."""
    rules, location = group._node.rules, group.location.child("labels")
    key = rules.attributes_key or rules.group_key
    document = read_document(location.store, location.path + key, missing={})
    found = document.get(rules.attributes_member, {}) if rules.attributes_member else document
    return _names(found, location.describe(key))


def is_listed_as_labels(group: Group) -> bool:
    """Return True if the group above, called ``labels``, lists an image, which needs no ``image-label``."""
    above = next((above for above in group.location.parents if above.name == "labels"), None)
    return above is not None and group.location.path[len(above.path) :].strip("/") in listed_labels(above)


def listed_labels(location: Location) -> list[str]:
    """Return the paths of the images that the group at a location lists as labels; none if there is none."""
    return attempt(lambda: _listed(open_group(location))) or []


def _listed(group: Group) -> list[str]:
    return _names(group.attrs, metadata_file(group))


def _names(attributes: Mapping[str, JSON], where: str) -> list[str]:
    own, at = ome_members(attributes, where)
    if "labels" not in own:
        return []
    names = expect_list(own["labels"], f"{at}labels", "names", empty=True)
    return [expect_text(name, f"{at}labels[{i}]", "a name").strip("/") for i, name in enumerate(names)]


def child_group(group: Group, path: str, where: str) -> Group:
    try:
        found = group[path]
    except NodeNotFoundError:
        raise NotFoundError(
            f"{where} names {path}, but there is nothing at {group.location.child(path).text}"
        ) from None
    if not isinstance(found, Group):
        raise InvalidArgumentError(f"{where} names {path}, which is an array, not a group")
    return found
