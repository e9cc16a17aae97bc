"""Verification of arrays, stored or virtual, and of the place that holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from chunkwise.copying.array_template import FINGERPRINT
from chunkwise.copying.comparison import fill_fingerprint, kept_fingerprint
from chunkwise.copying.executors import Workers, workers_of
from chunkwise.copying.journal import Part, parse_part
from chunkwise.copying.node_arrays import check_array_visible
from chunkwise.copying.progress import check_progress, shown_progress
from chunkwise.copying.resolve import Place, ResolvedPlace, resolve
from chunkwise.copying.verify_step import SHOWN, BadKey, RangeFindings, Some, VerifyStep
from chunkwise.copying.work import TaskRunner, Work
from chunkwise.core.api.copy import divide
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.engine.concurrent_requests import is_slow, map_requests
from chunkwise.core.plan.blocks import Blocks
from chunkwise.core.trees.attributes import node_attributes
from chunkwise.core.trees.consolidated_tree import check_consolidated
from chunkwise.core.trees.location import located
from chunkwise.core.trees.node import Node
from chunkwise.core.trees.replacement import leftovers
from chunkwise.core.trees.walk import walk
from chunkwise.errors import ChunkwiseError
from chunkwise.extension.inside import RecordList

__all__ = ["BadKey", "NodeReport", "reports_of", "verify", "verify_nodes", "verify_view"]

# -- stored arrays ------------------------------------------------------------------------------------

# A chunk is bad if it doesn't decode to what the metadata promises: it is truncated, has too many bytes,
# another shape, or a wrong checksum.  In a shard the index and each inner chunk are checked.  Chunks are read
# by the plain reader (`chunkwise.copying.plain_read`).  Without a checksum, values that decode may still be
# wrong, so chunks that have one are counted.  A kept fingerprint also detects chunks that were swapped or are
# missing (`chunkwise.copying.comparison`).
#
# A task is a range of keys, which the worker lists: no process holds a list of all of them.

_ARRAYS_AHEAD = 256
_NOTHING = 0, 0
_MASK = (1 << 64) - 1


@dataclass
class NodeReport:
    """Findings of `verify` for one array or group.

    Attributes
    ----------
    name : str
        Path from the node that is verified; empty for that node itself.
    kind : {"array", "group"}
    format : str or None
    n_chunks : int
        Stored chunks that were read; inner chunks, where there are shards.
    n_decoded : int
        How many of them could be decoded.
    n_covered : int
        How many have a checksum, which matched.
    nbytes : int
        Stored bytes that were read.
    bad : list of BadKey
    notes : list of str
        Stored keys that don't belong to the array.
    fingerprint : bool or None
        Whether the elements match the kept fingerprint; None if there is none.
    """

    name: str
    kind: str
    format: str | None
    n_chunks: int = 0
    n_decoded: int = 0
    n_covered: int = 0
    nbytes: int = 0
    bad: list[BadKey] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fingerprint: bool | None = None


def verify_nodes(
    root: Node,
    workers: Workers | None = None,
    progress: Callable[[int], object] = lambda nbytes: None,
    part: Part | None = None,
) -> Iterator[NodeReport]:
    """Yield a report on `root` and each node below, as far as they belong to the part."""
    share = _Share(part or Part(1, 1))
    store = root.location.store
    workers = workers_of(workers)
    with TaskRunner(workers) as runner:
        # On slow stores, requests for many small arrays are made together, in this process.
        many = workers.unasked and share.is_all and is_slow(store)
        walked = walk(root)
        while some := list(islice(walked, _ARRAYS_AHEAD if many else 1)):
            begun = map_requests(store, partial(_begin, whole=many), [node for _, node in some])
            for (name, node), array in zip(some, begun, strict=True):
                if array is not None:
                    found = _verify_array(array, runner, progress, share)
                else:
                    found = _verify_group(node, share)
                if found is not None:
                    found.name = name
                    yield found


def _verify_group(node: Node, share: _Share) -> NodeReport | None:
    """Check the document of a group, or return the problem of an array's; None if it isn't the part's."""
    if share.of_next(1) == _NOTHING:
        return None
    report = NodeReport("", node.kind, node.format)
    key = node.location.path + node.key
    if node.is_unfinished:
        report.bad.append(BadKey(key, node.error))
    elif node.error:
        report.bad.append(BadKey(key, f"metadata can't be read: {node.error}"))
    else:
        key = node.location.path + (node.rules.consolidated_key or node.key)
        report.bad += [BadKey(key, problem) for problem in check_consolidated(node)]
    for place in leftovers(node.location, inside=True):
        report.notes.append(f"new data for a replacement, left behind or in use: {place.text}")
    return report


