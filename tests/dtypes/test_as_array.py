"""Array-likes as sources of writes, with TensorStore's write as the oracle."""

import datetime
import json
import re

import ml_dtypes
import numpy as np
import pytest
import tensorstore
from hypothesis import given
from hypothesis import strategies as st

import chunkwise
from chunkwise.core.dtypes.as_array import as_array
from chunkwise.core.dtypes.data_type import dtype, dtypes


class Lazy:
    def __array__(self, dtype=None, copy=None):
        return np.arange(3)


def stored(value, name):
    """Return the value that TensorStore reads back after writing `value` to an array of rank 1."""
    d = dtypes[name]
    store = tensorstore.array(np.broadcast_to(d.zero(), [3]).copy(), dtype=getattr(tensorstore, name))
    with np.errstate(all="ignore"):
        store.write(value).result()
    return store.read().result()


CASES = [
    *(
        ("uint16", v)
        for v in (np.arange(3), np.arange(3, dtype="u1"), 1.7, [1.7, 2, 3], 70000, -1, None, [None])
    ),
    *(("uint16", v) for v in (np.array(5), np.array(5, "u1"), np.arange(3, dtype=">u2"), {"a": 1}, range(3))),
    *(("uint16", v) for v in (memoryview(b"abc"), b"5", (1, 2, 3), object(), [True, False, True], Lazy())),
    *(("uint16", v) for v in (np.array(["1", "2", "3"]), np.zeros(3, "M8[s]"), np.ma.array([1, 2, 3]))),
    *(("int32", v) for v in (np.int64(2**40), "5", ["5", "6", "7"], "x", [[1, 2], [3]], 1j, float("nan"))),
    *(("int32", v) for v in ([np.int64(2**40), 1, 2], float("inf"), [[[1, 2, 3]]])),
    *(("int64", v) for v in (2**63, Lazy())),
    *(("uint64", v) for v in (2**64 - 1, [2**64 - 1, 1, 2], -1)),
    *(("uint8", v) for v in ([1e10, 2, 3], np.float64(300), [np.float64(300), 1, 1])),
    *(("bool", v) for v in ([0, 5, 2], np.arange(3), "x")),
    *(
        ("float32", v)
        for v in (np.float64(1e300), np.zeros(3), None, 1j, np.arange(3, dtype=ml_dtypes.bfloat16))
    ),
    ("float32", np.array([1, 2, 3], object)),
    *(("float16", v) for v in (np.arange(3, dtype=ml_dtypes.bfloat16), 1e10)),
    *(("bfloat16", v) for v in (np.arange(3, dtype="f4"), [1, 2.5, 3])),
    *(("complex64", v) for v in (np.arange(3, dtype="f4"), 1j, [1, 2j, 3])),
    *(("int4", v) for v in ([1, -2, 3], np.array([1, -2, 3], ml_dtypes.int4), np.array([1, -2, 3], "i1"))),
    ("int8", np.array([1, -2, 3], ml_dtypes.int4)),
    *(
        ("ustring", v)
        for v in (["a", "b", "c"], "abc", np.array(["a", "b", "c"]), [1, 2, 3], ["a", b"b", "c"], b"a")
    ),
    *(("ustring", v) for v in (np.array(["a", 1, None], object), None, [None], [["a"], ["b"]])),
    ("ustring", np.array(["a", "b", "c"], np.dtypes.StringDType())),
    *(("string", v) for v in ([b"a", b"b", b""], [b"a", "b", b""], np.array([b"a", b"b", b"c"]), "é", 5)),
    *(
        ("json", v)
        for v in ([1, "a", None], {"a": 1}, np.arange(3), [[1], [2], [3]], 5.5, [(1, 2), 3, 4], object())
    ),
    *(
        ("json", v)
        for v in ("x", [{"a": 1}, 2, 3], np.float32(1.5), np.array([1, "a", [2]], object), [[[1]]] * 3)
    ),
]


