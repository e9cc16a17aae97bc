"""Updates of a part of one stored object that don't lose other writers' simultaneous changes.

The object is read, decoded, changed and stored on condition that its generation is unchanged; otherwise all
this is repeated.  The generation makes an update safe.  A lock only saves the loser's work of reading,
decoding and encoding again; so waiting for a lock is limited, and no order of locks can cause a deadlock.  In
a transaction, the update is applied at the commit, to the object's value at that time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.limits import hold, release
from chunkwise.core.base.threads import KeyLocks, is_within
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.engine.chunk_codec import Coder, chain_for, open_fill_test, under
from chunkwise.core.kvstore.atomic import Modifiable
from chunkwise.core.kvstore.compare_and_swap import compare_and_swap
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    Readable,
    Reader,
    Stamped,
    Writable,
)
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS, StoreTraits, Writer, traits_of
from chunkwise.errors import DataCorruptionError, UnsafeWriteError

__all__ = [
    "Changer",
    "ReadWritable",
    "SingleValueStore",
    "aligned",
    "as_transactional",
    "can_delete",
    "change_alone",
    "check_promise",
    "crop",
    "defer",
    "open_writer",
    "replaceable",
]

# Seconds.  A thread that holds a lock for longer is stuck on its store.  Without the lock an update is still
# correct, since stores compare generations, but it may have to be repeated.
_PATIENCE = 5.0

_locks = KeyLocks()


def change_alone(store: object, identity: Hashable, key: str, attempt: Callable[[], bytes | None]) -> None:
    """Change elements by attempts, while holding the lock of `key` if it is free soon."""
    # `identity` is the identity of the key's kvstore; for `attempt` see `compare_and_swap`.
    lock, held = _locks.of(identity, key), False
    if lock.locked() and is_within(change_alone, lock=lock, held=True):  # in a signal handler
        compare_and_swap(store, key, attempt, idempotent=True)
        return
    [held] = map(lock.acquire, [True], [_PATIENCE])  # unpacked: see chunkwise.core.kvstore.files.protocol
    try:
        compare_and_swap(store, key, attempt, idempotent=True)  # the same values again do no harm
    finally:
        if held:
            lock.release()


def can_delete(store: object) -> bool:
    """Return True if `store` can delete a key only if its value is the expected one."""
    return traits_of(store).conditional_deletes


def check_promise(store: object, key: str) -> None:
    """Raise unless a part of the present or future value of `key` can be changed safely."""
    traits = traits_of(store)
    if not traits.conditional_writes(key):
        why = traits.why_unsafe()
        raise UnsafeWriteError(
            "the storage can't promise that other writers' changes to the same chunk are not lost"
            f"{', since ' * bool(why)}{why}; "
            'write whole chunks, or set "single_writer" in the kvstore if no other process writes'
        )


def aligned(error: UnsafeWriteError, shape: tuple[int, ...] | None) -> UnsafeWriteError:
    """Add to the error of a refused partial write that writes of whole cells of `shape` are safe."""
    cells = "the cells of the grid" if shape is None else f"shape {shape}"
    error.message += f". Writes of whole chunks are safe: align them to {cells}"
    error.args = (error.message, *error.args[1:])
    return error


def replaceable(error: DataCorruptionError) -> DataCorruptionError:
    """Add advice to the error of a damaged chunk that a write has to read."""
    error.message += "; to replace it, write all of its elements, or delete it first"
    error.args = (error.message, *error.args[1:])
    return error


def crop(chunk: npt.NDArray[Any], cell: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...] | None:
    """Return the part of a chunk inside the array; None if the whole chunk must be stored."""
    # Only bits that are all zero are cut off: another writer, which knows a larger shape, may have written
    # others.
    sizes = [min(size, n - i * size) for size, i, n in zip(chunk.shape, cell, shape, strict=True)]
    if list(chunk.shape) == sizes or any(size <= 0 for size in sizes):
        return None
    inside = tuple(slice(0, size) for size in sizes)
    bits = chunk if chunk.dtype.hasobject else chunk.view(f"u{chunk.dtype.itemsize}")
    return inside if np.count_nonzero(bits) == np.count_nonzero(bits[inside]) else None


_GENERATION = b"\0"


class SingleValueStore:
    """A store of one key, with any name, that one thread changes."""

    # At the commit, simultaneous writes decide whether the value may be deleted.

    def __init__(self, value: Buffer | None, *, conditional_deletes: bool) -> None:
        self.value = value
        self.traits: StoreTraits = DEFAULT_TRAITS._replace(conditional_deletes=conditional_deletes)

    @property
    def identity(self) -> Hashable:
        """Equal only for this store object."""
        return "one value", id(self)

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value; parts of it are never requested."""
        assert byte_range is None and if_not_equal is None, "an object is changed as a whole"
        return Stamped(self.value, MISSING_GENERATION if self.value is None else _GENERATION, 0.0)

    def open_reader(self) -> Reader:
        """Return a reader of the whole value."""
        return lambda key: self.value

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes:
        """Replace the value; there is no other writer."""
        self.value = bytes(value)
        return _GENERATION

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes:
        """Delete the value."""
        self.value = None
        return MISSING_GENERATION

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete the value."""
        self.value = None


def defer(store: Modifiable, key: str, change: Callable[[SingleValueStore], None]) -> None:
    """Apply `change` to the value of `key`; it gets a store with only that value."""
    # It may be called several times, by any thread, each time with the value stored at that time.

    conditional_deletes = traits_of(store).conditional_deletes

    def modification(stored: Buffer | None) -> Buffer | None:
        one = SingleValueStore(stored, conditional_deletes=conditional_deletes)
        change(one)
        return one.value

    store.modify(key, modification)


class ReadWritable(Readable, Writable, Protocol):
    """A store in which chunks can be changed."""

    @property
    def identity(self) -> Hashable: ...


def as_transactional(store: object) -> Modifiable | None:
    """Return `store` if it defers changes until it knows the value; isinstance would be slow."""
    return store if hasattr(store, "modify") else None


def open_writer(store: object) -> Writer | None:
    """Return one worker's writer for unconditional writes, if `store` has one."""
    opener = traits_of(store).open_writer
    return None if opener is None else opener()


