"""Writing the elements of variables: those of dask in one graph, others in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkwise.api.copy import divide
from chunkwise.api.tensorstore import TensorStore
from chunkwise.dask.write import store as store_dask

if TYPE_CHECKING:
    from dask.delayed import Delayed

__all__ = ["write_values"]


def write_values(jobs: Sequence[tuple[Any, TensorStore]], *, compute: bool) -> Delayed | None:
    """Write variables to views of their shapes; return a Delayed of what dask computes, unless `compute`."""
    lazy = [(variable.data, view) for variable, view in jobs if variable.chunks is not None]
    for variable, view in jobs:
        if variable.chunks is None:
            _write_blocks(variable, view)
    if compute and not lazy:
        return None
    sources, targets = [data for data, _ in lazy], [view for _, view in lazy]
    if compute:
        store_dask(sources, targets)
        return None
    return store_dask(sources, targets, compute=False)


def _write_blocks(variable: Any, view: TensorStore) -> None:
    # A variable of a file that is open is read in the same blocks: it need not fit in memory.
    origin = view.origin
    for block in divide(view, view).domains():
        index = tuple(
            slice(lo - at, hi - at)
            for lo, hi, at in zip(block.inclusive_min, block.exclusive_max, origin, strict=True)
        )
        values = np.asarray(variable[index].values if index else variable.values)
        view[block].write(values).result()
