"""``PyramidCopy``: the levels of a planned pyramid, written into its group as the passes of one copy.

1. The group is made, with the journal of the copy (`chunkwise.copying.planned_copy`).
2. One level after the other is written in blocks, from the array of the level before, downsampled; or several
   from one read of a block, where the memory allows that (`chunkwise.images.pyramid.level_step`).
3. If wanted, every level is read again and compared with the level before, downsampled.
4. The group gets its attributes, by which viewers recognise a pyramid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from chunkwise import Attributes, TensorStore, create_container, downsample
from chunkwise.copying.copy_job import ArrayJob, CopyJob
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_passes import LARGE, is_pyramid_journal
from chunkwise.copying.copy_place import CopyPlace, find_unfinished_copy, unfinished_copy_error
from chunkwise.copying.copy_plan import CopyPlan, sizes_of_json
from chunkwise.copying.executors import Workers
from chunkwise.copying.journal import Journal
from chunkwise.copying.journal_document import JournalDocument, Ranges
from chunkwise.copying.new_array import open_array, target_spec
from chunkwise.copying.small_arrays import SmallArrays
from chunkwise.copying.tree_plan import TreePlan
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError
from chunkwise.extension import JSON
from chunkwise.extension.inside import BLOCK_NBYTES, Blocks, DriverSpec, divide, item_nbytes, memory_limit
from chunkwise.extension.trees import (
    JOURNAL,
    Location,
    Mode,
    check_container,
    check_outside_arrays,
    check_place,
    container_root,
    create_parents,
    find_documented,
    find_node,
    parents_made,
    removed_after_failure,
    require_node,
    to_json_value,
    tree_format,
    write_group,
)
from chunkwise.images.conventions.convention import Kept, NewImage, PyramidConvention
from chunkwise.images.conventions.ome import OmeZarr
from chunkwise.images.pyramid.level_step import LevelStep, blocks_of_levels
from chunkwise.images.pyramid.plan import PyramidPlan
from chunkwise.images.pyramid.pyramid_work import PyramidWork, Reads

__all__ = ["PyramidCopy", "PyramidGroup"]


# -- the group ----------------------------------------------------------------------------------------

# ``PyramidGroup``: the group of a pyramid, made before its levels, and described after them.

_LABELS = "labels"


class PyramidGroup:
    """A group that is, or will be, a pyramid."""

    def __init__(
        self,
        location: Location,
        convention: PyramidConvention,
        name: str,
        *,
        first: str | None = None,
        renamed: bool = False,
        kept: Kept,
    ) -> None:
        self._location, self._convention, self._name = location, convention, name
        self._first, self._renamed = first, renamed  # the first level, if it is there already
        self._kept = kept

    def check(self) -> None:
        """Raise AlreadyExistsError if an array, or a group of another format, is there, or an array above."""
        location, format = self._location, self._convention.format
        if tree_format(format).has_containers:
            check_container(location)
        check_outside_arrays(location)
        node = find_node(location)
        if node is None or node.key == JOURNAL:
            return
        if node.kind == "array":
            raise AlreadyExistsError(f"{location.text} is an array, not a group that could hold a pyramid")
        if not node.implicit and node.format != format:
            raise AlreadyExistsError(f"{location.text} is a {node.format} group, and the pyramid is {format}")

    def make(self) -> None:
        """Make the group, and those above it."""
        location, format = self._location, self._convention.format
        if tree_format(format).has_containers and container_root(location) is None:
            create_container(location)
        with parents_made(location, format):
            if write_group(location, format, {}) is None:
                self.check()  # another process was faster

    def is_finished(self, image: NewImage) -> bool:
        """Return True if the group has the attributes of an image."""
        node = find_node(self._location)
        if node is None or node.kind == "array" or node.format != self._convention.format:
            return False
        before = Attributes(node).asdict()
        return bool(to_json_value(self._change(image)(before), "attributes") == before)

    def _is_among_labels(self, image: NewImage) -> bool:
        parent = self._location.parent
        return image.labels and parent is not None and parent.name == _LABELS

    def _change(self, image: NewImage) -> Callable[[Mapping[str, JSON]], dict[str, JSON]]:
        """Return the change of the group's attributes that makes it a pyramid."""
        convention, first, renamed = self._convention, self._first, self._renamed
        above = "../../" if self._is_among_labels(image) else None
        made = convention.group_attributes(
            image._replace(name=self._name, source_image=above, kept=self._kept)
        )
        if not tree_format(convention.format).ngff_version and (renamed or self._kept.name):
            made = {"name": self._name, **made}  # as copies of images have it
        if first is None:
            return lambda before: {**before, **made}
        return lambda before: convention.merged(before, made, first, renamed=renamed)

    def clear(self) -> None:
        """Remove the attributes of a pyramid; a level that stays remains an image."""
        node = find_node(self._location)
        if node is None or node.implicit:
            return
        attributes, first = Attributes(node), self._first
        before = attributes.asdict()
        if self._convention.cleared(before, first) != before:
            attributes.change(lambda stored: self._convention.cleared(stored, first))

    def finish(self, image: NewImage) -> None:
        """Write the attributes; list labels in a group ``labels`` that they are in."""
        parent, change = self._location.parent, self._change(image)
        if find_documented(self._location) is None:
            self.make()  # others had deleted it before the levels were begun
        Attributes(require_node(self._location)).change(change)
        if self._is_among_labels(image) and isinstance(self._convention, OmeZarr):
            assert parent is not None
            convention = self._convention
            create_parents(parent, convention.format)
            write_group(parent, convention.format, {})
            Attributes(require_node(parent)).change(lambda own: convention.listing(own, self._location.name))


