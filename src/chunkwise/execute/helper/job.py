"""What helpers are told of a read or a write, and how its elements get into a slot and out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.codec.rows import copy_rows
from chunkwise.driver.stored_array import StoredArray
from chunkwise.execute.packed import element_type, pack, pick, unpack
from chunkwise.execute.result_memory import pages_of
from chunkwise.grid.protocol import ChunkGrid
from chunkwise.kvstore.file import FileStore
from chunkwise.plan.axis import PlanAxis
from chunkwise.plan.plan import keys
from chunkwise.plan.region import Region, region_of
from chunkwise.plan.shard import ShardAxis
from chunkwise.plan.split import split

__all__ = ["Job", "Piece", "describe_array"]


class Piece(NamedTuple):
    """A part of a job.

    Attributes
    ----------
    work : tuple of PlanAxis or ShardAxis
        What a worker is given.
    region : Region or None
        The box of elements that it is; None if elements are picked of chunks.
    parts : sequence of tuple of PlanAxis, or None
        Products of chunks that lie in the slot one after the other, decoded; None if the elements lie there
        as in the box.
    """

    work: tuple[Any, ...]
    region: Region | None
    parts: Sequence[tuple[PlanAxis, ...]] | None

    @property
    def rest(self) -> None:
        """Helpers do all of it."""


@dataclass(frozen=True)
class Job:
    """What is read or written.

    Attributes
    ----------
    do : str
        ``read`` or ``write``.
    array : StoredArray
    kv : object
        Where it is.
    axes : tuple of PlanAxis or ShardAxis
        The plan.
    grid : ChunkGrid
        Grid of the plan.
    view : ndarray
        The caller's array in the order of the plan.
    fill_missing, store_fill : bool
        As for ``read_into`` and ``write_from``.
    """

    do: str
    array: StoredArray
    kv: Any
    axes: tuple[Any, ...]
    grid: ChunkGrid
    view: npt.NDArray[Any]
    fill_missing: bool = True
    store_fill: bool = False

    def is_for_helpers(self) -> bool:
        """Whether a process that knows files and metadata documents can do parts of it."""
        return (
            type(self.kv) is FileStore
            and self.array.recipe is not None
            and not self.view.dtype.hasobject
            and (self._is_box or self._can_pick())
        )

    def _can_pick(self) -> bool:
        """Whether elements can be picked of whole chunks."""
        array = self.array
        return self.do == "read" and array.shard is None and array.part is None and self._types is not None

    def description(self) -> dict[str, Any]:
        """Return the message that tells a helper of the array."""
        how = {"fill_missing": self.fill_missing, "store_fill": self.store_fill}
        return describe_array(self.array, self.kv, **how, umask=_umask() if self.do == "write" else None)

    def split(self, axes: tuple[Any, ...], n: int) -> list[tuple[Any, ...]]:
        """Return a part of the plan in about `n` parts."""
        return split(axes, n)

    def nbytes(self, axes: tuple[Any, ...]) -> int:
        """Return the size of a part of the plan in bytes, whole chunks if elements are picked of them."""
        return self._nbytes(axes, self._region(axes))

    def _nbytes(self, axes: tuple[Any, ...], region: Region | None) -> int:
        """Return what a part of the plan takes in a slot."""
        if region is None:
            n_elements: int = prod(axis.n_entries for axis in axes) * prod(self._chain.item.shape)
            return n_elements * self.view.itemsize
        return prod(region.shape) * self.view.itemsize

    def _region(self, axes: tuple[Any, ...]) -> Region | None:
        """Return the box that a part of the plan is; None if the plan is none."""
        return region_of(axes, self.grid) if self._is_box else None

    @cached_property
    def _is_box(self) -> bool:
        return region_of(self.axes, self.grid) is not None

    def piece(self, axes: tuple[Any, ...]) -> Piece:
        """Return a part of the plan as a helper gets it."""
        region = self._region(axes)
        if region is None:
            return Piece(axes, None, [axes])
        return Piece(axes, region, None if self._types is None else self._parts(axes))

    def message(self, piece: Piece) -> dict[str, Any]:
        """Return the message that asks for a piece, but for the slot."""
        nbytes = self._nbytes(piece.work, piece.region)
        if piece.region is None:
            return {"do": "chunks", "keys": list(keys(piece.work, self.array.keys)), "nbytes": nbytes}
        return {
            "do": self.do,
            "start": piece.region.start,
            "shape": piece.region.shape,
            "nbytes": nbytes,
            "packed": piece.parts is not None,
        }

    def fill(self, slot: npt.NDArray[np.uint8], piece: Piece) -> None:
        """Copy what is to be written to a slot."""
        assert piece.region is not None, "elements are picked of what is read only"
        elements, view = self._in_slot(slot, piece)
        if piece.parts is not None:
            pack(piece.parts, view, elements)
        else:
            copy_rows(elements, view[piece.region.at])

    def empty(self, slot: npt.NDArray[np.uint8], piece: Piece) -> None:
        """Copy what was read to its place."""
        elements, view = self._in_slot(slot, piece)
        if piece.region is None:
            return pick(piece.work, elements, view)
        pages = pages_of(self.view)
        if pages is not None:
            pages.prepare(piece.region.of(self.view))
        if piece.parts is not None:
            unpack(piece.parts, elements, view)
        else:
            copy_rows(view[piece.region.at], elements)
        return None

    def _in_slot(
        self, slot: npt.NDArray[np.uint8], piece: Piece
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return a slot as elements, and the caller's array as elements of that type."""
        if piece.parts is None:
            assert piece.region is not None, "what is picked comes in chunks"
            return slot.view(self.view.dtype).reshape(piece.region.shape), self.view
        assert self._types is not None, "the piece is in parts"
        stored, memory = self._types
        return slot.view(stored).reshape(-1, *self._chain.item.shape), self.view.view(memory)

    @property
    def _chain(self) -> Any:
        shard = self.array.shard
        return self.array.chain if shard is None else shard.chain

    @cached_property
    def _types(self) -> tuple[np.dtype[Any], np.dtype[Any]] | None:
        """The types of elements of whole chunks in a slot and in the caller's array, if those go there."""
        if self.kv.io_mode != "default" or self.array.grid.chunk_shape is None:
            return None
        return element_type(self._chain, encode=self.do == "write")

    def _parts(self, axes: tuple[Any, ...]) -> list[tuple[PlanAxis, ...]] | None:
        """Return the products of chunks in a part of the plan, None unless all of them are whole."""
        shard = self.array.shard
        if shard is None:
            return [axes] if all(all(axis.whole) for axis in axes) else None
        sharded: tuple[ShardAxis, ...] = axes
        counts = [
            outer // inner
            for outer, inner in zip(self.array.chain.item.shape, shard.chain.item.shape, strict=True)
        ]
        for axis, count in zip(sharded, counts, strict=True):
            if not all(part.n_entries == count and all(part.whole) for part in axis.parts):
                return None
        return list(product(*[axis.parts for axis in sharded]))


def describe_array(
    array: StoredArray,
    kv: FileStore,
    *,
    fill_missing: bool = True,
    store_fill: bool = False,
    umask: int | None = None,
) -> dict[str, Any]:
    """Return the message that tells a helper of an array in files."""
    assert array.recipe is not None, "somebody has looked"
    how = kv.writing
    return {
        "do": "array",
        "format": array.recipe.format,
        "prefix": array.recipe.prefix,
        "document": array.document,
        "root": kv.root,
        "store": {
            "sync": how.sync,
            "locking": how.locking,
            "acquire_timeout": how.timeout,
            "io_mode": kv.io_mode,
        },
        "fill_missing": fill_missing,
        "store_fill": store_fill,
        "umask": umask,
    }


def _umask() -> int | None:
    """Return the umask of this process, which can't be asked for without changing it."""
    try:
        with open("/proc/self/status", "rb") as status:
            return next((int(line.split()[1], 8) for line in status if line.startswith(b"Umask:")), None)
    except OSError:
        return None
