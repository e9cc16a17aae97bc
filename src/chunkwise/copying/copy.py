"""``ArrayCopy``, ``copy`` and ``plan_copy``: an array copied to another location by any executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, NamedTuple

from chunkwise.copying.array_options import OPTIONS, OTHER_NAMES, array_options, check_named, for_format
from chunkwise.copying.copy_arrays import check_memory, intermediate_name
from chunkwise.copying.copy_job import planned_job
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_place import CopyPlace, packed
from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.copying.copy_source import CopySource, source_at, stored_source
from chunkwise.copying.executors import Workers, room_of, workers_of
from chunkwise.copying.journal_document import JournalDocument
from chunkwise.copying.losses import warn_of_losses
from chunkwise.copying.narrowing import Cast
from chunkwise.copying.new_array import open_array
from chunkwise.copying.planned_copy import PlannedCopy
from chunkwise.copying.progress import check_progress, shown_progress
from chunkwise.copying.small_arrays import SmallArrays
from chunkwise.copying.tree_plan import TreePlan
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.arguments import as_nbytes
from chunkwise.core.base.binding import JSON
from chunkwise.core.base.catalogue import hooks
from chunkwise.core.kvstore.places.keys_below import list_below
from chunkwise.core.trees.change import delete_below
from chunkwise.core.trees.key_ownership import delete_own
from chunkwise.core.trees.location import Location, LocationLike, locate, located
from chunkwise.core.trees.tree import check_format
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, InvalidArgumentError
from chunkwise.extension.inside import options_of
from chunkwise.extension.trees import check_outside_arrays, check_place, format_of, is_volume

__all__ = ["ArrayCopy", "ArrayCopyReport", "copy", "plan_copy"]

# -- copies of arrays ---------------------------------------------------------------------------------

# 1. The template of the source becomes the metadata of the destination.
# 2. The passes are planned (`chunkwise.copying.copy_plan`).
# 3. The array is copied like one of a tree (`chunkwise.copying.planned_copy`).  A block that stores nothing
#    needs no copy if the fill values are the same.

_SAME = "source and destination are the same array, or the destination holds the source"
_INSIDE = "the destination is, or holds, an array that the source is made of"


class ArrayCopy(PlannedCopy):
    """A copy of one array."""

    command = "chunkwise cp --resume"

    def __init__(
        self,
        source: Location | CopySource,
        destination: Location,
        format: str,
        fields: dict[str, Any],
        how: CopyOptions,
        *,
        workers: Workers | None = None,
        plan: CopyPlan | None = None,
        extent: tuple[float, float] | None = None,  # of the source; without it "scale" measures it
    ) -> None:
        self._format = check_format(format)
        self._source = source = stored_source(source) if isinstance(source, Location) else source
        if how.overwrite:
            check_place(destination, "array", self._format, "overwrite")
        self.archive, destination, how = packed(destination, self._format, how)
        found = CopyPlace.choose(destination, "array", self._format, overwrite=how.overwrite, go_on=how.go_on)
        # The copy may read what it replaces, which stays until the copy is complete.
        if source.uses(found.place, below=found.replacement is not None):
            raise InvalidArgumentError(_SAME if source.is_stored else _INSIDE)
        check_named(fields, fields.get("dimension_names", source.template.names), "the array")
        self._job = planned_job(source, found.place, format, fields, how, extent=extent)
        self.target, self.narrowing = self._job.target, self._job.narrowing
        self._given = plan
        self._before: frozenset[str] | None = None  # keys that are not of this copy
        super().__init__(found, how, workers)

    @property
    def passes(self) -> CopyPlan:
        """The passes over the array."""
        return self._job.plan

    def _make_plan(self, begun: JournalDocument | None) -> tuple[TreePlan, SmallArrays, dict[str, JSON]]:
        how, source, job, plan = self._how, self._source, self._job, self._given
        between = intermediate_name()
        if plan is None and begun is not None and begun["task"].get("source metadata") == source.digest:
            # A process that resumes may have other memory and processors.
            known = begun["task"].get("plan")
            if known is not None:
                plan = CopyPlan.from_json(known)
                check_memory(how.memory, plan.memory)
                between = intermediate_name(begun["task"].get("intermediate"))
        plan = plan or job.arrays.plan(room_of(self.workers, how.memory))
        job.use_plan(plan, summed=how.keep_fingerprint, intermediate=between)
        task = {
            "source": source.location,
            "source metadata": source.digest,
            "target": job.target_spec.spec,
            "plan": plan.to_json(),
            **({} if plan.intermediate is None else {"intermediate": between}),
            **({} if self.narrowing is None else {"cast": self.narrowing.rule}),
            **({"fingerprint": "kept"} if how.keep_fingerprint else {}),
        }
        notes = [("", note) for note in (source.left_out, *job.target_spec.notes) if note]
        none = SmallArrays(self._top, self._top, self._format, (), how)
        return TreePlan(large={"": job}, notes=notes), none, task

    def _is_there(self) -> bool:
        return self._job.is_there()

    def _check_free(self) -> list[tuple[int, int]]:
        destination, overwrite = self._destination, self._how.overwrite
        if destination.replacement is not None and not overwrite:
            raise AlreadyExistsError(f"{self._top.text} holds another copy, which --overwrite deletes")
        check_outside_arrays(destination.location)
        state, _ = check_place(self._top, "array", self._format, "overwrite" if overwrite else "new")
        if self._part is None and (state == "nothing" or self.narrowing is not None):
            self._before = frozenset(
                () if state == "nothing" else list_below(self._top.store, self._top.path)
            )
        return []

    def _own_parts(self) -> Sequence[Location]:
        return [self._top] if self._before == frozenset() else []

    def _delete_own(self) -> bool:
        if self._session:
            with suppress(ChunkwiseError):
                delete_below(self._top)
            return True
        if self._before is None:
            return False
        self._destination.clear()
        delete_own(self._top, self._before)
        return True

    def _surround_first(self) -> None:
        with self._journal.beating():
            self._destination.create_parents(self._format)

    def _surround(self) -> None:
        """Do nothing: an array is all."""

    def _commit(self, confirm: Callable[[], None]) -> None:
        self._destination.commit(confirm)

    def _name_of(self, path: str) -> str:
        return ""  # the caller knows it

    def open(self) -> TensorStore:
        """Return the copy, newly opened."""
        return open_array(self._destination.location if self.archive is None else self.archive.location)


# -- functions ----------------------------------------------------------------------------------------


class ArrayCopyReport(NamedTuple):
    """Result of `copy`.

    Attributes
    ----------
    array : TensorStore
        The copy.
    plan : CopyPlan
    nbytes : int
        Size of all elements, in bytes.
    nbytes_copied : int
        How much of it was copied now, not by an earlier run that was resumed.
    seconds : float
    verified : bool
        Whether every element was read again and compared.
    notes : tuple of str
        What the format of the copy can't hold, or stores in an unusual way.
    """

    array: TensorStore
    plan: CopyPlan
    nbytes: int
    nbytes_copied: int
    seconds: float
    verified: bool
    notes: tuple[str, ...]


@options_of((*OPTIONS, *OTHER_NAMES))
def plan_copy(
    source: LocationLike | TensorStore,
    destination: LocationLike,
    *,
    memory: int | str | None = None,
    executor: Executor | None = None,
    format: str | None = None,
    cast: Cast = "error",
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> CopyPlan:
    """Return how `copy` would copy an array; nothing is written.

    Parameters
    ----------
    source, destination, memory, executor, format, cast, storage_options, **options
        As for `copy`.

    Returns
    -------
    CopyPlan
        Print it, or keep its ``to_json()``.

    Raises
    ------
    InvalidArgumentError
        If a chunk is too large for `memory`, or the format can't hold the array.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> place = tempfile.mkdtemp()
    >>> _ = chunkwise.create_array(f"{place}/a.zarr", np.zeros((64, 64), "u2"), chunks=[1, 64])
    >>> plan = chunkwise.plan_copy(f"{place}/a.zarr", f"{place}/b.zarr", chunks=[64, 4], memory="4kB")
    >>> plan.n_tasks, plan.nbytes
    (32, 8192)
    >>> plan == chunkwise.CopyPlan.from_json(plan.to_json())
    True
    """
    source, destination = located(storage_options, source, destination)
    how = CopyOptions(memory=as_nbytes(memory, "memory"), cast=cast)
    return _prepare(source, destination, executor, format, options, how).passes


@options_of((*OPTIONS, *OTHER_NAMES))
def copy(
    source: LocationLike | TensorStore,
    destination: LocationLike,
    *,
    executor: Executor | None = None,
    plan: CopyPlan | None = None,
    memory: int | str | None = None,
    format: str | None = None,
    cast: Cast = "error",
    verify: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    sync: bool = True,
    keep_fingerprint: bool = False,
    progress: Callable[[int], object] | bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> ArrayCopyReport:
    """Copy an array to another location, format, chunking or compression.

    An unfinished copy is not an array: its metadata is written last.  Blocks are copied in parallel, each
    with one read and one write; if chunks of the source would be read more than three times, there are two
    passes, with an intermediate array in the destination.

    Parameters
    ----------
    source : str, path-like, Spec, KvStore, KvStore.Spec, TensorStore or JSON
        Anything that `chunkwise.open` takes, an open array, also a virtual one, a file with one array or
        image, or a folder or glob of pictures.
    destination : str, path-like, Spec, KvStore, KvStore.Spec or JSON
    executor : concurrent.futures.Executor, optional
        Runs the tasks: threads, processes, ``distributed.Client(...).get_executor()`` or any other.  All its
        workers must see source and destination under the same names.  By default threads of this process.
    plan : CopyPlan, optional
        What `plan_copy` returned for the same arrays and options.
    memory : int or str, optional
        Bytes that a worker process may use for the copy, such as ``"2GB"``, in addition to Python and
        libraries.  By default a quarter of the memory it may have.
    format : {"zarr3", "zarr2", "zarr1", "n5", "neuroglancer_precomputed"}, optional
        By default that of the group around the destination, or the one in its name, or that of the source.
    cast : {"error", "clamp", "wrap", "scale"}
        Treatment of values that another ``dtype`` can't hold.
    verify : bool
        Read source and copy again, with a plain reader, and compare.
    resume : bool
        Continue an unfinished copy, if there is one; another executor may have begun it.
    overwrite : bool
        Replace an array, or an unfinished copy, at the destination.  The old array stays until the copy is
        complete, so the source may be this array, or a view of it.
    sync : bool
        Whether to wait until chunks are on the disk before the array appears.
    keep_fingerprint : bool
        Keep a fingerprint of the elements as the attribute ``chunkwise_fingerprint`` of the copy.  With it
        `chunkwise.verify` finds any change, including chunks that are missing or were swapped.
    progress : callable or bool
        Called in the calling thread with the bytes of finished blocks, less than 0 for blocks that are to be
        done again; True shows a bar on stderr.
    storage_options : mapping, optional
        As for `open_group`; used for source and destination if they are URLs of an object store or web
        server.
    **options
        Properties of the copy that differ from the source: ``chunks``, ``shards``, ``codec``, ``checksum``,
        ``fill_value``, ``dtype``, ``dimension_names``, ``dimension_units``, in the forms of `create_array`.
        Sizes by dimension name, as in ``{"time": 90}``, leave the other dimensions as they are.  No option
        moves elements.

    Returns
    -------
    ArrayCopyReport

    Raises
    ------
    AlreadyExistsError
        If there is something at the destination.
    InvalidArgumentError
        If a chunk is too large for `memory`, the format can't hold the array, or `plan` is for another array.
    FailedPreconditionError
        If the unfinished copy is of another array or has other options, another process is at work on it, or
        a worker doesn't see the source or the destination.
    DataCorruptionError
        If the copy doesn't read back as it was written.

    Warns
    -----
    LossWarning
        If the format can't hold something other than elements; `notes` of the report has it too.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> place = tempfile.mkdtemp()
    >>> _ = chunkwise.create_array(f"{place}/a.n5", np.arange(12).reshape(3, 4), format="n5")
    >>> report = chunkwise.copy(f"{place}/a.n5", f"{place}/a.zarr", format="zarr3", verify=True)
    >>> report.nbytes, report.verified
    (96, True)
    """
    started = time.monotonic()
    check_progress(progress)
    source, destination = located(storage_options, source, destination)
    how = CopyOptions(
        memory=as_nbytes(memory, "memory"),
        cast=cast,
        verify=verify,
        resume=resume,
        overwrite=overwrite,
        sync=sync,
        keep_fingerprint=keep_fingerprint,
    )
    work = _prepare(source, destination, executor, format, options, how, plan)
    work.begin()
    with shown_progress(progress, "copying", work.nbytes, work.nbytes_done, work.workers) as told:
        report = work.run(lambda _, nbytes: told(nbytes))
    array, notes = work.open(), tuple(note for _, note in report.notes)
    warn_of_losses(report.losses)
    copied, seconds = work.nbytes - work.nbytes_done, time.monotonic() - started
    return ArrayCopyReport(array, work.passes, work.nbytes, copied, seconds, verify, notes)


def _prepare(
    source: LocationLike | TensorStore,
    destination: LocationLike,
    executor: Executor | None,
    format: str | None,
    fields: dict[str, Any],
    how: CopyOptions,
    plan: CopyPlan | None = None,
) -> ArrayCopy:
    options, workers = array_options(fields), workers_of(executor)
    how.check_cast(options)
    if is_volume(there := locate(destination), format):
        if plan is not None:
            raise InvalidArgumentError("plan: the copy to a precomputed volume makes its own")
        copy_to_volume = hooks.find("copy to a volume")
        whole = source_at(source)
        volume: ArrayCopy = copy_to_volume(whole.store, there, options, how, workers, whole.left_out)
        return volume
    if plan is not None and not isinstance(plan, CopyPlan):
        raise InvalidArgumentError(f"plan: expected the CopyPlan that plan_copy returned, not {plan!r}")
    if format is not None:
        format = check_format(format)
        options = for_format(options, format)
    found = source_at(source)
    return ArrayCopy(
        found,
        there,
        format_of(there, "array", format=format, source=found.template.format),
        options,
        how,
        workers=workers,
        plan=plan,
    )
