"""Arrays behind functions: which calls are made, with what, and what comes of their answers."""

import asyncio
import pickle
import threading
import time

import numpy as np
import pytest
import tensorstore
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_oracle import gather, scatter, transforms

import chunkwise

LIBRARIES = pytest.mark.parametrize("library", [chunkwise, tensorstore], ids=["chunkwise", "tensorstore"])


class Functions:
    """A read and a write function over an array in memory that take notes."""

    def __init__(self, values, lo):
        self.values, self.lo = values, lo
        self.calls = []
        self.lock = threading.Lock()

    def _part(self, domain):
        return tuple(
            slice(a - o, b - o)
            for a, b, o in zip(domain.inclusive_min, domain.exclusive_max, self.lo, strict=True)
        )

    def read(self, domain, array, params):
        with self.lock:
            self.calls.append(("read", str(domain), params.if_not_equal))
        array[...] = self.values[self._part(domain)]

    def write(self, domain, array, params):
        assert not array.flags.writeable
        with self.lock:
            self.calls.append(("write", str(domain), params.if_equal))
        self.values[self._part(domain)] = array


def _store(library, functions, values, lo, chunk, **options):
    domain = library.IndexDomain(inclusive_min=lo, shape=values.shape)
    return library.virtual_chunked(
        functions.read,
        functions.write,
        dtype=library.dtype(str(values.dtype)),
        domain=domain,
        chunk_layout=library.ChunkLayout(chunk_shape=chunk, **options),
    )


@st.composite
def cases(draw):
    rank = draw(st.integers(1, 3))
    lo = tuple(draw(st.integers(-5, 5)) for _ in range(rank))
    shape = tuple(draw(st.integers(1, 8)) for _ in range(rank))
    chunk = [draw(st.integers(1, 5)) for _ in range(rank)]
    origin = [draw(st.integers(-3, 3)) for _ in range(rank)]
    order = draw(st.permutations(range(rank)))
    hi = [a + n for a, n in zip(lo, shape, strict=True)]
    request = draw(transforms(lo, hi))
    return lo, shape, chunk, {"grid_origin": origin, "inner_order": order}, request


@settings(max_examples=examples(150), deadline=None)
@given(cases())
def test_like_tensorstore(case):
    """The same chunks are read and written as by TensorStore, with the same values."""
    lo, shape, chunk, layout, request = case
    seen = []
    # TensorStore 0.1.86 reads beyond its own arrays where an index array depends on two dimensions: one of
    # some thousand such requests ends the process in UpdateCellTransformForIndexArraySetPartition.
    spread = any(
        m.index_array is not None and sum(n > 1 for n in m.index_array.shape) > 1 for m in request.output
    )
    for library in (chunkwise,) if spread else (chunkwise, tensorstore):
        values = np.arange(np.prod(shape)).reshape(shape)
        functions = Functions(values, lo)
        store = _store(library, functions, values, lo, chunk, **layout)
        own = library.IndexTransform(json=request.to_json())
        read = store[own].read().result()
        assert np.array_equal(read, gather(np.arange(np.prod(shape)).reshape(shape), lo, request))
        reads, functions.calls = sorted(functions.calls), []
        new = -np.arange(request.size).reshape(request.input_shape) - 1
        store[own].write(new).result()
        expected = np.arange(np.prod(shape)).reshape(shape)
        scatter(expected, lo, request, new)
        if library is chunkwise:  # the order of equal indices is not TensorStore's promise
            assert np.array_equal(values, expected)
        seen.append((reads, sorted(functions.calls), str(store.chunk_layout)))
    (reads, calls, layout), (peer_reads, peer_calls, peer_layout) = seen[0], seen[-1]
    assert (reads, layout) == (peer_reads, peer_layout)
    # On a loaded machine TensorStore was seen to write a part of a chunk without reading it (three runs); why
    # is not known: 20,000 repetitions of one such request alone did not show it.  Ours must read it always.
    assert set(peer_calls) <= set(calls) and len(peer_calls) <= len(calls)
    assert [call for call in calls if call[0] == "write"] == [
        call for call in peer_calls if call[0] == "write"
    ]


