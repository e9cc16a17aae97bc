"""The terms of a NumPy-style indexing expression, checked and in one form."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from chunkwise.core.index_space.output_map import IndexArray
from chunkwise.errors import OutOfBoundsError

__all__ = ["ArrayTerm", "SliceTerm", "Terms", "parse_term", "parse_terms"]


class SliceTerm(NamedTuple):
    """A slice of one dimension."""

    start: int | None
    stop: int | None
    step: int | None

    def __str__(self) -> str:
        text = f"{'' if self.start is None else self.start}:{'' if self.stop is None else self.stop}"
        return text if self.step in (None, 1) else f"{text}:{self.step}"


class ArrayTerm(NamedTuple):
    """Integer arrays of one shape that index as many dimensions jointly."""

    # A boolean array of rank n becomes n arrays of the positions of its true elements.  With rank 0 it
    # indexes no dimension but still has a shape, ``(1,)`` or ``(0,)``.

    arrays: tuple[IndexArray, ...]
    shape: tuple[int, ...]
    source: np.ndarray[Any, np.dtype[Any]]

    def __str__(self) -> str:
        return repr(self.source)


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """An indexing expression."""

    terms: tuple[Any, ...]  # integers, `SliceTerm`, `ArrayTerm`, None for a new axis, at most one Ellipsis
    scalar: bool  # True for a lone integer, slice or None instead of a tuple

    def __str__(self) -> str:
        text = ",".join("..." if t is Ellipsis else str(t) for t in self.terms)
        return f"[{text},]" if len(self.terms) == 1 and not self.scalar else f"[{text}]"


def parse_terms(key: Any) -> Terms:
    """Return the terms of an expression in brackets."""
    if isinstance(key, tuple):
        terms = tuple([term for item in key for term in _parse(item)])
        scalar = False
    else:
        terms = tuple(_parse(key))
        scalar = len(terms) == 1 and (terms[0] is None or isinstance(terms[0], int | SliceTerm))
    if sum(term is Ellipsis for term in terms) > 1:
        raise OutOfBoundsError("An index can only have a single ellipsis (`...`)")
    return Terms(terms, scalar)


def _parse(item: Any) -> Iterator[Any]:
    if isinstance(item, slice):
        yield from _parse_slice(item)
    else:
        yield parse_term(item)


def parse_term(item: Any) -> Any:
    """Return the term that an item other than a slice is."""
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, bool | np.bool_):
        return _mask(np.asarray(item))
    try:
        number = operator.index(item)
    except TypeError:
        listed = isinstance(item, Iterable) and not isinstance(item, str | bytes | np.generic)
        if not listed and (isinstance(item, np.generic) or not hasattr(item, "__array__")):
            raise _invalid() from None
        return _parse_array(item)
    if not -(2**63) <= number < 2**63:
        raise TypeError(f"index {number} does not fit 64 bits")
    return number


def _invalid() -> OutOfBoundsError:
    return OutOfBoundsError(
        "Only integers, slices (`:`), ellipsis (`...`), tensorstore.newaxis (`None`) "
        "and integer or boolean arrays are valid indices"
    )


def _parse_array(item: Any) -> ArrayTerm:
    array = np.asarray(item)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind == "b":
        return _mask(array)
    if array.dtype.kind not in "iu":
        if isinstance(item, np.ndarray):
            raise OutOfBoundsError("Arrays used as indices must be of integer (or boolean) type")
        raise _invalid()
    array = np.array(array.astype(np.int64, casting="safe"))
    array.setflags(write=False)
    return ArrayTerm((array,), array.shape, array)


def _mask(mask: np.ndarray[Any, np.dtype[np.bool_]]) -> ArrayTerm:
    if mask.ndim == 0:
        return ArrayTerm((), (int(mask),), mask)
    arrays = tuple([np.ascontiguousarray(x, np.int64) for x in np.nonzero(mask)])
    return ArrayTerm(arrays, arrays[0].shape, mask)


def _slice_end(value: Any) -> list[int | None] | int | None:
    if value is None:
        return None
    try:
        return operator.index(value)
    except TypeError:
        pass
    try:
        if isinstance(value, Iterable) and not isinstance(value, str | bytes):
            return [None if x is None else operator.index(x) for x in value]
    except TypeError:
        pass
    raise TypeError("slice indices must be integers or None or have an __index__ method")


def _parse_slice(item: slice) -> Iterator[SliceTerm]:
    """Yield one slice, or one per dimension if ends are sequences: ``(1, 2):(5, 6)`` is ``1:5, 2:6``."""
    ends = {name: _slice_end(getattr(item, name)) for name in ("start", "stop", "step")}
    sequences = [(name, end) for name, end in ends.items() if isinstance(end, list)]
    if not sequences:
        yield SliceTerm(*ends.values())  # type: ignore[arg-type]
        return
    n = len(sequences[0][1])
    for (before, known), (name, end) in pairwise(sequences):
        if len(end) != n:
            raise OutOfBoundsError(
                f"{name}={_bracketed(end)} (rank {len(end)}) is incompatible with "
                f"{before}={_bracketed(known)} (rank {n})"
            )
    for i in range(n):
        yield SliceTerm(*[end[i] if isinstance(end, list) else end for end in ends.values()])


def _bracketed(end: list[int | None]) -> str:
    return f"[{','.join(map(str, end))}]"
