"""Reports on copies and their losses, warnings in Python, and lines and a status on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.base.public_names import warn_caller
from chunkwise.core.driver.n5.tree import DATASET_NAMES
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.trees.attributes import has_non_finite, is_text, to_json_value
from chunkwise.errors import LossWarning

__all__ = [
    "CopyReport",
    "array_left_out",
    "finite_attributes",
    "fitting_attributes",
    "is_loss",
    "warn_of_losses",
]

# -- losses -------------------------------------------------------------------------------------------

_MOST_NAMED = 5


def is_loss(note: str) -> bool:
    """Return True if a note on a copy reports a loss or another form."""
    return "left out" in note or note.endswith("text here")


def array_left_out(why: str) -> str:
    """Return the note on an array that isn't copied."""
    return f"array is left out: {why}"


def warn_of_losses(losses: Sequence[tuple[str, str]]) -> None:
    """Warn the caller of the library of losses, if any: pairs of a path, which may be empty, and a note."""
    if not losses:
        return
    named = [f"{path}: {note}" if path else note for path, note in losses[:_MOST_NAMED]]
    if len(losses) > _MOST_NAMED:
        named.append(f"and {len(losses) - _MOST_NAMED} more")
    text = f"the copy lacks something of its source: {'; '.join(named)}"
    warn_caller(LossWarning(text, losses))


def finite_attributes(attributes: Mapping[str, JSON], format: str) -> tuple[dict[str, JSON], list[str]]:
    """Return attributes as a document of this format holds them, and notes on those that were changed.

    JSON has no NaN and no infinities: strict readers refuse a document with their bare names.
    """
    notes: list[str] = []
    out = dict(attributes)
    is_written_apart = bool(tree_format(format).attributes_key)  # where readers of arrays don't look
    for name, value in attributes.items():
        if not (is_written_apart or is_text(json.dumps([name, value], ensure_ascii=False))):
            notes.append(f"attribute {dump(name)} is left out: it has half a surrogate pair")
            del out[name]
            continue
        if not has_non_finite(value):
            continue
        what = f"attribute {dump(name)} has NaN or infinities, which"
        if is_written_apart:
            notes.append(f"{what} is no proper JSON")
        else:
            out[name] = to_json_value(value, f"attribute {dump(name)}", "string")
            notes.append(f"{what} are text here")
    return out, notes


def fitting_attributes(attributes: Mapping[str, JSON], format: str) -> tuple[dict[str, JSON], list[str]]:
    """Return the attributes that a group of this format can hold, and notes on the others."""
    notes: list[str] = []
    out = dict(attributes)
    rules = tree_format(format)
    for name in attributes:
        why = f"null means missing in {rules.title}" if out[name] is None and not rules.keeps_null else ""
        if name in rules.own_members("group"):
            why = f"{rules.title} has a meaning of its own for that name"
        if why:
            notes.append(f"attribute {dump(name)} is left out: {why}")
            del out[name]
    if all(name in out for name in DATASET_NAMES[:4]) and rules.attributes_are_members:
        del out["dimensions"]
        notes.append('attribute "dimensions" is left out: it would make a dataset of the group')
    out, changed = finite_attributes(out, format)
    return out, [*notes, *changed]


# -- reports ------------------------------------------------------------------------------------------


@dataclass
class CopyReport:
    """Numbers of copied nodes, and notes on losses.

    Attributes
    ----------
    n_groups, n_arrays, n_links : int
    nbytes : int
        Size of all elements of the arrays, in memory.
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
        """Losses of the copy: paths, and notes."""
        lost = [(path, array_left_out(why)) for path, why in self.left_out]
        return lost + [(path, note) for path, note in self.notes if is_loss(note)]
