"""The `File` as its groups and datasets see it.

A file makes groups, groups make datasets, and each of them leads back to its file.  The way back is this
protocol, so that the modules build on each other in one order: dataset, group, file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from chunkwise.extension.trees import Tree

__all__ = ["Container"]


class Container(Protocol):
    """The members of `File` that its groups and datasets use."""

    _dimension_separator: str

    @property
    def filename(self) -> str:
        """The path."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the `Group` or `Dataset` at a path."""

    def _group_at(self, tree: Tree, names: Sequence[str]) -> Any:
        """Return the `Group` that `names` lead to in a tree; the file itself for its own root."""
