"""Served arrays and images as neuroglancer's precomputed volumes: x, y, z and channels, uncompressed.

`chunkwise.core.driver.neuroglancer_precomputed` has the format.  Resolutions are in nanometres; an axis
without a unit of length has voxels of that many.
"""

from __future__ import annotations

import re
from math import prod

import numpy as np

from chunkwise import TensorStore, Unit
from chunkwise.core.driver.neuroglancer_precomputed.chunk_keys import parse_chunk_name
from chunkwise.core.driver.neuroglancer_precomputed.members import INFO_KEY, Encoding, Info, Scale, new_info
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension.inside import dump_bytes
from chunkwise.images.conventions.precomputed import as_volume
from chunkwise.images.multiscale.image import corner
from chunkwise.images.multiscale.metadata import unit_in
from chunkwise.images.server.answer import Computed, Content, Document
from chunkwise.images.server.encoded import for_browsers, served_chunk_shape
from chunkwise.images.server.image import ServedImage, shown_dims

__all__ = ["KEY", "PrecomputedVolume", "nanometres"]

KEY = INFO_KEY

_MOST_NBYTES = 1 << 23  # of a chunk, which a browser holds in memory of its graphics card
_SCALE_KEY = re.compile(r"\.(\d{1,4})/(.+)")


class PrecomputedVolume:
    """The keys and values of an image."""

    def __init__(self, image: ServedImage) -> None:
        self._dims, self._channel, others = shown_dims(image)
        if others:
            view, axes = image.levels[0].view, image.axes
            raise UnsupportedError(
                "a precomputed volume has x, y, z and channels, but this array also has "
                + ", ".join(f"{axes[dim].name} of {view.shape[dim]}" for dim in others)
                + "; neuroglancer shows it as zarr3"
            )
        self._views = [
            as_volume(for_browsers(level.view), (*self._dims, self._channel)) for level in image.levels
        ]
        self._chunks = [self._chunk_shape(level.view) for level in image.levels]
        self._corners = [
            corner(scale, at, image.scales[0])
            for scale, at in zip(image.scales, image.translations, strict=True)
        ]
        self.document = dump_bytes(self._info(image).document)

    def _chunk_shape(self, view: TensorStore) -> tuple[int, int, int]:
        chunk = served_chunk_shape(view, _MOST_NBYTES)
        x, y, z = (1 if dim is None else chunk[dim] for dim in self._dims)
        return x, y, z

    def _info(self, image: ServedImage) -> Info:
        first = self._views[0]
        kind = "segmentation" if image.is_labels and _is_integer(first) else "image"
        info = new_info(kind, first.dtype, first.shape[3])
        for number, (view, chunk) in enumerate(zip(self._views, self._chunks, strict=True)):
            x, y, z = (
                1.0 if dim is None else nanometres(image.scales[number][dim], image.axes[dim].unit)
                for dim in self._dims
            )
            offset = tuple(0 if dim is None else self._corners[number][dim] for dim in self._dims)
            scale = Scale(
                key=f".{number}",  # no member of a group has such a name
                size=view.shape[:3],
                voxel_offset=offset,
                resolution=(x, y, z),
                chunk_sizes=(chunk,),
                encoding=Encoding("raw"),
                block_size=None,
                sharding=None,
            )
            info = info.with_scale(scale)
        return info

    def content(self, key: str) -> Content | None:
        """Return the content of `key`."""
        if key == KEY:
            return Document(self.document)
        found = _SCALE_KEY.fullmatch(key)
        corners = None if found is None else parse_chunk_name(found[2])
        if found is None or corners is None or int(found[1]) >= len(self._views):
            return None
        view, chunk = self._views[int(found[1])], self._chunks[int(found[1])]
        at = [0 if dim is None else self._corners[int(found[1])][dim] for dim in self._dims]
        starts, stops = (tuple(n - first for n, first in zip(one, at, strict=True)) for one in corners)
        for start, stop, size, c in zip(starts, stops, view.shape, chunk, strict=False):
            if start % c or not 0 <= start < size or stop != min(start + c, size):
                return None  # not a chunk of the grid
        part = tuple(slice(lo, hi) for lo, hi in zip(starts, stops, strict=True))
        nbytes = prod(hi - lo for lo, hi in zip(starts, stops, strict=True)) * view.shape[3] * 8
        return Computed(lambda: _encode(view[part]), 2 * nbytes)


def _encode(view: TensorStore) -> bytes | None:
    values = view.read(order="F").result()
    if not values.any():
        return None
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes(order="F")


def nanometres(size: float, unit: str) -> float:
    """Return a size in nanometres; a size that isn't a length counts as that many."""
    try:
        return unit_in(Unit(size, unit), "nm")
    except InvalidArgumentError:  # it isn't a length
        return size


def _is_integer(view: TensorStore) -> bool:
    return np.issubdtype(view.dtype.memory_dtype, np.integer)
