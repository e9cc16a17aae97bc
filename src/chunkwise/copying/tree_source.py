"""``TreeSource``: what becomes a tree by a copy; a node with everything below it is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from chunkwise.copying.array_template import template_options
from chunkwise.copying.copy_arrays import Room
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.journal_difference import INFORMATIVE, told_options
from chunkwise.copying.tree_plan import ArrayOptions, TreePlan, plan_tree
from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.resolve import ResolvedNode
from chunkwise.core.trees.tree import Tree

__all__ = ["CopyRoom", "NodeSource", "TreeSource"]


class CopyRoom(NamedTuple):
    """Where and how a tree is to be copied."""

    target: Tree
    names: tuple[str, ...]  # of the top of the copy
    root: Location | None  # where the root of the target will be
    how: CopyOptions
    room: Room
    intermediate: str  # name of the array between two passes over an array

    @property
    def top(self) -> Location:
        """The place of the copy."""
        return self.target.location(self.names)

    @property
    def format(self) -> FormatName:
        """The format of the copy."""
        return self.target.format


class TreeSource(Protocol):
    """What becomes a tree."""

    location: Location  # of what is copied

    def plan(self, room: CopyRoom) -> TreePlan:
        """Return the plan of the copy."""
        ...

    def task(self, plan: TreePlan) -> dict[str, JSON]:
        """Return what the journal of the copy is to say: another copy must not go on with it."""
        ...

    def finish(self) -> None:
        """Write what lies beside the copy, when that is complete but for its journal."""
        ...


class NodeSource:
    """A node with everything below it."""

    def __init__(self, node: ResolvedNode, fields: Mapping[str, Any]) -> None:
        self.location, self._node, self._fields = node.node.location, node, template_options(fields)

    def plan(self, room: CopyRoom) -> TreePlan:
        """Return the plan of the copy."""
        options = ArrayOptions(self._fields, room.how, room.room, room.intermediate)
        return plan_tree(self._node, room.target, room.names, options, root=room.root)

    def task(self, plan: TreePlan) -> dict[str, JSON]:
        """Return what the journal of the copy is to say."""
        return {"source metadata": plan.digest, INFORMATIVE: told_options(self._fields)}

    def finish(self) -> None:
        """Do nothing."""
