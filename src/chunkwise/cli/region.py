"""Regions as text: ``100:110,110,:`` selects what ``store[100:110, 110, :]`` does, and ``-1`` is the last."""

from __future__ import annotations

import argparse
import re
from types import EllipsisType
from typing import Any, TypeAlias

from chunkwise import TensorStore, d
from chunkwise.cli.command import UsageError, message
from chunkwise.copying.resolve import resolve
from chunkwise.errors import OutOfBoundsError

__all__ = ["Region", "add_view", "index_of", "parse_region", "select", "view_of"]

Region: TypeAlias = "tuple[int | slice | EllipsisType, ...]"

_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")  # Python reads no longer ones
_LARGEST = 2**62 - 2  # index of an array


def add_view(parser: argparse.ArgumentParser) -> None:
    """Declare the array of a command, and its region."""
    parser.add_argument("path", metavar="PATH", help="array, image, or *.json with the spec of a view")
    parser.add_argument("--region", metavar="REGION", default="...", help="by default all of it")


def view_of(arguments: argparse.Namespace) -> TensorStore:
    """Return the view of the array and region that the command names."""
    found = resolve(arguments.path)
    array = found.as_array(of_image=True)
    for note in filter(None, (found.assumed, found.left_out)):
        message(note)
    return select(array, arguments.region)


def parse_region(text: str) -> Region:
    """Parse a region: per dimension an index, ``start:stop`` or ``start:stop:step``; ``...`` for the rest.

    >>> parse_region("100:110, 7, ::2, ...")
    (slice(100, 110, None), 7, slice(None, None, 2), Ellipsis)
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1].strip()
    if not inner:
        return (...,)
    terms = tuple(_term(part.strip(), text) for part in inner.removesuffix(",").split(","))
    if sum(term is ... for term in terms) > 1:
        raise UsageError(f'region "{text}" has more than one "..."')
    return terms


def index_of(store: TensorStore, text: str) -> tuple[int | slice, ...]:
    """Return the index or slice that a region selects in each dimension."""
    # Not NumPy's rules: in a domain that begins below 0 a negative number is an index like others, and what
    # lies outside is an error, since a slice that is cut would hide a wrong number.
    terms = parse_region(text)
    n_given = sum(term is not ... for term in terms)
    if n_given > store.rank:
        raise UsageError(f'region "{text}" has {n_given} parts, but the array has {store.rank} dimensions')
    at = terms.index(...) if ... in terms else len(terms)
    index: list[Any] = [*terms[:at], *[slice(None)] * (store.rank - n_given), *terms[at + 1 :]]
    domain = store.domain
    bounds = list(zip(domain.inclusive_min, domain.exclusive_max, strict=True))
    found = tuple(
        _from_end(term, high) if low >= 0 else term for term, (low, high) in zip(index, bounds, strict=True)
    )
    explicit = store[d[:].mark_bounds_implicit[False]] if store.rank else store
    for at, (term, (low, high)) in enumerate(zip(found, bounds, strict=True)):
        try:
            explicit[(slice(None),) * at + (term,)]
        except OutOfBoundsError:
            label = store.domain.labels[at]
            which = f'{at} ("{label}")' if label else str(at)
            raise OutOfBoundsError(
                f'"{_part_text(index[at])}" in region "{text}" is no part of dimension {which}, which is '
                f"[{low}, {high})"
            ) from None
    return found


def select(store: TensorStore, text: str) -> TensorStore:
    """Return the view that a region selects; see `index_of`."""
    index = index_of(store, text)
    return store[index] if index else store


def _part_text(term: int | slice) -> str:
    """Return the text of a term of a region."""
    if not isinstance(term, slice):
        return str(term)
    numbers = ["" if number is None else str(number) for number in (term.start, term.stop, term.step)]
    return ":".join(numbers if numbers[2] else numbers[:2])


def _from_end(term: Any, high: int) -> Any:
    """Return a term with positions in place of numbers that count from the end `high`."""
    if isinstance(term, slice):
        return slice(_from_end(term.start, high), _from_end(term.stop, high), term.step)
    # Positions before the start stay as they are, for an error that names them.
    return term + high if term is not None and -high <= term < 0 else term


def _term(part: str, text: str) -> int | slice | EllipsisType:
    if part == "...":
        return ...
    numbers = [_number(number.strip(), part, text) for number in part.split(":")]
    if len(numbers) == 1:
        if numbers[0] is None:
            raise UsageError(f'region "{text}" has an empty part; ":" selects a whole dimension')
        return numbers[0]
    if len(numbers) > 3:
        raise UsageError(f'"{part}" in region "{text}" has more than start:stop:step')
    if len(numbers) == 3 and numbers[2] == 0:
        raise UsageError(f'"{part}" in region "{text}" has a step of 0')
    return slice(*numbers)


def _number(number: str, part: str, text: str) -> int | None:
    if not number:
        return None
    if not _INTEGER.fullmatch(number):
        raise UsageError(f'"{part}" in region "{text}" is neither an index nor start:stop:step nor "..."')
    value = int(number)
    if abs(value) > _LARGEST:
        raise UsageError(f'"{part}" in region "{text}" is beyond the largest index, {_LARGEST}')
    return value
