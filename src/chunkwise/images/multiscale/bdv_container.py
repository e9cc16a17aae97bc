"""The container that an XML file of BigDataViewer describes: N5, an HDF5 file, or OME-Zarr."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from chunkwise import Context
from chunkwise.copying.resolve import resolve
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import read_bounded
from chunkwise.extension.trees import Location
from chunkwise.groups.open_group import open_group
from chunkwise.images.multiscale.bdv_file import parse_bdv_file
from chunkwise.images.multiscale.bdv_hdf5 import hdf5_images
from chunkwise.images.multiscale.n5_bdv import bdv_images
from chunkwise.images.multiscale.ome_groups import ImageCollection

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
    value = read_bounded(location.store, key).value
    if value is None:
        return None
    where = location.store.describe(key)
    file = parse_bdv_file(bytes(value), where)
    if not file.container or "\\" in file.container:
        kind = "hdf5" if file.is_hdf5 else "n5"
        raise InvalidArgumentError(f"{where}: ImageLoader/{kind}: expected the path of a container")
    path = posixpath.normpath(posixpath.join("/", posixpath.dirname(key), file.container))
    container = location.at(path.lstrip("/") + "/")
    folder = location.text.rstrip("/").removesuffix(location.name)
    if folder != location.text.rstrip("/"):
        text = file.container if file.container.startswith("/") else f"{folder}{file.container}"
        container = container._replace(text=text)

    def images() -> ImageCollection:
        if file.is_hdf5:
            return hdf5_images(open_group(resolve(container, context), context=context), file)
        return bdv_images(open_group(container, format="n5", context=context), file)

    return container, images
