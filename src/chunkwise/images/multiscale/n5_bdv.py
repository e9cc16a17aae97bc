"""Containers of BigDataViewer: ``setupN/timepointN/sN``, with an XML file beside them.

Setups and time points have numbers, which need not begin at 0 and may have gaps.  A setup with several time
points has a last axis t, whose indices are those numbers, so that all setups of a container line up; views
that are missing are zeros, as BigDataViewer shows them.
"""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise.extension.inside import read_bounded
from chunkwise.extension.trees import Location
from chunkwise.groups.group import Group
from chunkwise.images.multiscale.bdv_file import NO_FILE, BdvFile, parse_bdv_file
from chunkwise.images.multiscale.bdv_setup import image_of_setup
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.n5_image import attributes_if_there, n5_image, numbered, subgroup
from chunkwise.images.multiscale.ome_groups import ImageCollection

__all__ = ["bdv_images", "bdv_setup", "bdv_timepoint", "read_bdv_file"]


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
    return image_of_setup(
        number,
        {time: f"timepoint{time}" for time in {*_times(group), *times}},
        lambda path: n5_image(subgroup(group, path), "bdv", name=name, beside=beside, bdv=bdv),
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
