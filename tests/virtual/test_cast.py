"""Casts of large requests: block by block, with bounded memory, in the order in which values are given."""

import tracemalloc

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_oracle import gather, scatter, transforms

import chunkwise as ts
from chunkwise.core.arrays import cast as module

SHAPE = (7, 5, 6)


@st.composite
def cases(draw):
    rank = draw(st.integers(0, 3))
    lo = tuple(draw(st.integers(-4, 4)) for _ in range(rank))
    hi = tuple(a + n for a, n in zip(lo, SHAPE[:rank], strict=True))
    return lo, SHAPE[:rank], draw(transforms(lo, hi))


def _base(kind, values, lo):
    if kind == "array":
        store = ts.array(values.copy())
    else:
        rank = values.ndim
        store = ts.open(
            "memory://|zarr3",
            create=True,
            dtype="int32",
            shape=values.shape,
            chunk_layout=ts.ChunkLayout(chunk_shape=(3, 2, 4)[:rank]),
        ).result()
        store.write(values).result()
    return store.translate_to[lo] if lo else store


BLOCKS = st.sampled_from([1, 40, 8 << 20])
BASES = st.sampled_from(["array", "zarr3"])


@settings(max_examples=examples(150), deadline=None)
@given(cases(), BLOCKS, BASES)
def test_read(case, block, kind):
    """A read in blocks is a read in one."""
    lo, shape, request = case
    values = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    store = ts.cast(_base(kind, values, lo), "float64")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_NBYTES", block)
        read = store[request].read().result()
    assert read.dtype == np.float64
    assert np.array_equal(read, gather(values, lo, request))


@settings(max_examples=examples(150), deadline=None)
@given(cases(), BLOCKS, BASES)
def test_write(case, block, kind):
    """Of several values for one element the last stays, in however many blocks they come."""
    lo, shape, request = case
    expected = np.full(shape, -7, np.int32)
    base = _base(kind, expected, lo)
    values = np.arange(request.size).reshape(request.input_shape) + 0.75
    scatter(expected, lo, request, values.astype(np.int32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_NBYTES", block)
        ts.cast(base, "float64")[request].write(values).result()
    assert np.array_equal(base.read().result(), expected)


def test_memory_is_bounded():
    """Besides the result, each worker holds one block of the base."""
    base = ts.array(np.broadcast_to(np.int64(5), (4096, 4096)))
    store = ts.cast(base, "uint8")
    tracemalloc.start()
    assert (store.read().result() == 5).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (16 + 64) << 20  # the base is 128 MiB


def test_failing_blocks():
    """An element that has no counterpart fails the read or write, also in the middle of a large one."""
    texts = np.full(2_000_000, b"abc", object)
    texts[1_500_000] = b"\xff"
    with pytest.raises(ValueError, match="Invalid UTF-8"):
        ts.cast(ts.array(texts, dtype="string"), "ustring").read().result()
    numbers = np.full(2_000_000, 1, object)
    numbers[1_500_000] = 2.5
    with pytest.raises(ValueError, match=r"Expected 64-bit signed integer, but received: 2\.5"):
        ts.cast(ts.array(np.zeros(2_000_000, int)), "json").write(numbers).result()


def test_growth_and_transactions():
    """Resizing, resolving and transactions go through to the base."""
    base = ts.open("memory://|zarr3", create=True, dtype="uint8", shape=[4]).result()
    store = ts.cast(base, "float32")
    grown = store.resize(exclusive_max=[6]).result()
    grown[4:] = 2.0
    assert store.resolve().result().read().result().tolist() == [0, 0, 0, 0, 2, 2]
    with ts.Transaction() as transaction:
        inside = grown.with_transaction(transaction)
        inside[0] = 9.0
        assert inside.read().result()[0] == 9
        assert base[0].read().result() == 0
    assert base[0].read().result() == 9


def test_resize_of_a_shifted_base():
    """A cast of a view that was moved is resized in its own index space."""
    spec = {
        "driver": "cast",
        "dtype": "float32",
        "base": {
            "driver": "zarr3",
            "kvstore": "memory://",
            "dtype": "uint8",
            "create": True,
            "schema": {"domain": {"shape": [[4]]}},
            "transform": {
                "input_inclusive_min": [10],
                "input_exclusive_max": [[14]],
                "output": [{"input_dimension": 0, "offset": -10}],
            },
        },
    }
    store = ts.open(spec).result()
    assert store.domain.inclusive_min == (10,)
    grown = store.resize(exclusive_max=[16]).result()
    assert grown.domain.exclusive_max == (16,)
    grown[15] = 3.0
    assert grown.base.read().result().tolist() == [0, 0, 0, 0, 0, 3]
