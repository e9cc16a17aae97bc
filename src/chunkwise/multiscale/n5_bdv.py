"""Containers of BigDataViewer: ``setupN/timepointN/sN``, with an XML file beside them.

Setups and time points have numbers, which need not begin at 0 and may have gaps.  A setup with several time
points has a last axis t, whose indices are those numbers, so that all setups of a container line up; views
that are missing are zeros, as BigDataViewer shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chunkwise.api.stack import overlay
from chunkwise.api.tensorstore import TensorStore
from chunkwise.binding import JSON
from chunkwise.errors import InvalidArgumentError, NotFoundError
from chunkwise.groups.group import Group
from chunkwise.hierarchy.attributes import read_attributes
from chunkwise.hierarchy.location import Location
from chunkwise.index_space import Dim, IndexDomain, d, newaxis
from chunkwise.multiscale.bdv_file import NO_FILE, BdvFile, parse_bdv_file
from chunkwise.multiscale.image import MultiscaleImage, placed
from chunkwise.multiscale.metadata import Axis, LevelMetadata, Transformation
from chunkwise.multiscale.n5_image import n5_image, numbered, subgroup
from chunkwise.multiscale.ome_groups import ImageCollection
from chunkwise.spec.unit import Unit

__all__ = ["bdv_images", "bdv_setup", "bdv_timepoint", "read_bdv_file"]

_SHOWN = 5


def bdv_images(group: Group) -> ImageCollection:
    """Return the setups of a container."""
    file = read_bdv_file(group.location)
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
    return n5_image(group, "bdv", beside=_read_if_there(setup), bdv=found)


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
    parts: dict[int, MultiscaleImage] = {}
    problems = []
    for time in sorted({*_times(group), *times}):
        expected = time in times and (time, number) not in file.missing
        try:
            part = subgroup(group, f"timepoint{time}")
            parts[time] = n5_image(part, "bdv", name=name, beside=group.attrs.asdict(), bdv=bdv)
        except (InvalidArgumentError, NotFoundError) as e:
            if expected:
                problems.append(f"time {time} is missing: {e.message}")
    if not parts:
        raise InvalidArgumentError(f"{group.location.text}: there is no view with levels s0, s1, …")
    first = next(iter(parts.values()))
    if len(times) == 1 or len({*parts, *times}) == 1:
        return first
    low, high = min(*parts, *times), max(*parts, *times)
    own = max((part._metadata for part in parts.values()), key=lambda metadata: len(metadata.levels))
    levels = tuple(
        level._replace(
            place=Transformation((*level.place.scale, 1.0), (*level.place.translation, float(low)))
        )
        for level in own.levels
    )
    others = [problem for part in parts.values() for problem in part._metadata.problems]
    metadata = replace(
        own,
        axes=(*own.axes, Axis("t", "time")),
        levels=levels,
        problems=tuple(dict.fromkeys([*problems, *others])),
    )

    def open_level(number: int) -> TensorStore:
        layers = _layers(parts, own.levels[number])
        one = next(iter(layers.values()))
        units = [
            Unit(size, axis.unit) for size, axis in zip(levels[number].place.scale, own.axes, strict=False)
        ]
        domain = IndexDomain([*one.domain, Dim(inclusive_min=low, exclusive_max=high + 1)])
        whole = overlay(
            [layer[d[-1][newaxis]][d[-1][t : t + 1]] for t, layer in layers.items()],
            domain=domain,
            fill_value=0,
            dimension_units=[*units, None],
        )
        return placed(whole, metadata.axes, levels[number].place, levels[0].place)

    return MultiscaleImage(metadata, open_level, location=group.location.text)


def _layers(parts: dict[int, MultiscaleImage], level: LevelMetadata) -> dict[int, TensorStore]:
    """Return the arrays of a level at those times that have it, each from 0 on and without labels."""
    layers: dict[int, TensorStore] = {}
    for time, part in parts.items():
        if level.path in part.paths:
            store = part.levels[part.paths.index(level.path)]
            layers[time] = store.label[("",) * store.rank].translate_to[(0,) * store.rank]
    return layers


def read_bdv_file(container: Location) -> BdvFile:
    """Return what the XML file beside a container says; nothing if there is none."""
    above = container.parent
    if above is None:
        return NO_FILE
    key = f"{above.path}{container.name.removesuffix('.n5')}.xml"
    value = above.store.read(key).value
    return NO_FILE if value is None else parse_bdv_file(bytes(value), above.store.describe(key))


def _read_if_there(location: Location) -> dict[str, JSON]:
    try:
        return read_attributes(location)
    except NotFoundError:
        return {}
