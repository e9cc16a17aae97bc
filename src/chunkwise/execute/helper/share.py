"""Sharing a job with helper processes, if there are any that can do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from chunkwise.execute.helper.box_job import BoxJob
from chunkwise.execute.helper.conductor import Conductor, Work
from chunkwise.execute.helper.helpers import n_helpers, ready_helpers
from chunkwise.execute.helper.job import Job
from chunkwise.execute.listed_boxes import ListedBoxes
from chunkwise.execute.pool import Stop
from chunkwise.execute.workers import Workload

__all__ = ["Job", "share", "share_boxes"]

# What is done between two looks at other jobs, in bytes of elements.
_BATCH = 1 << 29
# A helper needs part of a second to start; what is long beside that, in nanoseconds.
_LONG = 1_000_000_000


def share(
    job: Job, load: Workload, open_worker: Callable[[Stop], Work]
) -> tuple[Workload, Callable[[Stop], Work]]:
    """Return how to work through `job` with helpers, if there are any that can do it.

    Parameters
    ----------
    job : Job
    load : Workload
        How it would be done without.
    open_worker : callable
        Opens a worker that does it here.
    """
    if load.n_helpers == 0 or not job.is_for_helpers():
        return load, open_worker
    helpers = ready_helpers(load.n_helpers, load.nanoseconds)
    # Those that are starting are worth it where other threads would be none.
    n_late = 0
    if load.n_workers == 1 and load.nanoseconds >= _LONG:
        n_late = min(load.n_helpers, n_helpers()) - len(helpers)
    if not helpers and n_late <= 0:
        return load, open_worker

    def open_conductor(stop: Stop) -> Work:
        return Conductor(job, helpers, n_late, open_worker(stop), stop).work

    load = load._replace(n_workers=1, n_batches=-(-job.nbytes(job.axes) // _BATCH), smaller=1)
    return load, open_conductor


def share_boxes(
    listed: ListedBoxes,
    kv: Any,
    view: npt.NDArray[Any],
    load: Workload,
    local: Callable[[Sequence[int]], object],
    stop: Sequence[object],
) -> bool:
    """Read boxes together with helpers; return False if there are none that can do it.

    Parameters
    ----------
    listed : ListedBoxes
    kv : object
        Where their arrays are.
    view : ndarray
        The caller's array.
    load : Workload
        How it would be done without.
    local : callable
        Reads boxes here, which are given by their numbers.
    stop : sequence
        True as soon as nothing more is to be read.
    """
    if load.n_workers > 1 or load.n_helpers == 0:
        return False
    job = BoxJob(listed, kv, view)
    if not job.is_for_helpers():
        return False
    helpers = ready_helpers(load.n_helpers, load.nanoseconds, small_pieces=True)
    if helpers:
        Conductor(job, helpers, 0, local, stop).work(range(listed.boxes.n))
    return bool(helpers)