class _Begun(NamedTuple):
    """An array to verify, or the reason why it can't be."""

    node: Node
    step: VerifyStep | None
    kept: str | None = None  # fingerprint
    problem: str = ""
    found: RangeFindings | None = None  # in all of it, if that is known already


def _begin(node: Node, *, whole: bool) -> _Begun | None:
    """Look at an array, None for other nodes; with `whole` check all of one that is small."""
    if node.kind != "array" or node.error:
        return None
    try:
        kept = kept_fingerprint(node_attributes(node))
        step = VerifyStep(node)
        n_tasks = len(step.ranges)  # which the metadata must be of use for
    except (ChunkwiseError, ValueError) as e:
        return _Begun(node, None, None, e.message if isinstance(e, ChunkwiseError) else str(e))
    step.summed = whole and kept is not None
    return _Begun(node, step, kept, "", step.run([0]) if whole and n_tasks == 1 else None)


class _Share:
    """The tasks of a part; parts take turns over the nodes of a tree, so that arrays of one task are shared
    out too."""

    def __init__(self, part: Part) -> None:
        self.is_all = part.n == 1
        self._part, self._n_before = part, 0

    def of_next(self, n_tasks: int) -> tuple[int, int]:
        """Return the tasks of the next node that are the part's, as a range."""
        number, n = self._part
        turned = Part((number - 1 - self._n_before) % n + 1, n)
        self._n_before += n_tasks
        start, stop = turned.share(n_tasks)
        return (start, stop) if start < stop else _NOTHING


def _verify_array(
    begun: _Begun, runner: TaskRunner, advance: Callable[[int], object], share: _Share
) -> NodeReport | None:
    """Check the chunks of one array that are the part's, None if there are none."""
    node, step, kept, problem, ready = begun
    location = node.location
    report = NodeReport("", "array", node.format)
    total = 0
    try:
        if step is not None:
            step.summed = kept is not None and share.is_all
            total = fill_fingerprint(step.array) if step.summed else 0
    except (ChunkwiseError, ValueError) as e:
        step, problem = None, e.message if isinstance(e, ChunkwiseError) else str(e)
    if step is None:
        report.bad.append(BadKey(location.path + node.key, f"metadata can't be used: {problem}"))
        return None if share.of_next(1) == _NOTHING else report
    tasks = share.of_next(len(step.ranges))
    if tasks == _NOTHING:
        return None
    outside, strays = Some(), Some()
    misnamed: dict[str, Some] = {}

    def done(start: int, stop: int, found: RangeFindings) -> None:
        nonlocal total
        total += found.fingerprint
        report.n_chunks += found.n_chunks
        report.n_decoded += found.n_decoded
        report.n_covered += found.n_covered
        report.nbytes += found.nbytes
        report.bad += found.bad
        outside.add(found.outside.keys, found.outside.n)
        strays.add(found.strays.keys, found.strays.n)
        for form, some in found.misnamed.items():
            misnamed.setdefault(form, Some()).add(some.keys, some.n)
        advance(found.nbytes)

    if ready is None:
        runner.run(Work("verify", [step]), 0, [tasks], done)
    else:
        done(*tasks, ready)
    if outside.n:
        report.notes.append(_some("chunk", outside, location.path, "outside the shape of the array"))
    if strays.n:
        report.notes.append(_some("key", strays, location.path, "neither chunk nor metadata"))
    for form, some in misnamed.items():
        shown = _some("chunk", some, location.path, "stored")
        reason = (
            f"{shown}; but the metadata don't say {form}, so they are not found and read as the fill value"
        )
        report.bad.append(BadKey(location.path + node.key, reason))
    if kept is not None and not step.summed:
        report.notes.append("the fingerprint that was kept is of all parts, so it wasn't compared")
    elif kept is not None:
        found = f"{total & _MASK:016x}"
        report.fingerprint = found == kept
        if found != kept:
            reason = (
                f"its elements have the fingerprint {found}, not {kept}, which was kept: they are damaged, "
                f"or were written after that; then copy again, or remove the attribute {FINGERPRINT}"
            )
            report.bad.append(BadKey(location.path + node.key, reason))
    report.bad.sort()
    return report


def _some(noun: str, keys: Some, path: str, what: str) -> str:
    names = [key[len(path) :] for key in keys.keys]
    more = f" and {keys.n - SHOWN} more" if keys.n > SHOWN else ""
    return f"{noun}{'' if keys.n == 1 else 's'} {what}: {', '.join(names)}{more}"


# -- views --------------------------------------------------------------------------------------------


class _ViewFindings(NamedTuple):
    n_read: int
    nbytes: int
    bad: list[BadKey]


