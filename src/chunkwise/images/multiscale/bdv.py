"""Containers of BigDataViewer: N5, OME-Zarr or an HDF5 file, with an XML file beside them.

In N5 views are ``setupN/timepointN/sN``; in HDF5 they are ``tNNNNN/sNN/L/cells``, in the order z, y, x, with
the factors of the levels in ``sNN/resolutions``.  There, 16-bit elements are unsigned, though the file says
that they have a sign.  In OME-Zarr the XML file names the image of each view, or there is one image whose
channels are the setups; of an image with other axes than those of space a view is one part.  The file has the
sizes and places, and the image only the factors of its levels.

Setups and time points have numbers, which need not begin at 0 and may have gaps.  A setup with several time
points has a last axis t, whose indices are those numbers, so that all setups of a container line up; views
that are missing are zeros, as BigDataViewer shows them.

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
from chunkwise.extension.inside import read_bounded
from chunkwise.extension.trees import Location, locate
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.images.multiscale.bdv_file import (
    NO_FILE,
    BdvFile,
    BdvSetup,
    BdvView,
    parse_bdv_file,
)
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.joined import joined
from chunkwise.images.multiscale.metadata import (
    Axis,
    ImageMetadata,
    LevelMetadata,
    Transformation,
    cells,
    expect_numbers,
)
from chunkwise.images.multiscale.n5_image import attributes_if_there, n5_image, numbered, subgroup
from chunkwise.images.multiscale.ome_groups import (
    ImageCollection,
    Options,
    image_of,
    metadata_file,
    open_level_of,
)
from chunkwise.images.multiscale.ome_versions import ome_members

__all__ = ["bdv_images", "bdv_setup", "bdv_timepoint", "container_of_file", "read_bdv_file"]


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
    value = read_bounded(location.store, key).value
    if value is None:
        return None
    where = location.store.describe(key)
    file = parse_bdv_file(bytes(value), where)
    container = _container(location, file, where, context)

    def images() -> ImageCollection:
        if file.kind == "hdf5":
            return _hdf5_images(open_group(resolve(container, context), context=context), file)
        if file.kind != "n5":
            return _zarr_images(container, context, file)
        return bdv_images(open_group(container, format="n5", context=context), file)

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


def _at_all_times(
    number: int,
    views: Mapping[int, str],
    open_view: Callable[[int], MultiscaleImage],
    file: BdvFile,
    times: Sequence[int],
    *,
    name: str,
    where: str,
) -> MultiscaleImage:
    """Return the image of a setup; with a last axis t if there are several times.

    `views` has the path from `where` of each time, and `times` those that there should be.
    """
    parts: dict[int, MultiscaleImage] = {}
    problems = []
    for time in sorted(views):
        try:
            parts[time] = open_view(time)
        except (InvalidArgumentError, NotFoundError) as e:
            if time in times and (time, number) not in file.missing:
                problems.append(f"time {time} is missing: {e.message}")
    if not parts:
        raise InvalidArgumentError(f"{where}: there is no view with levels of setup {number}")
    first = next(iter(parts.values()))
    if len(times) == 1 or len({*parts, *times}) == 1:
        path = views[next(iter(parts))]
        return first._seen_from(path, where) if path else first
    members = [views[time].partition("/")[0] for time in parts]
    bounds = min(*parts, *times), max(*parts, *times)
    return joined(
        parts, Axis("t", "time"), bounds, location=where, name=name, problems=problems, members=members
    )


# -- N5 --------------------------------------------------------------------------------------------------


def bdv_images(group: Group, file: BdvFile | None = None) -> ImageCollection:
    """Return the setups of a container; `file` is by default the one beside it."""
    file = read_bdv_file(group.location) if file is None else file
    names = numbered(group, "setup")
    expected = {f"setup{number}" for number in file.setups}
    views = {setup for time in file.times for setup in file.setups if (time, setup) not in file.missing}
    absent = sorted(number for number in views if f"setup{number}" not in names)
    problems = [f"setup{n} is missing: {group.location.child(f'setup{n}').text}" for n in absent]
    if expected and file.container:
        problems += [f"the XML file has no setup {n[5:]}" for n in names if n not in expected]
    times = file.times or sorted({time for name in names for time in _times(subgroup(group, name))})
    return ImageCollection(
        lambda: names,
        lambda name: _image_of_setup(subgroup(group, name), file, times),
        convention="bdv",
        location=group.location.text,
        problems=problems,
    )


def bdv_setup(group: Group, file: BdvFile) -> MultiscaleImage:
    """Return the image of a setup that is opened by itself."""
    return _image_of_setup(group, file, file.times or _times(group))


def bdv_timepoint(group: Group) -> MultiscaleImage:
    """Return the image of one setup at one time, opened by itself."""
    setup = group.location.parent
    container = None if setup is None else setup.parent
    if setup is None or container is None:
        return n5_image(group, "bdv")
    found = read_bdv_file(container).setup_at(_number(group.location, "timepoint"), _number(setup, "setup"))
    return n5_image(group, "bdv", beside=attributes_if_there(setup), bdv=found)


def _number(location: Location, prefix: str) -> int:
    text = location.name.removeprefix(prefix)
    return int(text) if text.isascii() and text.isdigit() else -1


def _times(group: Group) -> list[int]:
    return [int(name.removeprefix("timepoint")) for name in numbered(group, "timepoint")]


def _image_of_setup(group: Group, file: BdvFile, times: Sequence[int]) -> MultiscaleImage:
    """Return the image of a setup; with a last axis t if there are several times."""
    number = _number(group.location, "setup")
    bdv = file.setups.get(number)
    name = bdv.name if bdv is not None and bdv.name else group.location.name
    beside = group.attrs.asdict()
    return _at_all_times(
        number,
        {time: f"timepoint{time}" for time in {*_times(group), *times}},
        lambda time: n5_image(subgroup(group, f"timepoint{time}"), "bdv", name=name, beside=beside, bdv=bdv),
        file,
        times,
        name=name,
        where=group.location.text,
    )


def read_bdv_file(container: Location) -> BdvFile:
    """Return what the XML file beside a container says; nothing if there is none."""
    above = container.parent
    if above is None:
        return NO_FILE
    key = f"{above.path}{container.name.removesuffix('.n5')}.xml"
    value = read_bounded(above.store, key).value
    return NO_FILE if value is None else parse_bdv_file(bytes(value), above.store.describe(key))


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
    return _at_all_times(
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
    return _at_all_times(
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