# -- the levels ---------------------------------------------------------------------------------------

_N, _SHAPE = "levels together", "block shape"  # members of a pass in a journal


class _Level(CopyJob):
    """A level to write, as a copy of the level before, downsampled."""

    what = "pyramid"


class PyramidCopy(PyramidWork):
    """The work that writes a pyramid into a group."""

    def __init__(
        self,
        pyramid: PyramidPlan,
        location: Location,
        group: PyramidGroup,
        how: CopyOptions,
        workers: Workers,
        *,
        first: str | None,  # name of the first level, if it is there already
        labels: bool,
        left_out: tuple[str, ...],
    ) -> None:
        self._pyramid, self._group, self._labels = pyramid, group, labels
        self.convention, self.level_names = pyramid.convention.name, pyramid.names
        self.left_out = left_out
        self._start = 0 if first is None else 1
        self._block_nbytes = _block_nbytes(workers, how.memory)
        super().__init__(CopyPlace(location, location), how, workers)

    def _reads(self) -> tuple[list[TensorStore], list[Reads]]:
        arrays = [*self._before, *(job.target for job in self._levels)]
        return arrays, [Reads(first, len(step.targets), step.blocks) for first, step in self._steps]

    def _open_levels(self) -> Iterable[TensorStore]:
        top = self._top if self.archive is None else self.archive.location
        return (open_array(top.child(name), read=True) for name in self.level_names)

    def _make_plan(self, begun: JournalDocument | None) -> tuple[TreePlan, SmallArrays, dict[str, JSON]]:
        pyramid, how = self._pyramid, self._how
        if begun is not None and not is_pyramid_journal(begun):
            if how.resume:
                raise FailedPreconditionError(
                    f"the unfinished copy can't be resumed: {self._top.describe(JOURNAL)} is of another "
                    "copy, or of an earlier version of chunkwise; go on with what began it, or use "
                    "--overwrite to start again"
                )
            begun = None
        known = None if begun is None else begun["task"]
        # Levels are made beside what they replace, also when another process goes on with them.
        self._replaces = how.overwrite or (known is not None and known.get("replaces") is True)
        done = Ranges(() if begun is None else begun["done"][LARGE])
        first = [open_array(self._top.child(name), read=True) for name in pyramid.names[: self._start]]
        self._before, self._levels, self._places = first, list[_Level](), list[CopyPlace]()
        self._steps: list[tuple[int, LevelStep]] = []  # with the number of the first level
        for number in range(self._start, len(pyramid.levels)):
            self._add_level(number, is_done=number - self._start in done)
        task: dict[str, JSON] = {
            "convention": pyramid.convention.name,
            "method": pyramid.method,
            "source": _stores(pyramid.source._array.spec()),
            "part": pyramid.source._transform.to_json(),
            "steps": [list(level.step) for level in pyramid.levels],
            "shape": list(pyramid.source.shape),
            "axes": [list(axis) for axis in pyramid.axes],
            **(
                {"replaces": True, "places": [to.place.path for to in self._places]} if self._replaces else {}
            ),
            "levels": {
                name: job.target_spec.spec
                for name, job in zip(pyramid.names[self._start :], self._levels, strict=True)
            },
        }
        same = known is not None and json.loads(json.dumps(task)).items() <= known.items()
        task["passes"] = self._plan_passes(known.get("passes") if known is not None and same else None)
        names = pyramid.names[self._start :]
        plan = TreePlan(large=dict[str, ArrayJob](zip(names, self._levels, strict=True)))
        none = SmallArrays(self._top, self._top, pyramid.convention.format, (), how)
        return plan, none, task

    def _add_level(self, number: int, *, is_done: bool) -> None:
        """Plan the array of a level; one that is done may have taken its place already."""
        pyramid, format = self._pyramid, self._pyramid.convention.format
        location = self._top.child(pyramid.names[number])
        to = CopyPlace.replacing(location) if self._replaces else CopyPlace(location, location)
        place = location if is_done and not to.is_staged else to.place
        target = target_spec(pyramid.templates[number], format, ("codec", "shards"))
        if separator := tree_format(format).separator_member:
            target.spec["metadata"][separator] = "/"
        source = pyramid.source
        if number:
            before = self._levels[-1].target if self._levels else self._before[-1]
            names = tuple(axis.name for axis in pyramid.axes)
            labelled = before.label[names] if names else before
            source = downsample(labelled, pyramid.levels[number].step, pyramid.method)
        job = _Level(source, place, format, target, None, node=None, how=self._how)
        blocks = divide(job.target, job.arrays.source, self._block_nbytes)  # of a comparison
        one = item_nbytes(job.target)
        job.plan = CopyPlan((blocks,), (1.0,), (1,), (1,), None, one, self._block_nbytes, 1)
        self._levels.append(job)
        self._places.append(to)

    def _plan_passes(self, known: JSON) -> list[JSON]:
        """Decide which levels are made together, and in which blocks, unless `known`; return it as JSON."""
        pyramid, passes = self._pyramid, list[JSON]()
        begun = _parse_passes(known, len(self._levels), pyramid.source.rank)
        at = 0
        while at < len(self._levels):
            jobs = self._levels[at:]
            source, targets = jobs[0].arrays.source, [job.target for job in jobs]
            steps = [level.step for level in pyramid.levels[self._start + at + 1 :]]
            if begun:
                n, shape = begun[len(passes)]
                blocks = Blocks(targets[0].domain, tuple(targets[0].origin), shape)
            else:
                n, blocks = blocks_of_levels(
                    source, targets, steps, self._block_nbytes, 2 * self.workers.n_workers
                )
            step = LevelStep(source, targets[:n], steps[: n - 1], pyramid.method, blocks)
            jobs[0].steps, jobs[0].nbytes = [step], step.nbytes
            self._steps.append((self._start + at, step))
            for job in jobs[1:n]:  # made with the first
                job.steps, job.nbytes = (), 0
            passes.append({_N: n, _SHAPE: list(blocks.shape)})
            at += n
        return passes

    def _check(self) -> None:
        Journal(self._top, {}, 0).check_store()
        self._group.check()
        if not self._how.overwrite and find_unfinished_copy(self._top) is not None:
            raise unfinished_copy_error(self._top)
        for to in self._places:
            mode: Mode = "new" if to.replacement is None else "overwrite"
            check_place(to.location, "array", self._pyramid.convention.format, mode)

    def _is_there(self) -> bool:
        return all(job.is_there() for job in self._levels) and self._group.is_finished(self._image)

    def _check_free(self) -> list[tuple[int, int]]:
        self._check()
        for to in self._places:
            to.clear()
        if self._how.overwrite:
            self._top.store.delete(self._top.path + JOURNAL)
        self._group.make()
        return []

    def _own_parts(self) -> Sequence[Location]:
        return [to.place for to in self._places]

    def _delete_own(self) -> bool:
        return False

    def _surround_first(self) -> None:
        """Do nothing: the group is there."""

    def _surround(self) -> None:
        """Let the levels take their places, and make the group a pyramid."""
        for to in self._places:
            with to.alone() as confirm:  # and take over the lease of a process that was killed meanwhile
                self._journal.write()  # or another process has begun again
                if to.replacement is None or to.is_staged:
                    to.commit(confirm)
                else:  # it was killed after this, perhaps before it had deleted the old level
                    to.clear()
        if self._replaces:
            self._group.clear()
        with removed_after_failure([self._top]):  # if others have deleted all of it
            self._group.finish(self._image)
            self._fence(0).check()

    @property
    def _image(self) -> NewImage:
        pyramid = self._pyramid
        levels = list(zip(pyramid.names, pyramid.levels, strict=True))
        return NewImage(pyramid.axes, levels, labels=self._labels, method=pyramid.method)

    def _commit(self, confirm: Callable[[], None]) -> None:
        """Do nothing: the levels have taken their places."""

    def _name_of(self, path: str) -> str:
        return f"level {path}"

    def _distrust(self, passes: Sequence[int]) -> None:
        self._journal.restart()  # the levels below were made of it


def _parse_passes(found: JSON, n_levels: int, rank: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return the number of levels and the block shape of each pass, as a journal has them; or nothing."""
    try:
        passes = [(each[_N], sizes_of_json(each[_SHAPE])) for each in found]
        fits = sum(sizes_of_json(n for n, _ in passes)) == n_levels
    except (KeyError, TypeError, ValueError):
        return []
    return passes if fits and all(len(shape) == rank for _, shape in passes) else []


def _block_nbytes(workers: Workers, memory: int | None) -> int:
    """Return the size of the largest block that fits into the memory of a task."""
    memory = memory or workers.memory or memory_limit() // 4
    return min(BLOCK_NBYTES, max(1, memory // (3 * workers.n_at_once)))


def _stores(spec: DriverSpec) -> JSON:
    """Return the arrays that a source is made of, as JSON; of arrays in memory only that they are."""
    store = spec.key_value_store
    if store is not None:
        # A store of another library is an object; a journal can hold no more of it than its kind.
        described = json.dumps(store.strip().to_json(), default=lambda one: type(one).__name__)
        return [spec.driver, json.loads(described)]
    return [spec.driver, *(_stores(part) for part in spec.parts() if isinstance(part, DriverSpec))]
