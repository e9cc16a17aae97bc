"""The B+tree: keys are looked up node by node, and changes replace nodes.

Nodes are never changed.  A changed leaf is a new node, and so are all nodes above it.  New nodes are drafts
first, so that nothing is written that a later step replaces.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from chunkwise.core.kvstore.key_range import KeyRange, prefix_end
from chunkwise.core.kvstore.ocdbt.manifest import Statistics, Version
from chunkwise.core.kvstore.ocdbt.node import Child, Entry, Inner, Leaf, Node, read_node
from chunkwise.core.kvstore.ocdbt.places import NO_PLACE, DataFile, Place
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.errors import DataCorruptionError

__all__ = [
    "NodeRef",
    "check_keys",
    "child_ref",
    "children_of",
    "edit_tree",
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


_ENTRY = 5  # bytes of an entry besides its key and value
_REFERENCE = 20  # bytes of a place and of the details of a node
_FEWEST_CHILDREN = 2
_KEY = itemgetter(0)  # key of an item
_SMALL = 4  # a node smaller than the largest divided by this is joined with a neighbour


WriteNode: TypeAlias = Callable[[Node, bool], Child]
"""``write(node, is_root)`` stores a node and returns the reference to it."""


class Draft(NamedTuple):
    """A node that is still to be written."""

    key: bytes  # the first
    height: int
    items: list[Item]


Item: TypeAlias = "Entry | Child | Draft"
_Run: TypeAlias = "tuple[NodeRef, Child] | list[Item]"  # a node that stays, or the replacements of several


class NewRoot(NamedTuple):
    """The root of a changed tree."""

    place: Place
    height: int
    statistics: Statistics


class _Edit(NamedTuple):
    load: LoadNode
    changes: Sequence[tuple[bytes, bytes | Place | None]]  # by key, each once
    keys: Sequence[bytes]  # keys of `changes`
    deleted: Sequence[KeyRange]
    largest: int  # largest node, in bytes

    def items(self, ref: NodeRef) -> list[Item]:
        """Return the items that replace those of a node."""
        node = self.load(ref)
        return self._of_leaf(node, ref.keys) if isinstance(node, Leaf) else self._of_inner(node, ref.keys)

    def _within(self, keys: KeyRange) -> Sequence[tuple[bytes, bytes | Place | None]]:
        stop = bisect_left(self.keys, keys.exclusive_max) if keys.exclusive_max else len(self.keys)
        return self.changes[bisect_left(self.keys, keys.inclusive_min) : stop]

    def _of_leaf(self, node: Leaf, keys: KeyRange) -> list[Item]:
        changed = dict(self._within(keys))
        kept: list[Item] = [entry for entry in node.entries if entry.key not in changed]
        for gone in self.deleted:
            kept = [item for item in kept if item.key not in gone]
        kept += [Entry(key, value) for key, value in changed.items() if value is not None]
        return sorted(kept, key=_KEY)

    def _of_inner(self, node: Inner, keys: KeyRange) -> list[Item]:
        runs: list[_Run] = []
        for i, child in enumerate(node.entries):
            ref = child_ref(node, i, keys)
            start = ref.keys.inclusive_min if i else keys.inclusive_min  # new keys may come before the first
            changes = self._within(KeyRange(start, ref.keys.exclusive_max))
            gone = [part for one in self.deleted if not (part := one.intersect(ref.keys)).empty]
            if not changes and not gone:
                runs.append((ref, child))
            elif changes or ref.keys not in gone:
                whole = ref._replace(keys=KeyRange(start, ref.keys.exclusive_max))
                runs.append(self.items(whole))
        out: list[Item] = []
        for run in self._joined(runs):
            out += [run[1]] if isinstance(run, tuple) else _drafts(run, node.height - 1, self.largest)
        return out

    def _joined(self, runs: list[_Run]) -> list[_Run]:
        """Return runs of items; no run is small unless it is the only one."""
        out: list[_Run] = []
        for run in runs:
            before = out[-1] if out else None
            both = isinstance(run, list) and isinstance(before, list)
            if before is not None and (both or self._is_small(run) or self._is_small(before)):
                out[-1] = self._loaded(before) + self._loaded(run)
            else:
                out.append(run)
        return [run for run in out if run]

    def _loaded(self, run: _Run) -> list[Item]:
        return list(self.load(run[0]).entries) if isinstance(run, tuple) else run

    def _is_small(self, run: _Run) -> bool:
        if isinstance(run, tuple):
            return False
        # Most runs are not small, which some of their items already show.
        return all(size < self.largest // _SMALL for size in accumulate(_sizes(run)))


def _sizes(items: Iterable[Item], files: set[DataFile] | None = None) -> Iterator[int]:
    """Yield the approximate size of each item, in bytes, in a node that has `files` in its table."""
    files = set() if files is None else files
    for item in items:
        place = item.value if isinstance(item, Entry) else item.place if isinstance(item, Child) else NO_PLACE
        if not isinstance(place, Place):
            yield len(item.key) + _ENTRY + len(place)
        elif place.file in files:
            yield len(item.key) + _REFERENCE
        else:
            files.add(place.file)
            base, relative = place.file
            yield len(item.key) + _REFERENCE + len(base) + len(relative) + _ENTRY


def _drafts(items: list[Item], height: int, largest: int) -> list[Item]:
    """Return nodes of similar size for `items`."""
    total = sum(_sizes(items))
    if total <= largest:
        return [Draft(items[0].key, height, items)] if items else []
    target = total / -(-total // largest)
    fewest = _FEWEST_CHILDREN if height else 1
    starts, files, size = [0], set[DataFile](), 0
    for i, item in enumerate(items):
        more = next(_sizes([item], files))
        if i - starts[-1] >= fewest and (size >= target or size + more > largest):
            starts.append(i)
            files.clear()
            more, size = next(_sizes([item], files)), 0
        size += more
    if len(starts) > 1 and len(items) - starts[-1] < fewest:
        starts.pop()
    stops = (*starts[1:], len(items))
    return [Draft(items[a].key, height, items[a:b]) for a, b in zip(starts, stops, strict=True)]


def edit_tree(
    root: NodeRef | None,
    load: LoadNode,
    changes: Mapping[bytes, bytes | Place | None],
    deleted: Sequence[KeyRange],
    *,
    largest: int,
    write: WriteNode,
) -> NewRoot:
    """Write a tree without the keys in `deleted`, and then with `changes`.

    Parameters
    ----------
    root : NodeRef or None
        Root of the existing tree.
    load : callable
        Reads the tree's nodes.
    changes : mapping
        The value, or its place, for each key; None deletes the key.
    deleted : sequence of KeyRange
    largest : int
        Largest node before compression, in bytes.
    write : callable
        Stores a node, after all nodes below it.
    """
    keys = sorted(changes)
    edit = _Edit(load, [(key, changes[key]) for key in keys], keys, deleted, largest)
    if root is None:
        height = 0
        items: list[Item] = [Entry(key, value) for key, value in edit.changes if value is not None]
    else:
        height, items = root.height, edit.items(root)
    while height and len(items) == 1:  # a single node becomes the root
        (only,) = items
        assert not isinstance(only, Entry)
        height -= 1
        if isinstance(only, Draft):
            items = only.items
        else:
            shared = only.key[: only.shared]
            items = list(load(NodeRef(only.place, shared, height, KeyRange())).entries)
    if not items:
        return NewRoot(NO_PLACE, 0, Statistics())
    while len(drafts := _drafts(items, height, largest)) > 1:
        items, height = drafts, height + 1
    child = _written(Draft(items[0].key, height, items), write, is_root=True)
    return NewRoot(child.place, height, child.statistics)


def _written(draft: Draft, write: WriteNode, *, is_root: bool) -> Child:
    node: Node
    keys = [item.key for item in draft.items]
    if draft.height:
        below = [
            _written(item, write, is_root=False) if isinstance(item, Draft) else item for item in draft.items
        ]
        node = Inner(keys, [child for child in below if isinstance(child, Child)], draft.height)
    else:
        node = Leaf(keys, [entry for entry in draft.items if isinstance(entry, Entry)])
    return write(node, is_root)
