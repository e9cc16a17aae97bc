"""The functions of a virtual array, called for one chunk at a time, and a cache of their results.

A cache or a transaction keeps chunks as bytes; a transaction sees this as a kvstore with a key for each
chunk.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from math import inf, prod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.batch import Batch, batch_of_thread, batched
from chunkwise.core.engine.future import Future
from chunkwise.core.grid import OffsetGrid
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.kvstore.caches import CacheEntry, ValueCache
from chunkwise.core.kvstore.protocol import Buffer, ByteRange, Children, Reader, Stamped
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS, StoreTraits
from chunkwise.errors import InvalidArgumentError, UnsupportedError, braced

if TYPE_CHECKING:
    import asyncio

__all__ = ["ChunkFunctions", "VirtualChunkedReadParameters", "VirtualChunkedWriteParameters"]

Array = npt.NDArray[Any]
Function = Callable[[IndexDomain, Array, Any], Any]
Cell = tuple[int, ...]
T = TypeVar("T")


class VirtualChunkedReadParameters:
    """Arguments of a read function besides the domain.

    Attributes
    ----------
    if_not_equal : bytes
        Already known generation of the chunk, or empty.  If it is still current, the function may return it
        without filling the array.
    staleness_bound : float
        Time, in seconds since the epoch, at which the chunk must have been current.
    batch : Batch or None
        Batch for reads that the function makes, if it is called for a read in a batch.  They start when the
        function returns, so it must not wait for them; reads in a coroutine start at once.

    Examples
    --------
    >>> import chunkwise
    >>> def fill(domain, array, parameters):
    ...     array[...] = domain.origin[0]
    >>> layout = chunkwise.ChunkLayout(read_chunk_shape=[3])
    >>> array = chunkwise.virtual_chunked(fill, dtype="int32", shape=[6], chunk_layout=layout)
    >>> array.read().result()
    array([0, 0, 0, 3, 3, 3], dtype=int32)
    """

    __slots__ = ("batch", "if_not_equal", "staleness_bound")

    def __init__(self, if_not_equal: bytes, staleness_bound: float, batch: Batch | None) -> None:
        self.if_not_equal = if_not_equal
        self.staleness_bound = staleness_bound
        self.batch = batch


class _ChunkBatch(Batch):
    """The batch of one call of a read function; it accepts reads even after it was submitted."""

    def defer(self, start: Callable[[], Future[T]], *, at_once: bool = False) -> Future[T]:
        """Return the future of work that `start` begins: when the function has returned, or now."""
        try:
            return super().defer(start, at_once=at_once)
        except InvalidArgumentError:  # it was submitted
            return start()


class VirtualChunkedWriteParameters:
    """Arguments of a write function besides the domain.

    Attributes
    ----------
    if_equal : bytes
        Generation of the chunk when its remaining part was read; empty if none was read.  If the chunk has
        another generation, the write must change nothing and return an empty generation.

    Examples
    --------
    >>> import chunkwise
    >>> def keep(domain, array, parameters):
    ...     print(domain, array)
    >>> array = chunkwise.virtual_chunked(write_function=keep, dtype="int32", shape=[2])
    >>> array.write([7, 8]).result()
    { [0, 2) } [7 8]
    """

    __slots__ = ("if_equal",)

    def __init__(self, if_equal: bytes) -> None:
        self.if_equal = if_equal


class Chunk(NamedTuple):
    """A chunk that was read."""

    array: Array  # must not be changed
    generation: bytes  # empty if the function returned none


class ChunkFunctions:
    """Read and write functions, with the chunk grid for which they are called."""

    # Cells of the grid are inside the domain.  `loop` runs coroutines.  `inner_order` is the order of the
    # dimensions of arrays in memory, outermost first.

    traits: ClassVar[StoreTraits] = DEFAULT_TRAITS

    def __init__(
        self,
        read: Function | None,
        write: Function | None,
        *,
        loop: asyncio.AbstractEventLoop | None,
        dtype: DataType,
        grid: OffsetGrid,
        labels: Sequence[str],
        inner_order: Sequence[int],
        cache: ValueCache | None,
    ) -> None:
        self.read_function, self.write_function = read, write
        self.loop = loop
        self.dtype = dtype
        self.grid = grid
        self.labels = labels
        self.inner_order = tuple(inner_order)
        self.cache = cache

    # -- one chunk ----------------------------------------------------------------------------------

    def domain(self, cell: Cell) -> IndexDomain:
        """Return the domain of a chunk."""
        bounds = [self.grid.bounds(d, c) for d, c in enumerate(cell)]
        return IndexDomain(
            inclusive_min=[lo for lo, _ in bounds],
            exclusive_max=[hi for _, hi in bounds],
            labels=self.labels,
        )

    def empty(self, shape: Sequence[int]) -> Array:
        """Return new memory for a chunk; elements other than numbers already have a value."""
        order = self.inner_order
        memory = self.dtype.memory_dtype
        out = np.empty([shape[d] for d in order], memory)
        if memory.hasobject:
            zero = self.dtype.zero()[()]
            out.fill(zero)
        inverse = [order.index(d) for d in range(len(order))]
        return out.transpose(inverse)

    def read_chunk(self, cell: Cell, bound: float, known: Chunk | None = None) -> Chunk:
        """Return a chunk that was current at the time `bound` or later."""
        # `known` is the result of an earlier read.
        assert self.read_function is not None
        key = _key(cell)
        entry = None if self.cache is None else self.cache.get(self, key)
        domain = self.domain(cell)
        if entry is not None and entry.value is not None and known is None:
            known = Chunk(self._decoded(entry.value, domain.shape), entry.generation)
            if entry.time >= bound:
                return known
        array = self.empty(domain.shape)
        batch = _ChunkBatch() if batch_of_thread() is not None else None
        params = VirtualChunkedReadParameters(known.generation if known is not None else b"", bound, batch)
        generation, at = self._call(self.read_function, domain, array, params, batch)
        if known is not None and generation and generation == known.generation:
            array = known.array
        if self.cache is not None:
            self.cache.put(self, key, CacheEntry(self._encoded(array), generation, at))
        return Chunk(array, generation)

    def write_chunk(self, cell: Cell, array: Array, if_equal: bytes) -> bool:
        """Write a chunk; return False if it has another generation than `if_equal`."""
        assert self.write_function is not None
        own = self.empty(array.shape)
        own[...] = array
        own.flags.writeable = False
        params = VirtualChunkedWriteParameters(if_equal)
        generation, at = self._call(self.write_function, self.domain(cell), own, params)
        if if_equal and generation == b"" and at != inf:
            if self.cache is not None:
                self.cache.evict(self, _key(cell))
            return False
        if self.cache is not None:
            self.cache.put(self, _key(cell), CacheEntry(self._encoded(own), generation, at))
        return True

    def _call(
        self, function: Function, domain: IndexDomain, array: Array, params: Any, batch: Batch | None = None
    ) -> tuple[bytes, float]:
        """Call a function and wait; return generation and time, which is infinite if missing."""
        if batch is None:
            answer = function(domain, array, params)
        else:
            with batched(None), batch:
                answer = function(domain, array, params)
        if isinstance(answer, Coroutine | Future):
            try:
                answer = Future[Any](answer, loop=self.loop)
            except InvalidArgumentError:  # no event loop for it
                answer.close()
                raise
            answer = answer.result()
        if answer is None:
            return b"", inf
        generation, at = getattr(answer, "generation", None), getattr(answer, "time", None)
        if not isinstance(generation, bytes) or not isinstance(at, int | float):
            raise TypeError(
                "a chunk function must return None or a KvStore.TimestampedStorageGeneration, "
                f"or a Future of it, not {type(answer).__name__}"
            )
        return generation, float(at)

    # -- as bytes -----------------------------------------------------------------------------------

    def _encoded(self, array: Array) -> bytes:
        if array.dtype.hasobject:
            return pickle.dumps(array.ravel().tolist())
        return array.tobytes()

    def _decoded(self, value: Buffer, shape: Sequence[int]) -> Array:
        memory = self.dtype.memory_dtype
        if memory.hasobject:
            out = np.empty(prod(shape), object)
            for i, element in enumerate(pickle.loads(value)):
                out[i] = element
            return out.reshape(shape)
        return np.frombuffer(value, memory).reshape(shape)

    # -- as a kvstore, for transactions ---------------------------------------------------------------

    @property
    def identity(self) -> Hashable:
        """Equal only for these functions."""
        return "virtual_chunked", id(self)

    def describe(self, key: str) -> str:
        """Return ``virtual chunk {origin={0, 3}, shape={2, 3}}``."""
        domain = self.domain(_cell(key))
        origin, shape = map(braced, (domain.origin, domain.shape))
        return f"virtual chunk {{origin={origin}, shape={shape}}}"

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Read a chunk; missing if the functions only write."""
        assert byte_range is None, "a chunk is read as a whole"
        now = time.time()
        if self.read_function is None:
            return Stamped(None, b"\0", now)
        chunk = self.read_chunk(_cell(key), now)
        generation = b"\0" + chunk.generation
        if generation == if_not_equal:
            return Stamped(None, generation, now)
        return Stamped(self._encoded(chunk.array), generation, now)

    def open_reader(self) -> Reader:
        """Return a reader of whole chunks."""
        return lambda key: self.read(key).value

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Write a chunk."""
        array = self._decoded(value, self.domain(_cell(key)).shape)
        return b"\0" if self.write_chunk(_cell(key), array, (if_equal or b"\0")[1:]) else None

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Fail: a chunk can't be deleted."""
        raise UnsupportedError("a virtual chunk can't be deleted")

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Fail: chunks can't be deleted."""
        raise UnsupportedError("virtual chunks can't be deleted")

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Fail: there may be too many chunks."""
        raise UnsupportedError("virtual chunks can't be listed")

    def list_children(self, prefix: str) -> Children:
        """Fail: there may be too many chunks."""
        raise UnsupportedError("virtual chunks can't be listed")

    # -- a chunk in a transaction ----------------------------------------------------------------------

    def read_pending(self, pending: Any, cell: Cell, known: dict[Cell, Array]) -> Array:
        """Return a chunk as a transaction sees it; `known` are chunks that it has read and not changed."""
        key = _key(cell)
        unchanged = key not in pending.changes
        if unchanged and cell in known:
            return known[cell]
        value = pending.read(key).value
        assert value is not None
        array = self._decoded(value, self.domain(cell).shape)
        if unchanged:
            known[cell] = array
        return array

    def write_pending(self, pending: Any, cell: Cell, array: Array) -> None:
        """Write a whole chunk when the transaction is committed."""
        pending.write(_key(cell), self._encoded(array))

    def change_pending(self, pending: Any, cell: Cell, change: Callable[[Array], None]) -> None:
        """Change a part of a chunk when the transaction is committed."""
        shape = self.domain(cell).shape

        def modification(stored: Buffer | None) -> Buffer:
            assert stored is not None, "write-only arrays take whole chunks"
            array = self._decoded(stored, shape).copy()
            change(array)
            return self._encoded(array)

        pending.modify(_key(cell), modification)


def _key(cell: Cell) -> str:
    return "/".join(map(str, cell))


def _cell(key: str) -> Cell:
    return tuple(map(int, key.split("/"))) if key else ()
