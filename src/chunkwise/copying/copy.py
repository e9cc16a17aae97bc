"""``copy`` and ``plan_copy``: an array copied by any executor, as it was planned."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, NamedTuple

from chunkwise.copying.array_copy import ArrayCopy
from chunkwise.copying.array_options import OPTIONS, OTHER_NAMES, array_options, for_format
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.copying.copy_source import source_at
from chunkwise.copying.executors import workers_of
from chunkwise.copying.losses import warn_of_losses
from chunkwise.copying.narrowing import Cast
from chunkwise.copying.progress import check_progress, shown_progress
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.arguments import as_nbytes
from chunkwise.core.base.catalogue import hooks
from chunkwise.core.trees.location import LocationLike, locate, located
from chunkwise.core.trees.tree import check_format
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import options_of
from chunkwise.extension.trees import format_of, is_volume

__all__ = ["ArrayCopyReport", "copy", "plan_copy"]


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
    with one read and one write; if chunks of the source would be read more than 2.5 times, there are two
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
    if is_volume(there := locate(destination), format):
        if plan is not None:
            raise InvalidArgumentError("plan: the copy to a precomputed volume makes its own")
        copy_to_volume = hooks.find("copy to a volume")
        volume: ArrayCopy = copy_to_volume(source_at(source).store, there, options, how, workers)
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
