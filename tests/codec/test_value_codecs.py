"""Codecs that change values: what they give, to the last bit."""

from __future__ import annotations

import ml_dtypes
import numcodecs
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.core.codec.bytes import PackBits
from chunkwise.core.codec.chain import parse_codec, parse_codecs, prepare_chain
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.codec.vlen import VlenArray
from chunkwise.core.codec.zarr2 import parse_zarr2
from chunkwise.errors import CodecError, DataCorruptionError, InvalidArgumentError
from chunkwise.testing.codec_contract import chunk_of, numbers

INF, NAN = float("inf"), float("nan")


def opened(name, configuration, dtype, fill=0):
    """Return encoder and decoder of an array to array codec, and the encoded chunk's description."""
    item = ChunkSpec((1,), np.dtype(dtype), np.array(fill).astype(dtype))
    codec = parse_codec({"name": name, "configuration": configuration}).bind(item)
    return codec.open_encoder(item), codec.open_decoder(item), codec.output(item)


# ---- bitround -------------------------------------------------------------------------------------------


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1), st.integers(0, 23))
def test_bitround_floats_as_numcodecs(values, keepbits):
    """Finite numbers round as in NumCodecs, which also rounds half to even, and knows 0 bits."""
    array = np.array(values, "f4")
    encode, _, _ = opened("numcodecs.bitround", {"keepbits": keepbits}, "f4")
    peer = numcodecs.BitRound(keepbits).encode(array)
    assert encode(array).tobytes() == np.asarray(peer).tobytes()


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1), st.integers(1, 40))
def test_bitround_integers(values, keepbits):
    """Integers keep their most significant bits: round half to even, by Python's integers."""

    def expected(x):
        drop = max(0, abs(x).bit_length() - keepbits)
        kept, tail = abs(x) >> drop, abs(x) & ((1 << drop) - 1)
        half = (1 << drop) >> 1
        up = drop > 0 and (tail > half or (tail == half and kept & 1))
        rounded = (kept + up) << drop
        return (rounded if rounded <= 2**31 - 1 else kept << drop) * (1 if x >= 0 else -1)

    encode, _, _ = opened("bitround", {"keepbits": keepbits}, "i4")
    found = encode(np.array(values, "i4")).tolist()
    lowest = -(2**31)
    assert [f for f, v in zip(found, values, strict=True) if v != lowest] == [
        expected(v) for v in values if v != lowest
    ]


@pytest.mark.parametrize("keepbits", range(1, 9))
def test_bitround_unsigned_integers(keepbits):
    """The highest bit is no sign."""
    values = np.arange(256, dtype="u1")
    codec = parse_codec({"name": "bitround", "configuration": {"keepbits": keepbits}}).bind(chunk_of(values))
    out = codec.open_encoder(chunk_of(values))(values)
    for value, found in zip(values.tolist(), out.tolist(), strict=True):
        unit = 1 << max(0, value.bit_length() - keepbits)
        expected = unit * round(value / unit)  # half to even
        assert found == expected or (expected == 256 and found in (0, 255, 256 - unit)), value


def test_bitround_keeps_what_is_not_finite():
    """Infinity and every NaN stay as they are, where NumCodecs makes -0.0 of one."""
    bits = np.array([0x7F800000, 0xFF800000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], "u4")
    encode, _, _ = opened("bitround", {"keepbits": 2}, "f4")
    assert encode(bits.view("f4")).view("u4").tolist() == bits.tolist()
    assert np.asarray(numcodecs.BitRound(2).encode(bits.view("f4"))).view("u4")[2] == 0x80000000


@pytest.mark.parametrize(("dtype", "keepbits"), [("f2", 11), ("f4", 24), ("f8", 53), (ml_dtypes.bfloat16, 8)])
def test_bitround_has_no_more_bits_than_the_type(dtype, keepbits):
    """More bits than the mantissa has are an error, as many are none."""
    with pytest.raises(CodecError, match=f"has {keepbits - 1} bits of mantissa"):
        opened("bitround", {"keepbits": keepbits}, dtype)
    encode, _, _ = opened("bitround", {"keepbits": keepbits - 1}, dtype)
    array = numbers(dtype, (9,))
    assert encode(array).tobytes() == array.tobytes()


# ---- scale_offset ---------------------------------------------------------------------------------------


