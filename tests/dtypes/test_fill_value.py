"""Fill values: every form of each format, and that bits survive."""

import json

import numpy as np
import pytest
from dtype_strategies import element, fixed_size, simple, structs
from hypothesis import given
from hypothesis import strategies as st

from chunkwise.core.dtypes.data_type import dtype, dtypes
from chunkwise.core.dtypes.fill_value import fill_value_from_json, fill_value_to_json, same_fill
from chunkwise.core.dtypes.zarr2 import (
    fill_value_to_zarr2,
    parse_fill_value_zarr2,
    parse_zarr2,
    stored_dtype,
    to_zarr2,
)
from chunkwise.core.dtypes.zarr3 import fill_value_to_zarr3, parse_fill_value_zarr3, parse_zarr3, to_zarr3
from chunkwise.errors import UnsupportedError


def through_json(value):
    return json.loads(json.dumps(value, allow_nan=False))


in_zarr3 = st.one_of(simple, structs(shapes=False), structs(structs(shapes=False), shapes=False))


@given(st.data(), in_zarr3)
def test_zarr3_fill_values_survive_bit_by_bit(data, d):
    fill = data.draw(element(d))
    back = parse_fill_value_zarr3(through_json(fill_value_to_zarr3(fill, d)), d)
    assert same_fill(back, fill)


def has_nan(fill):
    if fill.dtype.names:
        return False  # stored as base64
    try:
        return bool(np.isnan(fill))
    except TypeError:
        return False


@given(st.data(), fixed_size, st.sampled_from(["little", "big"]))
def test_zarr2_fill_values_survive_apart_from_the_payload_of_nan(data, d, endian):
    fill = data.draw(element(d))
    stored = stored_dtype(d, endian)
    back = parse_fill_value_zarr2(through_json(fill_value_to_zarr2(fill, d, stored)), d, stored)
    if has_nan(fill) and d.kind in ("float", "complex"):
        assert has_nan(back)
    else:
        assert same_fill(back, fill)


@given(st.data(), fixed_size, st.lists(st.integers(1, 3), max_size=2))
def test_schema_values_survive_apart_from_the_payload_of_nan(data, d, shape):
    fill = np.broadcast_to(data.draw(element(d)), shape)
    back = fill_value_from_json(fill_value_to_json(fill, d), d)
    assert back.shape == tuple(shape)
    if not (d.kind in ("float", "complex") and has_nan(fill.flat[0])):
        assert back.tobytes() == fill.tobytes()


@given(st.one_of(simple, structs(shapes=False), structs(structs(shapes=False), shapes=False)))
def test_zarr3_data_types_survive(d):
    assert parse_zarr3(through_json(to_zarr3(d))) is d


@given(fixed_size, st.sampled_from(["little", "big"]))
def test_zarr2_data_types_survive(d, endian):
    back, stored = parse_zarr2(through_json(to_zarr2(d, endian)))
    assert back is d
    assert stored == stored_dtype(d, endian)
    assert stored.newbyteorder("=") == d.memory_dtype


QUIET = {"float16": "7e00", "float32": "7fc00000", "float64": "7ff8000000000000", "bfloat16": "7fc0"}


@pytest.mark.parametrize("name", QUIET)
def test_nan_is_the_canonical_quiet_one_and_others_are_hexadecimal(name):
    d = dtypes[name]
    nan = parse_fill_value_zarr3("NaN", d)
    assert nan.tobytes()[::-1].hex() == QUIET[name]
    other = parse_fill_value_zarr3("0x" + QUIET[name][:-1] + "1", d)
    assert fill_value_to_zarr3(other, d) == "0x" + QUIET[name][:-1] + "1"
    negative = (-nan.astype("f8")).astype(d.memory_dtype)
    assert fill_value_to_zarr3(nan, d) == "NaN"
    assert fill_value_to_zarr3(negative, d).startswith("0xf")


