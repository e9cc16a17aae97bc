"""Reading and writing arrays in a store; NumPy is the oracle."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chunkwise.core.base import catalogue
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.gzip import Gzip
from chunkwise.core.codec.reshape import Transpose
from chunkwise.core.engine import update
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.read import read_into
from chunkwise.core.engine.write import write_from
from chunkwise.core.kvstore.adapter.pending import PendingStore
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS
from chunkwise.errors import DataCorruptionError, NotFoundError, OutOfRangeError

FORMS: dict[str, Any] = {
    "raw": {},
    "big-endian": {"codecs": (Bytes("big"),)},
    "fortran": {"codecs": (Transpose((1, 0)), Bytes("little"))},
    "gzip": {"codecs": (Bytes("little"), Gzip(level=1))},
    "sharded": {"inner": (2, 3)},
    "sharded gzip": {"inner": (2, 3), "codecs": (Bytes("little"), Gzip(level=1))},
    "index at start": {"inner": (4, 1), "index_location": "start"},
}


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    out: list[Any] = []
    for size in shape:
        if draw(st.integers(0, 4)) == 0:
            out.append(draw(st.integers(0, size - 1)))
        else:
            step = draw(st.sampled_from([1, 1, 1, 2, -1, -3, 5]))
            a, b = sorted((draw(st.integers(0, size)), draw(st.integers(0, size))))
            out.append(slice(a, b, step) if step > 0 else slice(max(b - 1, 0), a - 1 if a else None, step))
    return tuple(out)


@pytest.mark.parametrize("form", FORMS)
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_series_of_writes_reads_as_numpy(
    form: str, data: st.DataObject, stored_array: Any, request_of: Any
) -> None:
    shape = (11, 13)
    irregular = "inner" not in FORMS[form] and data.draw(st.booleans())
    chunks = ((4, 5, 2), (6, (3, 2), 1)) if irregular else (4, 6)
    array = stored_array(shape, chunks, np.int16, -3, **FORMS[form])
    store, pool = MemoryStore(), Pool(2)
    expected = np.full(shape, -3, np.int16)
    for round_ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.just(()) | selections(shape))
        values = np.array(expected[where])
        values[...] = np.arange(values.size).reshape(values.shape) + 1000 * round_
        if data.draw(st.booleans()):
            values[...] = -3
        write_from(array, store, request_of(shape, where), values, pool=pool).result(10)
        expected[where] = values
        where = data.draw(selections(shape))
        out = np.empty_like(np.array(expected[where]))
        got = read_into(array, store, request_of(shape, where), out, pool=pool).result(10)
        assert got is out
        np.testing.assert_array_equal(out, expected[where])
    whole = np.empty(shape, np.int16)
    read_into(array, store, request_of(shape), whole, pool=pool).result(10)
    np.testing.assert_array_equal(whole, expected)
    # what holds nothing but the fill value is not stored
    stored = {array.keys.cell(key, 2) for key in store.list()}
    needed = {
        tuple(array.grid.cell(dim, at)[0] for dim, at in enumerate(element))
        for element in np.argwhere(expected != -3)
    }
    assert stored == needed


@pytest.mark.parametrize("form", ["raw", "gzip", "sharded", "sharded gzip"])
@pytest.mark.parametrize("inline", [True, False])
def test_large_arrays_go_through_the_pool(
    form: str, inline: bool, stored_array: Any, request_of: Any, tmp_path: Any
) -> None:
    shape = (512, 640)
    chunks, inner = (64, 128), ((32, 64) if "sharded" in form else None)
    array = stored_array(shape, chunks, np.float32, np.nan, **{**FORMS[form], "inner": inner})
    store, pool = FileStore(tmp_path, sync=False), Pool(1 if inline else 3)
    data = np.random.default_rng(1).random(shape, np.float32)
    write_from(array, store, request_of(shape), data, pool=pool).result(60)
    cells = np.ndindex(*(array.grid.n_cells(dim, size) for dim, size in enumerate(shape)))
    assert sorted(store.list()) == sorted(map(array.keys.key, cells))
    assert len(list(store.list())) == 40
    for where in [(), (slice(3, 500), slice(None, None, -1)), (slice(100, 101), slice(0, 640, 3))]:
        out = np.empty_like(data[where])
        read_into(array, store, request_of(shape, where), out, pool=pool).result(60)
        np.testing.assert_array_equal(out, data[where])
    write_from(array, store, request_of(shape), np.full(shape, np.nan, np.float32), pool=pool).result(60)
    assert list(store.list()) == []


@pytest.mark.parametrize("form", ["raw", "sharded"])
def test_index_arrays_diagonals_and_broadcasts(
    form: str, stored_array: Any, request_type: Any, output_map: Any, pool: Pool
) -> None:
    shape = (11, 13)
    array = stored_array(shape, (4, 6), np.int16, 0, **FORMS[form])
    store = MemoryStore()
    rows, columns = np.array([[3], [9], [3]]), np.array([[12, 0, 7, 7]])
    request = request_type((0, 0, 0), (3, 4, 2), (
        output_map(0, 1, None, rows[..., None]), output_map(0, 1, None, columns[..., None]),
    ))  # fmt: skip
    values = np.arange(24, dtype=np.int16).reshape(3, 4, 2) + 1
    write_from(array, store, request, values, pool=pool).result(10)
    expected = np.zeros(shape, np.int16)
    expected[rows, columns] = values[..., -1]
    out = np.empty_like(values)
    read_into(array, store, request, out, pool=pool).result(10)
    np.testing.assert_array_equal(out, np.repeat(expected[rows, columns][..., None], 2, axis=2))

    diagonal = request_type((2,), (7,), (output_map(0, 1, 0), output_map(14, -1, 0)))
    write_from(array, store, diagonal, np.full(7, 99, np.int16), pool=pool).result(10)
    expected[np.arange(2, 9), 14 - np.arange(2, 9)] = 99
    out = np.empty(7, np.int16)
    read_into(array, store, diagonal, out, pool=pool).result(10)
    assert out.tolist() == [99] * 7
    whole = np.empty(shape, np.int16)
    everything = request_type((0, 0), shape, (output_map(0, 1, 0), output_map(0, 1, 1)))
    read_into(array, store, everything, whole, pool=pool).result(10)
    np.testing.assert_array_equal(whole, expected)


@pytest.mark.parametrize("form", FORMS)
def test_index_arrays_that_cover_whole_chunks(
    form: str, stored_array: Any, request_type: Any, output_map: Any, pool: Pool
) -> None:
    """Such chunks are overwritten without being read, in whatever order their elements come."""
    shape, random = (12, 12), np.random.default_rng(3)
    array, store = stored_array(shape, (4, 6), np.int16, 0, **FORMS[form]), MemoryStore()
    cells, shuffled = np.arange(12).reshape(3, 4), random.permuted(np.arange(12).reshape(3, 4), axis=1)
    for rows in (
        random.permutation(12),
        shuffled.reshape(-1),
        cells[::-1].reshape(-1),
        np.tile(shuffled[1], 2),
    ):
        columns = random.permutation(12)
        maps = output_map(0, 1, None, rows[:, None]), output_map(0, 1, None, columns[None])
        request = request_type((0, 0), (len(rows), 12), maps)
        values = random.integers(1, 1000, (len(rows), 12), np.int16)
        expected, found = np.zeros(shape, np.int16), np.empty(shape, np.int16)
        everything = request_type((0, 0), shape, (output_map(0, 1, 0), output_map(0, 1, 1)))
        read_into(array, store, everything, expected, pool=pool).result(10)
        write_from(array, store, request, values, pool=pool).result(10)
        expected[rows[:, None], columns] = values
        read_into(array, store, everything, found, pool=pool).result(10)
        np.testing.assert_array_equal(found, expected)


def test_chunks_of_different_sizes(stored_array: Any, request_of: Any, pool: Pool) -> None:
    shape = (11, 13)
    array = stored_array(shape, [((3, 2), 1, 4), 5], np.int32)
    store = MemoryStore()
    data = np.arange(143, dtype=np.int32).reshape(shape)
    write_from(array, store, request_of(shape), data, pool=pool).result(10)
    assert sorted(len(store.read(key).value) // 4 for key in store.list()) == sorted(
        rows * 5 for rows in (3, 3, 1, 4) for _ in range(3)
    )
    where = (slice(2, 10, 2), slice(12, 3, -1))
    out = np.empty_like(data[where])
    read_into(array, store, request_of(shape, where), out, pool=pool).result(10)
    np.testing.assert_array_equal(out, data[where])
    with pytest.raises(OutOfRangeError, match="ends at 11 in dimension 0"):
        read_into(array, store, request_of((12, 13)), np.empty((12, 13), np.int32), pool=pool)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_extreme_shapes(shape: tuple[int, ...], stored_array: Any, request_of: Any, pool: Pool) -> None:
    array, store = stored_array(shape, (2,) * len(shape), np.uint8, 5), MemoryStore()
    out = np.zeros(shape, np.uint8)
    read_into(array, store, request_of(shape), out, pool=pool).result(10)
    assert (out == 5).all()
    write_from(array, store, request_of(shape), np.full(shape, 6, np.uint8), pool=pool).result(10)
    read_into(array, store, request_of(shape), out, pool=pool).result(10)
    assert (out == 6).all()
    assert len(list(store.list())) == (0 if 0 in shape else 1)
    if shape == ():
        assert list(store.list()) == ["a/c"]


def test_what_lies_beyond_the_array_is_kept(stored_array: Any, request_of: Any, pool: Pool) -> None:
    store = MemoryStore()
    store.write("a/c/0", bytes([1, 2, 3, 4]))
    array = stored_array((3,), (4,), np.uint8)
    write_from(array, store, request_of((3,)), np.array([7, 8, 9], np.uint8), pool=pool).result(10)
    assert bytes(store.read("a/c/0").value) == bytes([7, 8, 9, 4])
    write_from(array, store, request_of((3,)), np.zeros(3, np.uint8), pool=pool).result(10)
    assert bytes(store.read("a/c/0").value) == bytes([0, 0, 0, 4])


def test_the_fill_value_is_compared_by_its_bits(stored_array: Any, request_of: Any, pool: Pool) -> None:
    cases = [
        (np.float32, np.nan, [np.nan, np.nan], 0),
        (np.float64, 0.0, [0.0, -0.0], 1),
        (np.float64, -0.0, [-0.0, -0.0], 0),
        (np.complex128, complex(0, -0.0), [complex(0, -0.0)] * 2, 0),
        (np.complex128, complex(0, 0.0), [complex(0, -0.0)] * 2, 1),
        (np.dtype("U3"), "ab", ["ab", "ab"], 0),
        (np.dtype([("x", "u1"), ("y", "<i4")]), (1, -2), [(1, -2), (1, -2)], 0),
        (np.dtype([("x", "u1"), ("y", "<i4")]), (1, -2), [(1, -2), (2, -2)], 1),
        (bool, True, [True, True], 0),
    ]
    for dtype, fill, values, n in cases:
        array, store = stored_array((2,), (2,), dtype, fill), MemoryStore()
        write_from(array, store, request_of((2,)), np.array(values, dtype), pool=pool).result(10)
        assert len(list(store.list())) == n, (dtype, fill)


def test_chunks_of_the_fill_value_are_stored_if_asked(stored_array: Any, request_of: Any, pool: Pool) -> None:
    zeros = np.zeros(4, np.uint8)
    for inner, nbytes in (None, 2), ((1,), 2 + 32 + 4):
        array, store = stored_array((4,), (2,), np.uint8, inner=inner), MemoryStore()
        write = write_from(
            array, store, request_of((4,)), zeros, pool=pool, store_data_equal_to_fill_value=True
        )
        write.result(10)
        assert [len(store.read(k).value) for k in store.list()] == [nbytes] * 2
        write_from(array, store, request_of((4,)), zeros, pool=pool).result(10)
        assert list(store.list()) == []
        array = stored_array((4,), (2,), np.uint8, inner=inner, store_fill_chunks=True)
        write_from(array, store, request_of((4,), slice(0, 1)), zeros[:1], pool=pool).result(10)
        assert list(store.list()) == ["a/c/0"]


def test_a_missing_chunk_is_an_error_if_asked(stored_array: Any, request_of: Any, pool: Pool) -> None:
    array, store = stored_array((4, 4), (2, 2), np.uint8), MemoryStore()
    out = np.empty((4, 4), np.uint8)
    write_from(array, store, request_of((4, 4), slice(0, 2)), np.ones((2, 4), np.uint8), pool=pool).result(10)
    reading = read_into(array, store, request_of((4, 4)), out, pool=pool, fill_missing=False)
    with pytest.raises(NotFoundError, match=r'^NOT_FOUND: chunk \{1, 0\} stored at .*"a/c/1/0" is missing$'):
        reading.result(10)


@pytest.mark.parametrize("selection", [slice(None), slice(1, 3)])
def test_a_bad_chunk_is_named(
    selection: Any, stored_array: Any, request_of: Any, tmp_path: Any, pool: Pool
) -> None:
    array, store = stored_array((4, 4), (2, 2), np.uint16), FileStore(tmp_path)
    store.write("a/c/0/1", b"abc")
    request = request_of((4, 4), selection)
    values = np.ones(request.input_shape, np.uint16)
    with pytest.raises(DataCorruptionError) as caught:
        read_into(array, store, request, values.copy(), pool=pool).result(10)
    assert str(caught.value).startswith(f'DATA_LOSS: Error reading local file "{tmp_path}/a/c/0/1": ')
    assert "while reading chunk {0, 1}" in caught.value.__notes__
    writing = write_from(array, store, request, values, pool=pool)
    if selection == slice(None):  # overwritten entirely, without a look
        writing.result(10)
        assert store.read("a/c/0/1").value == b"\1\0" * 4
    else:
        with pytest.raises(DataCorruptionError, match=r'Error reading local file ".*a/c/0/1"'):
            writing.result(10)


class _Rival(MemoryStore):
    """Somebody else changes the key just before each of the first conditional writes."""

    def __init__(self, n_changes: int) -> None:
        super().__init__()
        self.n_changes = n_changes

    def write(self, key: str, value: Any, *, if_equal: bytes | None = None) -> bytes | None:
        if self.n_changes and if_equal is not None:
            self.n_changes -= 1
            old = super().read(key).value
            super().write(key, (bytes(4) if old is None else bytes(old))[:3] + bytes([self.n_changes + 1]))
        return super().write(key, value, if_equal=if_equal)


def test_a_partial_write_is_done_again_if_the_chunk_changed(
    stored_array: Any, request_of: Any, pool: Pool
) -> None:
    array, store = stored_array((4,), (4,), np.uint8), _Rival(3)
    write_from(array, store, request_of((4,), slice(0, 2)), np.array([8, 9], np.uint8), pool=pool).result(10)
    assert bytes(store.read("a/c/0").value) == bytes([8, 9, 0, 1])
    assert store.n_changes == 0


def test_a_partial_write_does_not_wait_for_one_that_is_stuck(
    stored_array: Any, request_of: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are done, and the one that waited leaves the lock to the one that has it."""
    monkeypatch.setattr(update, "_PATIENCE", 0.01)
    stuck, go_on = threading.Event(), threading.Event()

    class Stuck(FileStore):
        def write(self, key: str, value: Any, *, if_equal: bytes | None = None) -> bytes | None:
            if not stuck.is_set():
                stuck.set()
                assert go_on.wait(60)
            return super().write(key, value, if_equal=if_equal)

    array, store = stored_array((4,), (4,), np.uint8), Stuck(tmp_path, sync=False)

    def write(i: int) -> None:
        values = np.array([i + 1], np.uint8)
        write_from(array, store, request_of((4,), slice(i, i + 1)), values, pool=Pool(1)).result(60)

    with ThreadPoolExecutor() as threads:
        first = threads.submit(write, 0)
        assert stuck.wait(60)
        write(1)
        assert bytes(store.read("a/c/0").value) == bytes([0, 2, 0, 0])
        go_on.set()
        first.result(60)
    assert bytes(store.read("a/c/0").value) == bytes([1, 2, 0, 0])