def test_scale_offset_floats():
    """In the arithmetic of the data type."""
    encode, decode, _ = opened("scale_offset", {"offset": 5, "scale": 0.1}, "f4")
    x = np.array([1, 5, 7.5, INF, NAN], "f4")
    with np.errstate(invalid="ignore"):
        expected = (x - np.float32(5)) * np.float32(0.1)
    assert encode(x).tobytes() == expected.astype("f4").tobytes()
    assert encode(x).dtype == np.float32
    assert decode(expected).tobytes() == (expected / np.float32(0.1) + np.float32(5)).tobytes()


def test_scale_offset_integers_are_exact():
    """Nothing wraps around on the way, and decoding leaves no remainder."""
    encode, decode, out = opened("scale_offset", {"offset": 1000, "scale": 2}, "u2", fill=1000)
    assert encode(np.array([1000, 1255], "u2")).tolist() == [0, 510]
    assert decode(np.array([0, 510], "u2")).tolist() == [1000, 1255]
    assert out.fill_value == 0
    with pytest.raises(CodecError, match="-1, from the element 999, is outside the range of uint16"):
        encode(np.array([1000, 999], "u2"))
    with pytest.raises(CodecError, match="is outside the range of uint16"):
        encode(np.array([40000], "u2"))
    with pytest.raises(DataCorruptionError, match=r"not a multiple of the scale 2"):
        decode(np.array([3], "u2"))
    with pytest.raises(CodecError, match=r"fill value: .*-1000, from the element 0"):
        opened("scale_offset", {"offset": 1000}, "u2")
    encode, decode, _ = opened("scale_offset", {"offset": -(2**63), "scale": 1}, "i8", fill=-(2**63))
    assert encode(np.array([-(2**63), -1], "i8")).tolist() == [0, 2**63 - 1]
    assert decode(np.array([0, 2**63 - 1], "i8")).tolist() == [-(2**63), -1]


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1"])
@pytest.mark.parametrize("offset", [None, 0, 3])
@pytest.mark.parametrize("scale", [None, 1, 2])
def test_scale_offset_without_one_of_them(offset, scale, dtype):
    given = {"offset": offset, "scale": scale}
    configuration = {name: value for name, value in given.items() if value is not None}
    encode, decode, out = opened("scale_offset", configuration, dtype, fill=5)
    x = np.array([3, 7, 90], dtype)
    encoded = ((x - (offset or 0)) * (scale or 1)).astype(dtype)
    assert encode(x).tolist() == encoded.tolist()
    assert decode(encoded).tolist() == x.tolist()
    assert out.fill_value == (5 - (offset or 0)) * (scale or 1)
    codec = parse_codec({"name": "scale_offset", "configuration": configuration})
    assert codec.to_json("zarr3") == configuration


def test_scale_offset_wrong_scalars():
    """Scalars are fill values of the data type."""
    for configuration in (
        {"offset": 1.5},
        {"offset": "NaN"},
        {"offset": ""},
        {"scale": 70000},
        {"scale": [1]},
    ):
        with pytest.raises(InvalidArgumentError, match=f'member "{next(iter(configuration))}"'):
            opened("scale_offset", configuration, "u2")
    with pytest.raises(CodecError, match='"scale" must not be 0'):
        opened("scale_offset", {"scale": 0}, "f4")
    encode, _, _ = opened("scale_offset", {"offset": "0x3f800000"}, "f4", fill=1)
    assert encode(np.array([3], "f4")) == [2]


# ---- cast_value -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        (None, [0, 2, 2, -0, -2, -2, 1, -1]),
        ("nearest-even", [0, 2, 2, -0, -2, -2, 1, -1]),
        ("towards-zero", [0, 1, 2, 0, -1, -2, 0, 0]),
        ("towards-positive", [1, 2, 3, 0, -1, -2, 1, 0]),
        ("towards-negative", [0, 1, 2, -1, -2, -3, 0, -1]),
        ("nearest-away", [1, 2, 3, -1, -2, -3, 1, -1]),
    ],
)
def test_cast_value_rounding(rounding, expected):
    """The five modes, on halves of both signs and their neighbours."""
    configuration = {"data_type": "int8"} if rounding is None else {"data_type": "int8", "rounding": rounding}
    encode, decode, out = opened("cast_value", configuration, "f8")
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.75, -0.75])
    assert encode(x).tolist() == expected
    assert out.dtype == np.int8
    assert decode(encode(x)).dtype == np.float64
    below = np.array([0.49999999999999994])  # a half, less one unit: adding 0.5 and cutting off gives 1
    assert encode(below).tolist() == [1 if rounding == "towards-positive" else 0]