def verify_view(
    store: TensorStore,
    workers: Workers | None = None,
    progress: Callable[[int], object] = lambda nbytes: None,
    part: Part | None = None,
) -> NodeReport:
    """Return a report on the chunks of an array; `nbytes` is decoded, since the stored size is not known."""
    report = NodeReport("", "array", None)
    chunk = store.chunk_layout.read_chunk.shape
    # An array without chunks of its own, such as a stack of pictures, is read in blocks.
    blocks = divide(store, store)
    if chunk and None not in chunk:
        blocks = blocks._replace(shape=tuple(max(1, n or 1) for n in chunk))
    start, stop = (part or Part(1, 1)).share(blocks.n_blocks)

    def done(start: int, stop: int, found: _ViewFindings) -> None:
        report.n_chunks += stop - start
        report.n_decoded += found.n_read
        report.nbytes += found.nbytes
        report.bad += found.bad
        progress(found.nbytes)

    if start < stop:
        with TaskRunner(workers_of(workers)) as runner:
            runner.run(Work("verify", [_ReadStep(store, blocks)]), 0, [(start, stop)], done)
    report.bad.sort()
    return report


@dataclass
class _ReadStep:
    """Chunks of an array that are read."""

    store: TensorStore
    blocks: Blocks

    @property
    def is_remote(self) -> bool:
        """False: a task reads one chunk after the other."""
        return False

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless this worker sees the same array as the driver."""
        check_array_visible(self.store, "the array")

    def run(self, tasks: Iterable[int]) -> _ViewFindings:
        """Read some chunks."""
        n_read = nbytes = 0
        bad = []
        for number in tasks:
            block = self.blocks.block(number)
            try:
                nbytes += self.store[block].read().result().nbytes
                n_read += 1
            except (ChunkwiseError, ValueError) as e:
                where = ", ".join(
                    f"{a}:{b}" for a, b in zip(block.inclusive_min, block.exclusive_max, strict=True)
                )
                bad.append(BadKey(f"[{where}]", e.message if isinstance(e, ChunkwiseError) else str(e)))
        return _ViewFindings(n_read, nbytes, bad)


# -- places -------------------------------------------------------------------------------------------


def verify(
    place: Place,
    *,
    executor: Executor | None = None,
    progress: Callable[[int], object] | bool = False,
    part: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[NodeReport]:
    """Read and decode every stored chunk of an array, or of all arrays of a tree.

    Chunks are read one by one and decoded codec by codec, with other code than normal reads.

    Parameters
    ----------
    place : str, path-like, Spec, KvStore, KvStore.Spec, TensorStore or JSON
        Anything that `chunkwise.open` or `chunkwise.open_group` takes.  A view, a picture or a volume is
        verified by reading it.
    executor : concurrent.futures.Executor, optional
        Does the work, as for `chunkwise.copy`.  By default threads of this process.
    progress : callable or bool
        Called in the calling thread with the stored bytes that are done; True shows a bar on stderr.
    part : str, optional
        ``"I/N"``: check one of N shares of the keys.  A kept fingerprint covers all elements, so a part
        doesn't compare it; a note says so.
    storage_options : mapping, optional
        As for `open_group`.

    Returns
    -------
    list of NodeReport
        One for each node, groups before their members; with `part`, for the nodes that it has worked on.

    Raises
    ------
    NotFoundError
        If there is no array or group.
    InvalidArgumentError
        If `part` is invalid.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.zarr"
    >>> _ = chunkwise.create_array(path, np.arange(6), chunks=[3], checksum=True)
    >>> with open(path + "/c/1", "r+b") as chunk:
    ...     _ = chunk.write(b"bad")
    >>> (report,) = chunkwise.verify(path)
    >>> report.n_chunks, [bad.key.endswith("c/1") for bad in report.bad]
    (2, [True])
    """
    check_progress(progress)
    own = None if part is None else parse_part(part)
    (place,) = located(storage_options, place)
    found = resolve(place)
    with shown_progress(progress, "verifying", None) as told:
        return RecordList(reports_of(found, workers_of(executor), told, own))


def reports_of(
    found: ResolvedPlace,
    workers: Workers | None,
    progress: Callable[[int], object],
    part: Part | None,
) -> Iterator[NodeReport]:
    """Yield a report on an array, or on a node and each below; keys are relative to that."""
    if found.array is not None:
        yield verify_view(found.array, workers, progress, part)
        return
    root = found.as_node(damaged=True)
    n = len(root.location.path)
    for report in verify_nodes(root, workers, progress, part):
        report.bad = [bad._replace(key=bad.key[n:]) for bad in report.bad]
        yield report
