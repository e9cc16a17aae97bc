"""``open_multiscale``: finds out which kind of image is at a place, and opens it.

For arrays without image metadata, only labels and units are known.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from chunkwise import Context, TensorStore
from chunkwise.copying.copy_place import find_unfinished_copy
from chunkwise.copying.pictures import natural
from chunkwise.copying.resolve import Place, resolve, resolved_node
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError
from chunkwise.extension.inside import with_storage_options
from chunkwise.extension.trees import Location
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.convention import says_labels
from chunkwise.images.conventions.ome_groups import Options, is_listed_as_labels
from chunkwise.images.conventions.ome_metadata import label_colors_of
from chunkwise.images.multiscale.array_axes import ArrayAxis, image_of_array
from chunkwise.images.multiscale.find_images import Multiscale, find_images, labels_alone
from chunkwise.images.multiscale.image import MultiscaleImage, placed
from chunkwise.images.multiscale.metadata import (
    Axis,
    ImageMetadata,
    LevelMetadata,
    Transformation,
    axis_kind,
    axis_names,
    symbol_of,
)

__all__ = ["Multiscale", "image_of_arrays", "open_multiscale", "single_array"]


# -- arrays as images ---------------------------------------------------------------------------------

# Arrays without metadata of an image of their own, as images.


def single_array(
    store: TensorStore, place: str = "", assumed: str = "", image: object = None
) -> MultiscaleImage:
    """Return an array as an image of one level, with what an image says of which it is a level.

    `place` names an array that isn't a node, such as a folder of pictures, about which something is
    `assumed`; `image` is as for `image_of_array`.
    """
    kvstore = store.kvstore
    if kvstore is None:
        name, location = place.rstrip("/").rpartition("/")[2], place or "memory"
    else:
        name = kvstore.path.rstrip("/").rpartition("/")[2]
        try:
            location = store.url
        except NotImplementedError:  # a store of another library
            location = kvstore.path
    known = image_of_array(store, image)
    axes, level = _placed_axes(store, known.axes, "", location)
    problems: list[str] = []
    metadata = ImageMetadata(
        "raw",
        axes,
        (level,),
        name,
        known.shown,
        is_labels=known.is_labels is True,
        label_colors=label_colors_of(known.image_label, f"{location}: image-label", problems),
        problems=(*known.notes, *problems),
        assumed=(*filter(None, [assumed]), *known.assumed(store, [axis.name for axis in axes])),
    )
    if known.image is not None:
        store = placed(store, axes, level.place, level.place)
    return MultiscaleImage(metadata, lambda _: store, location=location)


def image_of_arrays(
    arrays: Mapping[str, TensorStore], name: str, location: str, *, is_labels: bool
) -> MultiscaleImage:
    """Return arrays, by path, as the levels of an image of which only labels and units are known."""
    stores = list(arrays.values())
    found = [
        _placed_axes(store, [ArrayAxis()] * store.rank, path, location) for path, store in arrays.items()
    ]
    levels = tuple(level for _, level in found)
    metadata = ImageMetadata("raw", found[0][0], levels, name, is_labels=is_labels)
    return MultiscaleImage(metadata, lambda number: stores[number], location=location)


def _placed_axes(
    store: TensorStore, known: list[ArrayAxis] | tuple[ArrayAxis, ...], path: str, location: str
) -> tuple[tuple[Axis, ...], LevelMetadata]:
    """Return the axes of an array and its place; unknown properties are those of the array itself."""
    names = axis_names(store, [a.name or label for a, label in zip(known, store.domain.labels, strict=True)])
    axes, scale, start = [], [], []
    for dim, (name, axis, unit) in enumerate(zip(names, known, store.dimension_units, strict=True)):
        size, base = (1.0, "") if unit is None else (unit.multiplier, unit.base_unit)
        if axis.size is not None:
            size, base = axis.size, axis.unit
        name = name or f"dim_{dim}"
        axes.append(Axis(name, axis.kind or axis_kind(name), symbol_of(base)))
        scale.append(size)
        start.append((axis.start or 0.0) + store.origin[dim] * size)
    place = Transformation(tuple(scale), tuple(start))
    return tuple(axes), LevelMetadata(path, place, location)


# -- images -------------------------------------------------------------------------------------------

_SHOWN = 10


def open_multiscale(
    place: Place | Group | MultiscaleImage,
    *,
    name: str | None = None,
    strict: bool = True,
    drafts: bool = False,
    format: str | None = None,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Multiscale:
    """Open an image at several resolutions, or a collection of such images.

    Reads OME-Zarr 0.1 to 0.5, in directories and in archives (``*.ozx``, ``*.zip``), the N5 layouts of
    n5-viewer, COSEM, Paintera and BigDataViewer, TIFF files, and neuroglancer's precomputed volumes. Only the
    metadata of the opened object is read: levels, labels, wells and fields are opened when they are looked
    up.

    Parameters
    ----------
    place : LocationLike, Group, TensorStore or MultiscaleImage
        The image, plate, well, group of labels or container, or an XML file of BigDataViewer; an array is an
        image of one level, whatever names it: a picture, a spec or a file with one, a folder of pictures.
    name : str, optional
        Which image, if a group has several; by default the first.
    strict : bool
        Whether wrong metadata is an error, which names the file and the member.  Otherwise it is a warning,
        and the levels are the arrays in the group, as they are.
    drafts : bool
        Whether drafts of OME-Zarr 0.6 are read too.
    format : {"zarr3", "zarr2", "n5"}, optional
        Format of a directory without a document of its own; see `open_group`.
    context : Context, optional
        Source of the resources of a spec and of arrays.
    storage_options : mapping, optional
        As for `open_group`.

    Returns
    -------
    MultiscaleImage, Plate, Well or ImageCollection
        A collection is a mapping of names to images: labels, the series of bioformats2raw, the setups of
        BigDataViewer, the channels of n5-viewer.

    Raises
    ------
    NotFoundError
        If there is nothing.
    InvalidArgumentError
        If there is no image, or its metadata is wrong.
    UnsupportedError
        If the metadata has a version or transformations that can't be read.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/image.zarr"
    >>> scan = chunkwise.array(np.zeros((64, 96), "uint16"))
    >>> _ = chunkwise.downsample_pyramid(scan, path, units=["0.5 um"] * 2, levels=2).result()
    >>> image = chunkwise.open_multiscale(path)
    >>> [level.shape for level in image.levels], image.scales[1]
    ([(64, 96), (32, 48), (16, 24)], (1.0, 1.0))
    >>> image.level_for("1 um"), str(image.levels[1].dimension_units[0])
    (1, 'um')
    """
    options = Options(strict, drafts)
    if isinstance(place, MultiscaleImage):
        return place
    place = with_storage_options(place, storage_options)
    if isinstance(place, Group):
        group = place
    else:
        resolved = resolve(place, context)
        if resolved.images is not None:
            described: Multiscale = resolved.images()
            return described
        if resolved.is_view:
            return single_array(resolved.as_array(), resolved.named, resolved.assumed, image=resolved.image)
        try:  # the likely case, with as few requests as a group takes
            group = open_group(resolved, format=format, context=context)
        except (InvalidArgumentError, NotFoundError):
            if resolved.kind != "array":
                raise
            assert resolved.location is not None
            volume = None if resolved.array is None else _precomputed(resolved.location, context)
            return volume or single_array(resolved.as_array(), resolved.named, resolved.assumed)
    try:
        found = find_images(group, options, name)
    except ChunkwiseError as e:
        if strict or isinstance(e, OSError):
            raise
        warnings.warn(f"{e.message}; the arrays are taken as they are", stacklevel=2)
        return _raw_image(group)
    is_elsewhere = not isinstance(place, Group) and resolved.asked != group.location
    there = resolved if is_elsewhere else resolved_node(group._node)
    if found is None and (there.is_file or there.kind == "array"):  # perhaps a file with one array alone
        with suppress(InvalidArgumentError):
            found = single_array(there.as_array())
    if found is None:
        found = labels_alone(group, options)
    if found is None:
        raise InvalidArgumentError(_no_image(group))
    return found


def _precomputed(location: Location, context: Context | None) -> MultiscaleImage | None:
    """Return the precomputed volume at a location as an image; None if there is none."""
    from chunkwise.images.conventions.precomputed import precomputed_image  # with the driver, which few need

    return precomputed_image(location, context)


def _no_image(group: Group) -> str:
    """Return the text of an error, with the expected metadata and the images nearby."""
    members = list(group.items())
    images = [name for name, member in members[:50] if isinstance(member, Group) and _is_known(member)]
    arrays = [name for name, member in members if isinstance(member, TensorStore)]
    if find_unfinished_copy(group.location) is not None:
        return (
            f"{group.location.text}: an image is being written there, or its writing was interrupted: "
            "result() of the future of downsample_pyramid waits for it, and resume=True goes on with it"
        )
    text = (
        f"{group.location.text}: no image, plate or well: expected attributes of OME-Zarr "
        '("multiscales", "plate", "well") or those of a viewer of N5'
    )
    for what, names in (("images below it", images), ("arrays in it", arrays)):
        if names:
            text += f"; {what}: {', '.join(names[:_SHOWN])}{', …' if len(names) > _SHOWN else ''}"
    return text


def _is_known(group: Group) -> bool:
    try:
        return find_images(group, Options()) is not None
    except ChunkwiseError:
        return True  # of an image that can't be read


def _raw_image(group: Group) -> MultiscaleImage:
    """Return the arrays in a group as the levels of an image, in the order of their numbers."""
    arrays = dict(sorted(group.arrays(), key=lambda item: natural(item[0])))
    if not arrays:
        raise InvalidArgumentError(f"{group.location.text}: there is no array that could be a level")
    rank = next(iter(arrays.values())).rank
    levels = {name: store for name, store in arrays.items() if store.rank == rank}
    own = [group.attrs, *(store.attrs for store in levels.values())]
    is_labels = is_listed_as_labels(group) or any(map(says_labels, own))
    return image_of_arrays(levels, group.basename, group.location.text, is_labels=is_labels)