@pytest.mark.parametrize(
    ("dtype", "values", "rule", "expected"),
    [
        ("f8", [-1, 256, 1e300, -1e300, 255.4], "clamp", [0, 255, 255, 0, 255]),
        ("f8", [-1, 256, 600, 255.5], "wrap", [255, 0, 88, 0]),
        ("i8", [-1, 256, 2**62, 7], "clamp", [0, 255, 255, 7]),
        ("i8", [-1, 256, 2**62 + 3, 7], "wrap", [255, 0, 3, 7]),
        ("u8", [2**64 - 1, 300], "clamp", [255, 255]),
        ("u8", [2**64 - 1, 300], "wrap", [255, 44]),
    ],
)
def test_cast_value_out_of_range(dtype, values, rule, expected):
    """Clamped, wrapped around, or an error."""
    encode, _, _ = opened("cast_value", {"data_type": "uint8", "out_of_range": rule}, dtype)
    assert encode(np.array(values, dtype)).tolist() == expected
    encode, _, _ = opened("cast_value", {"data_type": "uint8"}, dtype)
    with pytest.raises(CodecError, match="is outside the range of uint8"):
        encode(np.array(values, dtype))


@pytest.mark.parametrize("rule", [None, "clamp", "wrap"])
@pytest.mark.parametrize("target", ["uint8", "int64", "int4", "float8_e4m3fn", "float4_e2m1fn"])
@pytest.mark.parametrize("value", [INF, -INF])
def test_cast_value_where_there_is_no_infinity(rule, target, value):
    """Infinity is no value out of range: only the scalar map gives it a place."""
    if rule == "wrap" and target.startswith("float"):
        rule = "clamp"
    configuration = {"data_type": target} | ({} if rule is None else {"out_of_range": rule})
    encode, _, _ = opened("cast_value", configuration, "f8")
    with pytest.raises(CodecError, match=f"infinity has no value in {target}"):
        encode(np.array([1, value]))
    mapped = [["+Infinity", 1], ["-Infinity", 1]]  # the sign as in the registry's example
    encode, _, _ = opened("cast_value", {**configuration, "scalar_map": {"encode": mapped}}, "f8")
    assert encode(np.array([value])).astype("f4").tolist() == [1]


@pytest.mark.parametrize("rounding", ["nearest-even", "towards-zero", "towards-positive", "towards-negative"])
@pytest.mark.parametrize("target", ["float32", "float16", "bfloat16"])
def test_cast_value_at_the_end_of_the_floats(rounding, target):
    """A value is rounded first; what then has no finite equal is infinite if clamped, or else an error."""
    info = ml_dtypes.finfo(target)
    top, unit = float(info.max), float(info.max) - float(np.nextafter(info.max, info.dtype.type(0)))
    up = rounding in ("nearest-even", "towards-positive"), rounding in ("nearest-even", "towards-negative")
    values = np.array([top, -top, top + 0.75 * unit, -top - 0.75 * unit, top + unit, 1e300, -1e300])
    expected = [top, -top, INF if up[0] else top, -INF if up[1] else -top, INF, INF, -INF]
    configuration = {"data_type": target, "rounding": rounding}
    encode, _, _ = opened("cast_value", {**configuration, "out_of_range": "clamp"}, "f8")
    assert encode(values).astype("f8").tolist() == expected
    encode, _, _ = opened("cast_value", configuration, "f8")
    for value, result in zip(values, expected, strict=True):
        if np.isfinite(result):
            assert encode(np.array([value])).astype("f8").tolist() == [result]
        else:
            with pytest.raises(CodecError, match="outside the range"):
                encode(np.array([value]))


@pytest.mark.parametrize(
    ("configuration", "dtype", "fill", "text"),
    [
        ({"data_type": "uint8"}, "f4", 256, r"Fill value 256.*outside the range of uint8"),
        ({"data_type": "uint8"}, "f4", NAN, r"Fill value nan.*NaN has no value in uint8"),
    ],
)
def test_cast_value_refuses_fill_values_that_have_no_value(configuration, dtype, fill, text):
    with pytest.raises(CodecError, match=text):
        opened("cast_value", configuration, dtype, fill=fill)


