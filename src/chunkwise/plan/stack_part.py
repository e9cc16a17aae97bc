"""What one layer of a stack has of a request: what to read or write, and where the elements are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from chunkwise.index_space import IndexTransform
from chunkwise.plan.layout import Layout
from chunkwise.plan.stack_runs import StridedRuns

__all__ = ["HOLE", "Leaf", "StackPart"]

Array = npt.NDArray[Any]

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
        array as :meth:`view` shows it; or the entries of the leaf from which that follows.
    """

    layer: int
    leaf: Leaf
    place: Any

    def where(self) -> tuple[IndexTransform, tuple[Any, ...]]:
        """Return what to read or write, and where the elements are in :meth:`view`."""
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
            What :meth:`view` returns.

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

    def view(self, array: Array, *, last: bool = False) -> Array:
        """Return the caller's array as the part sees it; see :meth:`Layout.view` for `last`."""
        part = array[self.leaf.index]
        layout = self.leaf.layout
        return part if layout is None else layout.view(part, last=last)

    def finish(self, array: Array) -> None:
        """Repeat what was read along dimensions that nothing depends on."""
        if self.leaf.layout is not None:
            self.leaf.layout.broadcast(array[self.leaf.index])


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
