"""Arrays that are sent to tasks: what a task reads and writes has to be what the caller sees.

Most pickles name a storage, and one that lives in the memory of a process refuses to be used in another
(`chunkwise.core.kvstore.this_process`).  A pickle of `chunkwise.array` has the elements themselves, and one
of a virtual array its functions: good to read, but what is written to such a copy reaches nobody.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import TypeAlias

from chunkwise.copying.executors import Workers
from chunkwise.copying.overlap import driver_specs
from chunkwise.copying.stored_node import check_array_visible
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.driver.array.spec import ArraySpec
from chunkwise.core.driver.virtual_chunked.spec import VirtualChunkedSpec
from chunkwise.core.kvstore.this_process import ProcessName, process_name
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import FailedPreconditionError

__all__ = ["Home", "check_arrived", "check_reachable", "home_of"]


Home: TypeAlias = tuple[ProcessName, tuple[str, ...]]
"""The process that sends an array, and the parts of it that a pickle copies."""


def home_of(view: TensorStore) -> Home:
    """Return what `check_arrived` needs to know of an array that is about to be pickled."""
    kinds = {ArraySpec: "an array in memory", VirtualChunkedSpec: "a virtual array, made of functions"}
    parts = [kinds[type(s)] for s in driver_specs(view._array.spec()) if type(s) in kinds]
    return process_name(), tuple(dict.fromkeys(parts))


def check_arrived(view: TensorStore, home: Home, *, writes: bool) -> None:
    """Raise FailedPreconditionError unless an unpickled array is what its sender sees."""
    sender, copied = home
    if writes and copied:
        raise FailedPreconditionError(
            f"the target is, or contains, {copied[0]} of process {sender.pid} on {sender.host}; tasks are "
            "sent a copy of it, and what they write there would be lost: write to an array in files or in an "
            "object store, or run the tasks in threads"
        )
    check_array_visible(view, "the array")


def check_reachable(workers: Workers, places: Iterable[Location], arrays: Iterable[TensorStore]) -> None:
    """Raise FailedPreconditionError if workers can't use places or arrays, which are in this process."""
    if workers.in_process:
        return
    started = process_name().started.encode()
    sent = [pickle.dumps(each) for each in (*places, *arrays)]
    # A worker is asked only if a pickle says which process it is of.
    doubtful = [each for each in sent if started in each]
    if doubtful:
        with workers.open() as opened:
            opened.executor.submit(_look_at, doubtful).result()


def _look_at(sent: Iterable[bytes]) -> None:
    for each in map(pickle.loads, sent):
        if isinstance(each, TensorStore):
            check_array_visible(each, "the source")
        else:
            each.store.read(each.path + JOURNAL)
