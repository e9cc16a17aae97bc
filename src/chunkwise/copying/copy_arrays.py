"""``CopyArrays``: the source and target of a copy, the steps of its plan, and the tasks of a step."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from chunkwise.copying.array_template import regular_grid, sharded
from chunkwise.copying.comparison import bits_of, fingerprint
from chunkwise.copying.copy_place import is_session
from chunkwise.copying.copy_plan import COPIES, CopyPlan, Grid, Intermediate, least_memory, plan_blocks
from chunkwise.copying.executors import Room
from chunkwise.copying.fence import guard_of
from chunkwise.copying.narrowing import MisfitError, Narrowing
from chunkwise.copying.plain_read import read_plainly
from chunkwise.copying.work import Step
from chunkwise.copying.worker_view import check_array_visible
from chunkwise.core.api.copy import BLOCK_NBYTES, BlockCopy, item_nbytes
from chunkwise.core.api.open import open as open_spec
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.dtypes.conversion import implicit_converter
from chunkwise.core.dtypes.fill_value import same_fill, same_object
from chunkwise.core.dtypes.zarr3 import fill_value_to_zarr3, to_zarr3
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.plan.blocks import Blocks
from chunkwise.core.specs.context import Context
from chunkwise.core.trees.location import Location
from chunkwise.errors import (
    ChunkwiseError,
    CodecError,
    DataCorruptionError,
    FailedPreconditionError,
    NotFoundError,
    OutOfRangeError,
    prefix,
)

__all__ = [
    "INTERMEDIATE",
    "CopyArrays",
    "CopyStep",
    "LostBlockError",
    "Pass",
    "StepResult",
    "check_memory",
    "copy_arrays",
    "delete_intermediates",
    "intermediate_name",
]

# -- tasks --------------------------------------------------------------------------------------------

_MASK = (1 << 64) - 1


class LostBlockError(DataCorruptionError):
    """A part of an intermediate array differs from the data that was written."""


class StepResult(NamedTuple):
    """Result of some tasks."""

    nbytes: int
    fingerprint: int
    n_changed: int


class Pass(Step, Protocol):
    """A pass over an array in blocks, each of which is a task."""

    blocks: Blocks
    narrowing: Narrowing | None

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        ...

    def run(self, tasks: Iterable[int]) -> StepResult:
        """Do tasks; return their bytes, fingerprint and number of changed values."""
        ...

    def nbytes_of(self, tasks: Iterable[tuple[int, int]]) -> int:
        """Return the number of bytes in some ranges of tasks."""
        ...


@dataclass
class CopyStep:
    """A pass over an array in blocks: reads each, and writes or checks it."""

    source: TensorStore
    target: TensorStore
    blocks: Blocks
    kind: str  # "copy", "compare", or "sum" of the source
    narrowing: Narrowing | None
    itemsize: int
    # Value of missing chunks of the source, if they may stay missing in the target.
    fill: npt.NDArray[Any] | None
    summed: bool
    between: Literal["from", "to"] | None = None  # which of the arrays is the one between two passes

    def __post_init__(self) -> None:
        self._convert = self.narrowing or implicit_converter(self.source.dtype, self.target.dtype)
        self._remote = _is_remote(self.source)
        self.is_remote = self._remote or _is_remote(self.target)

    def __reduce__(self) -> tuple[object, ...]:
        return CopyStep, tuple(getattr(self, f.name) for f in fields(self))  # functions can't be pickled

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless this worker sees the same source as the driver."""
        check_array_visible(self.source, "the source")

    def run(self, tasks: Iterable[int]) -> StepResult:
        """Do tasks; return their bytes, fingerprint and number of changed values."""
        total = nbytes = 0
        guard = guard_of(tasks)
        target = self.target
        if guard is not None and self.kind == "copy":
            target = guard.guarded(target, passing=self.between == "to")
        for number in tasks:
            try:
                done, part = self.do(number, target)
            except LostBlockError:
                if guard is not None:
                    guard.check()
                raise
            nbytes += done
            total += part
        changed = 0 if self.narrowing is None else self.narrowing.take_changed()
        return StepResult(nbytes, total & _MASK, changed)

    def do(self, number: int, target: TensorStore) -> tuple[int, int]:
        """Do one task; return its bytes and its fingerprint."""
        block = self.blocks.block(number)
        nbytes = int(block.size) * self.itemsize
        views = [self.source[block], target[block]] if self.kind == "compare" else [self.source[block]]
        # In a remote store, each chunk would be requested twice.
        if self.fill is not None and not self._remote and not self.between and all(map(_is_missing, views)):
            return nbytes, self._sum(np.broadcast_to(self.fill, block.shape), block)
        try:
            values = self._convert(self._read(views[0]))
        except MisfitError as e:
            where = f"{list(block.inclusive_min)} to {list(block.exclusive_max)}"
            raise prefix(e, f"Between {where}") from None
        total = self._sum(values, block)
        if self.kind == "copy":
            fill = self.fill if self._remote and self.between != "to" else None
            if fill is None or not _is_filled(values, fill):
                target[block].write(values).result()
        elif self.kind == "compare":
            _compare(values, read_plainly(views[1]), block)
        return nbytes, total

    def nbytes_of(self, tasks: Iterable[tuple[int, int]]) -> int:
        """Return the number of bytes in some ranges of tasks."""
        numbers = (number for start, stop in tasks for number in range(start, stop))
        return sum(int(self.blocks.block(number).size) for number in numbers) * self.itemsize

    def _read(self, view: TensorStore) -> npt.NDArray[Any]:
        try:
            return view.read().result() if self.kind == "copy" else read_plainly(view)
        except (NotFoundError, CodecError, OutOfRangeError) as e:  # missing, or empty, cut off, or garbage
            if self.between != "from":
                raise
            text = f"the intermediate array was not read as it was written: {e.message}"
            raise LostBlockError(text) from e

    def _sum(self, values: npt.NDArray[Any], block: IndexDomain) -> int:
        return fingerprint(values, block.inclusive_min) if self.summed else 0