@pytest.mark.parametrize(
    ("configuration", "dtype", "fill", "encoded"),
    [
        ({"data_type": "uint8", "out_of_range": "clamp"}, "f4", 256, 255),
        ({"data_type": "int8"}, "f8", 0.5, 0),
        ({"data_type": "float32"}, "f8", 0.1, np.float32(0.1)),
        ({"data_type": "uint8", "scalar_map": {"encode": [["NaN", 7]]}}, "f4", NAN, 7),
    ],
)
def test_cast_value_takes_fill_values_that_casting_changes(configuration, dtype, fill, encoded):
    """zarr-python 3.4 makes such arrays, so they are opened."""
    _, _, item = opened("cast_value", configuration, dtype, fill=fill)
    assert item.fill_value == encoded


def test_cast_value_at_the_edges_of_64_bits():
    """Bounds that no float has exactly."""
    encode, _, _ = opened("cast_value", {"data_type": "uint64"}, "f8")
    assert encode(np.array([2.0**64 - 2048, 2.0**63])).tolist() == [2**64 - 2048, 2**63]
    with pytest.raises(CodecError, match="outside"):
        encode(np.array([2.0**64]))
    encode, _, _ = opened("cast_value", {"data_type": "int64", "out_of_range": "clamp"}, "f8")
    assert encode(np.array([2.0**63, -(2.0**63), -1e300])).tolist() == [2**63 - 1, -(2**63), -(2**63)]
    encode, _, _ = opened("cast_value", {"data_type": "int64", "out_of_range": "clamp"}, "u8")
    assert encode(np.array([2**64 - 1, 2**63 - 1], "u8")).tolist() == [2**63 - 1, 2**63 - 1]
    encode, _, _ = opened("cast_value", {"data_type": "uint64", "out_of_range": "wrap"}, "i8")
    assert encode(np.array([-1], "i8")).tolist() == [2**64 - 1]


def test_cast_value_small_types():
    """Types of ml_dtypes, to and from."""
    encode, decode, _ = opened("cast_value", {"data_type": "int4", "out_of_range": "clamp"}, "f4")
    assert encode(np.array([-9, -8, 7, 8, 0.5], "f4")).astype(int).tolist() == [-8, -8, 7, 7, 0]
    assert decode(np.array([-8, 7]).astype(ml_dtypes.int4)).tolist() == [-8, 7]
    encode, _, _ = opened("cast_value", {"data_type": "int4", "out_of_range": "wrap"}, "i4")
    assert encode(np.array([-9, 8, 17])).astype(int).tolist() == [7, -8, 1]
    encode, _, _ = opened("cast_value", {"data_type": "float8_e4m3fn", "out_of_range": "clamp"}, "f4")
    assert encode(np.array([1000, -1000, 448, 1.06], "f4")).astype("f4").tolist() == [448, -448, 448, 1.0]
    encode, _, _ = opened("cast_value", {"data_type": "float8_e4m3fn"}, "f4")
    with pytest.raises(CodecError, match="outside the range of float8_e4m3fn"):
        encode(np.array([1000], "f4"))
    encode, _, _ = opened("cast_value", {"data_type": "bfloat16"}, "i4")
    assert encode(np.array([257, 3])).astype("f4").tolist() == [256, 3]


