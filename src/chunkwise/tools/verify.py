"""Verification of stored arrays: every chunk is read and decoded, every key accounted for.

A chunk is bad if it can't be decoded to what the metadata promise: it is truncated, has too many bytes,
another shape, or a checksum that differs.  In a shard the index and each inner chunk are checked.  Chunks
are read the plain way (`chunkwise.tools.plain_read`).  Without a checksum, values that decode may still
be wrong, so chunks that have one are counted.  A fingerprint that was kept tells also of chunks that were
swapped or are missing (`chunkwise.tools.fingerprint`).

A task is a range of keys, which the worker lists: nobody has a list of all of them.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise, product
from math import prod
from typing import Any, NamedTuple

from chunkwise.binding import JSON
from chunkwise.cached import cached_property
from chunkwise.chunk_key.key_encoding import KeyEncoding, default_keys, v2_keys
from chunkwise.driver.stored_array import StoredArray
from chunkwise.driver.tree_format import FormatName
from chunkwise.engine.together import is_slow, together
from chunkwise.errors import ChunkwiseError, UnlistedError
from chunkwise.grid.protocol import n_array_cells
from chunkwise.hierarchy.attributes import node_attributes
from chunkwise.hierarchy.consolidated_tree import check_consolidated
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import DOCUMENTS, JOURNAL, Node
from chunkwise.hierarchy.replacement import leftovers
from chunkwise.hierarchy.walk import walk
from chunkwise.kvstore.key_range import KeyRange, encode_key
from chunkwise.kvstore.protocol import Buffer
from chunkwise.kvstore.traits import traits_of
from chunkwise.tools.executors import Workers, workers_of
from chunkwise.tools.fingerprint import chunk_fingerprint, fill_fingerprint, kept_fingerprint
from chunkwise.tools.parts import Part
from chunkwise.tools.plain_read import PlainReader
from chunkwise.tools.stored_node import check_node_visible, stored_array
from chunkwise.tools.work import Crew, Work

__all__ = ["BadKey", "NodeReport", "verify_nodes"]

_SHOWN = 3
_TASK_KEYS = 64
_TASK_NBYTES = 32 << 20
_MOST_TASKS = 4096
_ARRAYS_AHEAD = 256
_AHEAD_NBYTES = 1 << 27
_NOTHING = 0, 0
_MASK = (1 << 64) - 1


class BadKey(NamedTuple):
    """A key whose value is not what it should be.

    Attributes
    ----------
    key : str
        From the root of the store.
    reason : str
    """

    key: str
    reason: str


@dataclass
class NodeReport:
    """Findings of `verify` at one array or group.

    Attributes
    ----------
    name : str
        Path from the node that is verified; empty for that itself.
    kind : {"array", "group"}
    format : str or None
    n_chunks : int
        Stored chunks that were read; inner chunks, where there are shards.
    n_decoded : int
        How many of them could be decoded.
    n_covered : int
        How many have a checksum, which agrees.
    nbytes : int
        Stored bytes that were read.
    bad : list of BadKey
    notes : list of str
        Keys that are there but don't belong to the array.
    fingerprint : bool or None
        Whether the elements are those whose fingerprint was kept; None if none was.
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


@dataclass
class _Some:
    """Number of keys of a kind, and the first of them."""

    n: int = 0
    keys: list[str] = field(default_factory=list)

    def add(self, keys: Iterable[str], n: int = 1) -> None:
        self.n += n
        for key in keys:
            insort(self.keys, key)
        del self.keys[_SHOWN:]


@dataclass
class _Found:
    """Findings in some ranges of keys."""

    n_chunks: int = 0
    n_decoded: int = 0
    n_covered: int = 0
    nbytes: int = 0
    bad: list[BadKey] = field(default_factory=list)
    outside: _Some = field(default_factory=_Some)  # chunks beyond the shape of the array
    strays: _Some = field(default_factory=_Some)  # neither chunks nor metadata
    misnamed: dict[str, _Some] = field(default_factory=dict)  # chunks by what the metadata should say of keys
    fingerprint: int = 0  # what stored chunks add to that of the fill value


def verify_nodes(
    root: Node,
    workers: Workers | None = None,
    progress: Callable[[int], None] = lambda nbytes: None,
    part: Part | None = None,
) -> Iterator[NodeReport]:
    """Yield a report on `root` and on each node below, as far as a part has to do with it."""
    share = _Share(part or Part(1, 1))
    store = root.location.store
    workers = workers_of(workers)
    with Crew(workers) as crew:
        # Where requests take long, those for many small arrays are made together, in this process.
        many = workers.unasked and share.is_all and is_slow(store)
        walked = walk(root)
        while some := list(islice(walked, _ARRAYS_AHEAD if many else 1)):
            begun = together(store, partial(_begin, whole=many), [node for _, node in some])
            for (name, node), array in zip(some, begun, strict=True):
                if array is not None:
                    found = _verify_array(array, crew, progress, share)
                else:
                    found = _verify_group(node, share)
                if found is not None:
                    found.name = name
                    yield found


