"""Consolidated metadata of served groups of Zarr v3: a small tree is opened with one request.

It is made from the served documents when the group's is requested, and kept as long as nodes are
(`chunkwise.core.trees.consolidated`).  A tree has none if it would be large, or if a member can't be listed
or served or has an unusual data type: clients then look at each node.  A group that is stored with
consolidated metadata, such as an NWB file, may depend on it where keys can't be listed, so it always has it.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from chunkwise.errors import ChunkwiseError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump_bytes
from chunkwise.extension.trees import EMPTY_CONSOLIDATED, is_consolidated
from chunkwise.images.server.answer import Content, Document
from chunkwise.images.server.sources import Sources
from chunkwise.images.server.trees import KNOWN_FOR, Served, ServedGroup
from chunkwise.images.server.zarr3 import DATA_TYPES, KEY

__all__ = ["FindContent", "group_with_copies"]

FindContent: TypeAlias = Callable[[Sources, tuple[str, ...], Served, str], Content | None]
"""Returns the content of a key of the node at a path."""


class _Limits(NamedTuple):
    """Limits on the size of copies and the time to make them; whether all clients must know all types."""

    nodes: int
    nbytes: int
    seconds: float
    known_types: bool


_LIMITS = _Limits(200, 1 << 20, 1.0, True)
_STORED_LIMITS = _Limits(100_000, 1 << 26, 30.0, False)
_KNOWN_TYPES = (*DATA_TYPES, "string")
_IDLE_SHARE = 20
"""Copies are kept at least this many times as long as it took to make them."""

_LARGE_FOR = 300.0
"""Seconds after which a large tree is looked at again."""


def group_with_copies(
    sources: Sources, path: tuple[str, ...], group: ServedGroup, find: FindContent
) -> Document:
    """Return the document of a group, with copies of those below it that `find` gives, if they are few."""
    until, kept = group.made.get(("copies", find), (float("-inf"), None))
    now = time.monotonic()
    if now > until:
        kept = _copies(sources, path, group, find)
        took = time.monotonic() - now
        until = now + (_LARGE_FOR if kept is None else max(KNOWN_FOR, _IDLE_SHARE * took))
        group.made["copies", find] = until, kept
    document = _document(find(sources, path, group, KEY))
    if kept is not None:
        document["consolidated_metadata"] = {**EMPTY_CONSOLIDATED, "metadata": kept}
    return Document(dump_bytes(document))


def _copies(
    sources: Sources, path: tuple[str, ...], group: ServedGroup, find: FindContent
) -> dict[str, JSON] | None:
    """Return the documents of all nodes below a group by path; None if they are many, or one can't be had."""
    limits = _LIMITS
    if group.node is not None and is_consolidated(group.node):
        limits = _STORED_LIMITS
    stop = time.monotonic() + limits.seconds
    copies: dict[str, JSON] = {}
    nbytes = 0
    waiting = deque([(path, group)])
    try:
        while waiting:
            above, found = waiting.popleft()
            for member in sources.members(above, found):
                names = (*above, member.name)
                node = sources.find(names)
                content = None if node is None else find(sources, names, node, KEY)
                if not isinstance(content, Document):
                    return None
                nbytes += len(content.body)
                if nbytes > limits.nbytes or len(copies) == limits.nodes or time.monotonic() > stop:
                    return None
                copies["/".join(names[len(path) :])] = document = _document(content)
                if isinstance(node, ServedGroup):
                    document["consolidated_metadata"] = EMPTY_CONSOLIDATED
                    waiting.append((names, node))
                elif limits.known_types and document["data_type"] not in _KNOWN_TYPES:
                    return None  # a client that doesn't know one would open none of the others either
    except ChunkwiseError:  # which a client that looks at the node is told
        return None
    return copies


def _document(content: Content | None) -> dict[str, JSON]:
    assert isinstance(content, Document), "a group has a document"
    document: dict[str, JSON] = json.loads(content.body)
    return document
