"""What the layers of a stack have of a request: what to read or write, and where the elements are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.cached import cached_property
from chunkwise.index_space import IndexTransform
from chunkwise.plan.layout import Layout
from chunkwise.plan.stack_runs import Bounds, StridedRuns

__all__ = ["HOLE", "Bounds", "Leaf", "StackPart", "StackParts"]

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]

HOLE = -1
"""What stands for a layer where there is none."""


class StackPart(NamedTuple):
    """What one layer has of a request.

    Attributes
    ----------
    layer : int
        :data:`HOLE` if no layer has it.
    leaf : Leaf
        The part of the request that it belongs to.
    place : tuple
        What to read or write, in the index space of the stack, and where the elements are in the caller's
        array as :meth:`Leaf.view` shows it; or the entries of the leaf from which that follows.
    """

    layer: int
    leaf: Leaf
    place: Any

    def where(self) -> tuple[IndexTransform, tuple[Any, ...]]:
        """Return what to read or write, and where the elements are in :meth:`Leaf.view`."""
        if isinstance(self.place[0], IndexTransform):
            request, at = self.place
            return request, at
        assert self.leaf.strided is not None
        return self.leaf.strided.part(self.place)

    @property
    def indexed(self) -> bool:
        """Whether the elements are where index arrays say."""
        return self.leaf.layout is not None and self.leaf.strided is None

    @property
    def strided(self) -> bool:
        """Whether what to read or write is one stride along each dimension of the stack."""
        return self.leaf.strided is not None

    def box(self, view: Array) -> tuple[list[int], Array] | None:
        """Return where in the stack a part without steps begins, and where its elements go.

        Parameters
        ----------
        view : ndarray
            What :meth:`Leaf.view` returns.

        Returns
        -------
        (first, out) or None
            `out` has an axis for each dimension of the stack.  None if neighbours are not read as neighbours.
        """
        if self.leaf.strided is not None:
            return self.leaf.strided.box(self.place, view)
        if self.leaf.layout is not None:
            return None
        request = self.place[0]
        first: list[int] = []
        axes: list[slice | None] = []
        n_used = 0
        for m in request._output:
            if m._dim is None:
                if m._array is not None:
                    return None
                first.append(m._offset)
                axes.append(None)
                continue
            if m._dim != n_used or m._stride != 1:
                return None
            first.append(m._offset + request._domain._lo[n_used])
            axes.append(slice(None))
            n_used += 1
        if n_used != view.ndim:
            return None
        return first, view[(*axes, ...)]


class StackParts:
    """Parts of one leaf without index arrays, by the thousand.

    Parameters
    ----------
    leaf : Leaf
        With connected sets.
    layers : ndarray
        Of each part, ascending.
    runs : ndarray
        Of shape ``(n, rank, 2)``: the entries of the connected sets that are a part's.
    """

    def __init__(self, leaf: Leaf, layers: Numbers, runs: Numbers) -> None:
        self.leaf = leaf
        self.layers = layers
        self._runs = runs

    @cached_property
    def bounds(self) -> Bounds | None:
        """Where the parts are; None if neighbours are not read as neighbours."""
        assert self.leaf.strided is not None
        return self.leaf.strided.bounds(self._runs)

    @cached_property
    def layer_numbers(self) -> list[int]:
        """Each layer once, ascending."""
        return list(dict.fromkeys(self.layers.tolist()))

    def parts(self, numbers: Iterable[int]) -> Iterator[StackPart]:
        """Yield some of the parts."""
        for i in numbers:
            run = tuple([slice(a, b) for a, b in self._runs[i].tolist()])
            yield StackPart(int(self.layers[i]), self.leaf, run)


class Leaf(NamedTuple):
    """A part of a request that is painted at once.

    Attributes
    ----------
    box : tuple of slice
        Which part of the caller's array it has to do with.
    layout : Layout or None
        How that part is seen; None if it belongs to one layer and is seen as it is.
    strided : StridedRuns or None
        Its connected sets, if there are no index arrays.
    """

    box: tuple[slice, ...]
    layout: Layout | None
    strided: StridedRuns | None

    @property
    def index(self) -> Any:
        """Index of its part of the caller's array."""
        return (*self.box, ...)

    def view(self, array: Array, *, last: bool = False) -> Array:
        """Return the caller's array as the parts see it; see :meth:`Layout.view` for `last`."""
        part = array[self.index]
        return part if self.layout is None else self.layout.view(part, last=last)

    def finish(self, array: Array) -> None:
        """Repeat what was read along dimensions that nothing depends on."""
        if self.layout is not None:
            self.layout.broadcast(array[self.index])