ZARR3 = [
    ("bool", True, b"\1"),
    ("uint8", 5.0, b"\5"),
    ("int4", -8, b"\xf8"),
    ("uint64", 2**64 - 1, b"\xff" * 8),
    ("float32", "-Infinity", b"\0\0\x80\xff"),
    ("float32", "0x7f", b"\x7f\0\0\0"),
    ("float32", "0x7FC00001", b"\1\0\xc0\x7f"),
    ("float32", 1e39, b"\0\0\x80\x7f"),
    ("float16", -0.0, b"\0\x80"),
    ("float8_e4m3fn", "NaN", b"\x7f"),
    ("float8_e8m0fnu", "0x80", b"\x80"),
    ("float8_e8m0fnu", 0.0, b"\0"),
    ("complex64", ["0x7fc00001", 1], b"\1\0\xc0\x7f\0\0\x80\x3f"),
    ("V3", [1, 2, 255], b"\1\2\xff"),
    ("V3", "AQL/", b"\1\2\xff"),
    ("V3", 0, b"\0\0\0"),
    ("S5", "YWI=", b"ab\0\0\0"),
    ("S5", "YWIAAAA=", b"ab\0\0\0"),
    ("datetime64[s]", "NaT", b"\0\0\0\0\0\0\0\x80"),
    ("datetime64[s]", 5, b"\5\0\0\0\0\0\0\0"),
    ([["a", "int16"], ["b", "float32"]], {"a": 1, "b": "NaN"}, b"\1\0\0\0\xc0\x7f"),
    ([["a", "int16"], ["b", "float32"]], [1, 2.5], b"\1\0\0\0\x20\x40"),
    ([["a", "int16"], ["b", "float32"]], "AQAAACBA", b"\1\0\0\0\x20\x40"),
    ([["a", "int16"], ["b", "V2"]], {"a": 1, "b": 0}, b"\1\0\0\0"),
]


@pytest.mark.parametrize(("name", "value", "raw"), ZARR3)
def test_forms_of_zarr3(name, value, raw):
    assert parse_fill_value_zarr3(value, dtype(name)).tobytes() == raw


BAD_ZARR3 = [
    *(("bool", v) for v in (2, 0.0, "true", None)),
    *(("uint8", v) for v in (5.5, "5", 300, -1, True, None, [5])),
    *(("int4", v) for v in (8, -9, "NaN")),
    ("uint64", 2**64),
    *(
        ("float32", v)
        for v in ("1.5", "nan", "+Infinity", "0x", "0X7fc00001", "0x7fc0000100", True, None, "0x 1")
    ),
    *(("float8_e4m3fn", v) for v in ("Infinity", 1e10)),
    *(("float4_e2m1fn", v) for v in ("NaN", "Infinity")),
    ("float8_e8m0fnu", -1.0),
    *(("complex64", v) for v in (1, [1], [1, 2, 3], "NaN", ["1", 2], "AACAPwAAAEA=")),
    *(("V3", v) for v in ("AQI=", "AQIDBA==", [1, 2], [1, 2, 256], None, "*", 1)),
    *(("S5", v) for v in ("YWL/AAAA", 0, None, "*")),
    *(("U2", v) for v in ("abc", 0, None)),
    *(("datetime64[s]", v) for v in ("2020", 5.5, None, True, 2**63)),
    *(("ustring", v) for v in (0, None)),
    *(("string", v) for v in (0, None, "*", "é", [256])),
    *(([["a", "int16"]], v) for v in ({}, {"a": 1, "b": 2}, {"a": 1.5}, [1, 2], 0, None, "AA==", "AAAA")),
]


@pytest.mark.parametrize(("name", "value"), BAD_ZARR3, ids=repr)
def test_anything_else_is_refused_in_zarr3(name, value):
    with pytest.raises(ValueError, match=r"Expected|Array has|no value|extra|missing|Invalid"):
        parse_fill_value_zarr3(value, dtype(name))


ZARR2 = [
    ("|b1", True, b"\1"),
    ("<f4", "1.5", b"\0\0\xc0\x3f"),
    (">f4", "-Infinity", b"\0\0\x80\xff"),
    ("<c8", ["NaN", 1], b"\0\0\xc0\x7f\0\0\x80\x3f"),
    ("<c8", "AACAPwAAAEA=", b"\0\0\x80\x3f\0\0\0\x40"),
    (">c8", "P4AAAEAAAAA=", b"\0\0\x80\x3f\0\0\0\x40"),
    ("<c8", 1.0, b"\0\0\x80\x3f\0\0\0\0"),
    ("<c8", "NaN", b"\0\0\xc0\x7f\0\0\0\0"),
    ("|S5", "YWL/", b"ab\xff\0\0"),
    ("|S5", "YWL/AAA=", b"ab\xff\0\0"),
    ("|V5", "", b"\0\0\0\0\0"),
    (">U2", "é", b"\xe9\0\0\0\0\0\0\0"),
    ("|u1", "5", b"\5"),
    ("<i4", "-2", b"\xfe\xff\xff\xff"),
    ([["a", "<i4"], ["b", ">f4"]], 0, b"\0" * 8),
    ("|V3", 0, b"\0\0\0"),
    ("<M8[10ms]", -(2**63), b"\0\0\0\0\0\0\0\x80"),
    ("float4_e2m1fn", "CA==", b"\x08"),
    ([["a", "<i4"], ["b", ">f4"]], "AQAAAEAgAAA=", b"\1\0\0\0\0\0\x20\x40"),
]


