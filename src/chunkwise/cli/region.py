"""Regions as text: ``100:110,110,:`` is what ``store[100:110, 110, :]`` selects."""

from __future__ import annotations

import re
from types import EllipsisType
from typing import TypeAlias

from chunkwise.cli.command import UsageError

__all__ = ["Region", "parse_region"]

Region: TypeAlias = "tuple[int | slice | EllipsisType, ...]"

_INTEGER = re.compile(r"[+-]?[0-9]+")


def parse_region(text: str) -> Region:
    """Read a region: per dimension an index, ``start:stop`` or ``start:stop:step``; ``...`` for the rest.

    Brackets around it are allowed.  Numbers are positions in the array's domain: -1 is not the last one.

    Raises
    ------
    UsageError
        If a part is none of these.

    Examples
    --------
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
    return int(number)
