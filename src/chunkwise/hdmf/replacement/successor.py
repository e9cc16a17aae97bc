"""Protocol of replacing a dataset, as readers follow it."""

# No store can put a document and chunks in the place of others at once.  So the successor is written first,
# whole, at a path of the store that no group leads to, where nobody takes it for a dataset.  Then one
# document, that of the root, says so: attribute ``_REPLACING`` is the path of the dataset.  From there on
# the successor counts, and whoever opens the store reads it, while keys of the dataset itself are
# overwritten one by one. When all are, the attribute is removed, and then the successor.
#
# The document of the root is read at each opening anyway, so that this costs readers nothing.

from __future__ import annotations

from dataclasses import replace

from chunkwise.errors import NotFoundError
from chunkwise.hdmf.model.attributes import REPLACING
from chunkwise.hdmf.model.tree import StoredNode, Tree, read_tree
from chunkwise.hierarchy.location import Location

__all__ = ["SUCCESSOR", "is_replacing", "read_replacement", "replaced_path", "successor_nodes"]

SUCCESSOR = "/.chunkwise-replacing/dataset"
"""Path of the successor; what is above it has no document and is no group."""


def replaced_path(tree: Tree) -> str | None:
    """Return the path of the dataset that is being replaced; None if there is none, or none any more."""
    value = tree.nodes["/"].attributes.get(REPLACING)
    known = isinstance(value, str) and value != "/" and value in tree.nodes and tree.is_dataset(value)
    return value if known else None


def is_replacing(tree: Tree) -> bool:
    """Return True if a dataset is being replaced, or was."""
    return REPLACING in tree.nodes["/"].attributes


def successor_nodes(successor: Tree, path: str) -> list[StoredNode]:
    """Return the nodes of a successor as those of the dataset at a path."""
    return [
        replace(node, path=path + node.path[len(SUCCESSOR) :], stored_at=node.path)
        for node in successor.below(SUCCESSOR)
    ]


def read_replacement(location: Location, tree: Tree) -> None:
    """Put a successor in the place of the dataset that is being replaced, if there is one."""
    path = replaced_path(tree)
    if path is None:
        return
    try:
        successor = read_tree(location, tree.format, False, SUCCESSOR)
    except NotFoundError:  # it took the place of the dataset meanwhile
        return
    nodes = successor_nodes(successor, path)
    before = tree.nodes[path]
    if tree.consolidated and before.is_array and "shape" in nodes[0].document:
        # Rows that were added since are in no column of consolidated metadata.
        nodes[0].document["shape"] = before.document["shape"]
    tree.replace(path, nodes)
