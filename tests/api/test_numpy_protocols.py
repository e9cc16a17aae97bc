"""Length, iteration, numbers, comparison and memory of other libraries, as NumPy users expect them."""

import operator

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.errors import InvalidArgumentError

DATA = np.arange(24, dtype=np.int32).reshape(4, 6)


class Foreign:
    """An array of another library that only has DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


@pytest.fixture(params=["zarr", "zarr3", "n5", "array", "cast", "downsample"])
def store(request):
    if request.param in ("zarr", "zarr3", "n5"):
        spec = {"driver": request.param, "kvstore": "memory://"}
        store = ts.open(spec, create=True, dtype="int32", shape=DATA.shape).result()
        store.write(DATA).result()
        return store
    below = ts.array(DATA)
    if request.param == "cast":
        return ts.cast(ts.array(DATA.astype("int64")), ts.int32)
    return below if request.param == "array" else ts.downsample(below, [1, 1], "max")


def test_rows(store):
    assert len(store) == 4 and len(store.T) == 6
    assert [row.read().result().tolist() for row in store] == DATA.tolist()
    moved = store.translate_by[10, -3]
    assert len(moved) == 4 and [np.asarray(row).tolist() for row in moved] == DATA.tolist()
    assert [int(np.asarray(row)[0]) for row in reversed(store)] == [18, 12, 6, 0]


def test_elements(store):
    column = store.translate_by[10, 0][:, 2]
    assert list(column) == DATA[:, 2].tolist()
    assert all(isinstance(x, np.int32) for x in column)
    assert sum(column) == DATA[:, 2].sum() and max(column) == 20
    assert list(column[10:10]) == []


def test_numbers(store):
    one = store[2, 3]
    assert (int(one), float(one), complex(one)) == (15, 15.0, 15 + 0j)
    for kind in (int, float, complex):
        with pytest.raises(TypeError, match="rank 0"):
            kind(store[2])
    for what in (len, list):
        with pytest.raises(TypeError, match="rank 0"):
            what(one)


def test_an_integer_is_an_index(store):
    ends = ts.array(np.array([1, 3]))
    assert np.arange(5)[ends[0] : ends[1]].tolist() == [1, 2] and [4, 5][ends[0]] == 5
    assert store[ends[0] :].shape[0] == store.shape[0] - 1 and range(ends[1]) == range(3)
    for other in (ends, ts.array(np.array(1.0)), ts.array(np.array(True))):
        with pytest.raises(TypeError):
            operator.index(other)


def test_truth_is_that_of_an_object(store):
    assert store and store[0:0] and store[0, 0]


def test_no_length_without_bounds():
    view = ts.virtual_chunked(lambda out, domain, parameters: None, dtype=ts.int32, rank=1)
    for what in (len, list):
        with pytest.raises(TypeError, match="no bounds"):
            what(view)


@pytest.mark.parametrize("other", [3, 3.5, [1, 2], (1, 2)])
@pytest.mark.parametrize("compare", [operator.eq, operator.ne])
def test_comparing_says_what_to_do(store, compare, other):
    with pytest.raises(TypeError, match=r"read\(\)\.result\(\)"):
        compare(store, other)


def test_identity(store):
    assert (store == store[0]) is False and (store != store[0]) is True
    assert store == store and store in [store] and {store: 1}[store] == 1
    assert store != None and store != "a"  # noqa: E711
    assert ((store == DATA) == (np.asarray(store) == DATA)).all()
    with pytest.raises(TypeError, match="reading it"):
        3 in store  # noqa: B015


def test_memory_of_other_libraries(store):
    np.testing.assert_array_equal(np.from_dlpack(store), DATA)
    memory = np.zeros(DATA.shape, np.int32)
    with pytest.raises(InvalidArgumentError, match="written") if _read_only(memory) else _nothing():
        out = Foreign(memory)
        assert store.read(out=out).result() is out
        np.testing.assert_array_equal(memory, DATA)
    with pytest.raises(InvalidArgumentError, match="device"):
        store.read(out=Foreign(memory, (2, 0))).result()
    with pytest.raises(InvalidArgumentError, match="DLPack"):
        store.read(out=[1]).result()


def test_a_tensor_gives_its_memory(store):
    """PyTorch's tensors have `numpy()`, which shares their memory."""

    class Tensor(Foreign):
        def numpy(self):
            return self.array

    tensor = Tensor(np.zeros(DATA.shape, np.int32))
    assert store.read(out=tensor).result() is tensor
    np.testing.assert_array_equal(tensor.array, DATA)


def _read_only(memory):
    return not np.from_dlpack(Foreign(memory)).flags.writeable


def _nothing():
    from contextlib import nullcontext

    return nullcontext()