@LIBRARIES
def test_layout_of_arrays(library):
    """Whole chunks are handed over in the inner order of the layout, at the bounds cut off."""
    flags = []

    def read(domain, array, params):
        flags.append((str(domain), array.shape, array.flags.f_contiguous, array.flags.writeable))
        array[...] = 0

    store = library.virtual_chunked(
        read,
        dtype="int64",
        shape=[4, 5],
        chunk_layout=library.ChunkLayout(chunk_shape=[2, 5], inner_order=[1, 0]),
    )
    store.read().result()
    assert sorted(flags) == [
        ("{ [0, 2), [0, 5) }", (2, 5), True, True),
        ("{ [2, 4), [0, 5) }", (2, 5), True, True),
    ]


@LIBRARIES
def test_infinite_domain(library):
    """The domain may have no end; only what is read is asked for."""

    def read(domain, array, params):
        array[...] = np.add.outer(np.arange(*_bounds(domain, 0)), np.arange(*_bounds(domain, 1)) * 100)

    def _bounds(domain, d):
        return domain[d].inclusive_min, domain[d].exclusive_max

    store = library.virtual_chunked(read, dtype="int64", rank=2)
    assert store.domain.labels == ("", "")
    assert store[-3:1, 1000:1002].read().result().tolist() == [
        [x + 100 * y for y in (1000, 1001)] for x in range(-3, 1)
    ]
    assert store.chunk_layout.read_chunk.shape == (1024, 1024)


@LIBRARIES
def test_write_only(library):
    """Without a read function only whole chunks can be written."""
    written = []
    store = library.virtual_chunked(
        None,
        lambda domain, array, params: written.append((str(domain), array.tolist(), params.if_equal)),
        dtype="int64",
        shape=[5],
        chunk_layout=library.ChunkLayout(chunk_shape=[2]),
    )
    assert store.mode == "w"
    store[2:5] = 5
    assert sorted(written) == [("{ [2, 4) }", [5, 5], b""), ("{ [4, 5) }", [5], b"")]
    with pytest.raises(ValueError, match="Write-only virtual chunked view requires chunk-aligned writes"):
        store[1:3].write(5).result()
    with pytest.raises(ValueError, match="Source does not support reading"):
        store.read().result()


TWO_GRIDS = {"read_chunk_shape": [1], "write_chunk_shape": [2]}


