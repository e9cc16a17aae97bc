"""One image in N5: the arrays ``s0``, ``s1``, … of a group, whichever of them are there."""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise import TensorStore
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.trees import Location, read_attributes
from chunkwise.groups.group import Group
from chunkwise.images.multiscale.bdv_file import BdvSetup
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import ImageMetadata
from chunkwise.images.multiscale.n5_levels import cosem_group_levels, cosem_levels, factor_levels
from chunkwise.images.multiscale.ome_display import label_colors_of
from chunkwise.images.multiscale.ome_groups import metadata_file, open_level_of
from chunkwise.n5.label_multisets import open_label_multisets

__all__ = ["attributes_if_there", "n5_image", "n5_stores", "numbered", "subgroup"]


def numbered(group: Group, prefix: str) -> list[str]:
    """Return the members called `prefix` and a number, in order; without a gap if none are listed."""
    try:
        names = list(group)
    except UnsupportedError:
        names = []
        while group.get(f"{prefix}{len(names)}") is not None:
            names.append(f"{prefix}{len(names)}")
    found = [name for name in names if name.startswith(prefix) and _is_number(name.removeprefix(prefix))]
    return sorted(found, key=lambda name: int(name.removeprefix(prefix)))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def subgroup(group: Group, name: str) -> Group:
    """Return a group in a group; raise NotFoundError if there is none."""
    found = group.get(name)
    if not isinstance(found, Group):
        raise NotFoundError(f"there is no group at {group.location.child(name).text}")
    return found


def attributes_if_there(location: Location) -> dict[str, JSON]:
    """Return the attributes of a group; none if there is no group."""
    try:
        return read_attributes(location)
    except NotFoundError:
        return {}


def n5_stores(group: Group) -> tuple[dict[int, TensorStore], list[str]]:
    """Return the arrays s0, s1, … of a group by number, and which of them are missing or can't be read."""
    stores, problems = {}, []
    there = {int(name[1:]): name for name in numbered(group, "s")}
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


def n5_image(
    group: Group,
    convention: str,
    *,
    name: str = "",
    beside: Mapping[str, JSON] | None = None,
    bdv: BdvSetup | None = None,
) -> MultiscaleImage:
    """Return the image whose levels are in `group`; `beside` has more of its attributes."""
    attributes = {**(beside or {}), **group.attrs.asdict()}
    where = metadata_file(group)
    problems: list[str] = []
    colors: list[str] = []
    if convention == "cosem" and "multiscales" in attributes:
        axes, levels = cosem_group_levels(attributes["multiscales"], f"{where}: multiscales")
    else:
        stores, problems = n5_stores(group)
        if not stores:
            raise InvalidArgumentError(f"{where}: there is no array s0 below it")
        if convention == "cosem":
            axes, levels = cosem_levels(group, stores)
        else:
            axes, levels = factor_levels(group, stores, attributes, bdv)
    metadata = ImageMetadata(
        convention,
        axes,
        levels,
        name or str(attributes.get("name") or ""),
        is_labels=_is_labels(group, levels[0].path, attributes),
        label_colors=label_colors_of(attributes.get("image-label") or {}, f"{where}: image-label", colors),
        document=attributes,
        problems=(*problems, *colors, *(() if bdv is None else bdv.problems)),
    )
    return MultiscaleImage(
        metadata, lambda number: _open_level(group, metadata, number), location=group.location.text
    )


def _is_labels(group: Group, path: str, attributes: Mapping[str, JSON]) -> bool:
    """Return True if an image is one of labels: Paintera says so, or what was copied from OME-Zarr."""
    data = attributes.get("painteraData")
    if "image-label" in attributes or (isinstance(data, dict) and data.get("type") == "label"):
        return True
    first = group.get(path) if "multiScale" in attributes else None
    marked = isinstance(first, TensorStore) and first.attrs.get("isLabelMultiset") is True
    return marked or attributes.get("isLabelMultiset") is True


def _open_level(group: Group, metadata: ImageMetadata, number: int) -> TensorStore:
    def labels_of(store: TensorStore) -> TensorStore:
        is_multiset = store.attrs.get("isLabelMultiset") is True
        return (
            open_label_multisets(group.location.child(metadata.levels[number].path)) if is_multiset else store
        )

    return open_level_of(group, metadata, number, labels_of)
