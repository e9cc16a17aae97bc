"""Tasks of a pyramid: a block of one level, and the blocks of the next levels made from it.

A block that covers whole write chunks of several levels is read once.  Levels that are made together equal
those made one by one only if stored values equal the written ones, so all codecs between them have to be
lossless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import lcm, prod
from typing import Any

import numpy.typing as npt

from chunkwise import IndexDomain, TensorStore, array, downsample
from chunkwise.copying.copy_arrays import StepResult
from chunkwise.copying.fence import guard_of
from chunkwise.copying.narrowing import Narrowing
from chunkwise.copying.worker_view import check_array_visible
from chunkwise.extension.inside import BlockCopy, Blocks, block_shape, divide, implicit_converter, item_nbytes

__all__ = ["LevelStep", "blocks_of_levels"]

_LOSSLESS = {
    "blosc", "bytes", "bz2", "bzip2", "crc32c", "gzip", "lz4", "raw", "sharding_indexed", "transpose", "xz",
    "zlib", "zstd",
}  # fmt: skip


@dataclass
class LevelStep:
    """Tasks that write a block of the first target, and its downsampled blocks in the others."""

    source: TensorStore
    targets: Sequence[TensorStore]
    steps: Sequence[Sequence[int]]  # from each target to the next
    method: str
    blocks: Blocks
    narrowing: Narrowing | None = None

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return item_nbytes(self.targets[0])

    @property
    def is_remote(self) -> bool:
        """True if a task waits for a server."""
        return any(store.spec()._driver.is_remote for store in (self.source, *self.targets))

    @property
    def nbytes(self) -> int:
        """Size of all targets."""
        return sum(target.size * item_nbytes(target) for target in self.targets)

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless this worker sees the same source as the driver."""
        check_array_visible(self.source, "the source")

    def run(self, tasks: Iterable[int]) -> StepResult:
        """Do tasks; return how many bytes were written."""
        guard = guard_of(tasks)
        targets = self.targets if guard is None else [guard.guarded(target) for target in self.targets]
        return StepResult(sum(self._do(number, targets) for number in tasks), 0, 0)

    def _do(self, number: int, targets: Sequence[TensorStore]) -> int:
        block = self.blocks.block(number)
        convert = implicit_converter(self.source.dtype, self.targets[0].dtype)
        values: npt.NDArray[Any] = convert(self.source[block].read().result())
        nbytes = 0
        for at, target in enumerate(targets):
            if at:
                origin = block.inclusive_min
                view = array(values, dtype=target.dtype).translate_to[origin]
                below = downsample(view, self.steps[at - 1], self.method)
                values, block = below.read().result(), below.domain
            target[tuple(slice(*pair) for pair in _bounds(block))].write(values).result()
            nbytes += int(block.size) * item_nbytes(target)
        return nbytes

    def nbytes_of(self, tasks: Iterable[tuple[int, int]]) -> int:
        """Return the number of bytes that some ranges of tasks write."""
        return sum(self._nbytes(number) for start, stop in tasks for number in range(start, stop))

    def _nbytes(self, number: int) -> int:
        bounds, total = _bounds(self.blocks.block(number)), 0
        for at, target in enumerate(self.targets):
            if at:
                bounds = [
                    (lo // f, -(-hi // f)) for (lo, hi), f in zip(bounds, self.steps[at - 1], strict=True)
                ]
            total += prod(hi - lo for lo, hi in bounds) * item_nbytes(target)
        return total


def _bounds(domain: IndexDomain) -> list[tuple[int, int]]:
    return list(zip(domain.inclusive_min, domain.exclusive_max, strict=True))


def blocks_of_levels(
    source: TensorStore,
    targets: Sequence[TensorStore],
    steps: Sequence[Sequence[int]],
    nbytes: int,
    n_wanted: int,
) -> tuple[int, Blocks]:
    """Return the number of targets of one read, and the blocks of the first: `n_wanted` for several."""
    first = targets[0]
    aligned = BlockCopy(first, source).source
    best = 1, divide(first, aligned, nbytes)
    factors = [1] * first.rank
    unit = [1] * first.rank
    for n, target in enumerate(targets, 1):
        chunk = target.chunk_layout.write_chunk.shape or (None,) * target.rank
        for dim, size in enumerate(first.shape):
            step = (chunk[dim] or 1) * factors[dim]
            unit[dim] = max(1, size) if step >= size else min(lcm(unit[dim], step), max(1, size))
        if prod(unit) * item_nbytes(first) > nbytes:
            break
        if n > 1:
            read_chunk = [size or 1 for size in aligned.chunk_layout.read_chunk.shape or (None,) * first.rank]
            shape = block_shape(first.shape, unit, read_chunk, item_nbytes(first), nbytes)
            blocks = Blocks(first.domain, tuple(first.origin), shape)
            if blocks.n_blocks < n_wanted:
                blocks = Blocks(first.domain, tuple(first.origin), tuple(unit))
            if blocks.n_blocks < n_wanted:
                break
            best = n, blocks
        if n == len(targets) or not _is_lossless(target):
            break
        factors = [factor * step for factor, step in zip(factors, steps[n - 1], strict=True)]
    return best


def _is_lossless(target: TensorStore) -> bool:
    """Return True if all codecs of an array are known to be lossless."""
    metadata: Any = target.spec().to_json()["metadata"]
    codecs = [
        *metadata.get("codecs", ()),
        *filter(
            None, [metadata.get("compressor"), *(metadata.get("filters") or ()), metadata.get("compression")]
        ),
    ]
    return set(_names(codecs)) <= _LOSSLESS


def _names(codecs: Sequence[Any]) -> Iterator[str]:
    for codec in codecs:
        yield str(codec if isinstance(codec, str) else codec.get("name", codec.get("id", codec.get("type"))))
        if isinstance(codec, dict) and codec.get("name") == "sharding_indexed":
            yield from _names(codec["configuration"]["codecs"])
