"""The plan of a copy, made before anything is read: its passes, blocks and requests, also as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.plan.blocks import Blocks, block_shape
from chunkwise.errors import InvalidArgumentError

__all__ = ["COPIES", "CopyPlan", "Grid", "Intermediate", "least_memory", "plan_blocks", "sizes_of_json"]

# -- the plan -----------------------------------------------------------------------------------------

# A plan holds no list of tasks: the number of a task determines its block.


class Intermediate(NamedTuple):
    """The array between two passes.

    Attributes
    ----------
    shards : tuple of int
        Shape of a shard, which is a block of the first pass.
    chunks : tuple of int
        Shape of the inner chunks.
    """

    shards: tuple[int, ...]
    chunks: tuple[int, ...]


@dataclass(frozen=True)
class CopyPlan:
    """The passes of a copy.

    Attributes
    ----------
    passes : tuple of Blocks
        One or two.
    reads : tuple of float
        For each pass, how many times the array is read.
    n_gets, n_puts : tuple of int
        For each pass, about how many requests it makes to a server if everything is stored.
    intermediate : Intermediate or None
    itemsize : int
        Bytes of an element.
    memory : int
        Bytes that a worker process may use.
    n_at_once : int
        Tasks that a worker process works on at the same time.
    """

    passes: tuple[Blocks, ...]
    reads: tuple[float, ...]
    n_gets: tuple[int, ...]
    n_puts: tuple[int, ...]
    intermediate: Intermediate | None
    itemsize: int
    memory: int
    n_at_once: int

    @property
    def nbytes(self) -> int:
        """Size of all elements, in bytes."""
        return int(self.passes[0].domain.size) * self.itemsize

    @property
    def n_tasks(self) -> int:
        """Number of tasks of all passes."""
        return sum(blocks.n_blocks for blocks in self.passes)

    @property
    def task_nbytes(self) -> int:
        """Size of the largest block, in bytes."""
        return max(prod(blocks.shape) for blocks in self.passes) * self.itemsize

    def to_json(self) -> dict[str, JSON]:
        """Return the plan as JSON for `from_json`."""
        domain = self.passes[0].domain
        return {
            "inclusive_min": list(domain.inclusive_min),
            "shape": list(domain.shape),
            "labels": list(domain.labels),
            "itemsize": self.itemsize,
            "memory": self.memory,
            "n_at_once": self.n_at_once,
            "passes": [
                {
                    "block_shape": list(b.shape),
                    "block_origin": list(b.origin),
                    "tasks": b.n_blocks,
                    "reads": r,
                    "gets": gets,
                    "puts": puts,
                }
                for b, r, gets, puts in zip(self.passes, self.reads, self.n_gets, self.n_puts, strict=True)
            ],
            "intermediate": None
            if self.intermediate is None
            else {"shards": list(self.intermediate.shards), "chunks": list(self.intermediate.chunks)},
        }

    @classmethod
    def from_json(cls, json: Mapping[str, JSON]) -> CopyPlan:
        """Return the plan that `to_json` described.

        Parameters
        ----------
        json : mapping
            As `to_json` returned it.

        Raises
        ------
        InvalidArgumentError
            If it isn't a plan, or its numbers of tasks don't match its blocks.
        """
        try:
            shape, low = sizes_of_json(json["shape"], 0), sizes_of_json(json["inclusive_min"], None)
            domain = IndexDomain(inclusive_min=low, shape=shape, labels=json["labels"])
            each, between = json["passes"], json["intermediate"]
            passes = tuple(
                Blocks(domain, sizes_of_json(p["block_origin"], None), sizes_of_json(p["block_shape"]))
                for p in each
            )
            if between is not None:
                between = Intermediate(sizes_of_json(between["shards"]), sizes_of_json(between["chunks"]))
            itemsize, memory, n_at_once = sizes_of_json(
                [json[name] for name in ("itemsize", "memory", "n_at_once")]
            )
            plan = cls(
                passes,
                tuple(float(p["reads"]) for p in each),
                sizes_of_json([p["gets"] for p in each], 0),
                sizes_of_json([p["puts"] for p in each], 0),
                between,
                itemsize,
                memory,
                n_at_once,
            )
            wanted, found = [p["tasks"] for p in each], [b.n_blocks for b in passes]
            if any(len(b.origin) != domain.rank or len(b.shape) != domain.rank for b in passes):
                raise ValueError(f"blocks are not of rank {domain.rank}")
        except (KeyError, TypeError, ValueError, OverflowError) as e:
            raise InvalidArgumentError(f"not the JSON of a copy plan: {e!r}") from None
        if wanted != found or len(passes) != (1 if between is None else 2):
            raise InvalidArgumentError(f"not the JSON of a copy plan: {found} tasks, where it says {wanted}")
        return plan

    def __str__(self) -> str:
        lines = []
        places = (
            ["source", "destination"] if len(self.passes) == 1 else ["source", "intermediate", "destination"]
        )
        for number, (blocks, reads) in enumerate(zip(self.passes, self.reads, strict=True)):
            shape = " x ".join(map(str, blocks.shape)) or "1 element"
            nbytes = prod(blocks.shape) * self.itemsize
            tasks = "1 task" if blocks.n_blocks == 1 else f"{blocks.n_blocks:,} tasks"
            lines.append(
                f"pass {number + 1} of {len(self.passes)}: {places[number]} -> {places[number + 1]}, "
                f"{tasks} of {shape} ({nbytes:,} bytes), "
                f"reads {reads:.2f} and writes 1.00 times the array"
            )
        if self.intermediate is not None:
            chunks = " x ".join(map(str, self.intermediate.chunks))
            lines.append(f"intermediate: a shard for each task of pass 1, of chunks of {chunks}")
        lines.append(
            f"array: {self.nbytes:,} bytes; memory of a worker: {self.memory:,} bytes, "
            f"{self.n_at_once} at the same time"
        )
        return "\n".join(lines)


def sizes_of_json(values: Any, lowest: int | None = 1) -> tuple[int, ...]:
    """Return integers of at least `lowest`; raise TypeError or ValueError for anything else."""
    sizes = tuple(values)
    if any(type(n) is not int or (lowest is not None and n < lowest) for n in sizes):
        raise ValueError(f"expected integers{'' if lowest is None else f' of at least {lowest}'}: {sizes!r}")
    return sizes


# -- blocks -------------------------------------------------------------------------------------------

# 1. A task is a block: one read, and one write of whole chunks or shards of the target.
# 2. One pass, unless its blocks read the array more often than two passes read and write it, which is three
#    times or more: chunks of the source that lie in several blocks are read several times.  In processor time
#    alone one pass wins up to 4 or 5 reads, which decode only: 33 MB of zstd planes take 0.55 s with 4 reads
#    and 0.60 with two passes, 0.75 with 8 reads.
# 3. Else two.  The blocks of the first hold whole chunks of the source, each is one shard of an intermediate
#    array; those of the second hold whole chunks of the destination.  The inner chunks of the shards are what
#    blocks of both passes have in common.

Edges: TypeAlias = npt.NDArray[np.int64]

COPIES = 4
"""Copies of a block that a task has in memory: as read, as converted, as encoded, and inside the codecs."""

_MOST_COUNTED = 1 << 20  # blocks along a dimension; if there are more, the first represent all


class Grid(NamedTuple):
    """Chunks of equal size.

    Attributes
    ----------
    shape : tuple of int
        Shape of a chunk; 1 along dimensions where any cut will do.
    origin : tuple of int
        A position where a chunk begins, inside the array or not.
    copies : int
        Memory for reading a part of a chunk, in sizes of the chunk: 1 if it is stored raw, 2 if a codec
        decodes it.
    """

    shape: tuple[int, ...]
    origin: tuple[int, ...]
    copies: int = 2


def plan_blocks(
    domain: IndexDomain,
    itemsize: int,
    source: Grid,
    target: Grid,
    *,
    memory: int,
    n_at_once: int = 1,
    wanted_nbytes: int | None = None,
    two_passes: bool = True,
) -> CopyPlan:
    """Choose the blocks in which an array is copied.

    Parameters
    ----------
    domain : IndexDomain
        Finite.
    itemsize : int
        Bytes of an element.
    source : Grid
        Chunks that are read as wholes.
    target : Grid
        Chunks, or shards, that are written as wholes.
    memory : int
        Bytes that a worker process may use, besides what Python and the libraries take.
    n_at_once : int
        Tasks that it works on at the same time; fewer if a chunk is too large for that.
    wanted_nbytes : int, optional
        Wanted size of blocks, unless larger ones need fewer reads.
    two_passes : bool
        Whether there may be an intermediate array.

    Raises
    ------
    InvalidArgumentError
        If one chunk is too large for the memory.
    """
    shape = domain.shape
    unit = tuple(max(1, min(n, size)) for n, size in zip(target.shape, shape, strict=True))
    chunk = tuple(max(1, min(n, size)) for n, size in zip(source.shape, shape, strict=True))
    least = prod(unit) * itemsize
    if COPIES * least > memory:
        raise InvalidArgumentError(
            f"a block of {list(unit)} elements, which is written as one object, takes {COPIES * least:,} "
            f"bytes of memory: {COPIES} times its {least:,} bytes; {memory:,} may be used"
        )
    chunk_read = source.copies * prod(chunk) * itemsize
    needed = least_memory(domain, itemsize, source, target)
    if needed > memory:
        raise InvalidArgumentError(
            f"a chunk of {list(chunk)} elements of the source, which is read as a whole, takes "
            f"{chunk_read:,} bytes of memory: {source.copies} times its {chunk_read // source.copies:,} "
            f"bytes; {memory:,} may be used; a block that is written takes {least:,}"
        )
    n_at_once = max(1, min(n_at_once, memory // max(1, needed)))
    most = _most(memory // n_at_once, chunk_read, source.copies)
    size = min(most, wanted_nbytes or most)
    best, best_read = block_shape(shape, unit, source.shape, itemsize, size), float("inf")
    while True:
        found = block_shape(shape, unit, source.shape, itemsize, size)
        read = _read_factor(domain, Blocks(domain, target.origin, found), source)
        if read < 0.95 * best_read:
            best, best_read = found, read
        if best_read <= 1.05 or size >= most:
            break
        size = min(2 * size, most)
    blocks = Blocks(domain, target.origin, best)
    n_puts = _n_pairs(domain, Blocks(domain, target.origin, unit), target)
    direct = CopyPlan(
        (blocks,),
        (best_read,),
        (_n_pairs(domain, blocks, source),),
        (n_puts,),
        None,
        itemsize,
        memory,
        n_at_once,
    )
    if best_read <= 3 or not two_passes:
        return direct
    while n_at_once > 1 and prod(chunk) * itemsize > most:  # a chunk of the source is a block
        n_at_once -= 1
        most = _most(memory // n_at_once, chunk_read, source.copies)
    plan = _two_passes(domain, itemsize, source._replace(shape=chunk), target._replace(shape=unit), most)
    if plan is None or sum(plan[1]) + 1 >= best_read:
        return direct
    (first, second), reads, between = plan
    # The index of each shard is read too.
    shards = Grid(between.shards, tuple(domain.inclusive_min))
    n_gets = _n_pairs(domain, first, source), 2 * _n_pairs(domain, second, shards)
    return CopyPlan(
        (first, second), reads, n_gets, (first.n_blocks, n_puts), between, itemsize, memory, n_at_once
    )


def least_memory(domain: IndexDomain, itemsize: int, source: Grid, target: Grid) -> int:
    """Return the least memory of a task, with one chunk of the target as a block."""
    block, chunk = (
        prod(max(1, min(n, size)) for n, size in zip(grid.shape, domain.shape, strict=True)) * itemsize
        for grid in (target, source)
    )
    return max(COPIES * block, block + source.copies * chunk if chunk > block else 0)


def _most(memory: int, read: int, copies: int) -> int:
    """Return how large a block may be, given the memory of a task and that for reading a chunk."""
    most = memory // COPIES
    # A smaller chunk is read before the other copies of the block exist.
    return most if read <= copies * most else max(1, min(most, memory - read))


def _two_passes(
    domain: IndexDomain, itemsize: int, source: Grid, target: Grid, most_nbytes: int
) -> tuple[tuple[Blocks, Blocks], tuple[float, float], Intermediate] | None:
    """Return two passes and how often each reads, None if a chunk is larger than a block may be."""
    shape = domain.shape
    most = most_nbytes // itemsize
    first, second = list(source.shape), list(target.shape)
    if prod(first) > most or prod(second) > most:
        return None
    growing = True
    while growing:  # the more the blocks of both passes have in common, the larger the inner chunks
        growing = _grow(first, second, source.shape, shape, most)
        growing = _grow(second, first, target.shape, shape, most) or growing
    first = _evened(first, source.shape, shape)
    second = _evened(second, target.shape, shape)
    chunks = tuple(_common(a, b, n) for a, b, n in zip(first, second, shape, strict=True))
    # A single shard along a dimension may be longer than the array.
    shards = tuple(-(-a // c) * c for a, c in zip(first, chunks, strict=True))
    writing = Blocks(domain, tuple(domain.inclusive_min), shards)
    reading = Blocks(domain, target.origin, tuple(second))
    between = Grid(chunks, tuple(domain.inclusive_min))
    reads = _read_factor(domain, writing, source), _read_factor(domain, reading, between)
    return (writing, reading), reads, Intermediate(shards, chunks)


def _grow(
    block: list[int], other: Sequence[int], unit: Sequence[int], shape: Sequence[int], most: int
) -> bool:
    """Extend a block along the dimension where the other is longest in comparison; return whether it fits."""
    for dim in sorted(range(len(block)), key=lambda d: -other[d] / block[d]):
        if other[dim] <= block[dim]:
            return False
        wanted = min(2 * block[dim], other[dim])
        size = min(-(-wanted // unit[dim]) * unit[dim], shape[dim])
        if size > block[dim] and prod(block) // block[dim] * size <= most:
            block[dim] = size
            return True
    return False


def _evened(block: Sequence[int], unit: Sequence[int], shape: Sequence[int]) -> list[int]:
    """Return the same number of blocks, of about equal size: no small ones at the edges."""
    out = []
    for size, u, n in zip(block, unit, shape, strict=True):
        each = -(-n // -(-n // size)) if n else 1
        out.append(max(1, min(-(-each // u) * u, n)))
    return out


def _common(first: int, second: int, length: int) -> int:
    """Return the length of inner chunks: a divisor of `first`, and of `second` or nearly so."""
    if first >= length:
        return min(second, length) or 1
    if second >= length:
        return first
    parts = [n for n in range(1, int(first**0.5) + 1) if first % n == 0]
    candidates = {*parts, *(first // n for n in parts)}

    def cost(n: int) -> float:
        return (second + n - gcd(second, n)) / second + 2 / n

    return min(candidates, key=cost)


def _read_factor(domain: IndexDomain, blocks: Blocks, source: Grid) -> float:
    """Return how many times the array is read, in whole chunks of `source`."""
    factor = 1.0
    for dim, (first, last, _) in enumerate(_bounds(domain, blocks)):
        low, n = domain.inclusive_min[dim], domain.shape[dim]
        begin, chunk = source.origin[dim], source.shape[dim]
        if not n or chunk == 1:
            continue
        read = np.minimum(begin + -(-(last - begin) // chunk) * chunk, low + n) - np.maximum(
            begin + (first - begin) // chunk * chunk, low
        )
        factor *= float(read.sum()) / float((last - first).sum())
    return factor


def _n_pairs(domain: IndexDomain, blocks: Blocks, grid: Grid) -> int:
    """Return the number of chunks of `grid` that blocks overlap, summed over all blocks."""
    total = 1.0
    for dim, (first, last, n_blocks) in enumerate(_bounds(domain, blocks)):
        begin, chunk = grid.origin[dim], grid.shape[dim]
        if not len(first):
            return 0
        cells = -(-(last - begin) // chunk) - (first - begin) // chunk
        total *= float(cells.sum()) / len(first) * n_blocks
    return round(total)


def _bounds(domain: IndexDomain, blocks: Blocks) -> Iterator[tuple[Edges, Edges, int]]:
    """Yield for each dimension where blocks begin and end, of some at least, and how many there are."""
    for low, n, at, size in zip(domain.inclusive_min, domain.shape, blocks.origin, blocks.shape, strict=True):
        start = at + (low - at) // size * size
        n_blocks = -(-(low + n - start) // size) if n else 0
        edges = start + size * np.arange(min(n_blocks, _MOST_COUNTED), dtype=np.int64)
        yield np.maximum(edges, low), np.minimum(edges + size, low + n), n_blocks
