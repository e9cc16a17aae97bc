"""Operations on all dimensions at once: ``domain.translate_by[5]``, ``store.label["x", "y"]``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

from chunkwise.core.index_space.dim_expression import OPERATIONS
from chunkwise.core.index_space.subscript import Subscript

__all__ = ["AllDimensionsMixin"]


class AllDimensionsMixin:
    """Operations in brackets on all dimensions, and transposing, for classes that have `_operate`."""

    __slots__ = ()

    @abstractmethod
    def _operate(self, run: Callable[..., Any], argument: Any) -> Self:
        """Return the same kind of object: what `run` makes of its mapping, all dimensions and `argument`."""

    @abstractmethod
    def transpose(self, axes: Any = None) -> Self:
        """Return the same with its dimensions in the order of `axes`, or reversed."""

    def _operation(self, name: str) -> Subscript[Self]:
        parse, run = OPERATIONS[name]
        return Subscript(self, name, lambda key: self._operate(run, parse(key)[0]))

    @property
    def label(self) -> Subscript[Self]:
        """The same with new dimension labels: ``label["x", "y"]``."""
        return self._operation("label")

    @property
    def translate_by(self) -> Subscript[Self]:
        """The same with its domain shifted up: ``translate_by[5]``, or a number or None per dimension."""
        return self._operation("translate_by")

    @property
    def translate_backward_by(self) -> Subscript[Self]:
        """The same with its domain shifted down."""
        return self._operation("translate_backward_by")

    @property
    def translate_to(self) -> Subscript[Self]:
        """The same with its domain shifted to a new origin."""
        return self._operation("translate_to")

    @property
    def mark_bounds_implicit(self) -> Subscript[Self]:
        """The same with bounds made implicit or explicit: a boolean for both ends, or a slice of booleans."""
        return self._operation("mark_bounds_implicit")

    @property
    def T(self) -> Self:  # noqa: N802
        """The same with its dimensions in reverse order."""
        return self.transpose()