def test_cast_value_floats():
    """Overflow is out of range; what rounds to the greatest value is not; directed rounding is exact."""
    encode, _, _ = opened("cast_value", {"data_type": "float32"}, "f8")
    assert (
        encode(np.array([3.4028235e38, INF, NAN, 0.1])).tobytes()
        == np.array([3.4028235e38, INF, NAN, 0.1], "f4").tobytes()
    )
    with pytest.raises(CodecError, match=r"1e\+39 is outside the range of float32"):
        encode(np.array([1e39]))
    encode, _, _ = opened("cast_value", {"data_type": "float32", "out_of_range": "clamp"}, "f8")
    assert encode(np.array([1e39, -1e39])).tolist() == [INF, -INF]
    x = np.array([0.1, -0.1, 0.3, 1.0])
    for rounding, holds in (
        ("towards-positive", lambda y: (y >= x).all()),
        ("towards-negative", lambda y: (y <= x).all()),
        ("towards-zero", lambda y: (abs(y) <= abs(x)).all()),
        ("nearest-away", lambda y: (y == x.astype("f4")).all()),
    ):
        encode, _, _ = opened("cast_value", {"data_type": "float32", "rounding": rounding}, "f8")
        y = encode(x).astype("f8")
        assert holds(y) and (abs(y - x) < 3e-8).all() and y[3] == 1
    for rounding, expected in (("nearest-even", [1, 1 + 2**-9]), ("nearest-away", [1 + 2**-10, 1 + 2**-9])):
        encode, _, _ = opened("cast_value", {"data_type": "float16", "rounding": rounding}, "f8")
        halves = np.array([1 + 2**-11, 1 + 3 * 2**-11])  # between two numbers of float16
        assert encode(halves).tolist() == expected
        assert encode(-halves).tolist() == [-v for v in expected]
    encode, _, _ = opened("cast_value", {"data_type": "bfloat16", "rounding": "towards-negative"}, "f4")
    assert encode(np.array([257, -257, 4], "f4")).astype("f4").tolist() == [256, -258, 4]
    encode, _, _ = opened("cast_value", {"data_type": "float64", "rounding": "nearest-away"}, "i8")
    assert encode(np.array([2**53 + 1, 2**53 + 3])).tolist() == [2.0**53 + 2, 2.0**53 + 4]
    encode, _, _ = opened("cast_value", {"data_type": "float64", "rounding": "towards-zero"}, "i8")
    assert encode(np.array([2**53 + 1, -(2**53) - 1, 2**63 - 1])).tolist() == [
        2.0**53,
        -(2.0**53),
        2.0**63 - 1024,
    ]


def test_cast_value_scalar_map():
    """Mapped values are neither rounded nor out of range; the first pair that fits is taken."""
    configuration = {
        "data_type": "uint8",
        "scalar_map": {
            "encode": [["NaN", 255], [-9999, 254], [-9999, 1]],
            "decode": [[255, "NaN"], [254, -9999]],
        },
    }
    encode, decode, out = opened("cast_value", configuration, "f4", fill=NAN)
    assert out.fill_value == 255
    x = np.array([[1, NAN], [-9999, 2.5]], "f4")
    assert encode(x).tolist() == [[1, 255], [254, 2]]
    assert decode(np.array([1, 255, 254], "u1")).tolist()[::2] == [1, -9999]
    assert np.isnan(decode(np.array([255], "u1")))
    with pytest.raises(CodecError, match='NaN has no value in uint8; "scalar_map" can give it one'):
        opened("cast_value", {"data_type": "uint8"}, "f4")[0](x)
    with pytest.raises(InvalidArgumentError, match='"scalar_map" encode'):
        opened("cast_value", {"data_type": "uint8", "scalar_map": {"encode": [[0, 256]]}}, "f4")


def test_cast_value_refuses():
    """Types that are no real numbers, and wrapping of floating-point numbers."""
    with pytest.raises(CodecError, match="supports real numbers only, but the data type is complex64"):
        opened("cast_value", {"data_type": "uint8"}, "c8")
    with pytest.raises(CodecError, match='"wrap" needs an integer "data_type"'):
        opened("cast_value", {"data_type": "float32", "out_of_range": "wrap"}, "f8")
    with pytest.raises(InvalidArgumentError, match=r'member "out_of_range": .*but received: "error"'):
        parse_codec({"name": "cast_value", "configuration": {"data_type": "uint8", "out_of_range": "error"}})
    for value in ("bool", "complex64", "string", "foo", 3):
        with pytest.raises(InvalidArgumentError, match='member "data_type"'):
            parse_codec({"name": "cast_value", "configuration": {"data_type": value}})


def test_scale_offset_and_cast_value_replace_fixedscaleoffset():
    """The pair gives the bytes of the filter that it supersedes."""
    array = numbers("i1", (6, 4)).astype("f8") / 8
    pair = [
        {"name": "scale_offset", "configuration": {"offset": 2, "scale": 8}},
        {"name": "cast_value", "configuration": {"data_type": "int16"}},
        {"name": "bytes", "configuration": {"endian": "little"}},
    ]
    old = [
        {"name": "numcodecs.fixedscaleoffset",
         "configuration": {"offset": 2, "scale": 8, "dtype": "<f8", "astype": "<i2"}},
        {"name": "bytes", "configuration": {"endian": "little"}},
    ]  # fmt: skip
    a, b = (bytes(prepare_chain(parse_codecs(c), chunk_of(array)).open_encoder()(array)) for c in (pair, old))
    assert a == b == ((array - 2) * 8).astype("<i2").tobytes()


BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
PAIRS = [
    (np.dtype("c8"), np.dtype("f4")),
    (np.dtype([("real", BFLOAT16), ("imag", BFLOAT16)]), BFLOAT16),
]


@pytest.mark.parametrize("bits", [(None, None), (8, None), (3, 14), (None, 0)], ids=str)
@pytest.mark.parametrize(("pair", "part"), PAIRS, ids=["complex64", "bfloat16"])
def test_bits_of_complex_numbers_are_those_of_their_parts(pair, part, bits):
    parts = np.array([1, -2, 0.5, 3, -7, 0], part)
    codec = PackBits(None, *bits)
    chains = [
        prepare_chain((codec,), ChunkSpec(array.shape, array.dtype, np.zeros((), array.dtype)))
        for array in (parts, parts.view(pair))
    ]
    of_parts = bytes(chains[0].open_encoder()(parts))
    assert bytes(chains[1].open_encoder()(parts.view(pair))) == of_parts
    out = [np.empty_like(parts), np.empty_like(parts.view(pair))]
    for chain, array in zip(chains, out, strict=True):
        chain.open_decoder()(of_parts, array)
    assert out[0].tobytes() == out[1].tobytes()


# ---- vlen-array -----------------------------------------------------------------------------------------


def test_vlen_array_stores_what_has_no_array_as_an_empty_one():
    values = np.empty(6, object)
    values[:] = [np.array([1, 2]), None, 0, [3], [], False]
    item = ChunkSpec((6,), np.dtype(object), np.array(None, object))
    codec = VlenArray("<i2")
    out = np.empty(6, object)
    codec.open_decoder(item)(codec.open_encoder(item)(values), out)
    assert [part.tolist() for part in out] == [[1, 2], [], [], [3], [], []]
    for value in (5, True, "", [1.5], [[1]], [40000]):
        values[1] = value
        with pytest.raises(CodecError, match="vlen-array"):
            codec.open_encoder(item)(values)
    with pytest.raises(CodecError, match="vlen-array"):
        codec.bind(ChunkSpec((6,), np.dtype("i2"), np.zeros((), "i2")))


def test_vlen_array_rounds_floats_and_changes_nothing_else():
    item = ChunkSpec((2,), np.dtype(object), np.array(None, object))
    codec, values, out = VlenArray("<f4"), np.empty(2, object), np.empty(2, object)
    for floats in ([0.1], [0.1, 0.2], [3]):
        values[:] = [floats, []]
        codec.open_decoder(item)(codec.open_encoder(item)(values), out)
        assert out[0].tolist() == np.float32(floats).tolist() and out[1].size == 0
    for wrong in ([1j], ["1.5"], [b"1"]):
        values[0] = wrong
        with pytest.raises(CodecError, match="vlen-array"):
            codec.open_encoder(item)(values)


@pytest.mark.parametrize("name", ["vlen-utf8", "vlen-bytes"])
def test_vlen_stores_what_is_missing_as_nothing_and_refuses_other_elements(name):
    """Zero is NumPy's element of an array of objects that was never set."""
    item = ChunkSpec((4,), np.dtype("O"), np.zeros((), "O"))
    chain = prepare_chain(parse_zarr2(None, [{"id": name}], np.dtype("O"), "C"), item)
    full, empty = ("é", "") if name == "vlen-utf8" else (b"\xff", b"")
    out = np.empty(4, "O")
    chain.open_decoder()(chain.open_encoder()(np.array([full, None, 0, np.int8(0)], "O")), out)
    assert out.tolist() == [full, empty, empty, empty]
    for value in (1, np.int64(-1), True, 0.0, [], "x" if full == b"\xff" else b"x"):
        values = np.empty(4, "O")
        values[:] = full
        values[2] = value
        with pytest.raises(CodecError, match=f'"{name}" codec encodes .*, but received: '):
            chain.open_encoder()(values)
