"""Datasets copied from one store to another, whatever their formats: large ones by workers, after the rest.

The journal of all large datasets is at the root of the new store, whose documents are not there yet: an
unfinished copy is not a store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy.typing as npt

from chunkwise.copying.copy_arrays import check_memory, copy_arrays, intermediate_name
from chunkwise.copying.copy_job import ArrayJob
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_place import CopyPlace
from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.copying.executors import Workers, room_of
from chunkwise.copying.journal import Journal
from chunkwise.copying.journal_document import JournalDocument, read_journal
from chunkwise.copying.new_array import open_array
from chunkwise.copying.planned_copy import PlannedCopy
from chunkwise.copying.small_arrays import SmallArrays
from chunkwise.copying.tree_plan import TreePlan
from chunkwise.copying.work import TaskRunner
from chunkwise.errors import ChunkwiseError, FailedPreconditionError
from chunkwise.extension import JSON
from chunkwise.extension.trees import Location, tree_format
from chunkwise.hdmf.conventions.base import NewDataset
from chunkwise.hdmf.model.codecs import Settings
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.physical import PhysicalArray
from chunkwise.hdmf.model.reference import Reference
from chunkwise.hdmf.model.tree import Format
from chunkwise.hdmf.model.values import map_members, map_objects
from chunkwise.hdmf.storage.node_writer import NodeWriter
from chunkwise.hdmf.storage.store import Dataset
from chunkwise.hdmf.storage.stream import ArrayStream, RowPieces, StreamOptions

__all__ = ["LargeDatasets", "copy_dataset"]

_Compare: TypeAlias = Callable[[Location, Collection[str], TaskRunner], None]

_LEAST_NBYTES = 1 << 20
"""Smaller datasets are written with the rest: sending them costs more."""

_PLANS = "datasets"
"""Member of the journal's task with the plans of the datasets."""


class LargeDatasets:
    """The large datasets of one new store: taken while the rest is written, then copied."""

    def __init__(
        self,
        location: Location,  # of the root
        workers: Workers,
        task: Mapping[str, Any],  # source and options: resumed only if they are the same
        how: CopyOptions,
        *,
        compare: _Compare | None = None,  # all but these paths
        progress: Callable[[int], object] = lambda nbytes: None,
    ) -> None:
        self.location = location
        self._workers, self._task, self._how = workers, dict(task), how
        self._compare, self._progress = compare, progress
        journal = Journal(location, self._task, 0)
        journal.check_store()
        begun = read_journal(location) if how.resume else None
        self.begun = begun is not None  # there is a journal, with which others can go on
        known: dict[str, JSON] = {}
        if begun is not None:  # before anything is written
            journal.check()
            known = begun["task"]
            if not isinstance(known.get(_PLANS), dict):
                raise FailedPreconditionError(
                    "the unfinished conversion can't be resumed: an earlier version of chunkwise has begun "
                    "it; go on with that version, or start again with overwrite=True"
                )
        self._intermediate = intermediate_name(known.get("intermediate"))
        self._plans = known.get(_PLANS, {})
        self._jobs: dict[str, ArrayJob] = {}
        self._copy: _Copy | None = None

    def take(self, array: PhysicalArray, element: Element, source: Location, format: Format) -> bool:
        """Let workers copy `source`, in `format`, to a new array; return False if they can't."""
        if element.kind != "number" or array.size * element.memory_dtype.itemsize < _LEAST_NBYTES:
            return False
        path = array.node.path
        location = self.location.child(path[1:])
        target = open_array(location)
        try:
            found = open_array(source, read=True)
        except ChunkwiseError:  # h5py has it, such as text or what a filter of its own has made
            return False
        if tree_format(format).reversed_axes != array.rules.reversed_axes:
            found = found.transpose(range(found.rank)[::-1])
        # Conventions translate values whose stored type differs, such as booleans in N5.
        dtypes = {found.dtype.memory_dtype, target.dtype.memory_dtype, element.memory_dtype}
        if len(dtypes) != 1 or found.shape != target.shape:
            return False
        job = ArrayJob(copy_arrays(found, target, location, None, is_stored=True))
        if path in self._plans:
            plan = CopyPlan.from_json(self._plans[path])
            check_memory(self._how.memory, plan.memory)
        else:
            plan = job.arrays.plan(room_of(self._workers, self._how.memory))
        job.use_plan(plan, summed=False, intermediate=self._intermediate)
        self._jobs[path] = job
        return True

    def run(self) -> None:
        """Copy all of them, and compare them if wanted."""
        task = {
            **self._task,
            _PLANS: {path: job.plan.to_json() for path, job in self._jobs.items()},
            "intermediate": self._intermediate,
        }
        compare = self._compare if self._how.verify else None
        self._copy = _Copy(self.location, self._jobs, task, self._how, self._workers, compare)
        self._copy.begin()
        self.begun = True

        def told(path: str, nbytes: int) -> None:
            self._progress(nbytes)

        self._copy.copy_arrays(told, told)

    def finish(self) -> None:
        """Compare the rest if wanted, and delete the journal: the store is there."""
        if self._copy is not None:
            self._copy.publish()