@pytest.mark.parametrize(("name", "value", "raw"), ZARR2)
def test_forms_of_zarr2(name, value, raw):
    d, stored = parse_zarr2(name)
    assert parse_fill_value_zarr2(value, d, stored).tobytes() == raw


BAD_ZARR2 = [
    ("|b1", 2),
    *(("|u1", v) for v in ("5.0", "256", " 5", 5.5, 256, True, [5])),
    *(("<f4", v) for v in ("nan", "inf", "0x7fc00001", True, [1], "1_0")),
    *(("<c8", v) for v in (True, [1], "AACA", "nan", {})),
    *(("|S5", v) for v in ("YWL/AAAA", 1, "*")),
    *(([["a", "<i4"]], v) for v in (1, "AAA=", [1], {"a": 1})),
]


@pytest.mark.parametrize(("name", "value"), BAD_ZARR2, ids=repr)
def test_anything_else_is_refused_in_zarr2(name, value):
    d, stored = parse_zarr2(name)
    with pytest.raises(ValueError, match=r"Expected|Array has|Invalid"):
        parse_fill_value_zarr2(value, d, stored)


def test_null_is_no_fill_value_in_zarr2():
    assert parse_fill_value_zarr2(None, dtypes["int8"]) is None
    assert fill_value_to_zarr2(None, dtypes["int8"]) is None


@pytest.mark.parametrize(
    ("codec", "name"), [("vlen-utf8", "ustring"), ("vlen-bytes", "string"), ("json2", "json")]
)
def test_object_arrays_are_what_their_first_filter_makes(codec, name):
    d, stored = parse_zarr2("|O", codec)
    assert d is dtypes[name]
    assert stored == np.dtype(object)
    assert to_zarr2(d) == "|O"
    if name != "json":
        # As zarr-python has them.
        assert parse_fill_value_zarr2(0, d)[()] == ("0" if name == "ustring" else b"")


@pytest.mark.parametrize("codec", [None, "delta"])
def test_object_arrays_without_such_a_filter_are_refused(codec):
    with pytest.raises(ValueError, match="first filter that makes objects"):
        parse_zarr2("|O", codec)


@pytest.mark.parametrize(
    "bad",
    [
        *(
            "i4",
            "=i4",
            "|i4",
            "<i3",
            "<f16",
            "<c32",
            "|S0",
            "<U0",
            "|V0",
            "<M8[xs]",
            "<i4[s]",
            "O",
            "",
            "int32",
        ),
        *(
            "<bfloat16",
            5,
            None,
            {"a": 1},
            [],
            [["a"]],
            [["a", "<i4"], ["a", "<i4"]],
            [["a", "|O"]],
            [["", "<i4"]],
        ),
        *([["a", "<i4", [-1]]], [["a", "<i4", "x"]]),
    ],
    ids=repr,
)
def test_what_is_no_dtype_of_zarr2(bad):
    with pytest.raises(ValueError, match=r"Unsupported|Expected|Invalid|needs a first filter"):
        parse_zarr2(bad)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("r24", "V3"),
        ({"name": "uint16"}, "uint16"),
        ({"name": "uint16", "configuration": {}}, "uint16"),
        ("string", "ustring"),
        ("bytes", "string"),
        ("variable_length_bytes", "string"),
        ({"name": "raw_bytes", "configuration": {"length_bytes": 3}}, "V3"),
        ({"name": "fixed_length_utf32", "configuration": {"length_bytes": 16}}, "U4"),
        (
            {"name": "numpy.timedelta64", "configuration": {"unit": "generic", "scale_factor": 1}},
            "timedelta64",
        ),
        (
            {"name": "numpy.datetime64", "configuration": {"unit": "ms", "scale_factor": 10}},
            "datetime64[10ms]",
        ),
        (
            {"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int8"}]}},
            '[["a","int8"]]',
        ),
        ({"name": "structured", "configuration": {"fields": [["a", "r16"]]}}, '[["a","V2"]]'),
    ],
    ids=repr,
)
def test_data_types_of_zarr3(value, name):
    assert parse_zarr3(value).name == name


