"""Looking up keys in a B+tree, node by node."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from chunkwise.core.kvstore.key_range import KeyRange, prefix_end
from chunkwise.core.kvstore.ocdbt.node import Entry, Inner, Leaf, Node, read_node
from chunkwise.core.kvstore.ocdbt.places import Place
from chunkwise.core.kvstore.ocdbt.versions import Version
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.errors import DataCorruptionError

__all__ = [
    "LoadNode",
    "NodeRef",
    "check_keys",
    "child_ref",
    "children_of",
    "entries",
    "find",
    "read_checked",
    "root_of",
]

# Visits per node and in all; a listing with more is of a tree made to share nodes endlessly.
_REPEATS = 64
_FEW_VISITS = 1 << 12


class NodeRef(NamedTuple):
    """Reference to a node, with the bounds of its keys."""

    place: Place
    shared: bytes  # start of its keys, left out in the node
    height: int
    keys: KeyRange


LoadNode: TypeAlias = Callable[[NodeRef], Node]
"""Reads a node by `read_checked`; a cached node passes `check_keys` again."""


def read_checked(raw: Buffer, ref: NodeRef) -> Node:
    """Return the node from the bytes that `ref` refers to."""
    return check_keys(read_node(raw, ref.place.file.base, ref.shared, ref.height), ref)


def check_keys(node: Node, ref: NodeRef) -> Node:
    """Return `node`; raise DataCorruptionError if its keys are outside the bounds of `ref`."""
    first, last = node.keys[0], node.keys[-1]
    if first not in ref.keys or last not in ref.keys:
        raise DataCorruptionError(f"it has the keys {first!r} to {last!r}, which belong to other nodes")
    return node


def root_of(version: Version) -> NodeRef | None:
    """Return the reference to the root; None for an empty tree."""
    return None if version.root.is_missing else NodeRef(version.root, b"", version.height, KeyRange())


def child_ref(node: Inner, i: int, keys: KeyRange) -> NodeRef:
    """Return the reference to a child of a node whose own keys are in `keys`."""
    child = node.entries[i]
    stop = node.keys[i + 1] if i + 1 < len(node.keys) else keys.exclusive_max
    return NodeRef(child.place, child.key[: child.shared], node.height - 1, KeyRange(child.key, stop))


def find(root: NodeRef | None, key: bytes, load: LoadNode) -> Entry | None:
    """Return the entry of `key`."""
    ref = root
    while ref is not None:
        node = load(ref)
        if isinstance(node, Leaf):
            i = bisect_left(node.keys, key)
            return node.entries[i] if i < len(node.keys) and node.keys[i] == key else None
        i = bisect_right(node.keys, key) - 1
        ref = child_ref(node, i, ref.keys) if i >= 0 else None
    return None


def entries(root: NodeRef | None, keys: KeyRange, load: LoadNode) -> Iterator[Entry]:
    """Yield the entries of the keys in `keys`, in order."""
    visited: set[Place] = set()
    visits = 0
    stack = [] if root is None or keys.empty else [root]
    while stack:
        ref = stack.pop()
        visited.add(ref.place)
        visits += 1
        if visits > max(_FEW_VISITS, _REPEATS * len(visited)):
            raise DataCorruptionError("the nodes of the B+tree refer to the same nodes again and again")
        node = load(ref)
        low = bisect_left(node.keys, keys.inclusive_min)
        high = bisect_left(node.keys, keys.exclusive_max) if keys.exclusive_max else len(node.keys)
        if isinstance(node, Leaf):
            for i in range(low, high):
                yield node.entries[i]
            continue
        if low > 0 and node.keys[low : low + 1] != [keys.inclusive_min]:
            low -= 1  # its first key is before the range, but later ones may be in it
        stack.extend(child_ref(node, i, ref.keys) for i in range(high - 1, low - 1, -1))


def children_of(root: NodeRef | None, prefix: bytes, load: LoadNode) -> tuple[list[bytes], list[bytes]]:
    """Return the keys directly below `prefix`, and the prefixes of the others up to the next "/"."""
    found: list[bytes] = []
    prefixes: list[bytes] = []
    below = KeyRange(prefix, prefix_end(prefix))
    while True:
        for entry in entries(root, below, load):
            slash = entry.key.find(b"/", len(prefix))
            if slash < 0:
                found.append(entry.key)
                continue
            prefixes.append(entry.key[:slash])
            below = KeyRange(prefix_end(entry.key[: slash + 1]), below.exclusive_max)
            break  # everything else below it is skipped
        else:
            return found, prefixes
