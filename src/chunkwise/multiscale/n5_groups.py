"""Images in N5 containers, in the layouts of n5-viewer, COSEM, Paintera and BigDataViewer.

* n5-viewer: ``s0``, ``s1``, … with ``pixelResolution``, the voxel size of full resolution, and
  ``downsamplingFactors`` at each, or ``scales`` for all of them at the group.
* COSEM: ``transform`` at each level, in C order, or in ``multiscales`` of the group.
* Paintera: ``painteraData``, and levels in ``data`` with ``multiScale``, ``resolution`` and ``offset``.
* BigDataViewer: ``setupN/timepointN/sN``; factors are at the setup, sizes and places in an XML file.

`chunkwise.multiscale.n5_levels` has what their attributes say of axes and levels.

Sources: n5-ij wiki "N5 Metadata Dialects"; n5 README of BigDataViewer; Paintera README, "Data";
neuroglancer documentation, data source n5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from chunkwise.api.stack import stack
from chunkwise.api.tensorstore import TensorStore
from chunkwise.binding import JSON
from chunkwise.errors import InvalidArgumentError, NotFoundError
from chunkwise.groups.group import Group
from chunkwise.hierarchy.attributes import read_attributes
from chunkwise.hierarchy.location import Location
from chunkwise.kvstore.value_bound import read_bounded
from chunkwise.multiscale.bdv_file import BdvSetup, parse_bdv_file
from chunkwise.multiscale.image import MultiscaleImage, placed
from chunkwise.multiscale.metadata import (
    Axis,
    ImageMetadata,
    Transformation,
)
from chunkwise.multiscale.n5_levels import cosem_group_levels, cosem_levels, factor_levels
from chunkwise.multiscale.ome_groups import ImageCollection, metadata_file, open_level_of
from chunkwise.n5.label_multisets import open_label_multisets
from chunkwise.spec.unit import Unit

__all__ = ["find_n5_images"]


def find_n5_images(group: Group) -> MultiscaleImage | ImageCollection | None:
    """Return the image, or images, that an N5 group holds; None if there is none."""
    attributes = group.attrs.asdict()
    if isinstance(group.get("setup0"), Group):
        setups = _bdv_file(group.location)
        return _collection(group, "setup", "bdv", lambda part: _setup(part, setups))
    if isinstance(group.get("timepoint0"), Group):
        above = group.location.parent
        return _setup(group, {} if above is None else _bdv_file(above))
    if "painteraData" in attributes and isinstance(group.get("data"), Group):
        return _image(_group(group, "data"), "paintera", name=group.location.name, beside=attributes)
    first = group.get("s0")
    if isinstance(first, TensorStore) or "multiscales" in attributes:
        if attributes.get("multiScale") is True and group.location.name.startswith("timepoint"):
            return _timepoint(group)
        is_cosem = "multiscales" in attributes or "transform" in (first.attrs if first is not None else ())
        paintera = attributes.get("multiScale") is True
        return _image(group, "cosem" if is_cosem else "paintera" if paintera else "n5-viewer")
    for prefix in ("c", "t"):
        below = group.get(f"{prefix}0")
        if isinstance(below, Group) and find_n5_images(below) is not None:
            return _collection(group, prefix, "n5-viewer", _only_image)
    return None


def _collection(
    group: Group, prefix: str, convention: str, open: Callable[[Group], MultiscaleImage]
) -> ImageCollection:
    return ImageCollection(
        lambda: _numbered(group, prefix),
        lambda name: open(_group(group, name)),
        convention=convention,
        location=group.location.text,
    )


def _numbered(group: Group, prefix: str) -> list[str]:
    """Return the members called `prefix` and a number; there may be gaps, which only a listing shows."""
    found = [name for name in group if name.startswith(prefix) and name.removeprefix(prefix).isdigit()]
    return sorted(found, key=lambda name: int(name.removeprefix(prefix)))


def _only_image(group: Group) -> MultiscaleImage:
    found = find_n5_images(group)
    if not isinstance(found, MultiscaleImage):
        raise InvalidArgumentError(f"{group.location.text}: there is no image with levels s0, s1, …")
    return found


def _group(group: Group, name: str) -> Group:
    found = group.get(name)
    if not isinstance(found, Group):
        raise NotFoundError(f"there is no group at {group.location.child(name).text}")
    return found


def _image(
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
    if convention == "cosem" and "multiscales" in attributes:
        axes, levels = cosem_group_levels(attributes["multiscales"], f"{where}: multiscales")
    else:
        stores = _stores(group)
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
        document=attributes,
    )
    return MultiscaleImage(
        metadata, lambda number: _open_level(group, metadata, number), location=group.location.text
    )


def _timepoint(group: Group) -> MultiscaleImage:
    """Return the image of one setup at one time, opened by itself."""
    setup = group.location.parent
    container = None if setup is None else setup.parent
    if setup is None or container is None:
        return _image(group, "bdv")
    number = int(setup.name.removeprefix("setup")) if setup.name.removeprefix("setup").isdigit() else -1
    return _image(group, "bdv", beside=_read_if_there(setup), bdv=_bdv_file(container).get(number))


def _setup(group: Group, setups: Mapping[int, BdvSetup]) -> MultiscaleImage:
    """Return the image of a setup; with a last axis t if there are several times."""
    number = group.location.name.removeprefix("setup")
    bdv = setups.get(int(number)) if number.isdigit() else None
    beside = group.attrs.asdict()
    times = _numbered(group, "timepoint")
    name = bdv.name if bdv is not None and bdv.name else group.location.name
    first = _image(_group(group, times[0]), "bdv", name=name, beside=beside, bdv=bdv)
    if len(times) == 1:
        return first
    parts = [_group(group, time) for time in times]
    one, own = (1.0,), first._metadata
    levels = tuple(
        level._replace(place=Transformation((*level.place.scale, *one), (*level.place.translation, 0.0)))
        for level in own.levels
    )
    metadata = replace(own, axes=(*own.axes, Axis("t", "time")), levels=levels)

    def open_level(number: int) -> TensorStore:
        found = [part.get(own.levels[number].path) for part in parts]
        layers = [store for store in found if isinstance(store, TensorStore)]
        if len(layers) < len(parts):
            at = times[[isinstance(store, TensorStore) for store in found].index(False)]
            raise InvalidArgumentError(
                f"{own.levels[number].where}: expected an array in {at} too, but there is none"
            )
        units = [
            Unit(size, axis.unit) for size, axis in zip(levels[number].place.scale, own.axes, strict=False)
        ]
        whole = stack(layers, -1, dimension_units=[*units, None])
        return placed(whole, metadata.axes, levels[number].place, levels[0].place)

    return MultiscaleImage(metadata, open_level, location=group.location.text)


def _bdv_file(container: Location) -> Mapping[int, BdvSetup]:
    """Return what the XML file beside a container says of its setups; nothing if there is none."""
    above = container.parent
    if above is None:
        return {}
    key = f"{above.path}{container.name.removesuffix('.n5')}.xml"
    value = read_bounded(above.store, key).value
    return {} if value is None else parse_bdv_file(bytes(value), above.store.describe(key)).setups


def _read_if_there(location: Location) -> dict[str, JSON]:
    try:
        return read_attributes(location)
    except NotFoundError:
        return {}


def _is_labels(group: Group, path: str, attributes: Mapping[str, JSON]) -> bool:
    """Return True if Paintera says that an image is one of labels."""
    data = attributes.get("painteraData")
    if isinstance(data, dict) and data.get("type") == "label":
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


def _stores(group: Group) -> list[TensorStore]:
    """Return the arrays s0, s1, … of a group."""
    stores: list[TensorStore] = []
    while isinstance(store := group.get(f"s{len(stores)}"), TensorStore):
        stores.append(store)
    if not stores:
        raise InvalidArgumentError(f"{metadata_file(group)}: there is no array s0 below it")
    return stores
