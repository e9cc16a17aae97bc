"""``TreeCopy``: a group with everything in it, copied to another location, format or store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from chunkwise.copying.copy_arrays import intermediate_name
from chunkwise.copying.copy_job import ArrayJob
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_passes import LARGE, SMALL, journalled_room
from chunkwise.copying.copy_place import CopyPlace, find_unfinished_copy, packed, unfinished_copy_error
from chunkwise.copying.copy_source import how_related
from chunkwise.copying.executors import Workers, room_of
from chunkwise.copying.journal_document import JournalDocument
from chunkwise.copying.planned_copy import PlannedCopy
from chunkwise.copying.small_arrays import SmallArrays, location_below, n_together
from chunkwise.copying.tree_plan import CopyRoom, TreePlan, TreeSource
from chunkwise.core.arrays.metadata_observers import is_consolidated
from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.engine.concurrent_requests import is_slow, map_requests
from chunkwise.core.kvstore.places.staging import is_staging
from chunkwise.core.trees.attributes import change_attributes
from chunkwise.core.trees.change import make_link
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.consolidated_tree import consolidate, renew_copies_above
from chunkwise.core.trees.container import check_container, container_root, create_container, mark_container
from chunkwise.core.trees.create import write_group
from chunkwise.core.trees.key_ownership import delete_own
from chunkwise.core.trees.link import Link, with_link
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import JOURNAL, find_node, nodes_below
from chunkwise.core.trees.tree import Tree, group_links
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError, UnsupportedError
from chunkwise.extension.trees import (
    Kind,
    check_outside_arrays,
    check_place,
    create_parents,
    looking,
    removed_after_failure,
)

__all__ = ["Place", "TreeCopy", "check_new", "publish_groups", "tree_copy_to"]

# -- groups -------------------------------------------------------------------------------------------

# Nodes need not be looked at one by one: a directory that isn't listed in the one above is empty.


class Place:
    """Location of a tree that is to be made; each directory is listed once."""

    def __init__(self, top: Location, format: FormatName, location: Location | None = None) -> None:
        self._top, self._format = top, format
        self._location = location or top  # where it will be
        self._known: dict[str, set[str] | None] = {}
        self._files: list[str] = []  # at the top, that are of no array or group
        self.is_empty = False
        self.groups: set[str] = set()  # paths of those that were there before

    def check(
        self,
        plan: TreePlan,
        small: SmallArrays,
        *,
        resume: bool,
        into_group: bool = False,
    ) -> list[tuple[int, int]]:
        """Raise AlreadyExistsError if something is in the way; return the arrays that are there already.

        They are pairs, as the journal has them: of a pass, and of a number.
        """
        with looking(self._location) as seen:
            check_outside_arrays(seen)
            if tree_format(self._format).has_containers:
                check_container(seen)
            top = self._top._replace(store=seen.store)
            self._check_top(top, resume, into_group=into_group)
        if self.is_empty:
            return []
        self._check_files(plan.top_names())
        self._find_groups(plan.groups, resume)
        there = []
        for at, number, path, job in _jobs(plan, small):
            if not self._may_hold(path):
                continue
            if resume and job().is_there():
                there.append((at, number))
            else:
                check_place(location_below(self._top, path), "array", self._format)
        return there

    def is_whole(self, plan: TreePlan, small: SmallArrays) -> bool:
        """Return True if all groups and arrays are there."""
        found = Place(self._top, self._format)
        found._check_top(self._top, True, into_group=False)
        if found.is_empty:
            return False
        found._find_groups(plan.groups, True)
        return found.groups >= set(plan.groups) and all(job().is_there() for *_, job in _jobs(plan, small))

    def _check_top(self, top: Location, resume: bool, *, into_group: bool) -> None:
        """Raise AlreadyExistsError if there is anything, unless it is a group that may be copied into."""
        node = find_node(top, self._format, self._files)
        self.is_empty = (node is None or (node.implicit and not nodes_below(top))) and not self._files
        if node is None or node.implicit or resume or (into_group and node.kind == "group"):
            return
        raise AlreadyExistsError(f"there is an array or group at {top.text} already")

    def _check_files(self, names: Iterable[str]) -> None:
        """Raise AlreadyExistsError for a file where the copy has a directory."""
        for name in sorted(set(names) & set(self._files)):
            raise AlreadyExistsError(f"{self._top.child(name).text} is a file, and a directory in the copy")

    def _find_groups(self, paths: Iterable[str], resume: bool) -> None:
        """Find out which groups are there; raise AlreadyExistsError if one is in the way."""
        for path in paths:
            where = location_below(self._top, path)
            found = find_node(where, self._format) if self._may_hold(path) else None
            if found is None:
                continue
            if found.kind == "array" and not found.is_container:
                raise AlreadyExistsError(f"{where.text} is an array already ({found.format})")
            if found.implicit or found.key == JOURNAL or found.format != self._format:
                continue
            if path and not resume:
                raise AlreadyExistsError(f"{where.text} is a group already ({found.format})")
            self.groups.add(path)

    def _may_hold(self, path: str) -> bool:
        """Return False if there is certainly nothing at or below a path."""
        if self.is_empty or not path:
            return not self.is_empty
        above, _, name = path.rpartition("/")
        if not self._may_hold(above):
            return False
        if above not in self._known:
            location = location_below(self._top, above)
            try:
                self._known[above] = set(nodes_below(location))
            except UnsupportedError:  # it can't be listed
                self._known[above] = None
        names = self._known[above]
        return names is None or name in names

    def free_names(self, names: Sequence[str]) -> list[Location]:
        """Return the parts of the destination that only this copy writes to."""
        if self.is_empty:
            return [self._top]
        if self.groups - {""}:
            return []
        return [self._top.child(name) for name in names if not self._may_hold(name)]


def _jobs(plan: TreePlan, small: SmallArrays) -> Iterator[tuple[int, int, str, Callable[[], ArrayJob]]]:
    """Yield pass, number, path and copy of each array."""
    for number, array in enumerate(plan.small):
        yield SMALL, number, array.path, partial(small.job, array)
    for number, (path, job) in enumerate(plan.large.items()):
        yield LARGE, number, path, partial(_itself, job)


def _itself(job: ArrayJob) -> ArrayJob:
    return job


def publish_groups(
    plan: TreePlan,
    place: Place,
    target: Tree,
    names: tuple[str, ...],
    look: Callable[[], object],
    *,
    consolidated: bool,
) -> None:
    """Make the groups, that at the top last, and bring consolidated metadata up to date.

    Groups without arrays are removed again if `look` raises then.  If `consolidated`, the copy gets some of
    its own.
    """
    top, format = target.location(names), target.format
    attributes = {path: dict(own) for path, own in plan.groups.items()}
    linked = []
    for path, link in plan.links.items():
        above, _, name = path.rpartition("/")
        if above in place.groups:
            linked.append(path)
        else:
            attributes[above] = with_link(attributes[above], name, link, format)
    # A group must not be there before it is made: in N5 the container above has the mark.
    rules = tree_format(format)
    outer = top.parent if rules.has_containers and not names and top.parent else top
    # Beside what is replaced, no group is made above: others may have deleted it on purpose.
    made = [] if is_staging(top.name) else create_parents(outer, format)

    def make(path: str) -> None:
        location = location_below(top, path)
        if _make_group(location, format, attributes[path], is_there=path in place.groups):
            made.append(location)

    with removed_after_failure(made):
        map_requests(top.store, make, [path for path in attributes if path])
        if "" in attributes:
            make("")
        look()
    if rules.has_containers:
        if names or container_root(top) is not None:
            mark_container(top)
        else:
            create_container(top)
    for path in linked:
        _make_link(target, (*names, *path.split("/")), plan.links[path])
    if is_consolidated(top.store, top.path):
        moved = [top.child(name) for name in plan.top_names()] if "" in place.groups else [top]
        for location in moved:
            renew_copies_above(location)
        update_consolidated(top.store, top.path)  # attributes of a group that was there before, and its own
    if consolidated:
        consolidate(top, alone=True)


def _make_group(
    location: Location, format: FormatName, attributes: dict[str, JSON], *, is_there: bool
) -> bool:
    """Make a group, or change its attributes; return whether it was made."""
    if not is_there and write_group(location, format, attributes, follow=False):
        return True
    # It was there before, or an interrupted run has made it.
    node = find_node(location, format)
    if node is None or (node.kind == "array" and not node.is_container):
        raise AlreadyExistsError(f"{location.text} was created or deleted by another process")
    if attributes:
        change_attributes(node, lambda own: {**own, **attributes})
    return False


def _make_link(target: Tree, where: tuple[str, ...], link: Link) -> None:
    """Make a link in a group that was there before, unless an interrupted run has made it."""
    before = target.find(where[:-1])
    if before is None or where[-1] not in group_links(target, where[:-1], before):
        make_link(target, where, link)


# -- copies -------------------------------------------------------------------------------------------

# 1. The copy of each node is planned (`chunkwise.copying.tree_plan`).
# 2. The destination is listed once, to make sure that it is empty, instead of a request for each array.
# 3. The arrays are copied (`chunkwise.copying.planned_copy`).
# 4. Groups come last, with their links, and the top after all others: an unfinished copy is not a group.


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
        related = how_related(here, top)
        if related not in ("", "holds it"):  # which may get members of its own member
            raise InvalidArgumentError(f"{here.text} can't be copied to {top.text}, which {related}")
        self._consolidated = consolidated
        self._own: list[Location] = []  # parts of the destination that only this copy writes to
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
        )
        if self._part is None and not done:
            self._own = self._place.free_names(self.plan.top_names())
        return done

    def _own_parts(self) -> Sequence[Location]:
        return self._own

    def _delete_own(self) -> bool:
        for location in self._own:
            delete_own(location, ())
        if self._own:
            self._journal.delete()
        return bool(self._own)

    def _surround_first(self) -> None:
        """Do nothing: the groups above the arrays come last."""

    def _surround(self) -> None:
        place = self._place, self._target, self._names
        publish_groups(self.plan, *place, self._fence(SMALL).check, consolidated=self._consolidated)
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
    with looking(there) as seen:
        if not (how.overwrite or how.go_on):
            check_new(seen, "group", format)
        elif how.overwrite:
            check_place(seen, "group", format, "overwrite")
        archive, there, how = packed(there, format, how)
        at = seen if archive is None else there
        to = CopyPlace.choose(at, "group", format, overwrite=how.overwrite, go_on=how.go_on)
    to = to.in_store(there.store)
    target = Tree(root=to.place, format=format, writable=True, non_finite="literal")
    copy = TreeCopy(source, target, (), how, destination=to, workers=workers, consolidated=consolidated)
    copy.archive = archive
    return copy


def check_new(there: Location, kind: Kind, format: FormatName) -> None:
    """Raise AlreadyExistsError if there is something at the place of a copy, or inside an array."""
    if find_unfinished_copy(there) is not None:
        raise unfinished_copy_error(there)
    with looking(there) as seen:
        check_outside_arrays(seen)
        check_place(seen, kind, format)
