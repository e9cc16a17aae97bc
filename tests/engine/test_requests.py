"""Tables of requests to chunks of many arrays against plain loops and NumPy."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.core.arrays.layer_source import FILES
from chunkwise.core.engine import requests as requests_module
from chunkwise.core.engine.read import read_chunks
from chunkwise.core.engine.requests import ChunkRequests, TableReader, TableSource, is_simple
from chunkwise.errors import DataCorruptionError, NotFoundError

FEW = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def _tables(draw: st.DrawFn) -> dict[str, Any]:
    """Arrays side by side along the first fixed or the last dimension of a result, each read as one box."""
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(1, 7)) for _ in range(rank))
    chunks = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    aligned = draw(st.booleans())
    n_fixed = draw(st.integers(0 if rank else 1, 2))
    first, start, stop = [], [], []
    at = [0] * (n_fixed + rank)
    n = draw(st.integers(1, 4))
    for i in range(n):
        lo = [draw(st.integers(0, s - 1)) for s in shape]
        if aligned:
            lo = [a - a % c for a, c in zip(lo, chunks, strict=True)]
        size = [draw(st.integers(1, s - a)) for a, s in zip(lo, shape, strict=True)]
        if aligned:
            size = [min(c, s - a) for a, c, s in zip(lo, chunks, shape, strict=True)]
        begin = [i if d == 0 else 1 for d in range(n_fixed)] + [0] * rank
        if not n_fixed:
            begin[-1] = at[-1]
        first.append(lo)
        start.append(begin)
        stop.append(
            [b + 1 for b in begin[:n_fixed]] + [b + s for b, s in zip(begin[n_fixed:], size, strict=True)]
        )
        at = stop[-1]
    kept = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return {
        "shape": shape,
        "chunks": chunks,
        "columns": [
            np.array(rows, np.int64).reshape(n, width)
            for rows, width in ((first, rank), (start, n_fixed + rank), (stop, n_fixed + rank))
        ],
        "kept": kept,
        "capacity": draw(st.sampled_from([1, 2, 3, 1000])),
    }


def _made(place: Path, shape: tuple[int, ...], chunks: tuple[int, ...], values: Any) -> Any:
    array = ts.create_array(place, shape=shape, chunks=chunks, dtype="uint16", fill_value=9, overwrite=True)
    if values is not None:
        array[...] = values
    return array._array.stored


def _expected(table: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return box, first, start, stop and cell of each chunk, in the order of the result."""
    rows = []
    chunks = table["chunks"]
    for number, (first, start, stop) in enumerate(zip(*(c.tolist() for c in table["columns"]), strict=True)):
        n_fixed = len(start) - len(first)
        size = [b - a for a, b in zip(start[n_fixed:], stop[n_fixed:], strict=True)]
        spans = [
            sorted({i // c for i in range(a, a + n)}) for a, n, c in zip(first, size, chunks, strict=True)
        ]
        for cell in itertools.product(*spans):
            low = [max(a, k * c) for a, k, c in zip(first, cell, chunks, strict=True)]
            high = [min(a + n, k * c + c) for a, n, k, c in zip(first, size, cell, chunks, strict=True)]
            shift = [b - a for a, b in zip(first, start[n_fixed:], strict=True)]
            begin = start[:n_fixed] + [a + b for a, b in zip(low, shift, strict=True)]
            end = stop[:n_fixed] + [a + b for a, b in zip(high, shift, strict=True)]
            rows.append((begin, end, number, low, cell))
    return sorted(rows)


@FEW
@given(table=_tables())
def test_boxes_divided_into_chunks(table: dict[str, Any], tmp_path: Path) -> None:
    """Every column says what loops over single elements say."""
    stored = _made(tmp_path / "a", table["shape"], table["chunks"], None)
    names = [f"{i}/" for i in range(len(table["kept"]))]
    requests = ChunkRequests(stored, names, *table["columns"], True)
    expected = _expected(table)
    assert requests.n_chunks == len(expected)
    divided = requests.in_chunks()
    assert divided.n == divided.n_chunks == len(expected)
    if divided is requests:  # these stay in the order they have
        expected.sort(key=lambda row: row[2])
    assert divided.prefixes == [names[row[2]] for row in expected]
    assert divided.keys == [names[row[2]] + stored.keys.key(row[4]) for row in expected]
    assert divided.first.tolist() == [row[3] for row in expected]
    chunks = table["chunks"]
    assert divided.offsets == [
        (begin, end, [a - k * c for a, k, c in zip(low, cell, chunks, strict=True)])
        for begin, end, _, low, cell in expected
    ]
    n_fixed = divided.n_fixed
    whole = [
        all(
            a == k * c and e - b == c
            for a, k, c, b, e in zip(low, cell, chunks, begin[n_fixed:], end[n_fixed:], strict=True)
        )
        for begin, end, _, low, cell in expected
    ]
    assert divided.whole == whole
    follows = [False]
    for at in range(1, len(expected)):
        before, begin = expected[at - 1][0], expected[at][0]
        step = [b - a for a, b in zip(before, begin, strict=True)]
        is_next = bool(chunks) and step == [0] * (len(step) - 1) + [chunks[-1]]
        follows.append(is_next and whole[at] and whole[at - 1])
    assert divided.follows == follows
    for rows in (slice(0, 1), slice(len(expected) // 2, None), slice(None)):
        some = expected[rows]
        assert divided.hull(rows)[:-1] == tuple(
            slice(min(row[0][d] for row in some), max(row[1][d] for row in some))
            for d in range(len(some[0][0]))
        )


@FEW
@given(table=_tables(), data=st.data())
def test_the_result_is_numpys(table: dict[str, Any], data: st.DataObject, tmp_path: Path) -> None:
    """Any number of staged chunks, whole ones and parts, missing ones, results with any strides."""
    shape = table["shape"]
    first, start, stop = table["columns"]
    arrays, prefixes = [], []
    for number, kept in enumerate(table["kept"]):
        values = np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.uint16).reshape(shape) + 1000 * number
        stored = _made(tmp_path / str(number), shape, table["chunks"], values if kept else None)
        arrays.append(values if kept else np.full(shape, 9, np.uint16))
        prefixes.append(f"{tmp_path}/{number}/"[1:])
    requests = ChunkRequests(stored, prefixes, first, start, stop, True).in_chunks()
    n_fixed = requests.n_fixed
    view = np.zeros(tuple(stop.max(axis=0).tolist()), np.uint16, order=data.draw(st.sampled_from("CF")))
    expected = view.copy()
    for array, lo, begin, end in zip(arrays, first.tolist(), start.tolist(), stop.tolist(), strict=True):
        size = [b - a for a, b in zip(begin[n_fixed:], end[n_fixed:], strict=True)]
        box = tuple(slice(a, a + n) for a, n in zip(lo, size, strict=True))
        expected[(*begin[:n_fixed], *map(slice, begin[n_fixed:], end[n_fixed:]))] = array[box]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests_module, "STAGING_NBYTES", 2 * stored.chain.item.nbytes * table["capacity"])
        reader = TableReader(requests, view)
    cut = data.draw(st.integers(0, requests.n))
    for rows in (slice(0, cut), slice(cut, requests.n + 3)):
        sizes = [len(batch[0]) for batch in reader.batches(rows)]
        assert (
            sum(sizes) == min(rows.stop, requests.n) - rows.start
            and max(sizes, default=0) <= table["capacity"]
        )
        read_chunks(reader.batches(rows), TableSource(requests, FILES), [], fill_missing=True)
    np.testing.assert_array_equal(view, expected)


@pytest.mark.parametrize("bad", [0, 1])
def test_an_error_names_the_array(bad: int, tmp_path: Path) -> None:
    """A missing and a damaged chunk are told with the key and cell of the array they belong to."""
    for number in range(2):
        stored = _made(tmp_path / str(number), (4,), (2,), np.arange(1, 5, dtype=np.uint16))
    prefixes = [f"{tmp_path}/{number}/"[1:] for number in range(2)]
    columns = ([[0], [0]], [[0, 0], [1, 0]], [[1, 4], [2, 4]])
    requests = ChunkRequests(stored, prefixes, *map(np.array, columns), False).in_chunks()
    chunk = tmp_path / str(bad) / "c" / "1"

    def read() -> None:
        reader = TableReader(requests, np.zeros((2, 4), np.uint16))
        read_chunks(reader.batches(slice(0, 4)), TableSource(requests, FILES), [], fill_missing=False)

    read()
    chunk.write_bytes(b"x")
    with pytest.raises(DataCorruptionError, match=rf"/{bad}/c/1"):
        read()
    chunk.unlink()
    with pytest.raises(NotFoundError, match=rf"/{bad}/c/1"):
        read()


@pytest.mark.parametrize("shard", [None, 1])
@pytest.mark.parametrize("field", [None, 1])
@pytest.mark.parametrize("chunk_shape", [None, (2,)])
def test_which_arrays_fit_into_a_table(shard: Any, field: Any, chunk_shape: Any) -> None:
    """Those without shards, fields and chunks of several shapes."""
    array: Any = SimpleNamespace(shard=shard, field=field, grid=SimpleNamespace(chunk_shape=chunk_shape))
    assert is_simple(array) == ((shard, field, chunk_shape) == (None, None, (2,)))