def _verify_group(node: Node, share: _Share) -> NodeReport | None:
    """Check the document of a group, or what is wrong with that of an array; None if it isn't the part's."""
    if share.of_next(1) == _NOTHING:
        return None
    report = NodeReport("", node.kind, node.format)
    key = node.location.path + node.key
    if node.key == JOURNAL:
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
    """An array that is to be verified, or why it can't be."""

    node: Node
    step: VerifyStep | None
    kept: str | None = None  # fingerprint
    problem: str = ""
    found: _Found | None = None  # in all of it, if that is known already


def _begin(node: Node, *, whole: bool) -> _Begun | None:
    """Look at an array, None if a node is none; with `whole` check all of one that is small."""
    if node.kind != "array" or node.error:
        return None
    try:
        kept = kept_fingerprint(node_attributes(node))
        step = VerifyStep(node)
        small = whole and len(step.ranges) == 1
    except (ChunkwiseError, ValueError) as e:
        return _Begun(node, None, None, e.message if isinstance(e, ChunkwiseError) else str(e))
    step.summed = whole and kept is not None
    return _Begun(node, step, kept, "", step.run([0]) if small else None)


class _Share:
    """The tasks of a part; the nodes of a tree take turns, so that arrays of one task are shared out too."""

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
    begun: _Begun, crew: Crew, advance: Callable[[int], None], share: _Share
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
    outside, strays = _Some(), _Some()
    misnamed: dict[str, _Some] = {}

    def done(start: int, stop: int, found: _Found) -> None:
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
            misnamed.setdefault(form, _Some()).add(some.keys, some.n)
        advance(found.nbytes)

    if ready is None:
        crew.run(Work("verify", [step]), 0, [tasks], done)
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
            reason = f"its elements have the fingerprint {found}, not {kept}, which was kept"
            report.bad.append(BadKey(location.path + node.key, reason))
    report.bad.sort()
    return report


def _some(noun: str, keys: _Some, path: str, what: str) -> str:
    names = [key[len(path) :] for key in keys.keys]
    more = f" and {keys.n - _SHOWN} more" if keys.n > _SHOWN else ""
    return f"{noun}{'' if keys.n == 1 else 's'} {what}: {', '.join(names)}{more}"