def _name(value):
    """Name a case without addresses: the processes of a parallel run must agree on it."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@pytest.mark.parametrize(("name", "value"), CASES, ids=_name)
def test_values_are_taken_and_refused_as_in_tensorstore(name, value):
    try:
        want = stored(value, name)
    except Exception as e:
        with pytest.raises(type(e)) as ours:
            as_array(value, dtypes[name], 1)
        if "rule 'safe'" in str(e):
            assert str(ours.value) == str(e)
        return
    with np.errstate(all="raise"):
        got = as_array(value, dtypes[name], 1)
    assert got.dtype == want.dtype
    for a, b in zip(np.broadcast_to(got, [3]).tolist(), want.tolist(), strict=True):
        assert type(a) is type(b)
        assert a == b or (a != a and b != b)


def test_an_array_of_the_type_is_not_copied():
    array = np.arange(3, dtype="u2")
    assert as_array(array, dtypes["uint16"]) is array


def test_small_integers_are_sign_extended():
    d = dtypes["int4"]
    for value in (
        [-2, 7],
        np.array([-2, 7], d.memory_dtype),
        np.array([0x0E, 0x07], "u1").view(d.memory_dtype),
    ):
        assert as_array(value, d).tobytes() == b"\xfe\x07"
    assert as_array(np.array([[-2], [7]], d.memory_dtype).T, d).shape == (1, 2)
    assert as_array(-1, d).shape == ()


@pytest.mark.parametrize(
    ("name", "value", "raw"),
    [
        ("S3", ["ab", b"c"], b"ab\0c\0\0"),
        ("U2", ["a", "bc"], "a\0bc".encode("utf-32-le")),
        ("V3", [b"abc", b"\xff"], b"abc\xff\0\0"),
        ("byte", b"a", b"a"),
        ("char", b"a", b"a"),
        ("S3", np.array([b"a"]), b"a\0\0"),
        ("V3", np.array([b"abc"], "V3"), b"abc"),
        ("datetime64[s]", "1970-01-01T00:01", b"\x3c" + bytes(7)),
        ("datetime64[s]", np.array([1], "M8[m]"), b"\x3c" + bytes(7)),
        ('[["a","uint8"],["b","int16"]]', (1, 2), b"\1\2\0"),
        ('[["a","uint8"],["b","int16"]]', [(1, 2), (3, 4)], b"\1\2\0\3\4\0"),
        ('[["a","uint8"]]', np.array([(1,)], [("a", "u1")]), b"\1"),
    ],
    ids=repr,
)
def test_types_of_fixed_size(name, value, raw):
    got = as_array(value, dtype(name))
    assert got.dtype == dtype(name).memory_dtype
    assert got.tobytes() == raw


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("S3", "abcd", ValueError),
        ("S3", np.array([b"abcd"]), TypeError),
        ("U2", ["abc"], ValueError),
        ("V2", b"abc", ValueError),
        ("V3", np.zeros(1, "V4"), TypeError),
        ("char", "ab", ValueError),
        ("datetime64[s]", "x", ValueError),
        ("datetime64[s]", np.array([1], "M8[ms]"), TypeError),
        ('[["a","uint8"],["b","uint8"]]', np.zeros(1, [("b", "u1"), ("a", "u1")]), TypeError),
        ('[["a","uint8"]]', np.zeros(1, "u1"), TypeError),
    ],
    ids=repr,
)
def test_nothing_is_cut_off_or_confused(name, value, error):
    with pytest.raises(error):
        as_array(value, dtype(name))


def test_rank_is_limited():
    with pytest.raises(ValueError, match="at most 1"):
        as_array([[1]], dtypes["int8"], 1)
    assert as_array([[1, 2], [3, 4]], dtypes["json"], 1).tolist() == [[1, 2], [3, 4]]
    assert as_array([[1, 2], [3, 4]], dtypes["json"], 1).shape == (2,)
    assert as_array([[1, 2], [3, 4]], dtypes["json"], 0)[()] == [[1, 2], [3, 4]]
    assert as_array([[1, 2], [3, 4]], dtypes["json"]).shape == (2, 2)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_any_json_value_can_be_an_element(value):
    assert json.dumps(as_array(value, dtypes["json"], 0)[()]) == json.dumps(value)


class _Subclass(np.ndarray):
    pass


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5", "memory"])
def test_arrays_of_subclasses_are_stored_and_masks_are_refused(tmp_path, format):
    """What NumPy's subclasses hold is stored as plain values; a mask has no place in an array."""
    values = np.arange(6.0).reshape(2, 3)
    if format == "memory":
        array = chunkwise.array(np.zeros((2, 3)))
    else:
        array = chunkwise.create_array(tmp_path / "a", np.zeros((2, 3)), format=format)
    for array_like in (values.view(_Subclass), np.ma.masked_array(values)):
        array[...] = 0
        array.write(array_like).result()
        np.testing.assert_array_equal(array.read().result(), values)
    for write in (array.write, lambda masked: array.__setitem__(..., masked)):
        with pytest.raises(ValueError, match="1 of 6 values are masked"):
            write(np.ma.masked_array(values * 2, mask=values == 2))
    np.testing.assert_array_equal(array.read().result(), values)


