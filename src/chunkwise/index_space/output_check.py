"""Checks of output index maps given by a caller against a domain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from chunkwise.errors import InvalidArgumentError
from chunkwise.index_space.label import MAX_RANK
from chunkwise.index_space.output_map import OutputIndexMap, constant_map

if TYPE_CHECKING:
    from chunkwise.index_space.domain import IndexDomain

__all__ = ["checked_output"]


def checked_output(domain: IndexDomain, output: Iterable[Any]) -> tuple[OutputIndexMap, ...]:
    """Return the maps in normal form, or raise InvalidArgumentError if one does not fit `domain`."""
    maps = list(output)
    for m in maps:
        if not isinstance(m, OutputIndexMap):
            raise TypeError(f"output must be a sequence of OutputIndexMap, found {m!r}")
    if len(maps) > MAX_RANK:
        raise InvalidArgumentError(
            f"Number of output dimensions ({len(maps)}) exceeds maximum rank of {MAX_RANK}"
        )
    return tuple([_normal_map(domain, i, m) for i, m in enumerate(maps)])


def _normal_map(domain: IndexDomain, i: int, m: OutputIndexMap) -> OutputIndexMap:
    rank = domain.rank
    if m._dim is not None and not 0 <= m._dim < rank:
        raise InvalidArgumentError(
            f"Input dimension {m._dim} specified for output dimension {i} is outside valid range [0, {rank})"
        )
    if m._array is not None:
        _check_array(domain, i, m._array.shape)
        if domain._is_empty():
            return constant_map(0)
    if (m._dim is not None or m._array is not None) and m._stride == 0:
        return constant_map(m._offset)
    return m


def _check_array(domain: IndexDomain, i: int, shape: tuple[int, ...]) -> None:
    what = f"Index array for output dimension {i}"
    if len(shape) != domain.rank:
        raise InvalidArgumentError(f"{what} has rank {len(shape)} but must have rank {domain.rank}")
    sizes = domain.shape
    if any(n not in (1, size) for n, size in zip(shape, sizes, strict=True)):
        found, expected = (f"{{{', '.join(map(str, x))}}}" for x in (shape, sizes))
        raise InvalidArgumentError(f"{what} has shape {found} which does not match input_shape {expected}")
    for d, n in enumerate(shape):
        if n != 1 and (domain._implicit_lo[d] or domain._implicit_hi[d]):
            raise InvalidArgumentError(f"{what} depends on input dimension {d} with implicit bounds")
