"""The plan of a copy, in numbers, as an object and as JSON.

A plan holds no list of tasks: the number of a task determines its block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from chunkwise.core.base.binding import JSON
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.plan.blocks import Blocks
from chunkwise.errors import InvalidArgumentError

__all__ = ["CopyPlan", "Intermediate", "sizes_of_json"]


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
    """Return integers, none of them below `lowest`; raise TypeError or ValueError for anything else."""
    sizes = tuple(values)
    if any(type(n) is not int or (lowest is not None and n < lowest) for n in sizes):
        raise ValueError(f"expected integers{'' if lowest is None else f' of at least {lowest}'}: {sizes!r}")
    return sizes
