"""Arrays as workers see them: there as they were opened, and sent to tasks with all that they read.

An array that a worker doesn't see would be full of fill values.

Most pickles name a storage, and one that lives in the memory of a process refuses to be used in another
(`chunkwise.core.kvstore.this_process`).  A pickle of `chunkwise.array` has the elements themselves, and that
of a virtual array its functions: good to read, but data written to such a copy is lost.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from itertools import islice
from typing import TypeAlias

from chunkwise.copying.executors import Workers
from chunkwise.copying.overlap import driver_specs
from chunkwise.copying.summary import chunked_format
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import Members
from chunkwise.core.driver.tree_formats import FORMATS
from chunkwise.core.kvstore.this_process import ProcessName, process_name
from chunkwise.core.specs.schema import Schema
from chunkwise.core.trees.location import Location, location_of
from chunkwise.core.trees.node import JOURNAL, Node, find_documented
from chunkwise.core.trees.node_attributes import array_node
from chunkwise.errors import ChunkwiseError, FailedPreconditionError

__all__ = ["Home", "check_array_visible", "check_arrived", "check_node_visible", "check_reachable", "home_of"]

_MOST_LOOKED_AT = 8  # of the arrays that a source is made of

Home: TypeAlias = tuple[ProcessName, tuple[str, ...]]
"""The process that sends an array, and the parts of it that a pickle copies."""


def check_node_visible(node: Node, what: str) -> None:
    """Raise FailedPreconditionError unless the document of a node is here as it is in `node`."""
    found = find_documented(node.location, node.format)
    if found is None or not _is_same_array(node, found):
        raise FailedPreconditionError(
            f"a worker doesn't see {what}: {node.location.describe(node.key)} isn't there, or is another; it "
            "has to be on storage that all workers see under the same name"
        )


def _is_same_array(a: Node, b: Node) -> bool:
    """Return True if the documents of two nodes mean the same array, whatever its attributes."""
    # One may come from consolidated metadata, or be made of what was sent: defaults are written out there.
    if a.format is None or a.format != b.format:
        return False
    format = chunked_format(a.format)
    try:
        known, found = (format.parse_metadata(node.document) for node in (a, b))
        constraints = format.parse_constraints(format.metadata_to_json(format.without_attributes(known)))
        format.check(found, constraints, format.parse_options(Members({})), Schema())
    except ChunkwiseError:
        return False
    return True


def check_array_visible(store: TensorStore, what: str) -> None:
    """Raise FailedPreconditionError unless an array, or what it is made of, is here as it was opened."""
    array = store._array
    node = array_node(array).node
    if node is not None:
        check_node_visible(node, what)
        return
    stored = (s for s in driver_specs(array.spec()) if s.kvstore is not None and s.driver in FORMATS)
    for spec in islice(stored, _MOST_LOOKED_AT):
        assert spec.kvstore is not None, "it is stored"
        location = location_of(spec.kvstore)
        if find_documented(location, FORMATS[spec.driver]) is None:
            raise FailedPreconditionError(
                f"a worker doesn't see {what}: there is no array at {location.text}"
            )


def home_of(view: TensorStore) -> Home:
    """Return the facts about an array that `check_arrived` needs, before it is pickled."""
    kinds = {"array": "an array in memory", "virtual_chunked": "a virtual array, made of functions"}
    parts = [kinds[s.driver] for s in driver_specs(view._array.spec()) if s.driver in kinds]
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
