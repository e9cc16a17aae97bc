"""Any request, any strategy, any source: the elements that NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chunkwise.core.codec.blosc import Blosc
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.crc32c import Crc32c
from chunkwise.core.codec.gzip import Gzip
from chunkwise.core.codec.reshape import Transpose
from chunkwise.core.codec.zstd import Zstd
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.read import read_into
from chunkwise.core.engine.strategy import ReadStrategy
from chunkwise.core.engine.write import write_from
from chunkwise.core.kvstore.adapter.cache import CacheStore
from chunkwise.core.kvstore.caches import ValueCache
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore

LITTLE = Bytes("little")
CODECS: dict[str, tuple[Any, ...]] = {
    "raw": (LITTLE,),
    "big-endian": (Bytes("big"),),
    "transposed": (Transpose((2, 0, 1)), LITTLE),
    "gzip": (LITTLE, Gzip(1)),
    "zstd": (LITTLE, Zstd(1)),
    "zstd crc32c": (LITTLE, Zstd(1), Crc32c()),
    "big-endian blosc": (Bytes("big"), Blosc()),
}
SHAPE, CHUNK = (7, 10, 13), (3, 4, 5)
DTYPES = ["?", "u2", "f8", "M8[s]", "S3", np.dtype([("a", "u1"), ("b", "i4")])]


def values_of(dtype: Any) -> np.ndarray[Any, Any]:
    dtype = np.dtype(dtype)
    raw = np.random.default_rng(5).integers(1, 100, (*SHAPE, dtype.itemsize), dtype=np.uint8)
    return raw[..., 0] % 2 == 0 if dtype.kind == "b" else raw.view(dtype).reshape(SHAPE)


@st.composite
def requests(draw: st.DrawFn, request_type: Any, output_map: Any) -> tuple[Any, tuple[Any, ...]]:
    """A transform to SHAPE, and the index that selects the same of a NumPy array."""
    maps, index = [], []
    order = draw(st.permutations(range(3))) if draw(st.booleans()) else range(3)
    dims = {dim: number for number, dim in enumerate(order)}
    sizes = [0, 0, 0]
    for dim, size in enumerate(SHAPE):
        kind = draw(st.sampled_from(["whole", "slice", "slice", "strided", "reversed", "index"]))
        if kind == "index":
            points = np.array(draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=6)))
            shape = [1, 1, 1]
            shape[dims[dim]] = len(points)
            maps.append(output_map(0, 1, None, points.reshape(shape)))
            index.append(points)
            n = len(points)
        else:
            a, b = sorted((draw(st.integers(0, size)), draw(st.integers(0, size))))
            a, b = (0, size) if kind == "whole" else (a, b)
            step = {"strided": draw(st.integers(2, 4)), "reversed": -1}.get(kind, 1)
            chosen = range(a, b)[::step]
            n = len(chosen)
            maps.append(output_map(chosen[0] if n else 0, step, dims[dim]))
            index.append(np.array(chosen, int))
        sizes[dims[dim]] = n
    return request_type((0, 0, 0), tuple(sizes), tuple(maps)), (np.ix_(*index), tuple(order))


@pytest.mark.each_once
@pytest.mark.parametrize("codecs", CODECS)
@pytest.mark.parametrize("source", ["memory", "files", "cache", "shards", "shards in files"])
@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_equals_numpy(
    source: str,
    codecs: str,
    data: st.DataObject,
    stored_array: Any,
    request_type: Any,
    output_map: Any,
    tmp_path_factory: Any,
) -> None:
    draw = data.draw
    dtype = draw(st.sampled_from(DTYPES))
    expected = values_of(dtype)
    sharded = source.startswith("shards")
    chunk, inner = ((6, 8, 5), CHUNK) if sharded else (draw(st.sampled_from([CHUNK, SHAPE])), None)
    array = stored_array(SHAPE, chunk, dtype, codecs=CODECS[codecs], inner=inner)
    store: Any = FileStore(tmp_path_factory.mktemp("a"), sync=False) if "files" in source else MemoryStore()
    pool = Pool(2)
    everything = request_type((0, 0, 0), SHAPE, tuple(output_map(0, 1, dim) for dim in range(3)))
    write_from(array, store, everything, expected, pool=pool).result(60)
    if draw(st.booleans()):  # something is missing
        gone = draw(st.sampled_from(sorted(store.list())))
        store.delete(gone)
        cell = array.keys.cell(gone, 3)
        at = tuple(slice(i * n, (i + 1) * n) for i, n in zip(cell, chunk, strict=True))
        expected = expected.copy()
        expected[at] = array.fill_value
    if source == "cache":
        store = CacheStore(store, ValueCache(draw(st.sampled_from([100, 1 << 20]))), lambda: 0.0)
    strategy = ReadStrategy(
        "shards" if sharded else "cache" if source == "cache" else "store",
        "direct" if source == "cache" else draw(st.sampled_from(["direct", "staged"])),
        draw(st.sampled_from([0, 1, 3])),
        draw(st.sampled_from([1, 500, 1 << 20])),
        together=draw(st.booleans()),
    )
    for _ in range(2):  # what is cached is read again
        request, (index, order) = draw(requests(request_type, output_map))
        want = expected[index].transpose(order)
        layout = draw(st.sampled_from(["C", "F", "reversed"]))
        out = np.zeros(want.shape, dtype, order="F" if layout == "F" else "C")
        view = out[::-1, :, ::-1] if layout == "reversed" else out
        read_into(array, store, request, view, pool=pool, strategy=strategy).result(60)
        assert view.tolist() == want.tolist()
