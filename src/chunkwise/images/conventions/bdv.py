"""Containers of BigDataViewer: ``setupN/timepointN/sN`` in N5, with an XML file beside them; HDF5; OME-Zarr.

Factors of levels are at the setup in N5; the file (`bdv_file`) has the sizes and places.

Setups and time points have numbers, which need not begin at 0 and may have gaps.  A setup with several time
points has a last axis t, whose indices are those numbers, so that all setups of a container line up; views
that are missing are zeros, as BigDataViewer shows them.

In HDF5 views are ``tNNNNN/sNN/L/cells``, in the order z, y, x, with the factors of the levels in
``sNN/resolutions``.  There, 16-bit elements are unsigned, though the file says that they have a sign.  In
OME-Zarr the XML file names the image of each view, or there is one image whose channels are the setups; of an
image with other axes than those of space a view is one part.  The image has only the factors of its levels.

Sources: BigDataViewer documentation, "About the BigDataViewer data format"; bigdataviewer-omezarr README;
``XmlIoAllenOMEZarrLoader`` of multiview-reconstruction; documentation of MoBIE, "Image data formats".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from chunkwise import Context, TensorStore, Unit, cast, overlay
from chunkwise.copying.resolve import resolve
from chunkwise.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.trees import Location
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.bdv_file import (
    NO_FILE,
    BdvFile,
    BdvSetup,
    BdvView,
    bdv_file_beside,
    container_of,
    edited_bdv_file,
    file_of,
    read_bdv_file,
)
from chunkwise.images.conventions.convention import Change, Edit, NewImage, n_images
from chunkwise.images.conventions.n5 import N5Convention, Nodes, expect_one_unit
from chunkwise.images.conventions.n5_group import N5Group, attributes_if_there
from chunkwise.images.conventions.ome_groups import ImageCollection, Options, image_in, image_of
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

__all__ = ["BDV", "container_of_file", "edits_of_file"]


class _Bdv(N5Convention):
    name = "bdv"
    viewer = "BigDataViewer"
    members = ()
    needs_z = is_described_above = True

    def __init__(self, file: tuple[Location, str] | None = None) -> None:
        self._given = file  # directory and key of the XML file, if it isn't the one beside the container

    def find(self, at: N5Group) -> MultiscaleImage | ImageCollection | None:
        if at.groups("setup"):
            return _bdv_images(at)
        above = at.location.parent
        if at.groups("timepoint"):
            file = NO_FILE if above is None else file_of(above)
            return _image_of_setup(at, file, file.times or _times(at))
        if above is None or _number(at.location, "timepoint") < 0 or _number(above, "setup") < 0:
            return None
        return self._timepoint(at, above) if at.has_levels else None

    def _timepoint(self, at: N5Group, setup: Location) -> MultiscaleImage:
        """Return the image of one setup at one time, opened by itself."""
        container = setup.parent
        if container is None:
            return self.read(at)
        file, numbers = file_of(container), (_number(at.location, "timepoint"), _number(setup, "setup"))
        return self.read(at, beside=attributes_if_there(setup), setup=file.setup_at(*numbers))

    def stack_path(self, channel: int | None, time: int | None) -> str:
        return f"setup{channel or 0}/timepoint{time or 0}"

    def stack_attributes(self, path: str, image: NewImage) -> dict[str, dict[str, JSON]]:
        own: dict[str, JSON] = {"multiScale": True, "resolution": list(image.levels[0][1].scale)}
        factors = [list(level.factors) for _, level in image.levels]
        above = path.rpartition("/")[0]
        return {path: own, above: {"downsamplingFactors": factors, "dataType": image.data_type}}

    def edits(self, image: MultiscaleImage, location: Location, change: Change) -> list[Edit]:
        """Return the edits of the groups of a setup, at all times if the XML file has its places."""
        file = self._file(location)
        setup = location.parent if _number(location, "timepoint") >= 0 else location
        assert setup is not None, "a time is in a setup"
        at = N5Group(open_group(setup, format="n5"))
        edits: list[Edit] = []
        for name in at.groups("timepoint"):
            if setup is location or file is not None or name == location.name:
                part = self.read(at.child(name), beside=at.attributes)
                own = super().edits(part, setup.child(name), _of_time(change, image, len(part.axes)))
                edits += [one for one in own if not edits or one.location.path != setup.path]
        if file is None:
            return edits
        (above, key), number = file
        old = image._metadata.levels[0].place
        return [*edits, Edit(above, key, partial(edited_bdv_file, setup=number, old=old, change=change))]

    def place_edits(self, image: MultiscaleImage, change: Change, nodes: Nodes) -> list[Edit]:
        if self._file(nodes.groups[0]) is not None:  # which has the positions
            return []
        return super().place_edits(image, change, nodes)

    def check_affine(self) -> None:
        raise UnsupportedError("translation: a container without an XML file has no positions")

    def _file(self, location: Location) -> tuple[tuple[Location, str], int] | None:
        """Return where the XML file of a setup, or a time of one, is, and the number of the setup."""
        setup = location if _number(location, "setup") >= 0 else location.parent
        container = None if setup is None else setup.parent
        file = self._given or (None if container is None else bdv_file_beside(container))
        if setup is None or file is None or file[0].store.read(file[0].path + file[1]).value is None:
            return None
        return file, _number(setup, "setup")


def _of_time(change: Change, image: MultiscaleImage, rank: int) -> Change:
    """Return the change of an image at one time, with the axes before that of times."""
    old = [level.place for level in image._metadata.levels]
    of_times = [[[part[rank:] for part in place] for place in places] for places in (old, change.places)]
    if of_times[0] != of_times[1] or any(change.units[rank:]):
        raise UnsupportedError("bdv has no place for the unit, distance and start of times")
    new = tuple(Transformation(place.scale[:rank], place.translation[:rank]) for place in change.places)
    return replace(change, units=change.units[:rank], factors=change.factors[:rank], places=new)


BDV: N5Convention = _Bdv()


def edits_of_file(image: MultiscaleImage, file: Location, setup: Location, change: Change) -> list[Edit]:
    """Return the edits of a setup that an XML file at a location describes, which has its sizes and places.

    A container in N5 says them too, at `setup`; HDF5 and OME-Zarr have nothing of theirs to be edited.
    """
    above, number = file.parent, _number(setup, "setup")
    assert above is not None, "a file has a name"
    found = read_bdv_file(above.store, above.path + file.name)
    if found is not None and found.kind == "n5":
        return _Bdv((above, file.name)).edits(image, setup, change)
    dims = [dim for name in "xyz" for dim, axis in enumerate(image.axes) if axis.name == name]
    if len(dims) < 3:
        raise UnsupportedError(f"{file.text}: a setup without x, y and z can't be edited")
    new = _of_time(change, image, 3)
    expect_one_unit(new.units, BDV.name)

    def in_order(place: Transformation) -> Transformation:
        return Transformation(*(tuple(part[dim] for dim in dims) for part in place))

    ordered = tuple(new.factors[dim] for dim in dims)
    wanted = replace(new, factors=ordered, places=tuple(map(in_order, new.places)))
    old = in_order(image._metadata.levels[0].place)
    return [Edit(above, file.name, partial(edited_bdv_file, setup=number, old=old, change=wanted))]


def _bdv_images(at: N5Group, file: BdvFile | None = None) -> ImageCollection:
    """Return the setups of a container; `file` is by default the one beside it."""
    file = file_of(at.location) if file is None else file
    names = at.numbered("setup")
    expected = {f"setup{number}" for number in file.setups}
    views = {setup for time in file.times for setup in file.setups if (time, setup) not in file.missing}
    absent = sorted(number for number in views if f"setup{number}" not in names)
    problems = [f"setup{n} is missing: {at.location.child(f'setup{n}').text}" for n in absent]
    if expected and file.container:
        problems += [f"the XML file has no setup {n[5:]}" for n in names if n not in expected]
    times = file.times or sorted({time for name in names for time in _times(at.child(name))})
    return ImageCollection(
        lambda: names,
        lambda name: _image_of_setup(at.child(name), file, times),
        convention="bdv",
        location=at.location.text,
        problems=problems,
    )


def _number(location: Location, prefix: str) -> int:
    text = location.name.removeprefix(prefix)
    return int(text) if location.name.startswith(prefix) and text.isascii() and text.isdigit() else -1


def _times(at: N5Group) -> list[int]:
    return [int(name.removeprefix("timepoint")) for name in at.numbered("timepoint")]


def _image_of_setup(at: N5Group, file: BdvFile, times: Sequence[int]) -> MultiscaleImage:
    """Return the image of a setup; with a last axis t if there are several times."""
    number = _number(at.location, "setup")
    setup = file.setups.get(number)
    name = setup.name if setup is not None and setup.name else at.location.name
    return _at_all_times(
        number,
        _times(at),
        lambda time: f"timepoint{time}",
        lambda time: BDV.read(at.child(f"timepoint{time}"), name=name, beside=at.attributes, setup=setup),
        file,
        name=name,
        where=at.location.text,
        times=times,
    )


def _at_all_times(
    number: int,
    there: Collection[int],
    path_of: Callable[[int], str],
    open_view: Callable[[int], MultiscaleImage],
    file: BdvFile,
    *,
    name: str,
    where: str,
    times: Collection[int] = (),
) -> MultiscaleImage:
    """Return the image of a setup; with a last axis t if there are several times.

    `path_of` returns the path of a view from `where`, and `times` are those that there should be.
    """
    times = file.times or times or there
    parts: dict[int, MultiscaleImage] = {}
    problems = []
    for time in sorted({*there, *times}):
        try:
            parts[time] = open_view(time)
        except (InvalidArgumentError, NotFoundError) as e:
            if time in times and (time, number) not in file.missing:
                problems.append(f"time {time} is missing: {e.message}")
    if not parts:
        raise InvalidArgumentError(f"{where}: there is no view with levels of setup {number}")
    first = next(iter(parts.values()))
    if len(times) == 1 or len({*parts, *times}) == 1:
        path = path_of(next(iter(parts)))
        return first._seen_from(path, where) if path else first
    members = [path_of(time).partition("/")[0] for time in parts]
    bounds = min(*parts, *times), max(*parts, *times)
    return joined(
        parts, Axis("t", "time"), bounds, location=where, name=name, problems=problems, members=members
    )


# -- containers that a file describes --------------------------------------------------------------------


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
    container = container_of(location, file, location.store.describe(key), context)

    def images() -> ImageCollection:
        if file.kind == "hdf5":
            return _hdf5_images(open_group(resolve(container, context), context=context), file)
        if file.kind != "n5":
            return _zarr_images(container, context, file)
        return _bdv_images(N5Group(open_group(container, format="n5", context=context)), file)

    return container, images


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

    def path_of(time: int) -> str:
        return f"t{time:05}/s{number:02}"

    return _at_all_times(
        number,
        there,
        path_of,
        lambda time: _hdf5_view(group, path_of(time), factors, setup),
        file,
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
    return image_in(found, metadata, _unsigned)


# -- OME-Zarr --------------------------------------------------------------------------------------------


def _zarr_images(container: Location, context: Context | None, file: BdvFile) -> ImageCollection:
    """Return the setups of a container of OME-Zarr images, or of one whose channels are the setups."""
    views = file.views
    if file.kind == "ome.zarr":
        group = open_group(container, context=context)
        is_one = n_images(group.attrs) > 0
        times = tuple(enumerate(file.times or (0,)))
        views = {
            (time, setup): BdvView("", (setup, at))
            if is_one
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
    return _at_all_times(
        number,
        own,
        lambda time: own[time].path,
        lambda time: _zarr_view(container, context, own.get(time), setup),
        file,
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
    return image_in(at, metadata, taken)


def _unsigned(store: TensorStore, number: int) -> TensorStore:
    return cast(store, "uint16") if store.dtype.name == "int16" else store
