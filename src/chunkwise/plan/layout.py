"""The caller's array as a plan sees it: transposed and turned around once, instead of chunk by chunk."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Layout"]


class Layout(NamedTuple):
    """The way from an array in the order of the request to one in the order of the plan."""

    # for each axis of the view, the input dimension that it shows; None for a constant, of size 1
    input_dims: tuple[int | None, ...]
    flipped: frozenset[int]  # input dimensions that are read backwards
    n_inputs: int  # rank of the request

    def view(self, array: np.ndarray[Any, Any], *, last: bool = False) -> np.ndarray[Any, Any]:
        """Return a view of `array`, which has the shape of the request, in the order of the plan."""
        # An input dimension that nothing depends on is represented by its first element, or its `last`.
        used = set(self.input_dims)
        index: list[Any] = []
        for dim in range(self.n_inputs):
            if dim not in used:
                index.append(-1 if last else 0)
            else:
                index.append(slice(None, None, -1) if dim in self.flipped else slice(None))
        kept = sorted(dim for dim in used if dim is not None)
        order = [kept.index(dim) for dim in self.input_dims if dim is not None]
        expand = tuple(None if dim is None else slice(None) for dim in self.input_dims)
        # the ellipses keep an array of rank 0 an array
        viewed: np.ndarray[Any, Any] = array[(*index, ...)].transpose(order)[(*expand, ...)]
        return viewed

    def broadcast(self, array: np.ndarray[Any, Any]) -> None:
        """Repeat what was read into the first element of each dimension that nothing depends on."""
        used = set(self.input_dims)
        for dim in range(self.n_inputs):
            if dim not in used and array.shape[dim] > 1:
                before = (slice(None),) * dim
                array[(*before, slice(1, None))] = array[(*before, slice(0, 1))]
