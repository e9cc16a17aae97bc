"""The container that an XML file of BigDataViewer describes: in N5, OME-Zarr or an HDF5 file.

In HDF5 views are ``tNNNNN/sNN/L/cells``, in the order z, y, x, with the factors of the levels in
``sNN/resolutions``.  There, 16-bit elements are unsigned, though the file says that they have a sign.  In
OME-Zarr the XML file names the image of each view, or there is one image whose channels are the setups; of an
image with other axes than those of space a view is one part.  The XML file has the sizes and places, and the
image only the factors of its levels.

Sources: BigDataViewer documentation, "About the BigDataViewer data format"; bigdataviewer-omezarr README;
``XmlIoAllenOMEZarrLoader`` of multiview-reconstruction; documentation of MoBIE, "Image data formats".
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

import numpy as np

from chunkwise import Context, TensorStore, Unit, cast, overlay
from chunkwise.copying.resolve import resolve
from chunkwise.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from chunkwise.extension.trees import Location, locate
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.bdv import at_all_times, bdv_images, read_bdv_file
from chunkwise.images.conventions.bdv_file import (
    BdvFile,
    BdvSetup,
    BdvView,
)
from chunkwise.images.conventions.n5_group import N5Group
from chunkwise.images.conventions.ome_groups import (
    ImageCollection,
    Options,
    image_of,
    open_level_of,
)
from chunkwise.images.conventions.ome_metadata import ome_members
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import (
    Axis,
    ImageMetadata,
    LevelMetadata,
    Transformation,
    cells,
    expect_numbers,
    metadata_file,
)

__all__ = ["container_of_file"]


def container_of_file(
    location: Location, context: Context | None
) -> tuple[Location, Callable[[], ImageCollection]] | None:
    """Return the location of the container that a file names, and what opens its images; None if there is
    no file.

    Raises
    ------
    InvalidArgumentError, UnsupportedError
        If it is another XML file, or names no container.
    """
    key = location.path.rstrip("/")
    file = read_bdv_file(location.store, key)
    if file is None:
        return None
    container = _container(location, file, location.store.describe(key), context)

    def images() -> ImageCollection:
        if file.kind == "hdf5":
            return _hdf5_images(open_group(resolve(container, context), context=context), file)
        if file.kind != "n5":
            return _zarr_images(container, context, file)
        return bdv_images(N5Group(open_group(container, format="n5", context=context)), file)

    return container, images


def _container(location: Location, file: BdvFile, where: str, context: Context | None) -> Location:
    """Return the location of the container of an XML file at a location."""
    text, scheme = file.container, re.match(r"([a-z0-9]+):/", file.container)
    if scheme is not None and scheme[1] == "file" and location.base.get("driver") == "file":
        text = unquote(text.removeprefix("file:").removeprefix("//"))
    elif scheme is not None:
        if scheme[1] not in ("s3", "gs"):
            raise UnsupportedError(
                f"{where}: expected a path, or a URL of S3 or Google Cloud: {text[:200]!r}"
            )
        found = locate(text, context)
        own, named = location.base, found.base
        if all(own.get(name) == named.get(name) for name in ("driver", "bucket")):
            return location.at(found.path)._replace(text=text)  # read as the file is: with its options
        return found
    key = location.path.rstrip("/")
    path = posixpath.normpath(posixpath.join("/", posixpath.dirname(key), text))
    container = location.at(path.lstrip("/") + "/")
    folder = location.text.rstrip("/").removesuffix(location.name)
    if folder != location.text.rstrip("/"):
        container = container._replace(text=text if text.startswith("/") else f"{folder}{text}")
    return container


# -- HDF5 ------------------------------------------------------------------------------------------------


def _hdf5_images(group: Group, file: BdvFile) -> ImageCollection:
    """Return the setups of a file, of which `group` is the root."""
    times = [int(name[1:]) for name in group if name[:1] == "t" and name[1:].isdecimal()]
    numbers = {f"setup{number}": number for number in file.setups}
    return ImageCollection(
        lambda: list(numbers),
        lambda name: _hdf5_setup(group, numbers[name], file, times),
        convention="bdv",
        location=group.location.text,
    )


def _hdf5_setup(group: Group, number: int, file: BdvFile, there: Sequence[int]) -> MultiscaleImage:
    steps = group.get(f"s{number:02}/resolutions")
    if not isinstance(steps, TensorStore):
        raise NotFoundError(f"there is no array at {group.location.child(f's{number:02}/resolutions').text}")
    factors = np.asarray(steps.read().result()).tolist()
    setup = file.setups[number]
    return at_all_times(
        number,
        {time: f"t{time:05}/s{number:02}" for time in {*there, *file.times}},
        lambda time: _hdf5_view(group, f"t{time:05}/s{number:02}", factors, setup),
        file,
        file.times or there,
        name=setup.name or f"setup{number}",
        where=group.location.text,
    )


def _hdf5_view(group: Group, path: str, factors: Sequence[object], setup: BdvSetup) -> MultiscaleImage:
    """Return one setup at one time."""
    found = group.get(path)
    if not isinstance(found, Group):
        raise NotFoundError(f"there is no group at {group.location.child(path).text}")
    size = Transformation(setup.size[::-1], setup.start[::-1])
    levels = []
    for number, steps in enumerate(factors):
        where = f"{group.location.text}: {path}: resolutions[{number}]"
        step = expect_numbers(steps, 3, where, positive=True)[::-1]
        levels.append(LevelMetadata(f"{number}/cells", cells(step).then(size), where))
    if not levels:
        raise InvalidArgumentError(f"{found.location.text}: there are no levels")
    axes = tuple(Axis(name, "space", setup.unit) for name in "zyx")
    metadata = ImageMetadata("bdv", axes, tuple(levels), setup.name, problems=setup.problems)

    def open_level(number: int) -> TensorStore:
        return open_level_of(found, metadata, number, _unsigned)

    return MultiscaleImage(metadata, open_level, location=found.location.text)


# -- OME-Zarr --------------------------------------------------------------------------------------------


def _zarr_images(container: Location, context: Context | None, file: BdvFile) -> ImageCollection:
    """Return the setups of a container of OME-Zarr images, or of one whose channels are the setups."""
    views = file.views
    if file.kind == "ome.zarr":
        group = open_group(container, context=context)
        own, _ = ome_members(group.attrs.asdict(), metadata_file(group))
        times = tuple(enumerate(file.times or (0,)))
        views = {
            (time, setup): BdvView("", (setup, at))
            if "multiscales" in own
            else BdvView(f"setup{setup}/timepoint{time}", None)
            for setup in file.setups
            for at, time in times
        }
    numbers = {f"setup{number}": number for number in sorted({number for _, number in views})}
    return ImageCollection(
        lambda: list(numbers),
        lambda name: _zarr_setup(container, context, numbers[name], file, views),
        convention="bdv",
        location=container.text,
        problems=[f"no zgroup has setup {n}" for n in file.setups if f"setup{n}" not in numbers],
    )


def _zarr_setup(
    container: Location,
    context: Context | None,
    number: int,
    file: BdvFile,
    views: Mapping[tuple[int, int], BdvView],
) -> MultiscaleImage:
    setup = file.setups.get(number)
    if setup is None:
        raise InvalidArgumentError(f"{container.text}: the XML file has no ViewSetup {number}")
    own = {time: view for (time, of), view in views.items() if of == number}
    times = file.times or sorted(own)
    return at_all_times(
        number,
        {time: own[time].path if time in own else "" for time in {*own, *times}},
        lambda time: _zarr_view(container, context, own.get(time), setup),
        file,
        times,
        name=setup.name or f"setup{number}",
        where=container.text,
    )


def _zarr_view(
    container: Location, context: Context | None, view: BdvView | None, setup: BdvSetup
) -> MultiscaleImage:
    """Return one setup at one time: an image with the axes of space, in the order of the image."""
    if view is None:
        raise NotFoundError("the XML file has no zgroup for it")
    at = open_group(container.child(view.path) if view.path else container, context=context)
    whole = image_of(at, Options(drafts=True))._metadata
    shown = [dim for dim, axis in enumerate(whole.axes) if axis.name in ("x", "y", "z")]
    index: list[int | slice] = [slice(None)] * len(whole.axes)
    others = [dim for dim in reversed(range(len(whole.axes))) if dim not in shown]
    given = view.indices or ()
    if view.path == "":  # setups are channels, whether there is an axis of times or not
        given = tuple(given[0] if whole.axes[dim].name == "c" else given[1] for dim in others)
    for at_dim, dim in enumerate(others):
        index[dim] = given[at_dim] if at_dim < len(given) else 0

    def taken(store: TensorStore, number: int) -> TensorStore:
        for dim in others:
            n, one = store.shape[dim], index[dim]
            if isinstance(one, int) and one >= n:
                raise InvalidArgumentError(
                    f"{at.location.text}: axis {whole.axes[dim].name} has {n} elements; there is no {one}"
                )
        if not others:
            return store
        units = [Unit(size, setup.unit) for size in levels[number].place.scale]
        return overlay([store[tuple(index)]], dimension_units=units)  # a view would stand for its array

    order = ["xyz".index(whole.axes[dim].name) for dim in shown]
    voxel = Transformation(tuple(setup.size[k] for k in order), tuple(setup.start[k] for k in order))
    first = whole.levels[0].place.scale
    levels = []
    for level in whole.levels:
        factors = [round(level.place.scale[dim] / first[dim], 9) for dim in shown]
        levels.append(level._replace(place=cells(factors).then(voxel)))
    problems = list(setup.problems)
    if view.indices is None and others:
        full = at.get(levels[0].path)
        sizes = [full.shape[dim] for dim in others] if isinstance(full, TensorStore) else []
        if any(n > 1 for n in sizes):
            names = ", ".join(whole.axes[dim].name for dim in others)
            problems.append(f"{at.location.text}: no indicies say which part is meant; index 0 of {names} is")
    metadata = ImageMetadata(
        "bdv",
        tuple(Axis(whole.axes[dim].name, "space", setup.unit) for dim in shown),
        tuple(levels),
        setup.name,
        problems=tuple(problems),
    )

    def open_level(number: int) -> TensorStore:
        return open_level_of(at, metadata, number, lambda store: taken(store, number))

    return MultiscaleImage(metadata, open_level, location=at.location.text)


def _unsigned(store: TensorStore) -> TensorStore:
    return cast(store, "uint16") if store.dtype.name == "int16" else store
