"""``TreeSource``: what becomes a tree by a copy; a node with everything below it is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from chunkwise.copying.array_options import array_options
from chunkwise.copying.hdmf_files import check_copied_as_tree
from chunkwise.copying.journal_difference import INFORMATIVE, told_options
from chunkwise.copying.tree_plan import CopyRoom, TreePlan, plan_tree
from chunkwise.core.base.binding import JSON
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.resolve import ResolvedNode

__all__ = ["NodeSource", "TreeSource"]


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

    def __init__(self, node: ResolvedNode, fields: Mapping[str, Any], lost: str = "") -> None:
        self.location, self._node, self._fields = node.node.location, node, array_options(fields)
        self._lost = lost  # of what the node is, by a copy of what it holds

    def plan(self, room: CopyRoom) -> TreePlan:
        """Return the plan of the copy; raise InvalidArgumentError for an HDMF file that it would break."""
        check_copied_as_tree(self._node.node, room.top, room.format)
        made = plan_tree(self._node, self._fields, room)
        made.notes += [("", self._lost)] * bool(self._lost)
        return made

    def task(self, plan: TreePlan) -> dict[str, JSON]:
        """Return what the journal of the copy is to say."""
        return {"source metadata": plan.digest, INFORMATIVE: told_options(self._fields)}

    def finish(self) -> None:
        """Do nothing."""
