"""``StoreGuard``: an HDMF store is written only while it is where it was begun or opened.

Others may delete, move or replace it meanwhile, or put an array around it.  So

1. a document is written on condition that there is none, and replaced only after a look at the store;
2. after the last one, the mark of a new store must be there and the document of the root be its own, and
   nothing above be an array: others look after they have written, too;
3. if not, the documents that were new are deleted again, with the chunks below them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from chunkwise.core.kvstore.places.staging import UNFINISHED
from chunkwise.core.kvstore.protocol import MOST_LOST
from chunkwise.errors import AbortedError, AlreadyExistsError, ChunkwiseError
from chunkwise.extension import ByteRange, KvStoreDriver, Stamped
from chunkwise.extension.inside import MISSING_GENERATION, GuardedStore, Written, traits_of
from chunkwise.extension.n5 import is_marker
from chunkwise.extension.trees import (
    Node,
    check_outside_arrays,
    delete_own,
    find_documented,
    node_attributes,
    tree_format,
)
from chunkwise.hdmf.model.attributes import object_id_of
from chunkwise.hdmf.model.tree import attributes_member
from chunkwise.hdmf.storage.store_content import StoreContent

__all__ = ["StoreGuard", "root_attributes"]

_LOOK = 2.0  # seconds between two looks at a store that is a request away


class StoreGuard:
    """What was written to a store since it was begun, or last finished."""

    def __init__(self, store: StoreContent) -> None:
        self._store = store
        self._mark: bytes | None = None  # of a new store
        self._is_first = False  # nothing was at the place of a new store
        self._written: list[Written] = []
        self._looked = float("-inf")

    def begin(self, mark: bytes, *, is_first: bool) -> None:
        """Take the mark that was written to a new store."""
        self._mark, self._is_first = mark, is_first

    def over(self, kv: KvStoreDriver) -> GuardedStore:
        """Return a store to which documents are written while this store is there."""
        return GuardedStore(kv, self.look, self._written.append)

    def write_root(self, value: bytes) -> None:
        """Write the document that makes the location a store; raise if others have made something there."""
        location = self._store.location
        if_equal = None
        if self._is_first:
            root = find_documented(location)
            # The mark of the container that it is to be is there already.
            is_own = root is not None and root.is_container and is_marker(root.document)
            if_equal = root.found.generation if is_own and root and root.found else MISSING_GENERATION
        with self._withdrawing():
            key = location.path + tree_format(self._store.format).group_key
            if self.over(location.store).write(key, value, if_equal=if_equal) is None:
                raise AlreadyExistsError(f"{location.text} was made by another process meanwhile")

    def look(self) -> None:
        """Do as `check`; in a store that answers slowly, a recent look is enough."""
        is_slow = traits_of(self._store.location.store).request_concurrency is not None
        if not is_slow or time.monotonic() - self._looked >= _LOOK:
            self.check()

    def check(self) -> None:
        """Raise AbortedError, and withdraw what was written, unless the store is there."""
        self._looked = time.monotonic()
        with self._withdrawing():
            self._check_root() if self._mark is None else self._check_mark()

    def end(self) -> None:
        """Do as `check` once all is written, and finish a new store."""
        with self._withdrawing():
            check_outside_arrays(self._store.location)
            self._check_root()
            if self._mark is not None:
                self._delete_mark()
        self._mark, self._is_first = None, False
        self._written.clear()

    def _check_mark(self) -> Stamped:
        # In an archive, its generation changes with any key.
        location = self._store.location
        found = location.store.read(location.path + UNFINISHED)
        if found.value is None or bytes(found.value) != self._mark:
            raise self._was_moved()
        return found

    def _delete_mark(self) -> None:
        location = self._store.location
        conditional = traits_of(location.store).conditional_deletes
        for _ in range(MOST_LOST):
            found = self._check_mark()
            how = {"if_equal": found.generation} if conditional else {}
            if location.store.delete(location.path + UNFINISHED, **how) is not None:
                return
        raise self._was_moved()

    def _check_root(self) -> None:
        """Raise AbortedError unless the documents of the root are there, and of this store."""
        store, new = self._store, {written.key for written in self._written}
        root = find_documented(store.location)
        own = object_id_of(store.tree.nodes["/"].attributes)
        is_other = root is not None and (
            (root.kind, root.format) != ("group", store.format)
            or (own is not None and object_id_of(root_attributes(root)) != own)
        )
        rules, path = tree_format(store.format), store.location.path
        keys = {path + key for key in (rules.group_key, rules.consolidated_key) if key}
        # What was not there before was written after others had deleted the rest.
        known = keys if self._mark is not None else keys - new
        read = partial(store.location.store.read, byte_range=ByteRange(0, 0))
        if is_other or all(read(key).value is None for key in known):
            raise self._was_moved()

    def _was_moved(self) -> AbortedError:
        return AbortedError(f"another process has moved, replaced or deleted {self._store.location.text}")

    @contextmanager
    def _withdrawing(self) -> Iterator[None]:
        """If others have moved or replaced the store, delete again what was new in it."""
        try:
            yield
        except (AbortedError, AlreadyExistsError):
            self._withdraw()
            raise

    def _withdraw(self) -> None:
        with suppress(ChunkwiseError):  # the store may have failed permanently
            for written in self._written:
                written.undo()
            for written in self._written:
                at = self._store.location.at(written.key[: written.key.rfind("/") + 1])
                if at.path != self._store.location.path and find_documented(at) is None:
                    delete_own(at, ())
        self._written.clear()


def root_attributes(root: Node) -> Mapping[str, Any]:
    """Return the attributes of the document of a root."""
    member = attributes_member(root.format)  # type: ignore[arg-type]
    found: Any = root.document.get(member, {}) if member else node_attributes(root)
    return found if isinstance(found, Mapping) else {}