@pytest.mark.parametrize(
    "bad",
    ["uint128", "r12", "r0", "", None, 5, {"name": "uint8", "configuration": {"a": 1}}, {"configuration": {}}]
    + [
        {"name": "uint8", "extra": 1},
        {"name": "uint8", "must_understand": False},
        {"name": "raw_bytes"},
        "raw_bytes",
    ]
    + [{"name": "fixed_length_utf32", "configuration": {"length_bytes": n}} for n in (0, 7, "4", None)]
    + [
        {"name": "numpy.datetime64", "configuration": {"unit": u, "scale_factor": s}}
        for u, s in [("x", 1), ("s", 0)]
    ]
    + [{"name": "numpy.datetime64", "configuration": {"unit": "generic", "scale_factor": 2}}]
    + [
        {"name": "structured", "configuration": {"fields": f}}
        for f in ([], [["a"]], [["a", "string"]], [["a", "x"]])
    ]
    + [{"name": "structured", "configuration": {"fields": [["a", "int8"], ["a", "int8"]]}}],
    ids=repr,
)
def test_what_is_no_data_type_of_zarr3(bad):
    with pytest.raises(ValueError, match=r"."):
        parse_zarr3(bad)


def test_fill_values_of_zarr3_follow_the_name_of_the_type():
    """``struct`` has an object and ``r<N>`` a list, as specified; the older names have base64."""
    d = dtype([["a", "int16"], ["b", [["c", "V2"], ["d", "float32"]]]])
    fill = np.array((-3, (b"\x01\xff", np.nan)), d.memory_dtype)
    inner = [{"name": "c", "data_type": "r16"}, {"name": "d", "data_type": "float32"}]
    inner = {"name": "struct", "configuration": {"fields": inner}}
    fields = [{"name": "a", "data_type": "int16"}, {"name": "b", "data_type": inner}]
    data_type = {"name": "struct", "configuration": {"fields": fields}}
    assert to_zarr3(d) == data_type
    assert fill_value_to_zarr3(fill, d) == {"a": -3, "b": {"c": [1, 255], "d": "NaN"}}
    old = [["c", {"name": "raw_bytes", "configuration": {"length_bytes": 2}}], ["d", "float32"]]
    old = {"name": "structured", "configuration": {"fields": old}}
    mixed = {"name": "struct", "configuration": {"fields": [fields[0], {"name": "b", "data_type": old}]}}
    assert parse_zarr3(mixed) is d
    written = fill_value_to_zarr3(fill, d, mixed)
    assert written == {"a": -3, "b": "Af8AAMB/"}
    old = {"name": "structured", "configuration": {"fields": [["a", "int16"], ["b", old]]}}
    assert fill_value_to_zarr3(fill, d, old) == "/f8B/wAAwH8="
    for value in (written, "/f8B/wAAwH8=", {"a": -3, "b": {"c": [1, 255], "d": "NaN"}}):
        assert same_fill(parse_fill_value_zarr3(value, d), fill)


@pytest.mark.parametrize("name", ["char", "byte", "json", '[["a","int8",[2]]]'])
def test_zarr3_has_no_form_for_some(name):
    with pytest.raises(UnsupportedError):
        to_zarr3(dtype(name))


@pytest.mark.parametrize("name", ["char", "byte"])
def test_zarr2_has_no_form_for_some(name):
    with pytest.raises(UnsupportedError):
        to_zarr2(dtype(name))


def test_same_fill_is_bitwise():
    nan = np.array(np.nan)
    assert same_fill(nan, nan.copy())
    assert not same_fill(np.array(0.0), np.array(-0.0))
    assert not same_fill(np.array(0), np.array(0.0))
    assert not same_fill(None, np.array(0))
    assert same_fill(None, None)
    boxed = [np.empty((), object) for _ in range(3)]
    boxed[0][()], boxed[1][()], boxed[2][()] = {"a": [np.nan]}, {"a": [float("nan")]}, {"a": [1]}
    assert same_fill(boxed[0], boxed[1])
    assert not same_fill(boxed[1], boxed[2])


@pytest.mark.parametrize("stored", ["|S3", "<U2"])
def test_the_number_0_is_zero_bytes_in_zarr_v2(stored):
    data_type = parse_zarr2(stored)[0]
    fill = parse_fill_value_zarr2(0, data_type)
    assert fill.shape == () and fill.tobytes() == bytes(data_type.itemsize)


@pytest.mark.parametrize("value", [0, 1])
def test_booleans_may_be_numbers(value):
    """Of 0 and 1: other programs write them in both versions."""
    for parse in (parse_fill_value_zarr2, parse_fill_value_zarr3):
        assert parse(value, dtype("bool")).item() is bool(value)
        with pytest.raises(ValueError, match="Expected boolean"):
            parse(2, dtype("bool"))
