"""Verification of an array outside of trees, such as a stack, a view, pictures or a volume, by reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from chunkwise.copying.executors import Workers, workers_of
from chunkwise.copying.part import Part
from chunkwise.copying.stored_node import check_array_visible
from chunkwise.copying.verify import NodeReport
from chunkwise.copying.verify_step import BadKey
from chunkwise.copying.work import TaskRunner, Work
from chunkwise.core.api.copy import divide
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.plan.blocks import Blocks
from chunkwise.errors import ChunkwiseError

__all__ = ["verify_view"]


class _Found(NamedTuple):
    n_read: int
    nbytes: int
    bad: list[BadKey]


def verify_view(
    store: TensorStore,
    workers: Workers | None = None,
    progress: Callable[[int], object] = lambda nbytes: None,
    part: Part | None = None,
) -> NodeReport:
    """Return a report on the chunks of an array; `nbytes` is decoded, since what is stored is not known."""
    report = NodeReport("", "array", None)
    chunk = store.chunk_layout.read_chunk.shape
    # What has no chunks of its own, such as a stack of pictures, is read in blocks.
    blocks = divide(store, store)
    if chunk and None not in chunk:
        blocks = blocks._replace(shape=tuple(max(1, n or 1) for n in chunk))
    start, stop = (part or Part(1, 1)).share(blocks.n_blocks)

    def done(start: int, stop: int, found: _Found) -> None:
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

    def run(self, tasks: Iterable[int]) -> _Found:
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
        return _Found(n_read, nbytes, bad)
