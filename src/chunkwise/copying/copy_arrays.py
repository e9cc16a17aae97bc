"""``CopyArrays``: what a copy reads and writes, how it is planned, and the steps of a plan."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import uuid4

import numpy.typing as npt

from chunkwise.copying.array_template import regular_grid, sharded
from chunkwise.copying.copy_plan import CopyPlan, Intermediate
from chunkwise.copying.copy_work import CopyStep
from chunkwise.copying.executors import Workers
from chunkwise.copying.narrowing import Narrowing
from chunkwise.copying.plan_blocks import COPIES, Grid, least_memory, plan_blocks
from chunkwise.copying.sessions import is_session
from chunkwise.core.api.copy import BLOCK_NBYTES, BlockCopy, item_nbytes
from chunkwise.core.api.open import open as open_spec
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.processors import memory_limit
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.dtypes.fill_value import same_fill
from chunkwise.core.dtypes.zarr3 import fill_value_to_zarr3, to_zarr3
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.plan.blocks import Blocks
from chunkwise.core.specs.context import Context
from chunkwise.core.trees.location import Location
from chunkwise.errors import ChunkwiseError, FailedPreconditionError

__all__ = [
    "INTERMEDIATE",
    "CopyArrays",
    "Room",
    "check_memory",
    "copy_arrays",
    "delete_intermediates",
    "intermediate_name",
    "room_of",
]

INTERMEDIATE = ".chunkwise-intermediate"
"""Prefix of the name, below the destination, of the array between two passes; each copy has its own."""

_NAME = re.compile(rf"{re.escape(INTERMEDIATE)}(-[0-9a-z]{{1,32}})?", re.ASCII)

_N_BLOCKS = 64
_SMALLEST_NBYTES = 4 << 20
_DEFAULT_SHARE = 4  # of the available memory
_SMALL_NBYTES = 16 << 20
_TEXT_NBYTES = 1 << 10  # of an element of unknown size


class Room(NamedTuple):
    """Resources of a worker process for a copy.

    Attributes
    ----------
    memory : int
        Bytes.
    n_at_once : int
        Tasks that it runs at the same time.
    is_limit : bool
        Whether a chunk that takes more memory is an error.
    """

    memory: int
    n_at_once: int
    is_limit: bool


def intermediate_name(journalled: object = None) -> str:
    """Return a new name for the array between two passes, or the name in a copy that is resumed."""
    if isinstance(journalled, str) and _NAME.fullmatch(journalled):
        return journalled
    return f"{INTERMEDIATE}-{uuid4().hex[:12]}"


def delete_intermediates(location: Location) -> None:
    """Delete the array between two passes at a destination, and any left by other copies."""
    keys = KeyRange.of_prefix(location.path + INTERMEDIATE)
    location.store.delete_range(keys.start, keys.stop)


def check_memory(wanted: int | None, planned: int) -> None:
    """Raise FailedPreconditionError if an unfinished copy was planned for other memory than is `wanted`."""
    if wanted is not None and wanted != planned:
        raise FailedPreconditionError(
            f"the unfinished copy can't be resumed: its memory is {planned:,} bytes; use the same "
            "options, or --overwrite to start again"
        )


def room_of(workers: Workers, memory: int | None) -> Room:
    """Return the resources of each worker; `memory` is the wanted limit, if any."""
    default = workers.memory or memory_limit() // _DEFAULT_SHARE
    return Room(default if memory is None else memory, workers.n_at_once, memory is not None)


@dataclass(frozen=True)
class CopyArrays:
    """Two arrays of the same domain, one of which becomes a copy of the other."""

    source: TensorStore
    target: TensorStore
    location: Location  # of the target
    narrowing: Narrowing | None
    fill: (
        npt.NDArray[Any] | None
    )  # what missing chunks of the source read as, if they may stay missing in the target
    nbytes: int  # of all elements

    def plan(self, room: Room) -> CopyPlan:
        """Return the passes, planned for the workers."""
        target, source = self.target, self.source
        itemsize = self._largest_itemsize
        whole = target.size * itemsize
        fixed = not target.dtype.memory_dtype.hasobject and target.rank > 0 and target.size > 0
        grid = _grid(target, target.chunk_layout.write_chunk.shape)
        read = _grid(source, source.chunk_layout.read_chunk.shape)._replace(copies=_copies_read(source))
        memory = room.memory
        if not room.is_limit:  # no limit was set that a chunk would have to fit in
            memory = max(memory, least_memory(self._domain, itemsize, read, grid))
        return plan_blocks(
            self._domain,
            itemsize,
            read,
            grid,
            memory=memory,
            n_at_once=room.n_at_once,
            wanted_nbytes=min(max(whole // _N_BLOCKS, _SMALLEST_NBYTES), BLOCK_NBYTES),
            two_passes=fixed
            and not is_session(self.location.store)
            and _intermediate_metadata(target) is not None,
        )

    def is_small(self, room: Room) -> bool:
        """Return True if the array is to be copied as a whole, by `plan_whole`."""
        has_objects = self.target.dtype.memory_dtype.hasobject
        nbytes = self.target.size * (_TEXT_NBYTES if has_objects else self._largest_itemsize)
        return nbytes <= _SMALL_NBYTES and nbytes * COPIES * room.n_at_once <= room.memory

    def plan_whole(self) -> CopyPlan:
        """Return one pass of one block."""
        domain, itemsize = self._domain, self._largest_itemsize
        blocks = Blocks(domain, tuple(domain.inclusive_min), tuple(max(1, n) for n in domain.shape))
        memory = COPIES * itemsize * int(domain.size)
        return CopyPlan((blocks,), (1.0,), (1,), (1,), None, itemsize, memory, 1)

    @property
    def _domain(self) -> IndexDomain:
        target = self.target
        return IndexDomain(inclusive_min=target.origin, shape=target.shape, labels=target.domain.labels)

    @property
    def _largest_itemsize(self) -> int:
        return max(item_nbytes(self.target), item_nbytes(self.source))

    def steps(self, plan: CopyPlan, *, summed: bool, name: str) -> list[CopyStep]:
        """Return the steps of the copy; the last one computes fingerprints if they are wanted.

        `name` is that of the array between two.
        """
        passes, between = plan.passes, plan.intermediate
        if between is None:
            return [self._step("copy", self.source, self.target, passes[0], self.fill, summed=summed)]
        middle = self._open_intermediate(between, name)
        first = self._step("copy", self.source, middle, passes[0], None, summed=True)
        second = self._step("copy", middle, self.target, passes[1], middle.fill_value, summed=True)
        return [replace(first, between="to"), replace(second, narrowing=None, between="from")]

    def verify_steps(self, plan: CopyPlan, narrowing: Narrowing | None) -> list[CopyStep]:
        """Return the step that compares both arrays, or two steps whose fingerprints have to be equal."""
        passes = plan.passes
        if len(passes) == 1:
            step = self._step("compare", self.source, self.target, passes[0], self.fill)
            return [replace(step, narrowing=narrowing)]
        steps = [
            self._step("sum", self.source, self.target, passes[0], self.fill, summed=True),
            self._step("sum", self.target, self.target, passes[1], self.fill, summed=True),
        ]
        return [replace(steps[0], narrowing=narrowing), replace(steps[1], narrowing=None)]

    def _step(
        self,
        kind: str,
        source: TensorStore,
        target: TensorStore,
        blocks: Blocks,
        fill: Any,
        *,
        summed: bool = False,
    ) -> CopyStep:
        return CopyStep(source, target, blocks, kind, self.narrowing, item_nbytes(self.target), fill, summed)

    def _open_intermediate(self, between: Intermediate, name: str) -> TensorStore:
        """Return the array between two passes, which never has metadata, so nothing opens it as an array.

        All of its chunks are stored: a missing one is an error.
        """
        metadata = _intermediate_metadata(self.target)
        assert metadata is not None, "it was planned"
        blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": item_nbytes(self.target)}
        inner = [{"name": "bytes"}, {"name": "blosc", "configuration": blosc}]
        metadata["codecs"] = sharded({}, between.chunks, inner)
        metadata["chunk_grid"] = regular_grid(between.shards)
        # The fingerprint finds what the disk loses.
        kvstore = self.location.child(name).kvstore()
        kept = {kind: value for kind, value in kvstore.resources.items() if kind != "file_io_sync"}
        spec = {
            "driver": "zarr3",
            "kvstore": replace(kvstore, resources=kept),
            "metadata": metadata,
            "store_data_equal_to_fill_value": True,
            "fill_missing_data_reads": False,
        }
        opened = open_spec(
            {**spec, "open": True, "assume_metadata": True}, context=Context({"file_io_sync": False})
        ).result()
        return opened[self.target.domain.label[("",) * self.target.rank]] if self.target.rank else opened


def copy_arrays(
    source: TensorStore,
    target: TensorStore,
    location: Location,
    narrowing: Narrowing | None,
    *,
    is_stored: bool,
) -> CopyArrays:
    """Return a source and a target; `is_stored` says that the source can tell which chunks are missing."""
    blocks = BlockCopy(target, source, convert=narrowing)
    fill = None
    if is_stored:
        fill = _common_fill(blocks)
    return CopyArrays(blocks.source, target, location, narrowing, fill, blocks.nbytes(target.domain))


def _grid(store: TensorStore, chunk: Any) -> Grid:
    """Return the chunks of a view; 1 along a dimension without chunks, where any cut will do."""
    origin = store.chunk_layout.grid_origin or (None,) * store.rank
    return Grid(
        tuple(n or 1 for n in chunk or (None,) * store.rank),
        tuple(lo if at is None else at for lo, at in zip(store.origin, origin, strict=True)),
    )


def _copies_read(source: TensorStore) -> int:
    """Return the memory for reading a part of a chunk, in sizes of the chunk; 2 for a virtual array."""
    stored: StoredArray | None = getattr(source._array, "stored", None)
    if stored is None:
        return 2
    return (stored if stored.shard is None else stored.shard).chain.chunks_in_memory


def _intermediate_metadata(target: TensorStore) -> dict[str, Any] | None:
    """Return the Zarr v3 data type of the intermediate array; None if Zarr v3 can't hold it."""
    fill_value = target.fill_value if target.fill_value is not None else target.dtype.zero()
    try:
        data_type = to_zarr3(target.dtype)
        fill = fill_value_to_zarr3(fill_value, target.dtype, data_type)
    except ChunkwiseError:
        return None
    return {"shape": list(target.shape), "data_type": data_type, "fill_value": fill}


def _common_fill(copy: BlockCopy[TensorStore]) -> npt.NDArray[Any] | None:
    """Return the fill value of the target; None if chunks missing in the source must be written."""
    found, wanted = copy.source.fill_value, copy.target.fill_value
    found = copy.source.dtype.zero() if found is None else found
    wanted = copy.target.dtype.zero() if wanted is None else wanted
    return wanted if same_fill(copy.convert(found), wanted) else None
