"""The data types themselves: names, NumPy types, identity."""

import pickle

import ml_dtypes
import numpy as np
import pytest
import tensorstore
from dtype_strategies import fixed_size
from hypothesis import given

from chunkwise.core.dtypes.data_type import DataType, dtype, dtypes

TENSORSTORE = (
    *("bool", "char", "byte", "int2", "int4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"),
    *("uint64", "float4_e2m1fn", "float8_e3m4", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float16", "bfloat16", "float32", "float64"),
    *("complex64", "complex128", "string", "ustring", "json"),
)


@pytest.mark.parametrize("name", TENSORSTORE)
def test_named_types_are_those_of_tensorstore(name):
    ours, theirs = dtypes[name], getattr(tensorstore, name)
    assert repr(ours) == repr(theirs)
    assert ours.name == theirs.name
    assert ours.to_json() == theirs.to_json()
    assert ours.numpy_dtype == theirs.numpy_dtype
    assert repr(ours.numpy_dtype) == repr(theirs.numpy_dtype)
    assert ours.type is theirs.type
    assert dtype(name) is ours
    assert pickle.loads(pickle.dumps(ours)) is ours
    if name in ("char", "byte"):
        return  # there the value is lost
    value = ours(1)
    assert repr(value) == repr(theirs(1))
    assert type(value) is type(theirs(1))


ACCEPTED = [
    *(int, float, complex, bool, bytes, str, np.uint8, np.bool_, np.intp, np.longlong, np.bytes_, np.void),
    *(
        np.dtype(">i4"),
        np.dtype("l"),
        np.dtype("S"),
        np.dtype("V"),
        ml_dtypes.bfloat16,
        np.dtype(ml_dtypes.int4),
    ),
]


@pytest.mark.parametrize("like", ACCEPTED, ids=repr)
def test_dtype_takes_what_tensorstore_takes(like):
    assert dtype(like).name == tensorstore.dtype(like).name


@pytest.mark.parametrize(
    "like",
    [object, np.object_, list, np.str_, np.longdouble, "foo", None, 3, np.number, np.int32(3)],
    ids=repr,
)
def test_dtype_refuses_what_tensorstore_refuses(like):
    with pytest.raises((TypeError, ValueError)) as theirs:
        tensorstore.dtype(like)
    with pytest.raises(theirs.type):
        dtype(like)


@pytest.mark.parametrize(
    "call", [("uint8", 300), ("uint8", 1.7), ("int8", [1, 2]), ("int32", "12"), ("float32", 1j)]
)
def test_scalars_are_made_as_in_tensorstore(call):
    name, value = call
    try:
        want = getattr(tensorstore, name)(value)
    except Exception as e:
        with pytest.raises(type(e)):
            dtypes[name](value)
    else:
        got = dtypes[name](value)
        assert type(got) is type(want)
        np.testing.assert_array_equal(got, want)


def test_char_and_byte_keep_their_size_in_memory():
    assert dtypes["char"].memory_dtype == np.dtype("S1")
    assert dtypes["byte"].memory_dtype == np.dtype("V1")
    assert dtypes["byte"].itemsize == 1


@pytest.mark.parametrize(
    ("like", "name", "memory"),
    [
        ("S5", "S5", "S5"),
        (np.dtype(">U7"), "U7", "=U7"),
        ("V5", "V5", "V5"),
        (np.dtype("<M8[ns]"), "datetime64[ns]", "M8[ns]"),
        ("datetime64[10ms]", "datetime64[10ms]", "M8[10ms]"),
        ("datetime64[1ms]", "datetime64[ms]", "M8[ms]"),
        (np.dtype(">m8"), "timedelta64", "m8"),
        (
            np.dtype([("a", ">i4"), ("b", "f4", (2,))]),
            '[["a","int32"],["b","float32",[2]]]',
            [("a", "i4"), ("b", "f4", 2)],
        ),
        ([["p", [["x", "S3"]]]], '[["p",[["x","S3"]]]]', [("p", [("x", "S3")])]),
    ],
)
def test_types_of_fixed_size_that_tensorstore_has_not(like, name, memory):
    d = dtype(like)
    assert d.name == name
    assert d.memory_dtype == np.dtype(memory)
    assert d.memory_dtype.isnative
    assert dtype(name) is d


def test_padding_of_a_structured_type_is_dropped():
    padded = np.dtype({"names": ["a", "b"], "formats": ["u1", "<i4"], "offsets": [0, 4], "itemsize": 8})
    assert dtype(padded).itemsize == 5


@pytest.mark.parametrize(
    "bad",
    [
        *(
            "S0",
            "U",
            "datetime64[xs]",
            "[]",
            '[["a","json"]]',
            [["a", "int8"], ["a", "int8"]],
            [["", "int8"]],
            [3],
        ),
        *(np.dtype(("i4", (2,))), np.dtype([("a", "O")]), np.dtype([]), np.dtype([("a", np.longdouble)])),
    ],
    ids=repr,
)
def test_what_is_no_type_is_a_value_error(bad):
    with pytest.raises(ValueError, match=r"data type"):
        dtype(bad)


@given(fixed_size)
def test_a_type_is_found_by_its_name_its_numpy_type_and_its_pickle(d):
    assert DataType(d.name) is d
    assert DataType(d.memory_dtype) is d
    assert DataType(d.memory_dtype.newbyteorder(">")) is d
    assert pickle.loads(pickle.dumps(d)) is d
    assert d.zero().dtype == d.memory_dtype
    assert d.zero().shape == ()


def test_equality_is_with_names_and_numpy_types():
    int8 = dtypes["int8"]
    assert int8 == "int8" == int8
    assert int8 == np.int8
    assert int8 == np.dtype("int8")
    assert int8 != "int16"
    assert int8 != None  # noqa: E711
    assert int8 != object and dtypes["ustring"] != np.dtype(object)  # as dask asks  # noqa: E721
    with pytest.raises(ValueError, match='name: "foo"'):
        int8 == "foo"  # noqa: B015
    with pytest.raises(TypeError):
        int8 == 3  # noqa: B015
    assert {int8: 1}["int8"] == 1


@pytest.mark.parametrize(
    ("name", "zero"), [("string", b""), ("ustring", ""), ("json", None), ("uint8", 0), ("S3", b"")]
)
def test_zero(name, zero):
    assert dtype(name).zero()[()] == zero


def test_zero_of_times_is_not_a_time():
    assert np.isnat(dtype("datetime64[s]").zero())
    assert np.isnat(dtype("timedelta64[3D]").zero())
