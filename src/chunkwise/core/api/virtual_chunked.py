"""``virtual_chunked``: an array whose chunks functions read and write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.api.transaction import Transaction, check_transaction
from chunkwise.core.arrays.virtual_chunked import open_virtual_chunked
from chunkwise.core.driver.in_memory import VirtualChunkedSpec, complete_schema
from chunkwise.core.dtypes.data_type import DTypeLike
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.context import Context, as_context
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import Unit
from chunkwise.errors import InvalidArgumentError

if TYPE_CHECKING:
    import asyncio

__all__ = ["virtual_chunked"]


def virtual_chunked(
    read_function: Callable[..., Any] | None = None,
    write_function: Callable[..., Any] | None = None,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    rank: int | None = None,
    dtype: DTypeLike | None = None,
    domain: IndexDomain | None = None,
    shape: Iterable[int] | None = None,
    chunk_layout: ChunkLayout | None = None,
    dimension_units: Iterable[Unit | str | float | tuple[float, str] | None] | None = None,
    schema: Schema | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
) -> TensorStore:
    """Return an array that calls a function for each chunk that is read or written.

    Parameters
    ----------
    read_function : callable, optional
        ``read_function(domain, array, params)`` fills `array`, which has the shape of `domain`: the part of a
        chunk inside the array.  It returns None if the chunk will never change, otherwise a
        ``KvStore.TimestampedStorageGeneration``, or a Future or coroutine of either.  ``params`` has
        ``if_not_equal``, the known generation, and ``staleness_bound``.
    write_function : callable, optional
        ``write_function(domain, array, params)`` stores `array`.  Returns like `read_function`; an empty
        generation means that the chunk no longer has the generation ``params.if_equal``, and nothing was
        written.
    loop : asyncio.AbstractEventLoop, optional
        Event loop for coroutines; by default the running loop.
    rank, dtype, domain, shape, chunk_layout, dimension_units, schema
        Properties of the array; a data type and a rank are required.  By default the whole array is one
        chunk.
    context : Context, optional
        Source of threads and the cache pool.
    transaction : Transaction, optional
        Writes are made at its commit.

    Returns
    -------
    TensorStore
        It is readable with a `read_function`, and writable with a `write_function`.

    Raises
    ------
    ValueError
        If there is no function, data type or rank, or a constraint can't be met.

    Examples
    --------
    >>> import chunkwise
    >>> def squares(domain, array, params):
    ...     for i in domain[0]:
    ...         array[i - domain.origin[0]] = i * i
    >>> chunkwise.virtual_chunked(squares, dtype="int64", shape=[1000])[30:33].read().result()
    array([ 900,  961, 1024])
    """
    if read_function is None and write_function is None:
        raise InvalidArgumentError("Must specify `read_function`, `write_function`, or both")
    for function in (read_function, write_function):
        if function is not None and not callable(function):
            raise TypeError(f"a chunk function must be callable, not {type(function).__name__}")
    check_transaction(transaction)
    given = Schema(
        rank=rank,
        dtype=dtype,
        domain=domain,
        shape=shape,
        chunk_layout=chunk_layout,
        dimension_units=dimension_units,
        schema=schema,
    )
    spec = VirtualChunkedSpec(
        schema=complete_schema(given),
        read_function=read_function,
        write_function=write_function,
        loop=loop or _running_loop(),
    )
    array = open_virtual_chunked(spec.bind(as_context(context)), readable=True, writable=True)
    store = TensorStore._make(array, IndexTransform.identity(array.domain), None)
    return store if transaction is None else store.with_transaction(transaction)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    if "asyncio" not in sys.modules:  # no loop can have been started
        return None
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