@pytest.mark.parametrize("of", [list, tuple])
def test_masked_rows_are_refused(tmp_path, of):
    """As slices of variables of netCDF4 are, of which a program makes a list."""
    rows = np.ma.masked_equal(np.arange(6).reshape(2, 3), 4)
    array = chunkwise.array(np.zeros((2, 3), "int64"))
    for write in (
        lambda values: array.write(values).result(),
        lambda values: array.__setitem__(..., values),
        lambda values: chunkwise.create_array(tmp_path / "a", values),
        chunkwise.array,
    ):
        with pytest.raises(ValueError, match="1 of 6 values are masked"):
            write(of(rows))
        write(of(rows[:1]) + of(rows[:1]))
    assert array.read().result().tolist() == [[0, 1, 2], [0, 1, 2]]


def test_a_masked_array_has_no_view():
    """What is kept in memory would lose its mask too."""
    with pytest.raises(ValueError, match="1 of 3 values are masked"):
        chunkwise.array(np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]))


NS = "datetime64[ns]"
TIMES = {
    "array": (NS, np.array(["3000-01-01"], "M8[s]")),
    "big-endian": (NS, np.array(["3000-01-01"], ">M8[D]")),
    "scalar": (NS, np.datetime64("3000-01-01")),
    "list of NumPy's": (NS, [np.datetime64("3000-01-01")]),
    "list of dates": (NS, [datetime.date(3000, 1, 1)]),
    "text": (NS, ["3000-01-01"]),
    "difference": ("timedelta64[ps]", np.array([2**40], "m8[s]")),
    "list of differences": ("timedelta64[ns]", [np.timedelta64(10**6, "W")]),
}


@pytest.mark.parametrize("name", TIMES)
def test_times_do_not_wrap_around(name):
    """NumPy converts to a finer unit what is out of range, to other times."""
    unit, values = TIMES[name]
    array = chunkwise.array(np.zeros(1, unit))
    with pytest.raises(ValueError, match="is out of the range of"):
        array.write(values).result()
    with pytest.raises(ValueError, match="is out of the range of"):
        array[...] = values
    assert array.read().result().view("i8") == [0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["2020-01-01", "NaT"], [18262, None]),
        ([datetime.datetime(2020, 1, 1, 5), None], [18262, None]),  # cut, as lists are
        ([np.datetime64("2020-01-02T01", "h"), np.datetime64("2020")], [18263, 18262]),
        ([3, None], [3, None]),
        (np.array(["2020", "NaT"], "M8[Y]"), [18262, None]),
    ],
)
def test_times_in_range(value, expected):
    array = chunkwise.array(np.zeros(2, "M8[D]"))
    array.write(value).result()
    assert array.read().result().tolist() == np.array(expected, "M8[D]").tolist()


def test_differences_of_time_are_no_times():
    array = chunkwise.array(np.zeros(1, "m8[s]"))
    with pytest.raises(TypeError, match="according to the rule 'safe'"):
        array.write([np.datetime64("2020")]).result()


@pytest.mark.parametrize(
    ("value", "said"),
    [(2**64, "beyond 64 bits"), ([{"a": -(2**63) - 1}], "beyond 64 bits"), ({1: 2, "1": 3}, "the same text")],
)
def test_json_that_would_be_read_as_another_value(value, said):
    """Integers of more bits are floating-point numbers for readers of JSON."""
    array = chunkwise.open({"driver": "json", "kvstore": "memory://a"}).result()
    with pytest.raises(ValueError, match=said):
        array.write(value).result()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("U2", np.str_("abc")),
        ("S2", np.bytes_(b"abc")),
        ("V2", np.bytes_(b"abc")),
        ("U2", np.float64(1e300)),
        ("S2", np.int64(300)),
        ("U2", np.datetime64("2020")),
    ],
)
def test_a_scalar_of_numpy_is_not_cut_off(name, value):
    """Neither text nor the text of numbers, as for Python's."""
    array = chunkwise.array(np.zeros(1, name))
    with pytest.raises(ValueError, match="does not fit data type"):
        array[0] = value
    assert array.read().result() == np.zeros(1, name)