@LIBRARIES
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": [3]}, "dtype must be specified"),
        ({"dtype": "int8"}, "rank must be specified"),
        ({"dtype": "int8", "shape": [3], "fill": 3}, "fill_value not supported"),
        ({"dtype": "int8", "shape": [3], "layout": TWO_GRIDS}, "Failed to compute chunk grid"),
        ({"read_function": None, "dtype": "int8", "shape": [3]}, "Must specify `read_function`, `write_f"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_arguments(library, options, message):
    """What is missing or impossible is said at once."""
    options = {"read_function": lambda *_: None, **options}
    if "fill" in options:
        options["schema"] = library.Schema(fill_value=options.pop("fill"))
    if "layout" in options:
        options["chunk_layout"] = library.ChunkLayout(**options.pop("layout"))
    with pytest.raises(ValueError, match=message):
        library.virtual_chunked(**options)


@LIBRARIES
def test_exceptions_pass(library):
    """What a function raises is raised as it is."""

    def fail(domain, array, params):
        raise RuntimeError("boom")

    store = library.virtual_chunked(fail, fail, dtype="int8", shape=[3])
    for future in (store.read(), store.write(3), store[0].write(3)):
        with pytest.raises(RuntimeError, match="boom"):
            future.result()


def test_bad_answer():
    """An answer that is neither None nor a generation is an error that says so."""
    store = chunkwise.virtual_chunked(lambda *_: 5, dtype="int8", shape=[3])
    with pytest.raises(TypeError, match=r"must return None or a KvStore\.TimestampedStorageGeneration"):
        store.read().result()


@LIBRARIES
def test_coroutines(library):
    """Coroutines run on the given loop, or on the one that runs when the array is made."""

    async def read(domain, array, params):
        await asyncio.sleep(0.01)
        array[...] = 7

    def make(**options):
        layout = library.ChunkLayout(chunk_shape=[1])
        return library.virtual_chunked(read, dtype="int8", shape=[20], chunk_layout=layout, **options)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    assert make(loop=loop).read().result().tolist() == [7] * 20
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()

    async def main():
        store = make()
        total = await library.downsample(store, [20], "max").read()
        points = await library.overlay([store, library.array(np.array([1], "i1"))])[[0, 5]].read()
        return (await store.read()).tolist(), total.tolist(), points.tolist()

    assert asyncio.run(main()) == ([7] * 20, [7], [1, 7])


def test_coroutine_without_a_loop():
    """A coroutine that nobody can run fails the read."""

    async def read(domain, array, params):
        array[...] = 7

    store = chunkwise.virtual_chunked(read, dtype="int8", shape=[3])
    with pytest.raises(ValueError, match="no event loop specified"):
        store.read().result()


def test_futures():
    """A function may answer with a future, for example of another array."""
    source = chunkwise.array(np.arange(10))

    def read(domain, array, params):
        array[...] = source[domain].read().result() * 2
        return chunkwise.Future(None)

    layout = chunkwise.ChunkLayout(chunk_shape=[3])
    store = chunkwise.virtual_chunked(read, dtype="int64", shape=[10], chunk_layout=layout)
    assert store.read().result().tolist() == list(range(0, 20, 2))


STAMP = chunkwise.KvStore.TimestampedStorageGeneration


class Versions:
    """One chunk with a generation; it can be told that somebody else is quicker."""

    def __init__(self):
        self.value, self.generation = 0, b"g0"
        self.calls = []
        self.others = []

    def read(self, domain, array, params):
        self.calls.append(("read", params.if_not_equal))
        if params.if_not_equal != self.generation:
            array[...] = self.value
        return STAMP(self.generation, time.time())

    def write(self, domain, array, params):
        self.calls.append(("write", params.if_equal))
        if self.others:
            self.value, self.generation = self.others.pop()
        if params.if_equal not in (b"", self.generation):
            return STAMP(b"", time.time())
        self.value = array.copy()
        self.generation += b"+"
        return STAMP(self.generation, time.time())

    def store(self, **options):
        return chunkwise.virtual_chunked(self.read, self.write, dtype="int64", shape=[2, 3], **options)


def test_generations():
    """A write of a part that finds another generation reads again, what is known already included."""
    chunk = Versions()
    chunk.others = [(np.full((2, 3), 100), b"theirs")]
    chunk.store()[0, 0].write(5).result()
    assert chunk.calls == [("read", b""), ("write", b"g0"), ("read", b"g0"), ("write", b"theirs")]
    assert chunk.value.tolist() == [[5, 100, 100], [100, 100, 100]]


def test_cache():
    """With a cache pool, an unchanged chunk is confirmed and not made again; a write refreshes it."""
    context = chunkwise.Context({"cache_pool": {"total_bytes_limit": 10_000_000}})
    chunk = Versions()
    store = chunk.store(context=context)
    for _ in range(2):
        assert store.read().result().tolist() == [[0] * 3] * 2
    store[0, 0] = 4
    assert store.read().result()[0, 0] == 4
    assert chunk.calls == [("read", b""), ("read", b"g0"), ("write", b"g0"), ("read", b"g0+")]

    calls = []
    store = chunkwise.virtual_chunked(
        lambda domain, array, params: calls.append(1), dtype="ustring", shape=[3], context=context
    )
    for _ in range(3):
        assert store.read().result().tolist() == [""] * 3
    assert calls == [1]  # an answer of None holds for ever


def test_transactions():
    """Writes are made when the transaction is committed, to the chunk as it is then."""
    chunk = Versions()
    store = chunk.store()
    with chunkwise.Transaction() as transaction:
        inside = store.with_transaction(transaction)
        inside[0, 0] = 77
        inside[1, 1:] = [5, 6]
        assert inside.read().result().tolist() == [[77, 0, 0], [0, 5, 6]]
        assert store[0, 0].read().result() == 0
        assert not any(name == "write" for name, _ in chunk.calls)
        chunk.value, chunk.generation = np.full((2, 3), 9), b"theirs"
    assert chunk.value.tolist() == [[77, 9, 9], [9, 5, 6]]

    layout = chunkwise.ChunkLayout(chunk_shape=[1])
    store = chunkwise.virtual_chunked(
        lambda *_: None, lambda *_: None, dtype="int8", shape=[2], chunk_layout=layout
    )
    inside = store.with_transaction(chunkwise.Transaction(atomic=True))
    inside[0] = 5
    with pytest.raises(ValueError, match=r"virtual chunk \{origin=\{1\}, shape=\{1\}\} as single atomic"):
        inside[1] = 5


def test_updates_are_not_lost():
    """Parts of one chunk that are written by many threads are all there in the end."""
    from concurrent.futures import ThreadPoolExecutor

    values = np.zeros(100, int)
    functions = Functions(values, (0,))
    store = _store(chunkwise, functions, values, (0,), [100])
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: store[i].write(i).result(), range(100)))
    assert values.tolist() == list(range(100))


