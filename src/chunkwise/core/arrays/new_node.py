"""Checks that follow the write of a new node's document.

Before that, the node's place was vacant and the nodes above were groups.  Other processes may have changed
that meanwhile.  Each of two that can't both be there writes first and looks then, so one of them sees the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from chunkwise.core.driver.tree_format import TreeFormat
from chunkwise.core.driver.tree_formats import TREE_FORMATS
from chunkwise.core.kvstore.places.lease import check_not_held, takes_turns
from chunkwise.core.kvstore.places.staging import APPEND, is_staging, upwards
from chunkwise.core.kvstore.protocol import FewListable, KvStoreDriver, offers
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, PermissionDeniedError, UnsupportedError

__all__ = ["Checks", "check_holds_nothing", "checks_above"]

Checks: TypeAlias = Mapping[str, Callable[[bytes], None]]
"""Keys of documents, with a function that raises for what a document must not say."""

_DOCUMENTS = tuple(key for format in TREE_FORMATS.values() for key in format.documents)


def check_holds_nothing(store: KvStoreDriver, path: str) -> None:
    """Raise AlreadyExistsError if anything is in a new array, HeldError if another owner clears its place."""
    try:
        found = store.few_children(path) if offers(store, FewListable) else store.list_children(path)
    except (UnsupportedError, PermissionDeniedError):
        found = None
    if takes_turns(store, path + APPEND) and (found is None or path + APPEND in found.keys):
        check_not_held(store, path + APPEND)
    for key in () if found is None else (*found.prefixes, *found.keys):
        name = key[len(path) :]
        # The array has documents, perhaps with lock files, and names that this library hides.
        if not (name.startswith((".chunkwise", *_DOCUMENTS)) or is_staging(name)):
            raise AlreadyExistsError(f"{store.describe(key)} was made by another process meanwhile")


def checks_above(store: KvStoreDriver, path: str, format: TreeFormat) -> Checks:
    """Return checks that raise AlreadyExistsError if a group above a node has become an array of a format."""
    groups = (group for group in upwards(path) if group != path)
    return {group + format.array_key: partial(_check_group, store, format, group) for group in groups}


def _check_group(store: KvStoreDriver, format: TreeFormat, group: str, raw: bytes) -> None:
    try:
        document = format.load(raw)
    except ChunkwiseError:
        return
    if not isinstance(document, dict) or (format.container_member and format.container_member in document):
        return
    if format.kind_of(format.array_key, format.usual_form(document))[0] == "array":
        raise AlreadyExistsError(
            f"{store.describe(group)} is an array, which another process has made meanwhile; nothing can be "
            "below it"
        )