@dataclass
class VerifyStep:
    """Ranges of the keys below an array, of which each is listed, read and decoded."""

    node: Node
    summed: bool = False  # whether fingerprints are wanted

    @cached_property
    def array(self) -> StoredArray:
        """The array of the node."""
        return stored_array(self.node)

    @cached_property
    def ranges(self) -> list[KeyRange]:
        """The ranges; together they hold all keys below the array."""
        path = self.node.location.path
        whole = KeyRange.of_prefix(path) if path else KeyRange()
        edges = [whole.inclusive_min, *sorted(set(map(encode_key, _edges(self.array)))), whole.exclusive_max]
        return [KeyRange(start, stop) for start, stop in pairwise(edges)]

    @property
    def is_remote(self) -> bool:
        """False: a task reads one key after the other."""
        return False

    def __reduce__(self) -> tuple[object, ...]:
        node = self.node
        return _sent_step, (node.location, node.format, node.key, dict(node.document), self.summed)

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless the array is here as it is where the work was begun."""
        check_node_visible(self.node, "the array")

    def run(self, tasks: Iterable[int]) -> _Found:
        """Check all that is stored in some of the ranges."""
        out = _Found()
        node, array, kv = self.node, self.array, self.node.location.store
        reader = PlainReader(array, kv)
        limits = [array.grid.n_cells(dim, size) for dim, size in enumerate(array.shape)]
        for number in tasks:
            wanted: list[tuple[str, tuple[int, ...]]] = []
            for key in self._keys(number):
                cell = array.keys.cell(key, array.grid.rank)
                if cell is None:
                    if key[len(node.location.path) :] in (*DOCUMENTS, JOURNAL):
                        continue
                    form = self._other_form(key, limits)
                    (out.misnamed.setdefault(form, _Some()) if form else out.strays).add([key])
                elif all(at < limit for at, limit in zip(cell, limits, strict=True)):
                    wanted.append((key, cell))
                    if len(wanted) == self._n_ahead:
                        self._check(out, reader, wanted)
                        wanted = []
                else:
                    out.outside.add([key])
            self._check(out, reader, wanted)
        return out

    @cached_property
    def _n_ahead(self) -> int:
        """Values that are asked for together: several only where requests take long."""
        array = self.array
        concurrency = traits_of(self.node.location.store).request_concurrency
        nbytes = prod(array.grid.chunk_shape or array.shape) * max(1, array.dtype.memory_dtype.itemsize)
        return max(1, min(concurrency or 1, _AHEAD_NBYTES // max(1, nbytes)))

    def _keys(self, number: int) -> Iterator[str]:
        """Yield the keys in a range; those that chunks would have where keys can't be listed."""
        keys = self.ranges[number]
        try:
            yield from self.node.location.store.list(keys.start, keys.stop)
        except UnlistedError:
            array = self.array
            cells = [range(array.grid.n_cells(dim, size)) for dim, size in enumerate(array.shape)]
            own = (array.keys.key(cell) for cell in product(*cells))
            yield from (key for key in own if key in keys)

    @cached_property
    def _other_forms(self) -> list[tuple[str, KeyEncoding]]:
        """The other forms of keys that the format has, with what the metadata say for each."""
        format, own, path = self.node.format, self.array.keys, self.node.location.path
        forms = []
        for separator in (".", "/"):
            if format in ("zarr2", "zarr3"):
                said = "chunk_key_encoding" if format == "zarr3" else "dimension_separator"
                text = (
                    f'"{said}": "{separator}"'
                    if format == "zarr2"
                    else f'"{said}": v2, separator "{separator}"'
                )
                forms.append((text, v2_keys({"separator": separator})))
            if format == "zarr3":
                text = f'"{said}": default, separator "{separator}"'
                forms.append((text, default_keys({"separator": separator})))
        forms = [(text, form.under(path)._replace(inner=own.inner)) for text, form in forms]
        return [(text, form) for text, form in forms if form != own]

    def _other_form(self, key: str, limits: Sequence[int]) -> str:
        """Return what the metadata would say if a key were a chunk's; empty if it can't be one."""
        for text, form in self._other_forms:
            cell = form.cell(key, self.array.grid.rank)
            if cell is not None and all(at < limit for at, limit in zip(cell, limits, strict=True)):
                return text
        return ""

    def _check(self, out: _Found, reader: PlainReader, wanted: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        """Read and decode the values of some keys."""

        def fetch(key: str) -> Any:
            try:
                return reader.fetch(key)
            except ChunkwiseError as e:
                return e

        values = together(self.node.location.store, fetch, [key for key, _ in wanted])
        for (key, cell), value in zip(wanted, values, strict=True):
            if isinstance(value, ChunkwiseError):
                out.bad.append(BadKey(key, value.message))
            elif value is not None:  # deleted since the listing
                self._check_value(out, reader, key, cell, value)

    def _check_value(
        self, out: _Found, reader: PlainReader, key: str, cell: tuple[int, ...], value: Buffer
    ) -> None:
        for piece in reader.pieces(cell, value):
            out.n_chunks += piece.is_chunk
            out.n_decoded += piece.elements is not None
            out.n_covered += piece.covered
            if piece.error is not None:
                reason = _reason(piece.error)
                out.bad.append(BadKey(key, f"{piece.name}: {reason}" if piece.name else reason))
            elif self.summed:
                out.fingerprint += chunk_fingerprint(self.array, cell, piece)
        out.nbytes += memoryview(value).nbytes


def _edges(array: StoredArray) -> Iterator[str]:
    """Yield beginnings of keys at which their order is cut, so that ranges hold about as many chunks."""
    cells = [array.grid.n_cells(dim, size) for dim, size in enumerate(array.shape)]
    cells = cells[: len(cells) - array.keys.inner]
    n = n_array_cells(array.grid, array.shape)
    nbytes = prod(array.shape) * array.dtype.memory_dtype.itemsize
    wanted = min(_MOST_TASKS, n, max(n // _TASK_KEYS, nbytes // _TASK_NBYTES))
    along: list[range] = []
    so_far = 1
    for number in cells:
        if so_far >= wanted:
            break
        step = max(1, number * so_far // wanted)
        along.append(range(0, number, step))
        so_far *= len(along[-1])
    if so_far > 1:
        yield from (array.keys.prefix + array.keys.separator.join(map(str, at)) for at in product(*along))


def _sent_step(
    location: Location, format: FormatName, key: str, document: dict[str, JSON], summed: bool
) -> VerifyStep:
    return VerifyStep(Node(location, format, "array", key, document), summed)


def _reason(error: Exception) -> str:
    text = error.message if isinstance(error, ChunkwiseError) else str(error)
    return text or type(error).__name__
