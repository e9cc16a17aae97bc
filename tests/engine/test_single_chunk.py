"""The short way of reading from one chunk gives what the general way gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chunkwise.core.codec.blosc import Blosc
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.gzip import Gzip
from chunkwise.core.codec.reshape import Transpose
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.read import ArrayReader, read_into
from chunkwise.core.engine.write import write_from
from chunkwise.core.index_space import IndexDomain, IndexTransform, OutputIndexMap
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import DataCorruptionError, NotFoundError

CODECS: dict[str, tuple[Any, ...]] = {
    "raw": (Bytes("little"),),
    "big-endian": (Bytes("big"),),
    "transposed": (Transpose((1, 0)), Bytes("little")),
    "blosc": (Bytes("little"), Blosc()),
    "gzip": (Bytes("big"), Gzip(level=1)),
}
SHAPE = (11, 13)


def filled(stored_array: Any, request_of: Any, dtype: Any, codecs: Any) -> tuple[Any, MemoryStore, Pool]:
    fill = np.ones((), dtype)[()]
    array, store, pool = stored_array(SHAPE, (4, 6), dtype, fill, codecs=codecs), MemoryStore(), Pool(2)
    values = (np.arange(143).reshape(SHAPE) % 7).astype(dtype)
    values[4:8, 6:12] = fill  # a chunk that is not stored
    write_from(array, store, request_of(SHAPE), values, pool=pool).result()
    return array, store, pool


def index_transform(request: Any) -> IndexTransform:
    """Return a request as the transform that users' indexing makes."""
    output = []
    for m in request.output:
        if m.index_array is not None:
            output.append(OutputIndexMap(m.index_array, offset=m.offset, stride=m.stride))
        elif m.input_dimension is None:
            output.append(OutputIndexMap(m.offset))
        else:
            output.append(OutputIndexMap(input_dimension=m.input_dimension, offset=m.offset, stride=m.stride))
    domain = IndexDomain(inclusive_min=request.input_inclusive_min, shape=request.input_shape)
    return IndexTransform(domain, output)


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", ["int16", "bool", "float64"])
@pytest.mark.parametrize("codecs", CODECS)
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_same_as_the_general_way(
    codecs: str, dtype: str, data: st.DataObject, stored_array: Any, request_of: Any
) -> None:
    array, store, pool = filled(stored_array, request_of, dtype, CODECS[codecs])
    single = ArrayReader(array, store, pool)
    for _ in range(5):
        where: list[Any] = []
        for size in SHAPE:
            first = data.draw(st.integers(0, size - 1))
            stop = data.draw(st.integers(first, min(size, first + 4)))
            step = data.draw(st.sampled_from([1, 1, 1, 2, -1]))
            steps = slice(first, stop, step) if step > 0 else slice(stop, first, step)
            where.append(first if data.draw(st.booleans()) else steps)
        request = request_of(SHAPE, tuple(where))
        expected = np.empty(request.input_shape, dtype)
        read_into(array, store, request, expected, pool=pool).result()
        for order in "CF":
            out = np.empty(request.input_shape, dtype, order)  # type: ignore[call-overload]
            done = single.read_chunk(index_transform(request), out, fill_missing=True)
            inside = all(
                isinstance(w, int) or (w.step == 1 and w.start < w.stop and w.start // c == (w.stop - 1) // c)
                for w, c in zip(where, (4, 6), strict=True)
            )
            assert (done is not None) == inside
            if done is not None:
                assert done.result() is out
                np.testing.assert_array_equal(out, expected)


def test_no_short_way_for_transposed_broadcast_and_indexed_requests(
    stored_array: Any, request_of: Any, request_type: Any, output_map: Any
) -> None:
    array, store, pool = filled(stored_array, request_of, "int16", CODECS["raw"])
    single = ArrayReader(array, store, pool)
    points = np.array([[1], [2]])
    for shape, maps in (
        ((2, 2), (output_map(0, 1, 1), output_map(0, 1, 0))),
        ((2, 2), (output_map(0, 1, 0), output_map(3))),
        ((2,), (output_map(0, 1, 0), output_map(0, 1, 0))),
        ((2, 1), (output_map(0, 1, None, points), output_map(0, 1, 1))),
    ):
        request = request_type((0,) * len(shape), shape, maps)
        assert (
            single.read_chunk(index_transform(request), np.empty(shape, "int16"), fill_missing=True) is None
        )


def test_origin_of_the_request_counts(
    stored_array: Any, request_of: Any, request_type: Any, output_map: Any
) -> None:
    array, store, pool = filled(stored_array, request_of, "int16", CODECS["raw"])
    request = request_type((5, -2), (2, 3), (output_map(-4, 1, 0), output_map(4, 1, 1)))
    out = np.empty((2, 3), "int16")
    done = ArrayReader(array, store, pool).read_chunk(index_transform(request), out, fill_missing=True)
    assert done is not None
    assert out.tolist() == [[1, 2, 3], [0, 1, 2]]


def test_failures_are_those_of_the_general_way(stored_array: Any, request_of: Any) -> None:
    array, store, pool = filled(stored_array, request_of, "int16", CODECS["blosc"])
    single = ArrayReader(array, store, pool)
    request, out = request_of(SHAPE, (0, slice(0, 4))), np.empty(4, "int16")
    store.write("a/c/0/0", b"corrupt")
    texts = []
    for future in (
        single.read_chunk(index_transform(request), out, fill_missing=True),
        read_into(array, store, request, out, pool=pool),
    ):
        assert future is not None
        with pytest.raises(DataCorruptionError) as caught:
            future.result()
        texts.append((str(caught.value), caught.value.__notes__))
    assert texts[0] == texts[1]
    hole = request_of(SHAPE, (5, slice(6, 8)))
    messages = []
    for future in (
        single.read_chunk(index_transform(hole), out[:2], fill_missing=False),
        read_into(array, store, hole, out[:2], pool=pool, fill_missing=False),
    ):
        assert future is not None
        with pytest.raises(NotFoundError) as missing:
            future.result()
        messages.append(str(missing.value))
    assert messages[0] == messages[1]


def test_large_chunks_have_no_short_way(stored_array: Any, request_of: Any) -> None:
    array = stored_array((1024, 2048), (1024, 1024))
    request, out = index_transform(request_of(array.shape, (0, slice(0, 2)))), np.empty(2, np.uint16)
    assert ArrayReader(array, MemoryStore(), Pool(2)).read_chunk(request, out, fill_missing=True) is None