def squares(domain, array, params):
    """A function that can be pickled."""
    array[...] = np.arange(domain[0].inclusive_min, domain[0].exclusive_max) ** 2


def test_pickle_and_repr():
    """A store with functions that can be pickled can be pickled; there is no JSON."""
    store = chunkwise.virtual_chunked(squares, dtype="int64", shape=[5])[1:3]
    assert pickle.loads(pickle.dumps(store)).read().result().tolist() == [1, 4]
    assert repr(store) == "TensorStore(...)"
    assert repr(store.spec()) == "Spec(...)"
    with pytest.raises(NotImplementedError, match="JSON representation not supported"):
        store.spec().to_json()
    with pytest.raises(NotImplementedError):
        store.url
    with pytest.raises(NotImplementedError, match="Storage statistics not supported"):
        store.storage_statistics(query_not_stored=True).result()


@LIBRARIES
def test_adapted(library):
    """Casts, downsampling and stacks of virtual arrays."""
    store = library.virtual_chunked(squares, dtype="int64", shape=[6])
    assert library.cast(store, "float32").read().result().tolist() == [0.0, 1.0, 4.0, 9.0, 16.0, 25.0]
    assert library.downsample(store, [2], "mean").read().result().tolist() == [0, 6, 20]
    stacked = library.overlay([store, library.array(np.array([-1, -2])).translate_to[2]])
    assert stacked.read().result().tolist() == [0, 1, -1, -2, 16, 25]


def test_a_part_of_a_chunk_that_can_only_be_written_in_a_transaction():
    """What is not there can't be kept beside the part."""
    written = []
    array = chunkwise.virtual_chunked(
        None,
        lambda domain, chunk, parameters: written.append((domain.origin, chunk.tolist())),
        dtype="u1",
        domain=chunkwise.IndexDomain(shape=[4]),
        chunk_layout=chunkwise.ChunkLayout(chunk_shape=[2]),
    )
    transaction = chunkwise.Transaction()
    with pytest.raises(ValueError, match="Write-only virtual chunked view requires chunk-aligned writes"):
        array.with_transaction(transaction)[0:1].write(3).result()
    transaction.commit_sync()
    assert written == []
    with chunkwise.Transaction() as transaction:
        array.with_transaction(transaction)[2:4].write([5, 6]).result()
    assert written == [((2,), [5, 6])]
