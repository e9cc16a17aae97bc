"""Files of BigDataViewer in HDF5: ``tNNNNN/sNN/L/cells``, and factors of the levels in ``sNN/resolutions``.

Elements lie in the order z, y, x.  16-bit elements are unsigned, though the file says that they have a sign.

Source: BigDataViewer documentation, "About the BigDataViewer data format".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunkwise import TensorStore, cast
from chunkwise.errors import InvalidArgumentError, NotFoundError
from chunkwise.groups.group import Group
from chunkwise.images.multiscale.bdv_file import BdvFile, BdvSetup
from chunkwise.images.multiscale.bdv_setup import image_of_setup
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import (
    Axis,
    ImageMetadata,
    LevelMetadata,
    Transformation,
    cells,
    expect_numbers,
)
from chunkwise.images.multiscale.ome_groups import ImageCollection, open_level_of

__all__ = ["hdf5_images"]


def hdf5_images(group: Group, file: BdvFile) -> ImageCollection:
    """Return the setups of a file, of which `group` is the root."""
    times = [int(name[1:]) for name in group if name[:1] == "t" and name[1:].isdecimal()]
    numbers = {f"setup{number}": number for number in file.setups}
    return ImageCollection(
        lambda: list(numbers),
        lambda name: _setup(group, numbers[name], file, times),
        convention="bdv",
        location=group.location.text,
    )


def _setup(group: Group, number: int, file: BdvFile, there: Sequence[int]) -> MultiscaleImage:
    steps = group.get(f"s{number:02}/resolutions")
    if not isinstance(steps, TensorStore):
        raise NotFoundError(f"there is no array at {group.location.child(f's{number:02}/resolutions').text}")
    factors = np.asarray(steps.read().result()).tolist()
    setup = file.setups[number]
    return image_of_setup(
        number,
        {time: f"t{time:05}/s{number:02}" for time in {*there, *file.times}},
        lambda path: _view(group, path, factors, setup),
        file,
        file.times or there,
        name=setup.name or f"setup{number}",
        where=group.location.text,
    )


def _view(group: Group, path: str, factors: Sequence[object], setup: BdvSetup) -> MultiscaleImage:
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


def _unsigned(store: TensorStore) -> TensorStore:
    return cast(store, "uint16") if store.dtype.name == "int16" else store
