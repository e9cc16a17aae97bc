"""Keys by NumPy's rules, as the positions that they select.

``store[key]`` follows TensorStore's rules: a negative number is an index like any other, and an index
outside the domain is an error.  By NumPy's rules -1 is the last position, and a slice ends at the end of its
dimension.
Everything that takes keys by NumPy's rules has them interpreted here, and reads or writes the positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType, NoneType
from typing import Any, TypeAlias

import numpy as np

from chunkwise.core.index_space.numpy_terms import ArrayTerm, parse_term
from chunkwise.core.index_space.output_map import IndexArray
from chunkwise.errors import OutOfBoundsError

__all__ = ["Positions", "as_key", "as_slice", "position", "positions"]

Positions: TypeAlias = "int | range | IndexArray | np.bool_ | None"
"""Selection by a term: positions of one dimension, or None for a new axis or a boolean scalar."""

_PLAIN = (int, slice, EllipsisType, NoneType)


def positions(key: Any, shape: Sequence[int], *, outer: bool = False) -> tuple[Positions, ...]:
    """Return what each term of a key selects of an array of that shape; missing dimensions stay whole.

    A mask of several dimensions gives an array of positions for each.  An ellipsis that stands for no
    dimension is left out, although for NumPy it separates arrays.  If one array is empty, NumPy doesn't check
    the others; with `outer`, each is checked, as if dimensions were indexed one after the other.

    Raises
    ------
    OutOfBoundsError
        If the key does not fit the shape, as NumPy raises IndexError.

    Examples
    --------
    >>> positions((-1, slice(2, 100)), (4, 10, 3))
    (3, range(2, 10), range(0, 3))
    """
    terms = [t if type(t) in _PLAIN else _term(t) for t in (key if isinstance(key, tuple) else (key,))]
    needed = n_ellipses = 0
    for term in terms:
        if term is Ellipsis:
            n_ellipses += 1
        elif term is not None:
            needed += len(term.arrays) if isinstance(term, ArrayTerm) else 1
    n_left = len(shape) - needed
    if n_left < 0:
        raise OutOfBoundsError(f"the index is for {needed} dimensions, the array has {len(shape)}")
    if n_ellipses > 1:
        raise OutOfBoundsError("an index can only have a single ellipsis (`...`)")
    if n_left and not n_ellipses:
        terms.append(Ellipsis)
    arrays = [array for term in terms if isinstance(term, ArrayTerm) for array in term.arrays]
    is_checked = outer or all(array.size for array in arrays)
    found: list[Positions] = []
    dim = 0
    for term in terms:
        if type(term) is slice:
            found.append(range(*term.indices(shape[dim])))
            dim += 1
        elif term is Ellipsis:
            found += map(range, shape[dim : dim + n_left])
            dim += n_left
        elif term is None:
            found.append(None)
        elif isinstance(term, ArrayTerm):
            n = len(term.arrays)
            found += _of_arrays(term, shape[dim : dim + n], is_checked) if n else [np.bool_(term.source)]
            dim += n
        else:
            found.append(position(term, shape[dim]))
            dim += 1
    return tuple(found)


def position(index: int, size: int) -> int:
    """Return the position that an index means, which counts from the end if negative.

    >>> position(-1, 4)
    3
    """
    if not -size <= index < size:
        raise OutOfBoundsError(f"index {index} is outside a dimension of size {size}")
    return index + size if index < 0 else index


def as_key(
    found: Sequence[Positions], origin: Sequence[int] | None = None, *, joint: bool = False
) -> tuple[Any, ...]:
    """Return the key that selects the positions from a store whose domain begins at `origin`, by default 0.

    It is one for ``store.oindex`` or ``store.vindex``, and with `joint` for ``store[key]``: to NumPy an
    integer beside arrays is an array too, which affects where their dimensions go.

    >>> as_key((3, range(7, -1, -2)), (10, 20))
    (13, slice(27, 20, -2))
    """
    first = iter(origin or (0,) * len(found))
    key: list[Any] = []
    for term in found:
        if term is None or isinstance(term, np.bool_):
            key.append(term)
        else:
            start = next(first)
            key.append(_slice(term, start) if isinstance(term, range) else term + start)
    if joint and any(isinstance(term, np.ndarray) for term in key):
        key = [np.array([term]) if isinstance(term, int) else term for term in key]
    return tuple(key)


def as_slice(term: range) -> slice:
    """Return the slice that selects the positions of an array in memory.

    >>> as_slice(range(3, -1, -1))
    slice(3, None, -1)
    """
    return slice(term.start, None if term.stop < 0 else term.stop, term.step) if term else slice(0, 0)


def _slice(term: range, origin: int) -> slice:
    if not term:
        return slice(origin, origin)
    return slice(origin + term[0], origin + term[-1] + (1 if term.step > 0 else -1), term.step)


def _term(item: Any) -> Any:
    """Return a term of another type than `_PLAIN`: an integer, or an `ArrayTerm`."""
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, np.ndarray) and item.dtype == np.uint64:
        item = item.astype(np.int64)
    try:
        return parse_term(item)
    except OutOfBoundsError:
        raise OutOfBoundsError(
            "expected integers, slices, an ellipsis and arrays of integers or booleans as an index, "
            f"but received: {item!r:.100}"
        ) from None


def _of_arrays(term: ArrayTerm, sizes: Sequence[int], is_checked: bool) -> list[IndexArray]:
    mask = term.source
    if mask.dtype == np.bool_:
        if mask.shape != tuple(sizes):
            raise OutOfBoundsError(f"the mask has the shape {mask.shape}, where the array has {tuple(sizes)}")
        return list(term.arrays)
    (array,), (size,) = term.arrays, sizes
    if not is_checked:
        return [np.zeros_like(array)]
    if array.size:
        low, high = int(array.min()), int(array.max())
        if low < -size or high >= size:
            raise OutOfBoundsError(
                f"index {high if high >= size else low} is outside a dimension of size {size}"
            )
        if low < 0:
            array = np.where(array < 0, array + size, array)
    return [array]