@pytest.mark.parametrize("inner", [None, (4,)])
def test_concurrent_writers_of_one_chunk_lose_nothing(
    inner: Any, stored_array: Any, request_of: Any, tmp_path: Any
) -> None:
    class Slow(FileStore):  # which is written to by the pools' threads, not by this one
        traits = DEFAULT_TRAITS._replace(request_concurrency=1)

    array, store = stored_array((64,), (64,), np.uint8, inner=inner), Slow(tmp_path, sync=False)
    pools = [Pool(1) for _ in range(4)]
    futures = [
        write_from(
            array, store, request_of((64,), slice(i, i + 1)), np.array([i + 1], np.uint8), pool=pools[i % 4]
        )
        for i in range(64)
    ]
    for future in futures:
        future.result(60)
    out = np.empty(64, np.uint8)
    read_into(array, store, request_of((64,)), out, pool=pools[0]).result(10)
    assert out.tolist() == list(range(1, 65))


def _in_transaction(store: Any) -> PendingStore:
    return PendingStore(store, lambda *_: None)


@pytest.mark.parametrize("adapt", [lambda store: store, _in_transaction], ids=["outside", "in a transaction"])
def test_slow_stores_get_many_requests_at_a_time(adapt: Any, stored_array: Any, request_of: Any) -> None:
    class Slow(MemoryStore):
        traits = DEFAULT_TRAITS._replace(request_concurrency=8)
        barrier = threading.Barrier(8)

        def open_reader(self) -> Any:
            read = super().open_reader()

            def slow(*args: Any) -> Any:
                self.barrier.wait(20)
                return read(*args)

            return slow

    array = stored_array((8,), (1,), np.uint8, 3)
    out = np.empty(8, np.uint8)
    read_into(array, adapt(Slow()), request_of((8,)), out, pool=Pool(2)).result(20)
    assert out.tolist() == [3] * 8