class _Copy(PlannedCopy):
    """Copies datasets to arrays that are there already."""

    command: ClassVar[str] = "chunkwise nwb convert --resume"

    def __init__(
        self,
        location: Location,
        jobs: dict[str, ArrayJob],
        task: dict[str, JSON],
        how: CopyOptions,
        workers: Workers,
        compare: _Compare | None,
    ) -> None:
        self._jobs, self._task, self._compare_rest = jobs, task, compare
        super().__init__(CopyPlace(location, location), how, workers)

    def _make_plan(self, begun: JournalDocument | None) -> tuple[TreePlan, SmallArrays, dict[str, JSON]]:
        return TreePlan(large=self._jobs), SmallArrays(self._top, self._top, "", (), self._how), self._task

    def _is_there(self) -> bool:
        return False

    def _check_free(self) -> list[tuple[int, int]]:
        return []

    def _own_parts(self) -> Sequence[Location]:
        return [self._top]

    def _delete_own(self) -> bool:
        return False

    def _surround_first(self) -> None:
        """Do nothing: the arrays were made with the rest of the store."""

    def _surround(self) -> None:
        if self._compare_rest is not None:
            with TaskRunner(self.workers) as runner:
                self._compare_rest(self._top, self._jobs.keys(), runner)

    def _commit(self, confirm: Callable[[], None]) -> None:
        """Do nothing: the caller makes the rest."""

    def _name_of(self, path: str) -> str:
        return f"dataset {path}"


def copy_dataset(
    source: Dataset,
    writer: NodeWriter,
    path: str,
    settings: Settings,
    attributes: dict[str, Any],
    convert: Callable[[Reference], Reference],
    options: StreamOptions,
    copies: LargeDatasets | None,
) -> None:
    """Make a copy of a dataset; a large one is left to `copies`, if there are any."""
    element = source.element
    if (
        source.scalar
        or not writer.store.convention.can_stream(element)
        or 0 in source.shape
        or source.nbytes <= 1 << 16
    ):
        values = _converted(source.read(), element, convert)
        writer.dataset(path, element, values, settings, attributes, scalar=source.scalar)
        return
    array = writer.create(NewDataset(path, element, source.shape, settings, attributes))
    at = source.store.location.child(source.path[1:])
    if copies is not None and copies.take(array, element, at, source.store.format):
        return
    nbytes = max(1, options.buffer_nbytes // 4)
    height = stored = (source.physical.chunk_shape or (1,))[0]
    common = math.lcm((array.chunk_shape or (1,))[0], stored)
    if common * (source.nbytes // source.shape[0]) <= nbytes:
        height = common
    pieces = RowPieces(source.read, source.shape, element.memory_dtype.itemsize, height, nbytes)
    ArrayStream(array, element, writer.store.convention, pieces, options).run()


def _converted(
    values: npt.NDArray[Any], element: Element, convert: Callable[[Reference], Reference]
) -> npt.NDArray[Any]:
    if not element.has_references:
        return values
    if element.kind == "compound":
        return map_members(values, element, lambda part, of: _converted(part, of, convert))
    return map_objects(values, lambda value: convert(value) if isinstance(value, Reference) else value)
