"""Additions to variables that are stored: encoded as they are, and written in or behind them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

import numpy as np

from chunkwise.api.tensorstore import TensorStore
from chunkwise.errors import InvalidArgumentError
from chunkwise.xarray.encode import LAYOUT, Encoded, encode_variable
from chunkwise.xarray.members import Member

__all__ = ["check_lengths", "encode_like", "find_region", "place_in"]


def encode_like(xr: Any, name: str, variable: Any, member: Member) -> Encoded:
    """Encode a variable with the scale, the units and the type of a stored one; raise if they don't fit."""
    from chunkwise.xarray.variable import open_variable  # xarray itself is loaded when it is needed

    stored = open_variable(name, member, None)
    if stored.dims != variable.dims:
        raise InvalidArgumentError(
            f'variable "{name}" has dimensions {variable.dims}, but is stored with {stored.dims}'
        )
    decoded = xr.conventions.decode_cf_variable(name, stored, decode_timedelta=variable.dtype.kind == "m")
    if not _fits(variable.dtype, decoded.dtype):
        raise InvalidArgumentError(
            f'variable "{name}" is of type {variable.dtype}, but stored as {decoded.dtype}'
        )
    given, known = variable.attrs.get("units"), decoded.attrs.get("units")
    if None not in (given, known) and given != known:
        raise InvalidArgumentError(f'variable "{name}" is in {given!r}, but stored in {known!r}; convert it')
    if stored.dtype.kind in "mM":  # NumPy's times, as zarr-python stores them, are not encoded
        cast = variable.astype(stored.dtype)
        if not np.can_cast(variable.dtype, stored.dtype) and ((cast != variable) & variable.notnull()).any():
            raise InvalidArgumentError(
                f'variable "{name}" is of type {variable.dtype}, and stored as {stored.dtype}, which can\'t '
                "hold what is to be added"
            )
        return Encoded(cast, stored.dtype, None, {}, {})
    how = decoded.encoding
    encoding = {key: value for key, value in how.items() if key not in LAYOUT and key != "preferred_chunks"}
    # What was an attribute of the stored variable only describes it there.
    variable = variable.copy(deep=False)
    variable.attrs = {}
    variable.encoding = encoding
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Times can't be serialized faithfully")  # an error follows
        encoded = encode_variable(xr, name, variable, member.format)
    if "units" in encoded.attributes and not _same_units(xr, encoded.attributes, stored.attrs):
        raise InvalidArgumentError(
            f'variable "{name}" is stored as {stored.dtype} in {stored.attrs.get("units")!r}, which can\'t '
            f"hold what is to be added: that takes {encoded.attributes.get('units')!r}"
        )
    if encoded.element_type != stored.dtype:
        if encoded.element_type.kind == "O" or not np.can_cast(encoded.element_type, stored.dtype, "safe"):
            raise InvalidArgumentError(
                f'variable "{name}" is encoded as {encoded.dtype}, but stored as {stored.dtype}'
            )
        encoded = encoded._replace(variable=encoded.variable.astype(stored.dtype), dtype=stored.dtype)
    return encoded


def _same_units(xr: Any, a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Return True if numbers mean the same times with the attributes `a` as with `b`."""
    kept = [{key: x[key] for key in ("units", "calendar") if key in x} for x in (a, b)]
    if kept[0] == kept[1]:
        return True
    first, second = (
        xr.conventions.decode_cf_variable("", xr.Variable("t", [0, 1], attrs), decode_timedelta=True)
        for attrs in kept
    )
    return bool(first.dtype == second.dtype and (first.values == second.values).all())


def _fits(new: np.dtype[Any], stored: np.dtype[Any]) -> bool:
    """Return True if elements keep their values, but for the precision that the stored ones have."""
    text = "UOT"
    return (new.kind in text and stored.kind in text) or np.can_cast(new, stored, "same_kind")


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
    from chunkwise.xarray.variable import open_variable  # xarray itself is loaded when it is needed

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


def place_in(
    name: str,
    variable: Any,
    member: Member,
    append_dim: Hashable | None,
    region: Mapping[Any, slice] | None,
) -> Callable[[], TensorStore]:
    """Return the function that gives the view of a stored array that a variable is to be written to."""
    store = member.store
    dims = variable.dims
    if append_dim in dims:
        axis = dims.index(append_dim)
        _check_sizes(name, dims, variable.shape, store.shape, besides=append_dim)
        return partial(_grow, store, axis, variable.shape[axis])
    index: list[slice] = []
    for dim, size in zip(dims, store.shape, strict=True):
        along = (region or {}).get(dim, slice(None))
        start, stop, _ = along.indices(size)
        if along.stop is not None and along.stop > size:
            raise InvalidArgumentError(
                f'region: "{dim}" of "{name}" ends at {size}, before {along.stop}; append_dim grows it'
            )
        index.append(slice(start, max(start, stop)))
    view = store[tuple(index)] if index else store
    _check_sizes(name, dims, variable.shape, view.shape)
    return lambda: view


def check_lengths(members: Mapping[str, Member], variables: Mapping[str, Any], append_dim: Hashable) -> None:
    """Raise if some variables would be longer along `append_dim`: xarray can't open such a group."""
    from chunkwise.xarray.variable import open_variable  # xarray itself is loaded when it is needed

    lengths: dict[str, int] = {}
    for name, member in members.items():
        if append_dim in (dims := open_variable(name, member, None).dims):
            lengths[name] = member.store.shape[dims.index(append_dim)]
    before = dict(lengths)
    for name, variable in variables.items():
        if append_dim in variable.dims:
            lengths[name] = lengths.get(name, 0) + variable.sizes[append_dim]
    if len(set(lengths.values())) > 1:
        ends = ", ".join(f'"{name}" {length}' for name, length in lengths.items())
        missing = [name for name in before if name not in variables]
        why = f"; the dataset lacks {', '.join(missing)}" if missing else ""
        raise InvalidArgumentError(
            f'append_dim: variables would have different lengths along "{append_dim}": {ends}{why}'
        )


def _check_sizes(
    name: str, dims: tuple[Any, ...], shape: tuple[int, ...], stored: tuple[int, ...], besides: Any = None
) -> None:
    for dim, new, old in zip(dims, shape, stored, strict=True):
        if dim != besides and new != old:
            raise InvalidArgumentError(
                f'variable "{name}" has size {new} along "{dim}", where {old} is needed'
            )


def _grow(store: TensorStore, axis: int, n: int) -> TensorStore:
    """Make room behind the elements of `store`, and return the view of it."""
    before = store.shape[axis]
    bounds: list[int | None] = [None] * store.rank
    bounds[axis] = before + n
    grown = store.resize(exclusive_max=bounds, expand_only=True).result()
    return grown[(slice(None),) * axis + (slice(before, before + n),)]