class Changer:
    """Updates chunks of one array; `operation` is reading or writing, for messages."""

    def __init__(self, array: StoredArray, store: ReadWritable, *, store_fill: bool) -> None:
        self.array = array
        self.store = store
        self.identity = store.identity
        self.fill_value = array.fill_value if array.field is None else array.field.fill_value
        self.is_fill = _never if store_fill else open_fill_test(self.fill_value)
        self.operation = "writing"

    def change(self, key: str, coder: Coder, inside: tuple[Any, ...], values: npt.NDArray[Any]) -> None:
        """Overwrite the part `inside` of a stored chunk, in the axis order of `coder`, with `values`."""
        store, scratch = self.store, coder.scratch

        def attempt() -> bytes | None:
            self.operation = "reading"
            stored: Stamped | None = None
            [before] = map(hold, (coder.chain.bound,))
            try:
                stored = store.read(key)
                if stored.value is None:
                    scratch[...] = self.fill_value
                else:
                    coder.decode(stored.value, scratch)
            except DataCorruptionError as e:
                array = self.array
                cell = array.keys.cell(key, array.grid.rank)
                if cell is None or not coder.covers(inside, array.grid, cell, array.shape):
                    raise replaceable(e) from e.__cause__
                if stored is None:  # it is too large
                    stored = store.read(key, byte_range=ByteRange(0, 0))
                scratch[...] = self.fill_value
            finally:
                release(before)
            self.operation = "writing"
            coder.ordered[inside] = values
            if self.is_fill(scratch) and (stored.value is None or can_delete(store)):
                done = stored.value is None or store.delete(key, if_equal=stored.generation) is not None
            else:
                check_promise(store, key)
                done = store.write(key, self.encode(key, coder), if_equal=stored.generation) is not None
            return None if done else stored.generation

        try:
            change_alone(store, self.identity, key, attempt)
        except UnsafeWriteError as e:
            raise aligned(e, self.array.grid.chunk_shape) from e.__cause__

    def encode(self, key: str, coder: Coder) -> Buffer:
        """Return the changed chunk, encoded, and cropped if the array stores cropped chunks."""
        array, chunk = self.array, coder.scratch
        cell = array.keys.cell(key, array.grid.rank) if array.crop else None
        if cell is not None and (inside := crop(chunk, cell, array.shape)) is not None:
            shape = chunk[inside].shape
            return under(coder.limit, chain_for(array.chain, shape).open_encoder())(chunk[inside])
        return coder.encode(chunk)


def _never(chunk: npt.NDArray[Any]) -> bool:
    return False
