"""Slices of arrays and images as PNG files: one plane at a position along all other dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from chunkwise.api.tensorstore import TensorStore
from chunkwise.cli.picture import encode_png
from chunkwise.errors import InvalidArgumentError
from chunkwise.multiscale.grey import contrast_limits, round_levels, scale_levels, to_real
from chunkwise.multiscale.image import MultiscaleImage
from chunkwise.multiscale.image_axes import memory_order

__all__ = ["Slicer"]

_LONGEST = 1024  # pixels of a side; more elements are skipped evenly


class Slider(NamedTuple):
    """A dimension that a slice is at one position of."""

    name: str
    start: int
    stop: int  # after the last position


class Slicer:
    """Planes of the levels of an image, or of one array.

    Parameters
    ----------
    source : MultiscaleImage or TensorStore
    """

    def __init__(self, source: MultiscaleImage | TensorStore) -> None:
        self._image = source if isinstance(source, MultiscaleImage) else None
        self._stores: Sequence[TensorStore] = [source] if isinstance(source, TensorStore) else source.levels
        first = self.level(0)
        if first.rank < 2 or 0 in first.shape or not first.readable:
            raise InvalidArgumentError(f"a view needs two dimensions that aren't empty, not {first.shape}")
        self._down, self._across = _plane(first, self._image)

    @property
    def n_levels(self) -> int:
        """How many levels there are."""
        return len(self._stores)

    def level(self, number: int) -> TensorStore:
        """Return the array of a level."""
        return self._stores[number]

    def sliders(self, number: int) -> list[Slider]:
        """Return the dimensions that are not in the plane."""
        store = self.level(number)
        return [
            Slider(label or f"dim {dim}", lo, lo + n)
            for dim, (label, lo, n) in enumerate(
                zip(store.domain.labels, store.origin, store.shape, strict=True)
            )
            if dim not in (self._down, self._across)
        ]

    def png(self, number: int, at: Sequence[int]) -> bytes:
        """Return the slice of a level at one position for each slider, which is limited to its range."""
        store = self.level(number)
        positions = iter(zip(self.sliders(number), at, strict=True))
        index: list[Any] = []
        for dim, (lo, n) in enumerate(zip(store.origin, store.shape, strict=True)):
            if dim in (self._down, self._across):
                index.append(slice(lo, lo + n, -(-n // _LONGEST)))
            else:
                slider, position = next(positions)
                index.append(min(max(position, slider.start), slider.stop - 1))
        values = store[tuple(index)].read().result()
        if self._down > self._across:
            values = values.T
        if self._image is not None and self._image.is_labels and values.dtype.kind in "iu":
            return encode_png(Image.fromarray(_label_colors(values, self._image)), "chunkwise")
        real = to_real(values)
        return encode_png(
            Image.fromarray(round_levels(scale_levels(real, contrast_limits([real])))), "chunkwise"
        )


def _plane(store: TensorStore, image: MultiscaleImage | None) -> tuple[int, int]:
    """Return the dimensions that go down and across: those of space that lie closest in memory."""
    order = memory_order(store)
    if image is not None:
        space = [dim for dim in order if image.axes[dim].type == "space"]
        order = space if len(space) > 1 else order
    down, across = order[-2:]
    names = store.domain.labels
    return (across, down) if (names[down], names[across]) == ("x", "y") else (down, across)


def _label_colors(values: npt.NDArray[Any], image: MultiscaleImage) -> npt.NDArray[np.uint8]:
    """Return a colour for each label, the same each time; black for 0."""
    with np.errstate(over="ignore"):
        mixed = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    parts = [(mixed >> np.uint64(shift)) & np.uint64(127) for shift in (57, 43, 29)]
    pixels = np.stack(parts, -1).astype(np.uint8) + np.uint8(96)
    pixels[values == 0] = 0
    for label, rgba in image.label_colors.items():
        pixels[values == label] = rgba[:3]
    return pixels
