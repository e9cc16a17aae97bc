"""``CopyReport``: what a copy of a tree, or of an image, contains, and what it lacks."""

from __future__ import annotations

from dataclasses import dataclass, field

from chunkwise.copying.losses import array_left_out, is_loss

__all__ = ["CopyReport"]


@dataclass
class CopyReport:
    """Numbers of copied nodes, and notes on what could not be copied.

    Attributes
    ----------
    n_groups, n_arrays, n_links : int
    nbytes : int
        Of all elements of the arrays, in memory.
    notes : list of (str, str)
        Path from the top of the copy, and what the target stores in another way there, or not at all.
    left_out : list of (str, str)
        Path of each array that the target can't hold, and why.
    n_left : int or None
        In a copy in parts, how many tasks are left for other parts, if the tree isn't complete yet.
    """

    n_groups: int = 0
    n_arrays: int = 0
    n_links: int = 0
    nbytes: int = 0
    notes: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    n_left: int | None = None

    @property
    def losses(self) -> list[tuple[str, str]]:
        """What the copy lacks: paths, and notes."""
        lost = [(path, array_left_out(why)) for path, why in self.left_out]
        return lost + [(path, note) for path, note in self.notes if is_loss(note)]
