"""What helpers are told of boxes of many arrays, and how chunks get out of a slot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.codec.rows import open_paste
from chunkwise.execute.helper.job import describe_array
from chunkwise.execute.listed_boxes import ListedBoxes
from chunkwise.execute.packed import element_type
from chunkwise.kvstore.file import FileStore

__all__ = ["BoxJob", "BoxPiece"]

Array = npt.NDArray[Any]


class BoxPiece(NamedTuple):
    """A part of a job.

    Attributes
    ----------
    work : range
        All of it.
    rest : list of int, or None
        What a helper does not do.
    chunks : sequence of int
        Which boxes are whole chunks; these lie in the slot one after the other, decoded.
    """

    work: range
    rest: list[int] | None
    chunks: Sequence[int]


class BoxJob:
    """A read of boxes of arrays that differ in their prefixes only; see :class:`~.job.Job`.

    Parameters
    ----------
    listed : ListedBoxes
        Each in one chunk.
    kv : object
        Where the arrays are.
    view : ndarray
        The caller's array.
    """

    do = "read"

    def __init__(self, listed: ListedBoxes, kv: Any, view: Array) -> None:
        self.boxes = listed.boxes
        self._listed = listed
        self.kv = kv
        self.view = view

    def is_for_helpers(self) -> bool:
        """Whether a process that knows files and metadata documents can do parts of it."""
        array = self.boxes.array
        if (
            type(self.kv) is not FileStore
            or self.kv.io_mode != "default"
            or array.recipe is None
            or not array.chain.item.shape
            or self.view.dtype.hasobject
        ):
            return False
        types = element_type(array.chain, encode=False)
        return types is not None and types[0] == self.view.dtype

    def description(self) -> dict[str, Any]:
        """Return the message that tells a helper of the arrays."""
        return describe_array(self.boxes.array, self.kv, fill_missing=self.boxes.fill_missing)

    def split(self, some: Sequence[int], n: int) -> list[Sequence[int]]:
        """Return boxes in about `n` parts, neighbours together."""
        size = -(-len(some) // max(1, n))
        return [some[i : i + size] for i in range(0, len(some), size)]

    def nbytes(self, some: Sequence[int]) -> int:
        """Return the size of the chunks of boxes in bytes."""
        return len(some) * self._chunk_nbytes

    def piece(self, work: range) -> BoxPiece | None:
        """Return a part as a helper gets it; None if most of it is no whole chunks."""
        if self._all_whole:
            return BoxPiece(work, None, work)
        whole = self._listed.whole
        chunks = [i for i in work if whole[i]]
        if 2 * len(chunks) < len(work):
            return None
        return BoxPiece(work, [i for i in work if not whole[i]] or None, chunks)

    def message(self, piece: BoxPiece) -> dict[str, Any]:
        """Return the message that asks for a piece, but for the slot."""
        keys = [self._listed.keys[i] for i in piece.chunks]
        return {"do": "chunks", "keys": keys, "nbytes": len(keys) * self._chunk_nbytes}

    def fill(self, slot: npt.NDArray[np.uint8], piece: BoxPiece) -> None:
        """Fail: it is a read."""
        raise AssertionError("nothing is written")

    def empty(self, slot: npt.NDArray[np.uint8], piece: BoxPiece) -> None:
        """Copy what was read to its place."""
        n = len(piece.chunks)
        chunks = slot[: n * self._chunk_nbytes].view(self.view.dtype).reshape(n, *self._shape)
        paste = open_paste(self.view, chunks)
        starts = self._listed.starts
        for first, last in self._listed.runs(piece.chunks, n):
            paste(starts[piece.chunks[first]], first, last)

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.boxes.array.chain.item.shape
        return shape

    @cached_property
    def _chunk_nbytes(self) -> int:
        return prod(self._shape) * self.view.itemsize

    @cached_property
    def _all_whole(self) -> bool:
        return all(self._listed.whole)
