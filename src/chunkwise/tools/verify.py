"""Verification of stored arrays: every chunk is read and decoded, every key accounted for.

A chunk is bad if it can't be decoded to what the metadata promise: it is truncated, has too many bytes,
another shape, or a checksum that differs.  In a shard the index and each inner chunk are checked.  Chunks
are read the plain way (:mod:`chunkwise.engine.plain_read`).  Without a checksum, values that decode may still
be wrong, so chunks that have one are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from chunkwise.driver.stored_array import StoredArray
from chunkwise.engine.plain_read import PlainReader
from chunkwise.engine.pool import Pool, Stop
from chunkwise.errors import ChunkwiseError
from chunkwise.hierarchy.consolidated_tree import check_consolidated
from chunkwise.hierarchy.node import JOURNAL, Node
from chunkwise.hierarchy.walk import walk
from chunkwise.kvstore.protocol import KvStoreDriver
from chunkwise.tools.stored_node import list_keys, stored_array

__all__ = ["BadKey", "NodeReport", "verify", "verify_array"]

_BATCH = 32
_SHOWN = 3


class BadKey(NamedTuple):
    """A key whose value is not what it should be."""

    key: str
    reason: str


@dataclass
class NodeReport:
    """Result for one array or group."""

    name: str
    kind: str
    format: str | None
    n_chunks: int = 0  # stored ones that were read; inner chunks, where there are shards
    n_decoded: int = 0
    n_covered: int = 0  # by a checksum, which agrees
    nbytes: int = 0  # stored ones that were read
    bad: list[BadKey] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def verify(
    root: Node, pool: Pool | None = None, progress: Callable[[int], None] = lambda nbytes: None
) -> Iterator[NodeReport]:
    """Yield a report on `root` and on each node below; `progress` gets bytes, from several threads."""
    pool = pool or Pool()
    for name, node in walk(root):
        if node.kind == "array" and not node.error:
            report = verify_array(node, pool, progress)
            report.name = name
            yield report
            continue
        report = NodeReport(name, node.kind, node.format)
        if node.key == JOURNAL:
            report.bad.append(BadKey(node.location.path + node.key, node.error))
        elif node.error:
            report.bad.append(BadKey(node.location.path + node.key, f"metadata can't be read: {node.error}"))
        else:
            key = node.location.path + (".zmetadata" if node.format == "zarr2" else node.key)
            report.bad += [BadKey(key, problem) for problem in check_consolidated(node)]
        yield report


def verify_array(node: Node, pool: Pool, advance: Callable[[int], None] = lambda nbytes: None) -> NodeReport:
    """Check all chunks of one array."""
    location = node.location
    report = NodeReport("", "array", node.format)
    try:
        array = stored_array(node)
    except (ChunkwiseError, ValueError) as e:
        text = e.message if isinstance(e, ChunkwiseError) else str(e)
        report.bad.append(BadKey(location.path + node.key, f"metadata can't be used: {text}"))
        return report
    found = list_keys(node, array)
    if found.outside:
        report.notes.append(_some("chunk", found.outside, location.path, "outside the shape of the array"))
    if found.strays:
        report.notes.append(_some("key", found.strays, location.path, "neither chunk nor metadata"))
    chunks = sorted(found.chunks)
    batches = [chunks[i : i + _BATCH] for i in range(0, len(chunks), _BATCH)]

    checkers: list[_Checker] = []

    def open_worker(stop: Stop) -> Callable[[Sequence[str]], None]:
        checker = _Checker(array, location.kv, advance, stop)
        checkers.append(checker)
        return checker.check

    pool.run(batches, open_worker, lambda: None, n_workers=pool.n_workers).result()
    for checker in checkers:
        report.n_chunks += checker.n_chunks
        report.n_decoded += checker.n_decoded
        report.n_covered += checker.n_covered
        report.nbytes += checker.nbytes
        report.bad += checker.bad
    report.bad.sort()
    return report


def _some(noun: str, keys: list[str], path: str, what: str) -> str:
    names = [key[len(path) :] for key in sorted(keys)[:_SHOWN]]
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return f"{noun}{'' if len(keys) == 1 else 's'} {what}: {', '.join(names)}{more}"


class _Checker:
    """A worker with its own readers and counts."""

    def __init__(
        self,
        array: StoredArray,
        kv: KvStoreDriver,
        advance: Callable[[int], None],
        stop: Stop,
    ) -> None:
        self.array = array
        self.advance, self.stop = advance, stop
        self.n_chunks = self.n_decoded = self.n_covered = self.nbytes = 0
        self.bad: list[BadKey] = []
        self.reader = PlainReader(array, kv)

    def check(self, keys: Sequence[str]) -> None:
        """Read and decode the values of `keys`."""
        for key in keys:
            if self.stop:
                return
            try:
                value = self.reader.fetch(key)
            except ChunkwiseError as e:
                self.bad.append(BadKey(key, e.message))
                continue
            if value is None:  # deleted since the listing
                continue
            cell = self.array.keys.cell(key, self.array.grid.rank)
            assert cell is not None, "it was listed as a chunk"
            for piece in self.reader.pieces(cell, value):
                self.n_chunks += piece.is_chunk
                self.n_decoded += piece.elements is not None
                self.n_covered += piece.covered
                if piece.error is not None:
                    reason = _reason(piece.error)
                    self.bad.append(BadKey(key, f"{piece.name}: {reason}" if piece.name else reason))
            nbytes = memoryview(value).nbytes
            self.nbytes += nbytes
            self.advance(nbytes)


def _reason(error: Exception) -> str:
    text = error.message if isinstance(error, ChunkwiseError) else str(error)
    return text or type(error).__name__
