"""Conversions, with TensorStore's cast as the oracle."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
import tensorstore
from hypothesis import given
from hypothesis import strategies as st

from chunkwise.core.dtypes.conversion import (
    Conversion,
    cast_converters,
    converter,
    convertible,
    implicit_converter,
)
from chunkwise.core.dtypes.data_type import dtype, dtypes
from chunkwise.core.dtypes.integer import bounds_of

NAMES = [n for n in dtypes if hasattr(tensorstore, n)]
INTS = [n for n in NAMES if dtypes[n].kind == "int"]
# TensorStore misreads float8_e8m0fnu: 1.0 becomes 1.8e19.
FLOATS = [n for n in NAMES if dtypes[n].kind == "float" and n != "float8_e8m0fnu"]
NUMBERS = ["bool", *INTS, *FLOATS, "complex64", "complex128"]


def theirs(array, source, target):
    return (
        tensorstore.cast(tensorstore.array(array, dtype=getattr(tensorstore, source)), target).read().result()
    )


def ours(array, source, target):
    return converter(dtypes[source], dtypes[target])(array)


def virtual(name):
    return tensorstore.virtual_chunked(
        lambda *_: None, lambda *_: None, dtype=getattr(tensorstore, name), shape=[1]
    )


@pytest.mark.parametrize("source", NAMES)
def test_what_converts_to_what_is_tensorstores_table(source):
    wrong = []
    for target in NAMES:
        try:
            virtual(target).write(virtual(source)).result()
            want = Conversion.IMPLICIT
        except ValueError as e:
            explicit = "Explicit data type conversion required" in str(e)
            want = Conversion.EXPLICIT if explicit else Conversion.NONE
            if not explicit and "Cannot convert" not in str(e):
                want = Conversion.IMPLICIT  # the virtual array has nothing to read
        if convertible(dtypes[source], dtypes[target]) is not want:
            wrong.append((target, want))
    assert not wrong


def test_a_missing_or_explicit_conversion_is_named():
    with pytest.raises(
        ValueError, match=r"^Explicit data type conversion required to convert float64 -> uint16$"
    ):
        implicit_converter(dtypes["float64"], dtypes["uint16"])
    with pytest.raises(ValueError, match=r"^Cannot convert string -> int32$"):
        implicit_converter(dtypes["string"], dtypes["int32"])
    with pytest.raises(ValueError, match=r"^Cannot convert bool <-> string$"):
        cast_converters(dtypes["bool"], dtypes["string"])
    assert cast_converters(dtypes["int8"], dtypes["string"])[1] is None
    assert cast_converters(dtypes["string"], dtypes["int8"])[0] is None
    assert None not in cast_converters(dtypes["int8"], dtypes["float32"])


def integers_of(name):
    rng = np.random.default_rng(0)
    powers = 1 << np.arange(63)
    wide = np.concatenate(
        [np.arange(-300, 300), powers - 1, powers, -powers, rng.integers(-(2**63), 2**63 - 1, 500)]
    )
    return ours(wide, "int64", name)


@pytest.mark.parametrize("source", INTS)
def test_integers_to_numbers(source):
    array = integers_of(source)
    for target in NUMBERS:
        want = theirs(array, source, target)
        assert ours(array, source, target).tobytes() == want.tobytes(), target


def floats_of(name):
    memory = dtypes[name].memory_dtype
    if memory.itemsize == 1:
        return np.arange(16 if name == "float4_e2m1fn" else 256, dtype="u1").view(memory)
    if memory.itemsize == 2:
        return np.arange(0, 65536, 7, dtype="u2").view(memory)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        edges = np.array(
            [s * (2.0**e + d) for s in (1, -1) for e in range(66) for d in (-1, -0.5, 0, 0.5, 1)]
        )
        bits = rng.integers(0, 2 ** (8 * memory.itemsize), 3000, f"u{memory.itemsize}").view(memory)
        return np.concatenate([edges.astype(memory), bits, np.array([np.nan, np.inf, -np.inf, -0.0], memory)])


@pytest.mark.parametrize("source", FLOATS)
def test_floats_to_floats(source):
    array = floats_of(source)
    # TensorStore rounds float64 to 16 bits twice, by way of float32; here it is rounded once.
    twice = source == "float64"
    for target in [*FLOATS, "complex64", "complex128"]:
        want, got = theirs(array, source, target), ours(array, source, target)
        if twice and target == "float16":
            with np.errstate(all="ignore"):
                want = array.astype("f2")
        nan = is_nan(want)
        if target != "float4_e2m1fn":  # it has no NaN, so one becomes 0 of either sign
            assert (is_nan(got) == nan).all(), target
        keep = ~is_nan(array)
        assert got[keep & ~nan].tobytes() == want[keep & ~nan].tobytes(), target


@pytest.mark.parametrize("source", FLOATS)
def test_floats_to_integers_truncate_and_wrap(source):
    array = floats_of(source)
    if array.dtype.itemsize == 1:  # there NaN and infinity become other integers than they do from the rest
        array = array[np.isfinite(array.astype("f4"))]
    # The end of an array is converted by other instructions, with other results for what doesn't fit.
    padded = np.concatenate([array, np.zeros(64, array.dtype)])
    for target in [*INTS, "bool"]:
        part = padded
        if target == "uint32" and array.dtype.itemsize == 2:  # there by way of int64, unlike wider ones
            part = padded[(padded.astype("f4") >= -(2.0**31)) & (padded.astype("f4") < 2.0**32)]
        want, got = theirs(part, source, target), ours(part, source, target)
        wrong = [(float(x), int(a), int(b)) for x, a, b in zip(part, got, want, strict=True) if a != b]
        assert got.tobytes() == want.tobytes(), (target, wrong[:5])


@given(st.lists(st.floats(-1e6, 1e6)), st.sampled_from(INTS))
def test_floats_in_range_take_the_fast_path_to_the_same_result(values, target):
    lo, hi = bounds_of(dtypes[target])
    array = np.clip(np.array(values, "f8"), lo, min(hi, 2**53))
    got = ours(array, "float64", target)
    assert got.astype("i8").tolist() == np.trunc(array).astype("i8").tolist()
    # one value out of range sends the whole array the other way
    more = ours(np.append(array, np.nan), "float64", target)
    assert more[:-1].tobytes() == got.tobytes()


def test_complex_numbers_lose_their_imaginary_part():
    array = np.array([1.5 + 2j, -3.7 - 1j, 300.2, -1e9, *[0] * 64])
    for target in [*INTS, *FLOATS, "complex64"]:
        want, got = theirs(array, "complex128", target), ours(array, "complex128", target)
        if dtypes[target].kind == "int":
            assert got.tobytes() == want.tobytes(), target
        else:
            np.testing.assert_array_equal(got.astype("c16"), want.astype("c16"))


ODD = [0, -0.0, 1, 1.5, 0.1, 0.1 + 0.2, 1 / 3, 1e5, 123456, 1234567, 1e15, 1e16, 1e-4, 1e-5, 5e-324, 1.8e308]


@pytest.mark.parametrize("source", [*INTS, *FLOATS, "complex64", "complex128"])
def test_numbers_to_text_and_json(source):
    if dtypes[source].kind == "int":
        array = integers_of(source)
    else:
        with np.errstate(all="ignore"):
            array = np.array([*ODD, np.nan, np.inf, -np.inf, 2.0**63]).astype(dtypes[source].memory_dtype)
        if dtypes[source].kind == "complex":
            array = np.append(array, [1 + 2j, -1j]).astype(array.dtype)
    for target in ("ustring", "string", "json"):
        want, got = theirs(array, source, target).tolist(), ours(array, source, target).tolist()
        assert list(map(repr, got)) == list(map(repr, want)), target


@given(st.floats(), st.sampled_from(["ustring", "json"]))
def test_any_float_prints_as_there(value, target):
    array = np.array(value)
    assert repr(ours(array, "float64", target)[()]) == repr(theirs(array, "float64", target)[()])


def is_nan(array):
    with np.errstate(invalid="ignore"):
        return np.isnan(array.astype("c16"))


def boxed(value):
    out = np.empty((), object)
    out[()] = value
    return out


def same_outcome(value, source, target):
    try:
        want = theirs(boxed(value), source, target)
    except (ValueError, TypeError) as e:
        want = e
    try:
        got = ours(boxed(value), source, target)
    except ValueError as e:
        assert isinstance(want, ValueError), (value, target, want)
        if not isinstance(value, float):  # they print NaN as null
            assert str(want).startswith(str(e)), (value, target)
        return
    assert not isinstance(want, Exception), (value, target, got)
    assert got.dtype == want.dtype
    assert got.shape == ()
    if dtypes[target].kind in ("int", "float", "bool"):
        np.testing.assert_array_equal(got.astype("f8"), want.astype("f8"))
    else:
        assert type(got[()]) is type(want[()])
        assert repr(got[()]) == repr(want[()])


JSON = [
    *(None, True, False, 1, -1, 2.5, 2.0, 300, 2**63, 2**64 - 1, -(2**63), 1e300, 1e19, 16777217, -0.0),
    *(
        "5",
        "-5",
        "2.5",
        "2.0",
        " 5",
        "5 ",
        "0x10",
        "0x1.8p1",
        "1e3",
        "1e400",
        "abc",
        "",
        "é",
        "true",
        "false",
        "1_000",
    ),
    *(
        "+5",
        "-0",
        "9223372036854775808",
        "NaN",
        "nan",
        "Infinity",
        "inf",
        "-inf",
        float("nan"),
        float("inf"),
        {"a": 1},
    ),
]
FROM_JSON = [
    "bool",
    *INTS,
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "string",
    "ustring",
    "json",
]


@pytest.mark.parametrize("target", FROM_JSON)
def test_json_to_anything(target):
    for value in JSON:
        same_outcome(value, "json", target)


@given(st.text("0123456789+-.eE xX_naifNIty", max_size=8), st.sampled_from(["int16", "uint64", "float64"]))
def test_any_string_of_json_is_the_number_that_it_is_there(text, target):
    same_outcome(text, "json", target)


@given(st.text(st.characters(codec="utf-8")))
def test_text_to_bytes_and_json(text):
    for target in ("string", "json", "ustring"):
        same_outcome(text, "ustring", target)


@given(st.binary())
def test_bytes_to_text(raw):
    for target in ("ustring", "json", "string"):
        same_outcome(raw, "string", target)


def test_booleans_become_numbers_and_json():
    array = np.array([True, False])
    for target in [*NUMBERS, "json"]:
        assert ours(array, "bool", target).tolist() == theirs(array, "bool", target).tolist()


def test_char_and_byte_are_the_same_bits():
    array = np.array([b"a", b"\xff"], "S1")
    there = ours(array, "char", "byte")
    assert there.dtype == np.dtype("V1")
    assert there.tobytes() == array.tobytes()
    assert ours(there, "byte", "char").tobytes() == array.tobytes()


@given(st.lists(st.integers(0, 255), min_size=1))
def test_unit_exponents_follow_ml_dtypes(codes):
    array = np.array(codes, "u1").view(ml_dtypes.float8_e8m0fnu)
    wide = ours(array, "float8_e8m0fnu", "float64")
    np.testing.assert_array_equal(wide, [2.0 ** (c - 127) if c < 255 else np.nan for c in codes])
    assert ours(wide, "float64", "float8_e8m0fnu").tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("source", "target", "values", "want"),
    [
        ("S5", "string", [b"ab", b""], [b"ab", b""]),
        ("S5", "ustring", ["é".encode()], ["é"]),
        ("S2", "S5", [b"ab"], [b"ab"]),
        ("U5", "ustring", ["aé"], ["aé"]),
        ("U5", "string", ["aé"], ["aé".encode()]),
        ("ustring", "U2", ["aé"], ["aé"]),
        ("string", "S2", [b"ab"], [b"ab"]),
        ("json", "U3", ["abc"], ["abc"]),
        ("datetime64[s]", "datetime64[ms]", [5], [5000]),
        ("datetime64[ms]", "datetime64[s]", [5999], [5]),
        ("timedelta64[s]", "int64", [5], [5]),
        ("int64", "datetime64[D]", [-5], [-5]),
    ],
)
def test_types_of_fixed_size(source, target, values, want):
    a, b = dtype(source), dtype(target)
    array = (
        np.array(values, "i8").view(a.memory_dtype)
        if a.kind == "datetime"
        else np.array(values, a.memory_dtype)
    )
    got = converter(a, b)(array)
    assert got.dtype == b.memory_dtype
    assert (got.view("i8").tolist() if b.kind == "datetime" else got.tolist()) == want


@pytest.mark.parametrize(
    ("source", "target", "flag"),
    [
        *(
            ("S2", "S5", 2),
            ("S5", "S2", 1),
            ("U2", "U5", 2),
            ("datetime64[s]", "datetime64[ms]", 2),
            ("V3", "V4", 0),
        ),
        *(("datetime64[ms]", "datetime64[s]", 1), ("datetime64[s]", "timedelta64[s]", 0), ("S5", "int8", 0)),
        *(("int64", "datetime64[s]", 1), ("int32", "datetime64[s]", 0), ("S5", "V5", 0), ("U3", "json", 2)),
    ],
)
def test_flags_of_types_of_fixed_size(source, target, flag):
    assert convertible(dtype(source), dtype(target)) == flag


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [("string", "S2", b"abc"), ("ustring", "U2", "abc"), ("string", "S2", b"a\0")],
)
def test_nothing_is_cut_off(source, target, value):
    with pytest.raises(ValueError, match="does not fit"):
        converter(dtype(source), dtype(target))(boxed(value))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        *product(
            ["int8", "float32", "complex64", "int4"],
            ["int4", "uint8", "float16", "complex128", "json", "ustring"],
        ),
        *product(["bool"], ["int4", "uint8", "float16", "complex128", "json"]),
    ],
)
def test_any_shape_and_strides_will_do(source, target):
    array = (
        np.arange(24, dtype="i8")
        .reshape(2, 3, 4)
        .astype(dtypes[source].memory_dtype)[:, ::-2, 1:]
        .transpose(2, 0, 1)
    )
    whole = ours(np.ascontiguousarray(array), source, target)
    got = ours(array, source, target)
    assert got.shape == array.shape
    assert got.tolist() == whole.tolist()
    for shape in [(), (0,), (2, 0)]:
        assert ours(np.zeros(shape, array.dtype), source, target).shape == shape
