"""``change_documents``: replace documents by others, all or none, unless others change them meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from chunkwise.core.base.binding import load_json
from chunkwise.core.kvstore.atomic import AtomicWritable
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, KvStoreDriver, offers
from chunkwise.errors import AbortedError, AlreadyExistsError, ChunkwiseError

__all__ = ["change_documents"]


def change_documents(
    kv: KvStoreDriver,
    written: Mapping[str, bytes],
    removed: Sequence[str],
    again: Callable[[], Mapping[str, bytes]],
) -> None:
    """Write new documents, then delete others; after an error all are as they were.

    `again` makes the new documents from what is stored: others may have changed it since.

    Raises
    ------
    AlreadyExistsError
        If there is another document with one of the names.
    AbortedError
        If another process has changed a document meanwhile.
    """
    there = {key: found for key in written if (found := kv.read(key).value) is not None}
    for key, value in there.items():
        if not _is_same_json(bytes(value), written[key]):
            raise AlreadyExistsError(f"{kv.describe(key)} exists already")
    old = {key: kv.read(key) for key in removed}
    if again() != written:
        raise AbortedError("another process has changed metadata meanwhile; nothing is migrated")
    new = {key: value for key, value in written.items() if key not in there}
    store: object = kv
    if offers(store, AtomicWritable):
        conditions = {key: stored.generation for key, stored in old.items()}
        conditions.update(dict.fromkeys(new, MISSING_GENERATION))
        changed = store.write_all({**new, **dict.fromkeys(removed)}, conditions=conditions)
        if changed is not None:
            raise _changed(kv, changed)
        return
    undo: list[Callable[[], object]] = []
    try:
        for key, value in new.items():
            generation = kv.write(key, value, if_equal=MISSING_GENERATION)
            if generation is None:
                raise _changed(kv, key)
            undo.append(partial(kv.delete, key, if_equal=generation))
        for key, stored in old.items():
            if stored.value is None:
                continue
            undo.append(partial(kv.write, key, bytes(stored.value), if_equal=MISSING_GENERATION))
            if kv.delete(key, if_equal=stored.generation) is None:
                undo.pop()  # what others have deleted does not come back
                raise _changed(kv, key)
    except BaseException:  # an interrupt too
        for step in reversed(undo):
            with suppress(ChunkwiseError):  # the store may have failed permanently: then both are there
                step()
        raise


def _changed(kv: KvStoreDriver, key: str) -> AbortedError:
    return AbortedError(f"{kv.describe(key)} was changed by another process meanwhile; nothing is migrated")


def _is_same_json(a: bytes, b: bytes) -> bool:
    try:
        return repr(load_json(a)) == repr(load_json(b))
    except ChunkwiseError:
        return False
