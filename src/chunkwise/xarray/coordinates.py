"""Stored coordinates: a write to a part of a group must not relabel other data.

Variables along a dimension are labelled by its coordinates.  A dataset that is added must have the stored
coordinates, or none; otherwise the rest of the group would be relabelled.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.errors import InvalidArgumentError
from chunkwise.xarray.encode import Encoded
from chunkwise.xarray.members import Member
from chunkwise.xarray.place import Place
from chunkwise.xarray.update import encode_like, stored_variable

__all__ = ["check_replaced", "is_stored"]


def is_stored(name: str, encoded: Encoded, place: Place, *, by_slice: bool) -> bool:
    """Return True if a stored coordinate stays, False if none is stored; raise if it differs.

    In a region the slice says where data goes.  Labels that differ are not written, with a warning; the same
    labels in another order are an error.
    """
    given: npt.NDArray[Any] = np.asarray(encoded.variable.values)
    stored = place.view().read().result()
    differs = ~_same(given, stored)
    if not differs.any():
        return True
    if stored.dtype.kind in "fcmM" and not (differs & (stored == stored)).any():
        return False
    if by_slice and sorted(given.tolist()) != sorted(stored.tolist()):
        warnings.warn(f"{_difference(name, given, stored)}; it is not written", stacklevel=4)
        return True
    raise _other(name, given, stored)


def check_replaced(
    xr: Any, name: str, variable: Any, members: Mapping[str, Member], written: Collection[str]
) -> None:
    """Raise if a coordinate would be replaced by a different one that still labels other variables."""
    if variable.dims != (name,) or name not in members:
        return
    labelled = [
        other
        for other, member in members.items()
        if other not in written and name in stored_variable(other, member).dims
    ]
    if not labelled:
        return
    stored = members[name].store.read().result()
    try:
        given = np.asarray(encode_like(xr, name, variable, members[name]).variable.values)
    except InvalidArgumentError:
        given = np.asarray(variable.values)
    if given.shape == stored.shape and _same(given, stored).all():
        return
    raise _other(name, given, stored, f" of {', '.join(labelled)}")


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray((a == b) | ((a != a) & (b != b)), bool)


def _difference(name: str, given: npt.NDArray[Any], stored: npt.NDArray[Any]) -> str:
    one, other = (np.array2string(values, threshold=8, edgeitems=3) for values in (given, stored))
    return f'coordinate "{name}" is {one}, but stored as {other}'


def _other(
    name: str, given: npt.NDArray[Any], stored: npt.NDArray[Any], of: str = ""
) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{_difference(name, given, stored)}: data{of} that is there would be labelled anew; reindex the "
        'dataset, drop the coordinate (drop_vars), or change it alone with mode="r+"'
    )
