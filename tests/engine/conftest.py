"""Arrays, requests and plain stores for the executor's tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from chunkwise.core.chunk_key import default_keys
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.crc32c import Crc32c
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.driver.stored_array import ShardLevel, StoredArray
from chunkwise.core.engine.pool import Pool
from chunkwise.core.grid import RectilinearGrid, RegularGrid


class Map(NamedTuple):
    offset: int = 0
    stride: int = 1
    input_dimension: int | None = None
    index_array: np.ndarray | None = None


class Request(NamedTuple):
    input_inclusive_min: tuple[int, ...]
    input_shape: tuple[int, ...]
    output: tuple[Map, ...]


def _request(shape: tuple[int, ...], selection: Any = ()) -> Request:
    """The transform of NumPy's ``array[selection]`` for ints and slices."""
    selection = selection if isinstance(selection, tuple) else (selection,)
    selection = (*selection, *[slice(None)] * (len(shape) - len(selection)))
    maps, inputs = [], []
    for size, item in zip(shape, selection, strict=True):
        if isinstance(item, int):
            maps.append(Map(item))
        elif isinstance(item, slice):
            start, stop, step = item.indices(size)
            maps.append(Map(start, step, len(inputs)))
            inputs.append(len(range(start, stop, step)))
        else:
            raise TypeError(item)
    return Request((0,) * len(inputs), tuple(inputs), tuple(maps))


def _stored_array(
    shape: tuple[int, ...],
    chunks: Any,
    dtype: Any = np.uint16,
    fill: Any = 0,
    *,
    codecs: Any = None,
    inner: tuple[int, ...] | None = None,
    index_location: Any = "end",
    store_fill_chunks: bool = False,
) -> StoredArray:
    fill_value = np.empty((), dtype)
    fill_value[()] = fill
    regular = all(isinstance(c, int) for c in chunks)
    grid: Any = RegularGrid(tuple(chunks)) if regular else RectilinearGrid.of(chunks)
    first = tuple(grid.cell(d, 0)[2] for d in range(len(shape)))
    codecs = codecs or (Bytes("little"),)
    shard = None
    if inner is not None:

        def index_chain(counts: tuple[int, ...]) -> Any:
            u8 = np.dtype(np.uint64)
            item = ChunkSpec((*counts, 2), u8, np.array(2**64 - 1, u8))
            return prepare_chain((Bytes("little"), Crc32c()), item)

        item = ChunkSpec(inner, fill_value.dtype, fill_value)
        shard = ShardLevel(RegularGrid(inner), prepare_chain(codecs, item), index_location, index_chain)
    return StoredArray(
        shape=shape,
        dtype=None,  # type: ignore[arg-type]
        fill_value=fill_value,
        grid=grid,
        chain=prepare_chain(codecs, ChunkSpec(first, fill_value.dtype, fill_value)),
        keys=default_keys({}).under("a/"),
        shard=shard,
        store_fill_chunks=store_fill_chunks,
        document={},
    )


@pytest.fixture(scope="session")
def request_of() -> Callable[..., Request]:
    return _request


@pytest.fixture(scope="session")
def output_map() -> type[Map]:
    return Map


@pytest.fixture(scope="session")
def request_type() -> type[Request]:
    return Request


@pytest.fixture(scope="session")
def stored_array() -> Callable[..., StoredArray]:
    return _stored_array


@pytest.fixture
def pool() -> Iterator[Pool]:
    before = threading.active_count()
    yield Pool(2)
    assert threading.active_count() <= before + 40
