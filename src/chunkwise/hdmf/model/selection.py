"""Indices as h5py and NumPy users write them, as a rectangle or outer product to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise import IndexDomain, IndexTransform
from chunkwise.errors import OutOfBoundsError

__all__ = ["Selection", "parse_selection", "split_names", "wrapped_index"]

Term: TypeAlias = "int | slice | npt.NDArray[np.intp]"


class Selection(NamedTuple):
    """Terms of a read, and the step that finishes its result."""

    terms: tuple[Term, ...]
    # Turns what is read into what was asked for.
    finish: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] | None = None

    def transform(self, shape: Sequence[int]) -> IndexTransform:
        """Return the index transform from the result, whose origin is 0, to an array of that shape."""
        identity = IndexTransform.identity(IndexDomain(shape=tuple(shape)))
        if not self.terms:
            return identity
        if all(isinstance(t, slice) and t == slice(0, n, 1) for t, n in zip(self.terms, shape, strict=True)):
            return identity
        selected = identity.oindex[self.terms]
        return selected.translate_to[0] if selected.input_rank else selected

    def of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the selected elements of an array in memory; of shape ``()`` for one element."""
        for axis, term in enumerate(self.terms):
            part = slice(term, term + 1) if isinstance(term, int) else term
            values = values[(slice(None),) * axis + (part,)]
        dropped = tuple(axis for axis, term in enumerate(self.terms) if isinstance(term, int))
        values = values.squeeze(dropped)
        return values if self.finish is None else self.finish(values)


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


def parse_selection(key: Any, shape: Sequence[int]) -> Selection:
    """Return the selection of an index in a dataset of the given shape."""
    if (type(key) is slice and key == slice(None)) or key is Ellipsis:
        return Selection(tuple(slice(0, n, 1) for n in shape))
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) == 1 and len(shape) != 1:
        mask = parts[0]
        if isinstance(mask, np.ndarray) and mask.dtype.kind == "b" and mask.ndim == len(shape) and mask.ndim:
            return _masked(mask, shape)
    n_given = sum(1 for part in parts if part is not Ellipsis)
    if n_given > len(shape) or len(parts) - n_given > 1:
        raise OutOfBoundsError(f"{n_given} indices for a dataset of {len(shape)} dimensions")
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    full = [*parts[:at], *[slice(None)] * (len(shape) - n_given), *parts[at + 1 :]]
    terms: list[Term] = []
    flips: list[slice] = []
    for part, n in zip(full, shape, strict=True):
        term, flip = _term(part, n)
        terms.append(term)
        if not isinstance(term, int):
            flips.append(flip)
    if any(flip.step == -1 for flip in flips):
        index = tuple(flips)
        return Selection(tuple(terms), lambda values: values[index])
    return Selection(tuple(terms))


def _masked(mask: npt.NDArray[Any], shape: Sequence[int]) -> Selection:
    if mask.shape != tuple(shape):
        raise OutOfBoundsError(f"mask of shape {mask.shape} for a dataset of shape {tuple(shape)}")
    return Selection(tuple(slice(0, n, 1) for n in shape), lambda values: values[mask])


def _term(part: Any, n: int) -> tuple[Term, slice]:
    keep = slice(None)
    if isinstance(part, slice):
        start, stop, step = part.indices(n)
        if step > 0:
            return slice(start, max(start, stop), step), keep
        picked = range(start, stop, step)
        if not len(picked):
            return slice(0, 0, 1), keep
        return slice(picked[-1], picked[0] + 1, -step), slice(None, None, -1)
    if isinstance(part, int | np.integer) and not isinstance(part, bool | np.bool_):
        return wrapped_index(int(part), n), keep
    indices = np.asarray(part)
    if indices.ndim == 0 and indices.dtype.kind in "iu":
        return wrapped_index(int(indices), n), keep
    if indices.ndim == 1 and indices.dtype.kind == "b":
        if len(indices) != n:
            raise OutOfBoundsError(f"mask of {len(indices)} elements for a dimension of {n}")
        return np.flatnonzero(indices), keep
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise OutOfBoundsError(f"Expected integer, slice, list or mask as index, but received: {part!r:.100}")
    indices = indices.astype(np.intp)
    if indices.size and not (-n <= indices.min() and indices.max() < n):
        raise OutOfBoundsError(f"index {part!r:.100} is outside a dimension of {n} elements")
    return np.where(indices < 0, indices + n, indices), keep


def wrapped_index(i: int, n: int) -> int:
    """Return the position that an index means, which counts from the end if negative."""
    if not -n <= i < n:
        raise OutOfBoundsError(f"index {i} is outside a dimension of {n} elements")
    return i + n if i < 0 else i
