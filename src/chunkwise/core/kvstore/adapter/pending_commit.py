"""Making the changes of a `.pending.PendingStore`: one key at a time, or all at once."""

from __future__ import annotations

from typing import Any

from chunkwise.core.kvstore.adapter.pending import Change, PendingStore
from chunkwise.core.kvstore.atomic import AtomicWritable
from chunkwise.core.kvstore.compare_and_swap import Losses, compare_and_swap
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.places.keys_below import list_below
from chunkwise.core.kvstore.places.lease import (
    HeldError,
    Lease,
    check_alone,
    end_turn,
    looks_above,
    take_turn,
    wait_inside,
)
from chunkwise.core.kvstore.places.staging import unwritten
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, Buffer, KvStoreDriver, delete_where
from chunkwise.errors import AbortedError, ChunkwiseError, GenerationMismatchError, prefix

__all__ = [
    "check_documents",
    "check_reads",
    "commit_all",
    "commit_documents",
    "commit_key",
    "delete_ranges",
    "take_places",
]


def check_reads(store: PendingStore) -> None:
    """Raise AbortedError if another writer has changed a value that was read but is not to be changed."""
    for key, generation in store.read_generations.items():
        if (
            key not in store.changes
            and store.base.read(key, if_not_equal=generation).generation != generation
        ):
            raise AbortedError(
                f"Error reading {store.describe(key)}: Generation mismatch in repeatable_read transaction"
            )


def check_documents(store: PendingStore) -> dict[str, bytes]:
    """Return the generations of the documents that changes depend on; raise if one means something else."""
    found = {}
    for key, document in list(store.documents.items()):
        change = store.changes.get(key)
        if store.changed_generation(key) is None:
            found[key] = document.check(store)
        elif (  # before chunks of another array are decoded
            change is not None
            and change.condition
            and store.base.read(key, if_not_equal=change.condition).generation != change.condition
        ):
            raise GenerationMismatchError(f"Error writing {store.describe(key)}: Generation mismatch")
    return found


def commit_documents(store: PendingStore) -> None:
    """Change the documents that other changes depend on, if the transaction has read them before."""
    # If another writer was faster, none of the other changes is made.
    for key in store.documents:
        change = store.changes.get(key)
        if change is not None and change.condition:
            commit_key(store, key, change)
            store.drop(key.__eq__)


def take_places(store: PendingStore) -> list[Lease]:
    """Exclude others from places where new arrays replace old nodes, until all changes are made."""
    paths = [_above(key) for key in store.made if key in store.changes and not store.changes[key].condition]
    while True:
        taken: list[Lease] = []
        try:
            for path in sorted(paths):
                lease = take_turn(
                    store.base, path, "an array is being replaced by a transaction of chunkwise"
                )
                taken += [] if lease is None else [lease]
                for look in looks_above(store.base, path):
                    look()
                wait_inside(store.base, path, list_below(store.base, path))
            return taken
        except HeldError as e:
            for lease in taken:  # whoever deletes a group above may be waiting for these
                end_turn(lease)
            e.wait()
        except BaseException:
            for lease in taken:
                end_turn(lease)
            raise


def delete_ranges(store: PendingStore) -> None:
    """Delete the deleted keys before the changes are made, except staged data of others."""
    replaced = {_above(key) for key in store.made}
    for keys in store.deleted:
        if keys.start in replaced and keys == KeyRange.of_prefix(keys.start):
            delete_where(store.base, keys.start, keys.stop, unwritten(keys.start))
        else:
            store.base.delete_range(keys.start, keys.stop)


def _above(key: str) -> str:
    return key[: key.rfind("/") + 1]


def commit_key(store: PendingStore, key: str, change: Change) -> None:
    """Make one change, safely beside other writers; raise GenerationMismatchError if its condition fails."""
    is_new = key in store.made and change.condition == MISSING_GENERATION
    while True:
        generation = _commit_key(store.base, key, change)
        try:
            if is_new and generation:
                check_alone(store.base, key, generation)
            return
        except HeldError as e:  # what was there is being replaced or deleted
            e.wait()


def _commit_key(base: KvStoreDriver, key: str, change: Change) -> bytes | None:
    """Make one change; return the new generation."""
    done: bytes | None = None

    def attempt() -> bytes | None:
        nonlocal done
        if not change.modifications and not change.from_base:
            condition = change.condition
            done = _put(base, key, change.apply(None), condition)
        else:
            stored = base.read(key)
            if change.condition and stored.generation != change.condition:
                raise GenerationMismatchError("Generation mismatch")
            value = change.apply(stored.value)
            if value is None and stored.value is None:
                return None
            # Without the condition that the value is unchanged, another writer's part would be lost.
            condition = stored.generation
            done = _put(base, key, value, condition)
        if done is None and change.condition:
            raise GenerationMismatchError("Generation mismatch")
        return condition if done is None else None

    try:
        compare_and_swap(base, key, attempt)
    except ChunkwiseError as e:
        raise prefix(e, f"Error writing {base.describe(key)}") from e.__cause__
    return done


def _put(base: KvStoreDriver, key: str, value: Buffer | None, if_equal: bytes | None) -> bytes | None:
    if value is None:
        return base.delete(key, if_equal=if_equal)
    return base.write(key, value, if_equal=if_equal)


def commit_all(store: PendingStore, base: AtomicWritable, documents: dict[str, bytes]) -> None:
    """Make all changes of `store` at once or none; raise GenerationMismatchError if a condition fails.

    `documents` are the generations that `check_documents` has found.
    """
    losses = Losses(lambda: store.describe(""))
    while True:
        conditions = {key: generation for key, generation in documents.items() if generation}
        rebased = set(conditions) - set(store.read_generations)
        conditions |= store.read_generations
        values: dict[str, Any] = {}  # the base itself has made the references
        for key, change in store.changes.items():
            stored = None
            if change.condition:
                conditions[key] = change.condition
            if change.from_base:
                found = store.base.read(key)
                stored = found.value
                if key not in conditions:
                    conditions[key] = found.generation
                    rebased.add(key)
            try:
                values[key] = change.reference or change.apply(stored)
            except ChunkwiseError as e:
                raise prefix(e, f"Error writing {store.describe(key)}") from e.__cause__
        failed = base.write_all(values, conditions=conditions, deleted=store.deleted)
        if failed is None:
            return
        if failed not in rebased:
            operation = "writing" if failed in values else "reading"
            raise GenerationMismatchError(f"Error {operation} {store.describe(failed)}: Generation mismatch")
        losses.add(conditions[failed])
        documents = check_documents(store)
