"""Regions of the stored arrays of a group that a dataset is written to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chunkwise.errors import InvalidArgumentError
from chunkwise.xarray.members import Member
from chunkwise.xarray.variable import open_variable

__all__ = ["find_region"]


def find_region(xr: Any, dataset: Any, region: Any, require: Callable[[str], Member]) -> dict[Any, slice]:
    """Return the slice of each dimension of a region; ``"auto"`` looks for the coordinates of the dataset."""
    if isinstance(region, str):
        if region != "auto":
            raise InvalidArgumentError(f'region: expected "auto" or slices, not {region!r}')
        region = {dim: "auto" for dim in dataset.dims if dim in dataset.indexes}
    if not isinstance(region, Mapping):
        raise TypeError(f'region: expected "auto" or a mapping, got {type(region).__name__}')
    found: dict[Any, slice] = {}
    for dim, along in region.items():
        if dim not in dataset.dims:
            raise InvalidArgumentError(f'region: the dataset has no dimension "{dim}"')
        if isinstance(along, str) and along == "auto":
            if dim not in dataset.indexes:
                raise InvalidArgumentError(f'region: "{dim}" has no coordinates that could be looked for')
            found[dim] = _look_up(xr, dataset, dim, require(dim))
        elif isinstance(along, slice) and along.step in (None, 1):
            found[dim] = along
        else:
            raise InvalidArgumentError(f'region: expected a slice without a step for "{dim}", not {along!r}')
    outside = [name for name, variable in dataset.variables.items() if not set(found) & set(variable.dims)]
    if outside:
        raise InvalidArgumentError(
            f"region: {', '.join(map(str, outside))} have none of its dimensions; drop them "
            "(dataset.drop_vars), since all of such a variable would be written"
        )
    return found


def _look_up(xr: Any, dataset: Any, dim: Any, member: Member) -> slice:
    index = dataset.indexes[dim]
    stored = xr.conventions.decode_cf_variable(
        dim, open_variable(dim, member, None), decode_timedelta=dataset[dim].dtype.kind == "m"
    )
    at = xr.IndexVariable(dim, stored.values).to_index().get_indexer(index)
    if len(at) == 0 or (at < 0).any() or (np.diff(at) != 1).any():
        raise InvalidArgumentError(
            f'region: the coordinates of "{dim}" are not stored one after the other; say where with a slice'
        )
    return slice(int(at[0]), int(at[-1]) + 1)
