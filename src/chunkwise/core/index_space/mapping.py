"""The record that every operation on index mappings takes and returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from chunkwise.core.index_space.box import Box
    from chunkwise.core.index_space.output_map import OutputIndexMap

__all__ = ["IndexMapping", "M"]

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
