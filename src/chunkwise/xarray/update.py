"""Additions to stored variables: encoded like them, and written into or after them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.trees import FILL_VALUE
from chunkwise.xarray.encode import LAYOUT, PACKING, Encoded, encode_by_cf, in_memory, with_check
from chunkwise.xarray.encoding_check import EncodingCheck
from chunkwise.xarray.members import Member

__all__ = ["check_lengths", "decode", "encode_like", "find_region", "stored_variable"]


def encode_like(xr: Any, name: str, variable: Any, member: Member) -> Encoded:
    """Encode a variable with the scale, the units and the type of a stored one; raise if they don't fit."""
    stored = stored_variable(name, member)
    if set(stored.dims) == set(variable.dims):
        variable = variable.transpose(*stored.dims)  # as xarray's own engine does
    else:
        raise InvalidArgumentError(
            f'variable "{name}" has dimensions {variable.dims}, but is stored with {stored.dims}'
        )
    decoded = decode(xr, name, stored, variable)
    variable = in_memory(variable.copy(deep=False), decoded.encoding)
    if _is_encoded(xr, name, variable, stored, decoded):
        return _cast(name, variable, variable, member, stored, {})
    if not _fits(variable, decoded.dtype):
        raise InvalidArgumentError(
            f'variable "{name}" is of type {variable.dtype}, but stored as {decoded.dtype}'
        )
    given, known = variable.attrs.get("units"), decoded.attrs.get("units")
    if None not in (given, known) and given != known:
        raise InvalidArgumentError(f'variable "{name}" is in {given!r}, but stored in {known!r}; convert it')
    if stored.dtype.kind in "mM":  # NumPy's times, as zarr-python stores them, are not encoded
        return _cast(name, variable, variable, member, stored, {})
    how = decoded.encoding
    bare = variable.copy(deep=False)
    # Attributes of the stored variable only describe its encoding.
    bare.attrs = {}
    bare.encoding = {
        key: how[key] for key in how if key not in (*LAYOUT, "preferred_chunks", "char_dim_name")
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Times can't be serialized faithfully")  # an error follows
        encoded = encode_by_cf(xr, name, bare)
    if "units" in encoded.attrs and not _same_units(xr, encoded.attrs, stored.attrs):
        raise InvalidArgumentError(
            f'variable "{name}" is stored as {stored.dtype} in {stored.attrs.get("units")!r}, which can\'t '
            f"hold the new values: they need {encoded.attrs.get('units')!r}"
        )
    return _cast(name, variable, encoded, member, stored, stored.attrs)


def _cast(
    name: str, given: Any, encoded: Any, member: Member, stored: Any, attributes: Mapping[str, Any]
) -> Encoded:
    """Return an encoded variable in the type of the stored one, if that can hold the values."""
    element = {"ustring": "str", "string": "bytes"}.get(member.store.dtype.name, "")
    if encoded.dtype != stored.dtype:
        with np.errstate(all="ignore"):  # lost values are refused
            encoded = encoded.astype(stored.dtype)
    elif element and encoded.chunks is None and encoded._data is given._data:
        encoded = encoded.copy(deep=False, data=encoded.values.copy())  # compared: any object can be in it
    encoded = with_check(given, encoded, EncodingCheck(name, dict(attributes), element, is_added=True))
    return Encoded(encoded, stored.dtype, None, {}, {})


def stored_variable(name: str, member: Member) -> Any:
    """Return the variable of a stored array, not decoded."""
    from chunkwise.xarray.members import open_variable  # xarray itself is loaded when it is needed

    return open_variable(name, member, None)


def decode(xr: Any, name: str, stored: Any, like: Any) -> Any:
    """Return a stored variable, decoded in the same way as the variable `like`."""
    decoded: Any = xr.conventions.decode_cf_variable(
        name, stored.copy(deep=False), concat_characters=False, decode_timedelta=like.dtype.kind == "m"
    )
    return decoded


def _is_encoded(xr: Any, name: str, variable: Any, stored: Any, decoded: Any) -> bool:
    """Return True if the attributes show the same encoding as the stored one; raise if it differs."""
    # As in a dataset that was opened with decode_cf=False.
    keys = [key for key in (*PACKING, FILL_VALUE, "missing_value", "_Unsigned") if key in variable.attrs]
    is_raw_time = decoded.dtype.kind in "mM" and variable.dtype.kind in "biuf" and "units" in variable.attrs
    if not keys and not is_raw_time:
        return False
    text = f'variable "{name}" is encoded, by its attributes'
    for key in (*PACKING, FILL_VALUE, "missing_value", "_Unsigned"):
        given, known = variable.attrs.get(key), stored.attrs.get(key)
        if not _equal(given, known):
            raise InvalidArgumentError(
                f"{text}, with {key} {given}, but is stored with {known}; decode it first"
            )
    if is_raw_time and not _same_units(xr, variable.attrs, stored.attrs):
        raise InvalidArgumentError(
            f"{text}, as {variable.dtype} in {variable.attrs['units']!r}, but stored as {decoded.dtype} in "
            f"{stored.attrs.get('units')!r}; decode it first"
        )
    return True


def _equal(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    one, other = np.asarray(a).ravel().tolist(), np.asarray(b).ravel().tolist()
    return len(one) == len(other) and all(
        x == y or (x != x and y != y) for x, y in zip(one, other, strict=True)
    )


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


_GROUPS = ("biufc", "M", "m", "UOTS")


def _fits(variable: Any, stored: np.dtype[Any]) -> bool:
    """Return True if elements of a type can be stored; the values themselves are checked elsewhere."""
    new = variable.dtype
    for kinds in _GROUPS:
        if new.kind in kinds and stored.kind in kinds:
            break
    else:
        return bool(
            new == stored or (new.kind == stored.kind == "V" and np.can_cast(new, stored, "same_kind"))
        )
    if new.kind in "biu" and stored.kind in "biu":
        return stored.kind != "b" or new.kind == "b"
    if new.kind == "f" and stored.kind in "iu" and variable.chunks is None:
        return True
    if "S" in new.kind + stored.kind and not (new.kind in "SO" and stored.kind in "SO"):
        return False
    return new.kind not in "biufc" or np.can_cast(new, stored, "same_kind")


def find_region(xr: Any, dataset: Any, region: Any, require: Callable[[str], Member]) -> dict[Any, slice]:
    """Return the slice of each dimension of a region; ``"auto"`` finds it by the coordinates of the
    dataset."""
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
    stored = decode(xr, dim, stored_variable(dim, member), dataset[dim])
    at = xr.IndexVariable(dim, stored.values).to_index().get_indexer(index)
    if len(at) == 0 or (at < 0).any() or (np.diff(at) != 1).any():
        raise InvalidArgumentError(
            f'region: the coordinates of "{dim}" are not stored one after the other; say where with a slice'
        )
    return slice(int(at[0]), int(at[-1]) + 1)


def check_lengths(
    members: Mapping[str, Member], variables: Mapping[str, Any], append_dim: Hashable | None
) -> None:
    """Raise if a dimension of these variables would have several lengths: xarray can't open such a group."""
    dims_of = {name: stored_variable(name, member).dims for name, member in members.items()}
    for dim in dict.fromkeys(dim for variable in variables.values() for dim in variable.dims):
        lengths: dict[str, int] = {}
        for name, member in members.items():
            if dim in dims_of[name] and (dim == append_dim or name not in variables):
                lengths[name] = member.store.shape[dims_of[name].index(dim)]
        before = dict(lengths)
        for name, variable in variables.items():
            if dim in variable.dims:
                lengths[name] = lengths.get(name, 0) + variable.sizes[dim]
        is_good = len(set(lengths.values())) == 1
        if is_good or (dim != append_dim and len(set(before.values())) > 1):  # that it had before
            continue
        ends = ", ".join(f'"{name}" {length}' for name, length in lengths.items())
        missing = [name for name in before if name not in variables] if dim == append_dim else []
        why = f"; the dataset lacks {', '.join(missing)}" if missing else ""
        what = "append_dim: " if dim == append_dim else ""
        raise InvalidArgumentError(f'{what}variables would have different lengths along "{dim}": {ends}{why}')