def _is_remote(store: TensorStore) -> bool:
    """Return True if an operation on an array may wait for a network."""
    remote = getattr(store._array, "is_remote", None)  # a spec takes long to make
    return bool(store._array.spec().is_remote if remote is None else remote)


def _is_missing(view: TensorStore) -> bool:
    """Return True if no chunk of a view is stored, so that all of it reads as the fill value."""
    return bool(view.storage_statistics(query_not_stored=True).result().not_stored)


def _is_filled(values: npt.NDArray[Any], fill: npt.NDArray[Any]) -> bool:
    """Return True if all elements are the same bits as `fill`."""
    if values.dtype.hasobject or not values.dtype.itemsize or not values.size:
        return False
    one, bits = bits_of(fill.astype(values.dtype))[0], bits_of(values)
    return bool((bits[0] == one).all() and (bits == one).all())


def _compare(wanted: npt.NDArray[Any], found: npt.NDArray[Any], block: IndexDomain) -> None:
    """Raise DataCorruptionError unless two arrays over the domain `block` are the same bits."""
    different = _different(wanted, found)
    if not different.any():
        return
    first = np.unravel_index(int(np.argmax(different)), different.shape)
    at = [int(i) + lo for i, lo in zip(first, block.inclusive_min, strict=True)]
    raise DataCorruptionError(
        f"the copy differs from the source at {at}: {found[first]!r} instead of {wanted[first]!r} "
        f"({int(different.sum())} of {different.size} elements of the block {block} differ)"
    )


def _different(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if a.dtype.hasobject:
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        return np.array([not same_object(x, y) for x, y in pairs], bool).reshape(a.shape)
    if a.dtype.itemsize == 0:
        return np.asarray(a != b, bool).reshape(a.shape)
    return np.asarray((bits_of(a) != bits_of(b)).any(axis=1)).reshape(a.shape)


# -- steps --------------------------------------------------------------------------------------------

INTERMEDIATE = ".chunkwise-intermediate"
"""Prefix of the name, below the destination, of the array between two passes; each copy has its own."""

_NAME = re.compile(rf"{re.escape(INTERMEDIATE)}(-[0-9a-z]{{1,32}})?", re.ASCII)

_N_BLOCKS = 64
_SMALLEST_NBYTES = 4 << 20
_SMALL_NBYTES = 16 << 20
_TEXT_NBYTES = 1 << 10  # of an element of unknown size


def intermediate_name(journalled: object = None) -> str:
    """Return a new name for the array between two passes, or the name in a copy that is resumed."""
    if isinstance(journalled, str) and _NAME.fullmatch(journalled):
        return journalled
    return f"{INTERMEDIATE}-{os.urandom(6).hex()}"


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


@dataclass(frozen=True)
class CopyArrays:
    """Two arrays of the same domain, one of which becomes a copy of the other."""

    source: TensorStore
    target: TensorStore
    location: Location  # of the target
    narrowing: Narrowing | None
    # Value of missing chunks of the source, if they may stay missing in the target.
    fill: npt.NDArray[Any] | None
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
