"""``TreeCopy``: a group with everything in it, copied to another location, format or store.

1. The copy of each node is planned (`chunkwise.copying.tree_plan`).
2. The destination is listed once, to make sure that it is empty, instead of a request for each array.
3. The arrays are copied (`chunkwise.copying.planned_copy`).
4. Groups come last, with their links, and the top after all others: an unfinished copy is not a group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from chunkwise.copying.copy_arrays import intermediate_name, room_of
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_passes import journalled_room
from chunkwise.copying.copy_place import CopyPlace, begun_at, unfinished
from chunkwise.copying.executors import Workers
from chunkwise.copying.journal_document import JournalDocument
from chunkwise.copying.planned_copy import PlannedCopy
from chunkwise.copying.small_arrays import SmallArrays, n_together
from chunkwise.copying.tree_groups import Place, publish_groups
from chunkwise.copying.tree_plan import CopyRoom, TreePlan
from chunkwise.copying.tree_source import TreeSource
from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.engine.together import is_slow
from chunkwise.core.trees.change import delete_below
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.tree import Tree
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension.trees import Kind, check_place, create_parents

__all__ = ["TreeCopy", "check_new", "tree_copy_to"]


class TreeCopy(PlannedCopy):
    """A copy of a node and everything below it."""

    command = "chunkwise cp -r --resume"

    def __init__(
        self,
        source: TreeSource,
        target: Tree,
        names: Sequence[str],
        how: CopyOptions,
        *,
        destination: CopyPlace | None = None,  # by default the destination must be empty
        workers: Workers | None = None,
        consolidated: bool = False,  # whether the copy gets consolidated metadata of its own
    ) -> None:
        target.check_writable()
        self._source, self._target, self._names = source, target, tuple(names)
        top, here = target.location(names), source.location
        if here.store.identity == top.store.identity and top.path.startswith(here.path):
            raise InvalidArgumentError(f"{here.text} can't be copied to {top.text}, which is inside it")
        self._consolidated = consolidated
        self._own: list[Location] = []  # what nobody else has anything in
        destination = destination or CopyPlace(top, top)
        self._place, self.format = Place(top, target.format, destination.location), target.format
        super().__init__(destination, how, workers)

    def _make_plan(self, begun: JournalDocument | None) -> tuple[TreePlan, SmallArrays, dict[str, JSON]]:
        how, here, top = self._how, self._source.location, self._top
        # A process that resumes may have other memory and processors.
        room = journalled_room(begun, how.memory) or room_of(self.workers, how.memory)
        between = intermediate_name(None if begun is None else begun["task"].get("intermediate"))
        root = None if self._names else self._destination.location
        plan = self._source.plan(CopyRoom(self._target, self._names, root, how, room, between))
        small = SmallArrays(here, top, self._target.format, plan.small, how)
        if is_slow(here.store) or is_slow(top.store):
            small.n_together = n_together(plan.small, room)
        task = {
            "source": here.journal_json(),
            **self._source.task(plan),
            "format": self._target.format,
            "room": list(room),
            "intermediate": between,
            **({"cast": how.cast} if how.cast != "error" else {}),
            **({"fingerprint": "kept"} if how.keep_fingerprint else {}),
        }
        return plan, small, task

    def _is_there(self) -> bool:
        # A whole copy that is resumed looks at its groups and links again.
        return self._part is not None and self._place.is_whole(self.plan, self._small)

    def _check_free(self) -> list[tuple[int, int]]:
        resume, into_group = self._how.resume and self._part is None, not self._names and self._part is None
        done = self._place.check(
            self.plan,
            self._small,
            resume=resume,
            into_group=into_group,
            among_others=self._how.overwrite,
        )
        if self._part is None and not done:
            self._own = self._place.free_names(self.plan.top_names())
        return done

    def _delete_own(self) -> bool:
        for location in self._own:
            delete_below(location)
        if self._own:
            self._journal.delete()
        return bool(self._own)

    def _surround_first(self) -> None:
        """Do nothing: the groups above the arrays come last."""

    def _surround(self) -> None:
        publish_groups(self.plan, self._place, self._target, self._names, consolidated=self._consolidated)
        self._source.finish()

    def _commit(self, confirm: Callable[[], None]) -> None:
        if self._destination.replacement is not None:
            create_parents(self._destination.location, self._target.format)
            self._destination.commit(confirm)


def tree_copy_to(
    source: TreeSource,
    there: Location,
    format: FormatName,
    how: CopyOptions,
    *,
    workers: Workers | None = None,
    consolidated: bool = False,
) -> TreeCopy:
    """Return the copy to a location; raise AlreadyExistsError for what `how` doesn't replace."""
    if not (how.overwrite or how.go_on):
        check_new(there, "group", format)
    to = CopyPlace.choose(there, "group", format, overwrite=how.overwrite, go_on=how.go_on)
    target = Tree(root=to.place, format=format, writable=True, non_finite="literal", open_other=_no_other)
    return TreeCopy(source, target, (), how, destination=to, workers=workers, consolidated=consolidated)


def check_new(there: Location, kind: Kind, format: FormatName) -> None:
    """Raise AlreadyExistsError if there is something at the place of a copy, or inside an array."""
    if begun_at(there) is not None:
        raise unfinished(there)
    check_place(there, kind, format)


def _no_other(location: Location, tree: Tree) -> NoReturn:
    raise UnsupportedError("links out of a copy aren't followed while it is made")
