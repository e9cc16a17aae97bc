"""Indices as h5py and NumPy users write them, as a box or points to read."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.recfunctions import repack_fields

from chunkwise import IndexDomain, IndexTransform
from chunkwise.errors import InvalidArgumentError, OutOfBoundsError
from chunkwise.extension.inside import as_key, as_slice, positions

__all__ = ["Selection", "members_of", "parse_selection", "split_names"]

_PLAIN = (int, slice, EllipsisType)


class Selection(NamedTuple):
    """The part of each dimension that an index selects; a mask then selects from the result."""

    terms: tuple[Any, ...]  # positions: an integer, a range, or an array of one dimension
    mask: npt.NDArray[np.bool_] | None = None

    @property
    def is_paired(self) -> bool:
        """True if the elements of several arrays are taken together, as NumPy does."""
        return sum(isinstance(term, np.ndarray) for term in self.terms) > 1

    def transform(self, shape: Sequence[int]) -> IndexTransform:
        """Return the index transform from the result, whose origin is 0, to an array of that shape."""
        identity = IndexTransform.identity(IndexDomain(shape=tuple(shape)))
        if all(isinstance(t, range) and t == range(n) for t, n in zip(self.terms, shape, strict=True)):
            return identity
        selected = (
            identity[as_key(self.terms, joint=True)]
            if self.is_paired
            else identity.oindex[as_key(self.terms)]
        )
        return selected.translate_to[0] if selected.input_rank else selected

    def of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the selected elements of an array in memory; of shape ``()`` for one element."""
        if self.is_paired:
            paired: npt.NDArray[Any] = values[
                tuple(as_slice(t) if isinstance(t, range) else t for t in self.terms)
            ]
            return paired
        for axis, term in enumerate(self.terms):
            part = slice(term, term + 1) if isinstance(term, int) else term
            part = as_slice(part) if isinstance(part, range) else part
            values = values[(slice(None),) * axis + (part,)]
        dropped = tuple(axis for axis, term in enumerate(self.terms) if isinstance(term, int))
        values = values.squeeze(dropped)
        return values if self.mask is None else values[self.mask]


def split_names(key: Any) -> tuple[str | list[str] | None, Any]:
    """Return the names of members in an index, a list if there are several, and the index without them."""
    if isinstance(key, str):
        return key, Ellipsis
    if isinstance(key, list) and key and all(isinstance(part, str) for part in key):
        return list(key), Ellipsis
    if not isinstance(key, tuple):
        return None, key
    names: list[str] = []
    listed = False
    for part in key:
        found, _ = split_names(part) if isinstance(part, str | list) else (None, None)
        listed = listed or isinstance(found, list)
        names += [found] if isinstance(found, str) else found or []
    if not names:
        return None, key
    rest = tuple(part for part in key if not isinstance(part, str) and split_names(part)[0] is None)
    return names if listed or len(names) > 1 else names[0], rest or Ellipsis


def members_of(values: npt.NDArray[Any], names: str | list[str], path: str) -> npt.NDArray[Any]:
    """Return one member of records, or records of some of them."""
    known = values.dtype.names or ()
    for name in [names] if isinstance(names, str) else names:
        if name not in known:
            has = f"its members are {', '.join(known)}" if known else "it is no compound"
            raise InvalidArgumentError(f'dataset "{path}" has no member "{name}": {has}')
    if isinstance(names, str):
        return np.asarray(values[names], values.dtype[names])
    return np.array(repack_fields(values[names]))


def parse_selection(key: Any, shape: Sequence[int]) -> Selection:
    """Return the selection of an index in a dataset of the given shape.

    Terms mean what they do in NumPy: several lists or masks of one dimension are taken together, element by
    element, as zarr-python does; h5py takes one.
    """
    if (type(key) is slice and key == slice(None)) or key is Ellipsis:
        return Selection(tuple(map(range, shape)))
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) == 1 and len(shape) != 1:
        mask = parts[0]
        if isinstance(mask, np.ndarray) and mask.dtype.kind == "b" and mask.ndim == len(shape) and mask.ndim:
            if mask.shape != tuple(shape):
                raise OutOfBoundsError(f"mask of shape {mask.shape} for a dataset of shape {tuple(shape)}")
            return Selection(tuple(map(range, shape)), mask)
    # A mask of some dimensions would select points; None and a boolean would add an axis.
    found = positions(key, shape)
    if len(found) != len(shape) or any(np.ndim(part) > 1 for part in parts if type(part) not in _PLAIN):
        raise OutOfBoundsError(f"Expected integer, slice, list or mask as index, but received: {key!r:.100}")
    return Selection(found)
