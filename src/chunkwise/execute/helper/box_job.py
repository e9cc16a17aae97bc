"""What helpers are told of boxes of many arrays, and how chunks get out of a slot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.codec.rows import open_paste
from chunkwise.execute.boxes import Boxes
from chunkwise.execute.helper.job import describe_array
from chunkwise.execute.packed import element_type
from chunkwise.execute.run_read import chunk_keys, runs_of_neighbours
from chunkwise.kvstore.file import FileStore

__all__ = ["BoxJob", "BoxPiece"]

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]


class BoxPiece(NamedTuple):
    """A part of a job.

    Attributes
    ----------
    work : Boxes
        All of it.
    rest : Boxes or None
        What a helper does not do.
    keys : sequence of str
        Of whole chunks, which lie in the slot one after the other, decoded.
    starts : ndarray
        Where each begins in the caller's array, of shape ``(n, rank)``.
    """

    work: Boxes
    rest: Boxes | None
    keys: Sequence[str]
    starts: Numbers


class BoxJob:
    """A read of boxes of arrays that differ in their prefixes only; see :class:`~.job.Job`.

    Parameters
    ----------
    boxes : Boxes
    kv : object
        Where the arrays are.
    view : ndarray
        The caller's array.
    """

    do = "read"

    def __init__(self, boxes: Boxes, kv: Any, view: Array) -> None:
        self.boxes = boxes
        self.kv = kv
        self.view = view

    def is_for_helpers(self) -> bool:
        """Whether a process that knows files and metadata documents can do parts of it."""
        array = self.boxes.array
        return (
            type(self.kv) is FileStore
            and self.kv.io_mode == "default"
            and array.recipe is not None
            and len(array.chain.item.shape) > 0
            and not self.view.dtype.hasobject
            and self._types is not None
            and self._types[0] == self.view.dtype
        )

    def description(self) -> dict[str, Any]:
        """Return the message that tells a helper of the arrays."""
        return describe_array(self.boxes.array, self.kv, fill_missing=self.boxes.fill_missing)

    def split(self, boxes: Boxes, n: int) -> list[Boxes]:
        """Return boxes in about `n` parts, neighbours together."""
        size = -(-boxes.n // max(1, n))
        return [boxes.run(i, i + size) for i in range(0, boxes.n, size)]

    def nbytes(self, boxes: Boxes) -> int:
        """Return the size of boxes in bytes."""
        return boxes.n_elements * self.view.itemsize

    def piece(self, boxes: Boxes) -> BoxPiece | None:
        """Return a part as a helper gets it; None if most of it is no whole chunks."""
        whole = boxes.whole
        n = int(whole.sum())
        if 2 * n < len(whole):
            return None
        chunks = boxes if n == len(whole) else boxes.where(whole)
        keys = chunk_keys(boxes.array.keys, chunks.prefixes, chunks.cells)
        return BoxPiece(boxes, None if chunks is boxes else boxes.where(~whole), keys, chunks.start)

    def message(self, piece: BoxPiece) -> dict[str, Any]:
        """Return the message that asks for a piece, but for the slot."""
        return {"do": "chunks", "keys": piece.keys, "nbytes": len(piece.keys) * self._chunk_nbytes}

    def fill(self, slot: npt.NDArray[np.uint8], piece: BoxPiece) -> None:
        """Fail: it is a read."""
        raise AssertionError("nothing is written")

    def empty(self, slot: npt.NDArray[np.uint8], piece: BoxPiece) -> None:
        """Copy what was read to its place."""
        n, shape = len(piece.keys), self.boxes.array.chain.item.shape
        chunks = slot[: n * self._chunk_nbytes].view(self.view.dtype).reshape(n, *shape)
        paste = open_paste(self.view, chunks)
        for first, last in runs_of_neighbours(piece.starts, shape[-1], n):
            paste(piece.starts[first].tolist(), first, last)

    @cached_property
    def _chunk_nbytes(self) -> int:
        assert self._types is not None, "somebody has looked"
        return int(np.prod(self.boxes.array.chain.item.shape)) * self._types[0].itemsize

    @cached_property
    def _types(self) -> tuple[np.dtype[Any], np.dtype[Any]] | None:
        return element_type(self.boxes.array.chain, encode=False)
