"""Containers of BigDataViewer in N5, with an XML file beside them: ``setupN/timepointN/sN``.

Factors of levels are at the setup; the file has the sizes and places.  `bdv_containers` has other containers.

Setups and time points have numbers, which need not begin at 0 and may have gaps.  A setup with several time
points has a last axis t, whose indices are those numbers, so that all setups of a container line up; views
that are missing are zeros, as BigDataViewer shows them.

Source: BigDataViewer documentation, "About the BigDataViewer data format".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from chunkwise.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from chunkwise.extension import JSON, KvStoreDriver
from chunkwise.extension.inside import read_bounded
from chunkwise.extension.trees import Location
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.bdv_file import (
    NO_FILE,
    BdvFile,
    bdv_file_beside,
    edited_bdv_file,
    parse_bdv_file,
)
from chunkwise.images.conventions.convention import Change, Edit, NewImage
from chunkwise.images.conventions.n5 import N5Convention, Nodes
from chunkwise.images.conventions.n5_group import N5Group, attributes_if_there
from chunkwise.images.conventions.ome_groups import (
    ImageCollection,
)
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.joined import joined
from chunkwise.images.multiscale.metadata import (
    Axis,
    Transformation,
)

__all__ = ["BDV", "at_all_times", "bdv_images", "edits_of_file", "read_bdv_file"]


class _Bdv(N5Convention):
    name = "bdv"
    viewer = "BigDataViewer"
    members = ()
    needs_z = is_described_above = True

    def __init__(self, file: tuple[Location, str] | None = None) -> None:
        self._given = file  # directory and key of the XML file, if it isn't the one beside the container

    def find(self, at: N5Group) -> MultiscaleImage | ImageCollection | None:
        if at.groups("setup"):
            return bdv_images(at)
        above = at.location.parent
        if at.groups("timepoint"):
            file = NO_FILE if above is None else _file_of(above)
            return _image_of_setup(at, file, file.times or _times(at))
        if above is None or _number(at.location, "timepoint") < 0 or _number(above, "setup") < 0:
            return None
        return self._timepoint(at, above) if at.has_levels else None

    def _timepoint(self, at: N5Group, setup: Location) -> MultiscaleImage:
        """Return the image of one setup at one time, opened by itself."""
        container = setup.parent
        if container is None:
            return self.read(at)
        file, numbers = _file_of(container), (_number(at.location, "timepoint"), _number(setup, "setup"))
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

    def missing(self, change: Change, found: set[str]) -> dict[str, JSON]:
        return {} if "resolution" in found else super().missing(change, found)

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

    def in_order(place: Transformation) -> Transformation:
        return Transformation(*(tuple(part[dim] for dim in dims) for part in place))

    ordered = tuple(new.factors[dim] for dim in dims)
    wanted = replace(new, factors=ordered, places=tuple(map(in_order, new.places)))
    old = in_order(image._metadata.levels[0].place)
    return [Edit(above, file.name, partial(edited_bdv_file, setup=number, old=old, change=wanted))]


def bdv_images(at: N5Group, file: BdvFile | None = None) -> ImageCollection:
    """Return the setups of a container; `file` is by default the one beside it."""
    file = _file_of(at.location) if file is None else file
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
    return at_all_times(
        number,
        {time: f"timepoint{time}" for time in {*_times(at), *times}},
        lambda time: BDV.read(at.child(f"timepoint{time}"), name=name, beside=at.attributes, setup=setup),
        file,
        times,
        name=name,
        where=at.location.text,
    )


def _file_of(container: Location) -> BdvFile:
    """Return what the XML file beside a container says; nothing if there is none."""
    place = bdv_file_beside(container)
    return (None if place is None else read_bdv_file(place[0].store, place[0].path + place[1])) or NO_FILE


def read_bdv_file(store: KvStoreDriver, key: str) -> BdvFile | None:
    """Return what an XML file says; None if there is none."""
    value = read_bounded(store, key).value
    return None if value is None else parse_bdv_file(bytes(value), store.describe(key))


def at_all_times(
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
