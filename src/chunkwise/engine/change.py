"""Updates of a part of one stored chunk that lose nothing of what another writer stores meanwhile.

The chunk is read, decoded, changed and stored on condition that its generation is still the one that was
read; otherwise it is done again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

import numpy.typing as npt

from chunkwise.driver.stored_array import StoredArray
from chunkwise.engine.chunk_codec import Coder, chain_for
from chunkwise.engine.crop import crop
from chunkwise.engine.fill import open_fill_test
from chunkwise.engine.key_lock import change_alone
from chunkwise.engine.safe_write import aligned, can_delete, check_promise
from chunkwise.errors import UnsafeWriteError
from chunkwise.kvstore.atomic import Modifiable
from chunkwise.kvstore.protocol import Buffer, Readable, Writable, Writer
from chunkwise.kvstore.traits import traits_of

__all__ = ["Changer", "ReadWritable", "as_modifiable", "open_writer"]


class ReadWritable(Readable, Writable, Protocol):
    """A store that chunks can be changed in."""

    @property
    def identity(self) -> Hashable: ...


def as_modifiable(kv: Any) -> Modifiable | None:
    """Return `kv` if it remembers changes until it knows the value; no isinstance, that takes long."""
    return kv if hasattr(kv, "modify") else None


def open_writer(kv: Any) -> Writer | None:
    """Return a writer for one worker, for values that replace whatever is there, if `kv` has such."""
    opener = traits_of(kv).open_writer
    return None if opener is None else opener()


class Changer:
    """Updates chunks of one array; `operation` is reading or writing, for messages."""

    def __init__(self, array: StoredArray, kv: ReadWritable, *, store_fill: bool) -> None:
        self.array = array
        self.kv = kv
        self.identity = kv.identity
        self.fill_value = array.fill_value if array.part is None else array.part.fill_value
        self.is_fill = _never if store_fill else open_fill_test(self.fill_value)
        self.operation = "writing"

    def change(self, key: str, coder: Coder, inside: tuple[Any, ...], values: npt.NDArray[Any]) -> None:
        """Overwrite the part `inside` of a stored chunk, in the order of `coder`, with `values`."""
        kv, scratch = self.kv, coder.scratch

        def attempt() -> bool:
            self.operation = "reading"
            stored = kv.read(key)
            if stored.value is None:
                scratch[...] = self.fill_value
            else:
                coder.decode(stored.value, scratch)
            self.operation = "writing"
            coder.ordered[inside] = values
            if self.is_fill(scratch) and (stored.value is None or can_delete(kv)):
                return stored.value is None or kv.delete(key, if_equal=stored.generation) is not None
            try:
                check_promise(kv, key)
                return kv.write(key, self.encode(key, coder), if_equal=stored.generation) is not None
            except UnsafeWriteError as e:
                raise aligned(e, self.array.grid.chunk_shape) from e.__cause__

        change_alone(self.identity, key, attempt)

    def encode(self, key: str, coder: Coder) -> Buffer:
        """Return the encoded chunk that was changed, cropped if the array has it so."""
        array, chunk = self.array, coder.scratch
        cell = array.keys.cell(key, array.grid.rank) if array.crop else None
        if cell is not None and (inside := crop(chunk, cell, array.shape)) is not None:
            shape = chunk[inside].shape
            return chain_for(array.chain, shape).open_encoder()(chunk[inside])
        return coder.encode(chunk)


def _never(chunk: npt.NDArray[Any]) -> bool:
    return False
