"""Bounds and labels of a domain, and index mappings: what their algebra works on."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from chunkwise.core.index_space.dim import Bounds, Dim

if TYPE_CHECKING:
    from chunkwise.core.index_space.output_map import OutputIndexMap

__all__ = ["Box", "IndexMapping", "M"]

_MAX_SIZE = 2**63 - 1


class Box:
    """A product of intervals: an `IndexDomain` without the methods that index and combine it."""

    __slots__ = ("__weakref__", "_hi", "_implicit_hi", "_implicit_lo", "_labels", "_lo")

    _lo: tuple[int, ...]
    _hi: tuple[int, ...]
    _implicit_lo: tuple[bool, ...]
    _implicit_hi: tuple[bool, ...]
    _labels: tuple[str, ...]

    def _fill(self, bounds: Sequence[Bounds], labels: tuple[str, ...]) -> None:
        self._lo = tuple([b[0] for b in bounds])
        self._hi = tuple([b[1] for b in bounds])
        self._implicit_lo = tuple([b[2] for b in bounds])
        self._implicit_hi = tuple([b[3] for b in bounds])
        self._labels = labels

    @classmethod
    def _make(
        cls,
        lo: tuple[int, ...],
        hi: tuple[int, ...],
        implicit_lo: tuple[bool, ...],
        implicit_hi: tuple[bool, ...],
        labels: tuple[str, ...],
    ) -> Self:
        """Return a domain from tuples that are known to be valid."""
        self = cls.__new__(cls)
        self._lo = lo
        self._hi = hi
        self._implicit_lo = implicit_lo
        self._implicit_hi = implicit_hi
        self._labels = labels
        return self

    @classmethod
    def _from_bounds(cls, bounds: Sequence[Bounds], labels: Sequence[str]) -> Self:
        """Return a domain from bounds that are known to be valid, one entry per dimension."""
        self = cls.__new__(cls)
        self._fill(bounds, tuple(labels))
        return self

    @classmethod
    def _of_shape(cls, shape: Iterable[int]) -> Self:
        """Return the explicit, unlabeled domain of an array of `shape` with origin 0."""
        hi = tuple(shape)
        n = len(hi)
        return cls._make((0,) * n, hi, (False,) * n, (False,) * n, ("",) * n)

    def _bounds(self) -> list[Bounds]:
        return list(zip(self._lo, self._hi, self._implicit_lo, self._implicit_hi, strict=True))

    def _is_empty(self) -> bool:
        """Return True if a dimension is empty and has explicit bounds."""
        for i, lo in enumerate(self._lo):
            if lo == self._hi[i] and not (self._implicit_lo[i] or self._implicit_hi[i]):
                return True
        return False

    def _dim(self, i: int) -> Dim:
        return Dim._make(
            (self._lo[i], self._hi[i], self._implicit_lo[i], self._implicit_hi[i]), self._labels[i]
        )

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self._lo)

    ndim = rank

    @property
    def inclusive_min(self) -> tuple[int, ...]:
        """Lower bounds."""
        return self._lo

    origin = inclusive_min

    @property
    def exclusive_max(self) -> tuple[int, ...]:
        """Upper bounds, exclusive; ``inf + 1`` where there is none."""
        return self._hi

    @property
    def inclusive_max(self) -> tuple[int, ...]:
        """Upper bounds, inclusive; ``inf`` where there is none."""
        return tuple([hi - 1 for hi in self._hi])

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, in elements."""
        return tuple(map(operator.sub, self._hi, self._lo))

    @property
    def size(self) -> int:
        """Number of elements, at most ``2**63 - 1``."""
        size = 1
        for lo, hi in zip(self._lo, self._hi, strict=True):
            size *= hi - lo
        return min(size, _MAX_SIZE)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels; the empty string for an unlabeled dimension."""
        return self._labels

    @property
    def implicit_lower_bounds(self) -> tuple[bool, ...]:
        """Flags of the lower bounds: True if implicit."""
        return self._implicit_lo

    @property
    def implicit_upper_bounds(self) -> tuple[bool, ...]:
        """Flags of the upper bounds: True if implicit."""
        return self._implicit_hi

    def __repr__(self) -> str:
        return f"{{ {', '.join(str(self._dim(i)) for i in range(len(self._lo)))} }}"


M = TypeVar("M", bound="IndexMapping")


class IndexMapping:
    """A domain and output index maps over it: an `IndexTransform`, or a bare domain without outputs."""

    __slots__ = ("__weakref__", "_domain", "_output")

    _domain: Box
    _output: tuple[OutputIndexMap, ...]

    @classmethod
    def _make(cls: type[M], domain: Box, output: tuple[OutputIndexMap, ...]) -> M:
        """Return a mapping from parts that are known to fit each other."""
        self = cls.__new__(cls)
        self._domain = domain
        self._output = output
        return self
