"""The parts of a request that the layers of a stack have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.cached import cached_property
from chunkwise.index_space import IndexTransform
from chunkwise.plan.partition import Layout
from chunkwise.plan.stack_runs import Bounds, StridedRuns

__all__ = ["NO_LAYER", "Bounds", "LayerRequest", "LayerRequests", "Region"]

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]

NO_LAYER = -1
"""What stands for a layer where there is none."""


class LayerRequest(NamedTuple):
    """The part of a request that one layer has."""

    layer: int  # `NO_LAYER` if no layer has it
    region: Region  # the region of the request that it belongs to
    # the request to the stack and its index in `Region.view`, or the entries that say both
    location: Any

    def where(self) -> tuple[IndexTransform, tuple[Any, ...]]:
        """Return what to read or write, and where the elements are in `Region.view`."""
        if isinstance(self.location[0], IndexTransform):
            request, at = self.location
            return request, at
        assert self.region.strided is not None
        return self.region.strided.part(self.location)

    @property
    def indexed(self) -> bool:
        """True if its elements are scattered by index arrays."""
        return self.region.layout is not None and self.region.strided is None

    @property
    def strided(self) -> bool:
        """True if it is one stride along each dimension of the stack."""
        return self.region.strided is not None


class LayerRequests:
    """Parts of one region without index arrays, by the thousand."""

    # `runs`, of shape ``(n, rank, 2)``, are the entries of the connected sets that each part has; layers
    # ascend.

    def __init__(self, region: Region, layers: Numbers, runs: Numbers) -> None:
        self.region = region
        self.layers = layers
        self._runs = runs

    @cached_property
    def bounds(self) -> Bounds | None:
        """First indices in the stack, and bounds in the view, of all parts; None if there are steps."""
        assert self.region.strided is not None
        return self.region.strided.bounds(self._runs)

    def parts(self, numbers: Iterable[int] | None = None) -> Iterator[LayerRequest]:
        """Yield some of the parts, by default all."""
        for i in range(len(self.layers)) if numbers is None else numbers:
            run = tuple([slice(a, b) for a, b in self._runs[i].tolist()])
            yield LayerRequest(int(self.layers[i]), self.region, run)


class Region(NamedTuple):
    """A region of a request in which the topmost layers are resolved at once."""

    box: tuple[slice, ...]  # the part of the caller's array
    # the order in which that is seen; None if it belongs to one layer and is seen as it is
    layout: Layout | None
    strided: StridedRuns | None  # its connected sets, if there are no index arrays

    @property
    def index(self) -> Any:
        """Index of its part of the caller's array."""
        return (*self.box, ...)

    def view(self, array: Array, *, last: bool = False) -> Array:
        """Return the caller's array as the parts see it; see `Layout.view` for `last`."""
        part = array[self.index]
        return part if self.layout is None else self.layout.view(part, last=last)

    def finish(self, array: Array) -> None:
        """Repeat what was read along dimensions that nothing depends on."""
        if self.layout is not None:
            self.layout.broadcast(array[self.index])
