"""Arrays of which only the metadata document is known so far.

A tree that is opened from its consolidated metadata may have tens of thousands of arrays.  Each is an
ordinary `chunkwise.TensorStore`, but its metadata and codecs are parsed on first use, which is also when an
invalid document raises an error.
"""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from typing import Any

from chunkwise.copying.new_array import open_node
from chunkwise.core.api.open import _reduce
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.arrays.protocol import OpenArray
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.trees.consolidated import Entry
from chunkwise.core.trees.node import Node
from chunkwise.core.trees.node_attributes import ArrayNode
from chunkwise.core.trees.tree import Tree

__all__ = ["LazyArray", "lazy_array"]


class LazyArray(TensorStore):
    """A TensorStore that is opened when the document alone can't answer."""

    __slots__ = ("_array_node", "_entry", "_names", "_opened", "_tree")

    _tree: Tree
    _names: tuple[str, ...]
    _entry: Entry
    _opened: TensorStore | None
    _array_node: ArrayNode | None

    def _open(self) -> TensorStore:
        if self._opened is None:
            self._opened = open_node(self._tree, self._names, self._document())
        return self._opened

    def _document(self) -> Node:
        return self._tree.node_of_entry(self._names, self._entry)

    @property
    def _array(self) -> OpenArray:  # type: ignore[override]
        return self._open()._array

    @property
    def _transform(self) -> IndexTransform:  # type: ignore[override]
        return self._open()._transform

    @property
    def _transaction(self) -> None:  # type: ignore[override]
        return None

    @property
    def _node(self) -> ArrayNode:  # type: ignore[override]
        if self._array_node is None:
            self._array_node = self._tree.array_node(self._names, self._document())
        return self._array_node

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dimension."""
        shape = _plain_shape(self._entry) if self._opened is None else None
        return self._open().shape if shape is None else shape

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    ndim = rank

    @property
    def path(self) -> str:
        """Path from the root of the tree that it was opened from."""
        return "/".join(self._names)


def lazy_array(tree: Tree, names: Sequence[str], entry: Entry) -> LazyArray:
    """Return the array of a node without interpreting its metadata."""
    self = LazyArray.__new__(LazyArray)
    self._tree = tree
    self._names = tuple(names)
    self._entry = entry
    self._opened = None
    self._array_node = None
    return self


def _plain_shape(entry: Entry) -> tuple[int, ...] | None:
    """Return the shape in a document, None unless it is certain."""
    document = entry.document
    shape = document.get("shape")
    dtype = document.get("data_type" if entry.key == "zarr.json" else "dtype")
    if type(shape) is not list or type(dtype) is not str or dtype[0:1] in ("r", "") or "V" in dtype:
        return None
    for n in shape:
        if type(n) is not int or n < 0:
            return None
    return tuple(shape)


def _pickled(store: LazyArray) -> Any:
    return _reduce(store._open())


copyreg.pickle(LazyArray, _pickled)