@pytest.mark.parametrize("concurrency", [None, 8])
@pytest.mark.parametrize("inner", [None, (1 << 19,)])
def test_requests_of_one_chunk_each_run_together(
    concurrency: int | None, inner: Any, stored_array: Any, request_of: Any
) -> None:
    """As many as the store takes at a time, or as there are processors."""
    import threading

    together = concurrency or 2
    barrier = threading.Barrier(together)

    class Meeting(MemoryStore):
        traits = DEFAULT_TRAITS._replace(request_concurrency=concurrency)

        def write(self, *args: Any, **options: Any) -> Any:
            barrier.wait(20)
            return super().write(*args, **options)

    n = 1 << 20
    gzip = (catalogue.codecs["bytes"].parse("zarr3", "bytes", {"endian": "little"}),)
    gzip += (catalogue.codecs["gzip"].parse("zarr3", "gzip", {"level": 1}),)
    array = stored_array((8 * n,), (n,), np.uint16, codecs=gzip, inner=inner)
    store, pool = Meeting(), Pool(2)
    values = np.ones(n, np.uint16)
    writes = [
        write_from(array, store, request_of((8 * n,), slice(i * n, (i + 1) * n)), values, pool=pool)
        for i in range(8)
    ]
    for write in writes:
        write.result(60)
    assert len(list(store.list())) == 8


@pytest.mark.parametrize("inner", [None, (2,)])
def test_text_of_any_length(inner: Any, stored_array: Any, request_of: Any, pool: Pool) -> None:
    utf8 = (catalogue.codecs["vlen-utf8"].parse("zarr3", "vlen-utf8", {}),)
    array, store = stored_array((6,), (4,), object, "-", codecs=utf8, inner=inner), MemoryStore()
    words = np.array(["a", "ß" * 100, "", "-", "-", "-"], object)
    write_from(array, store, request_of((6,)), words, pool=pool).result(10)
    assert list(store.list()) == ["a/c/0"]
    values = np.array(["x", "yy"], object)
    write_from(array, store, request_of((6,), slice(4, 0, -3)), values, pool=pool).result(10)
    out = np.empty(6, object)
    read_into(array, store, request_of((6,)), out, pool=pool).result(10)
    assert out.tolist() == ["a", "yy", "", "-", "x", "-"]
