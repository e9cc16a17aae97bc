"""Boxes one by one: what each is, found out for all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chunkwise.cached import cached_property
from chunkwise.engine.boxes import Boxes

__all__ = ["ListedBoxes"]


class ListedBoxes:
    """Boxes known by their numbers; lists are made when they are first asked for.

    They are read some 30 at a time, and what NumPy would be asked for so few is a good part of that.

    Parameters
    ----------
    boxes : Boxes
    """

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes

    @cached_property
    def n_chunks(self) -> int:
        """How many chunks they have."""
        return self.boxes.n_chunks

    @cached_property
    def whole(self) -> list[bool]:
        """Whether each is one whole chunk."""
        whole: list[bool] = self.boxes.whole.tolist()
        return whole

    @cached_property
    def cells(self) -> list[tuple[int, ...]]:
        """The cell in which each begins."""
        return list(zip(*self.boxes.cells.T.tolist(), strict=True))

    @cached_property
    def keys(self) -> list[str]:
        """The key of the chunk in which each begins; many are the same cell of another array."""
        encoding, known = self.boxes.array.keys, dict[tuple[int, ...], str]()
        keys = []
        for prefix, cell in zip(self.boxes.prefixes, self.cells, strict=True):
            key = known.get(cell)
            if key is None:
                key = known[cell] = encoding.key(cell)
            keys.append(prefix + key)
        return keys

    @cached_property
    def starts(self) -> list[list[int]]:
        """Where each begins in the caller's array."""
        starts: list[list[int]] = self.boxes.start.tolist()
        return starts

    @cached_property
    def follows(self) -> list[bool]:
        """Whether each lies next to the one before, along the last dimension; both are whole chunks."""
        start = self.boxes.start
        step = np.zeros(start.shape[1], np.int64)
        step[-1] = self.boxes.array.chain.item.shape[-1]
        return [False, *(np.diff(start, axis=0) == step).all(axis=1).tolist()]

    def runs(self, numbers: Sequence[int], most: int) -> list[tuple[int, int]]:
        """Return where runs of neighbours begin and end in ascending `numbers` of whole chunks."""
        follows, found, begin = self.follows, [], 0
        for end in range(1, len(numbers) + 1):
            if (
                end == len(numbers)
                or end - begin == most
                or not follows[numbers[end]]
                or numbers[end] != numbers[end - 1] + 1
            ):
                found.append((begin, end))
                begin = end
        return found

    def hull(self, numbers: Sequence[int]) -> tuple[Any, ...]:
        """Return the index of the part of the caller's array that is around some of them."""
        some = slice(numbers.start, numbers.stop) if isinstance(numbers, range) else list(numbers)
        lower, upper = self.boxes.start[some].min(axis=0), self.boxes.stop[some].max(axis=0)
        return (*map(slice, lower.tolist(), upper.tolist()), ...)
