"""``read(out=array)``: the caller's memory is filled, whatever its layout, or the error names both sides."""

import ml_dtypes
import numpy as np
import pytest

import chunkwise as ts
from chunkwise.core.dtypes.data_type import dtypes


@pytest.fixture(params=["zarr3", "n5", "memory", "cast", "stack"])
def store(request, tmp_path):
    """An array of each kind with the same elements."""
    data = np.arange(6 * 7, dtype=np.int32).reshape(6, 7)
    if request.param == "memory":
        return ts.array(data)
    if request.param == "cast":
        return ts.cast(ts.array(data.astype(np.int16)), ts.int32)
    if request.param == "stack":
        return ts.concat([ts.array(data[:3]), ts.array(data[3:])], axis=0)
    spec = {"driver": request.param, "kvstore": f"file://{tmp_path}/"}
    store = ts.open(spec, create=True, dtype="int32", shape=[6, 7]).result()
    store.write(data).result()
    return store


@pytest.mark.parametrize("layout", ["C", "F", "reversed", "part of a larger one"])
def test_it_is_filled_and_returned(store, layout):
    expected = store.read().result()
    out = np.zeros((6, 7), np.int32, order="F" if layout == "F" else "C")
    if layout == "reversed":
        out = out[::-1, ::-1]
    if layout == "part of a larger one":
        out = np.zeros((8, 20), np.int32)[1:7, 3:17:2]
    found = store.read(out=out).result()
    assert found is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(store[2:4, 5].read(out=np.zeros(2, np.int32)).result(), expected[2:4, 5])


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros((6, 8), np.int32), r"out: has shape \[6, 8\], but the selection has \[6, 7\]"),
        (np.zeros((6, 7), np.int64), "out: has data type int64, but the array has int32"),
        (np.broadcast_to(np.int32(0), (6, 7)), "out: the array can't be written to"),
        ([[0] * 7] * 6, "out: expected a NumPy array, but received: list"),
    ],
)
def test_what_does_not_fit_is_an_error(store, out, message):
    with pytest.raises(ValueError, match=message):
        store.read(out=out).result()


def test_shared_elements_and_an_order_are_errors(store):
    shared = np.lib.stride_tricks.as_strided(np.zeros(7, np.int32), (6, 7), (0, 4))
    with pytest.raises(ValueError, match="share their memory"):
        store.read(out=shared).result()
    with pytest.raises(ValueError, match="order: the memory layout is that of `out`"):
        store.read(out=np.zeros((6, 7), np.int32), order="F").result()


def test_in_a_batch(store):
    out = np.zeros((6, 7), np.int32)
    with ts.Batch() as batch:
        future = store.read(batch=batch, out=out)
    assert future.result() is out
    assert out[5, 6] == 41


int8, int16 = np.dtype("int8"), np.dtype("int16")  # which a tensor's module has


class TypeName(str):
    """A data type of PyTorch, as far as it is used."""


class Tensor:
    """What is used of a tensor of PyTorch that is of a type which NumPy lacks."""

    def __init__(self, bits, dtype, why=""):
        self.bits, self.dtype, self.why = bits, TypeName(dtype), why

    def __dlpack__(self, **options):
        raise BufferError("NumPy can't take it")

    def __dlpack_device__(self):
        return 1, 0

    def view(self, dtype):
        return Tensor(self.bits, str(dtype))

    def numpy(self):
        if self.why:
            raise RuntimeError(self.why)
        if self.dtype not in ("int8", "int16"):
            raise TypeError(f"Got unsupported ScalarType {self.dtype}")
        return self.bits


class Parameter(Tensor):
    """A tensor whose class is of another module."""

    __module__ = "json"


# integers of less than 8 bits are in memory as int8 in both libraries
SMALL = [name for name in dtypes if hasattr(ml_dtypes, name)]


@pytest.mark.parametrize("name", SMALL)
def test_every_type_of_ml_dtypes(name, tmp_path):
    """Elements that NumPy knows by ml_dtypes, and a tensor with the same bits: written, read, read into."""
    kind = np.dtype(getattr(ml_dtypes, name))
    values = np.array([0, 1, 1, 0, 1, 0], "f4").astype(kind).reshape(2, 3)
    bits = values.view(f"int{8 * kind.itemsize}")
    tensor = Tensor(bits.copy(), f"torch.{name}")
    for given in (values, tensor, Parameter(bits.copy(), tensor.dtype)):
        for store in (
            ts.create_array(tmp_path / "a", given, overwrite=True),
            ts.array(given),
            ts.open(f"memory://{name}/|zarr3", create=True, dtype=name, shape=[2, 3]).result(),
        ):
            store[...] = given
            store[0].write(
                given.astype(kind)[0] if given is values else Tensor(bits[0], tensor.dtype)
            ).result()
            assert store.dtype.name == name
            np.testing.assert_array_equal(store.read().result().view(bits.dtype), bits)
            for kept in (Tensor, Parameter):
                out = kept(np.zeros((2, 3), bits.dtype), tensor.dtype)
                assert store.read(out=out).result() is out
                np.testing.assert_array_equal(out.bits, bits)
    with pytest.raises(TypeError, match="safe"):
        ts.array(np.zeros((2, 3), bool))[...] = tensor
    one = Tensor(bits[0, 1].reshape(()), tensor.dtype)
    filled = ts.create_array(tmp_path / "b", shape=(2,), dtype=name, fill_value=one)
    np.testing.assert_array_equal(filled.read().result(), values[0, [1, 1]])
    assert ts.Schema(fill_value=one) == ts.Schema(fill_value=values[0, 1])


def test_tensors_of_types_that_numpy_lacks(tmp_path):
    store = ts.create_array(tmp_path / "a", shape=(2, 3), dtype="bfloat16")
    store[...] = 1.5
    out = Tensor(np.zeros((2, 3), "int16"), "torch.bfloat16")
    assert store.read(out=out).result() is out
    assert (out.bits == 0x3FC0).all()
    other = ts.create_array(tmp_path / "b", np.zeros((2, 3), "f4"))
    with pytest.raises(ValueError, match="bfloat16"):
        other.read(out=out).result()
    for wrong in (Tensor(out.bits, "torch.qint8"), Tensor(out.bits, "torch.int16", "it requires grad")):
        with pytest.raises(ValueError, match=r"gives no memory to write: .*(qint8|requires grad)"):
            store.read(out=wrong).result()
