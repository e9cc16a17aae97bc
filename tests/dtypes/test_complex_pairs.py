"""The complex types of the registry of Zarr v3: names, elements as stored, and fill values."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.core.dtypes.conversion import Conversion, convertible
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.zarr3 import fill_value_to_zarr3, parse_fill_value_zarr3, parse_zarr3, to_zarr3
from chunkwise.errors import SpecError, UnsupportedError

PARTS = [
    *("bfloat16", "float16", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3"),
    *("float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]
BITS = {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}


@pytest.mark.parametrize(
    ("name", "same"), [("complex_float32", "complex64"), ("complex_float64", "complex128")]
)
def test_other_names_of_the_core_types(name, same, tmp_path):
    assert parse_zarr3(name) is parse_zarr3({"name": name}) is DataType(same)
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}
    metadata = {"data_type": name, "shape": [3], "fill_value": [1, "NaN"]}
    store = ts.open({**spec, "metadata": metadata}, create=True).result()
    store[1] = 2 - 3j
    document = json.loads((tmp_path / "zarr.json").read_text())
    assert document["data_type"] == name and document["fill_value"] == [1.0, "NaN"]
    again = ts.open(spec).result()
    assert again.dtype == same and again[1].read().result() == 2 - 3j


@pytest.mark.each_once
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("sharded", [False, True])
def test_an_array(part, endian, sharded, tmp_path):
    """Real part, then imaginary part, each in the byte order of the codec."""
    number = ts.dtype(part).numpy_dtype
    codec = {"name": "bytes", "configuration": {"endian": endian}}
    inner = {"chunk_shape": [2], "codecs": [codec]}
    codecs = [{"name": "sharding_indexed", "configuration": inner}] if sharded else [codec]
    metadata = {"data_type": f"complex_{part}", "shape": [8], "fill_value": [2.0, 1.0], "codecs": codecs}
    metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": [4]}}
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}
    store = ts.open({**spec, "metadata": metadata}, create=True).result()
    values = np.zeros(3, store.dtype.memory_dtype)
    values["real"], values["imag"] = [1, 2, 4], [0.5, 2, 1]
    store[1:4] = values
    store[6] = 4 + 2j
    again = ts.open(spec).result()
    expected = np.empty(8, values.dtype)
    expected["real"], expected["imag"] = [2, 1, 2, 4, 2, 2, 4, 2], [1, 0.5, 2, 1, 1, 1, 2, 1]
    assert again.read().result().tobytes() == expected.tobytes()
    assert again[::-2].read().result().tobytes() == expected[::-2].tobytes()
    document = json.loads((tmp_path / "zarr.json").read_text())
    assert document["data_type"] == f"complex_{part}"
    # Peers don't agree on the numbers of this type, so that its bits are written.
    assert document["fill_value"] == (["0x80", "0x7f"] if part == "float8_e8m0fnu" else [2.0, 1.0])
    if not sharded:
        pairs = np.stack([expected["real"], expected["imag"]], -1).view(f"u{number.itemsize}")
        stored = pairs.astype(pairs.dtype.newbyteorder(">" if endian == "big" else "<"))
        assert (tmp_path / "c/0").read_bytes() == stored[:4].tobytes()
    fresh = ts.open(again.spec(), context=ts.Context(), open=True).result()
    assert fresh.fill_value.tobytes() == expected[0].tobytes()


@pytest.mark.parametrize("part", PARTS)
@given(data=st.data())
def test_fill_values_survive_bit_by_bit(part, data):
    d = DataType(f"complex_{part}")
    assert to_zarr3(d) == f"complex_{part}" and parse_zarr3(to_zarr3(d)) is d
    size = d.itemsize // 2
    top = (1 << BITS.get(part, 8 * size)) - 1
    bits = np.array([data.draw(st.integers(0, top)) for _ in range(2)], f"u{size}")
    fill = bits.view(d.memory_dtype).reshape(())
    value = json.loads(json.dumps(fill_value_to_zarr3(fill, d), allow_nan=False))
    assert parse_fill_value_zarr3(value, d).tobytes() == fill.tobytes()


@pytest.mark.parametrize(
    "value", [1, [1], [1, 2, 3], ["x", 0], [True, 0], None, {"real": 1, "imag": 0}, "AAAA"]
)
def test_what_is_no_fill_value(value):
    with pytest.raises(SpecError):
        parse_fill_value_zarr3(value, DataType("complex_float16"))


@pytest.mark.parametrize(
    ("part", "bits"), [("float4_e2m1fn", 4), ("float6_e2m3fn", 6), ("float6_e3m2fn", 6), ("bfloat16", 16)]
)
def test_packed_bits(part, bits, tmp_path):
    metadata = {"data_type": f"complex_{part}", "shape": [5], "fill_value": [0, 0], "codecs": ["packbits"]}
    store = ts.open(
        {"driver": "zarr3", "kvstore": f"file://{tmp_path}/", "metadata": metadata}, create=True
    ).result()
    values = np.array([1 + 0.5j, 2, 1.5j, 4 - 1j, -2 - 2j])
    store[...] = values.tolist()
    found = store.read().result()
    assert (found["real"].astype(float) + 1j * found["imag"].astype(float) == values).all()
    raw = found.view(f"u{found.dtype.itemsize // 2}").tolist()
    packed = sum((number & ((1 << bits) - 1)) << (i * bits) for i, number in enumerate(raw))
    assert (tmp_path / "c/0").read_bytes() == packed.to_bytes(-(-10 * bits // 8), "little")


def test_what_users_write(tmp_path):
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}
    store = ts.open(spec, dtype="complex_bfloat16", shape=[4], create=True).result()
    store[0], store[1], store[2:] = 5, 1 - 2j, [1j, 2]
    found = store.read().result()
    assert found["real"].tolist() == [5, 1, 0, 2] and found["imag"].tolist() == [0, -2, 1, 0]
    assert found.dtype["real"] == np.dtype(ml_dtypes.bfloat16)
    with pytest.raises((TypeError, ValueError)):
        store[0] = "one"
    with pytest.raises(TypeError, match="safe"):
        store[...] = np.ones(4, np.complex64)
    store[3] = np.array(7, np.int8)
    assert store[3].read().result().tolist() == (7, 0)
    record = DataType([["real", "bfloat16"], ["imag", "bfloat16"]])
    assert convertible(record, store.dtype) is Conversion.IMPLICIT
    with pytest.raises(UnsupportedError, match="complex_bfloat16"):
        ts.open({**spec, "driver": "zarr"}, dtype="complex_bfloat16", shape=[4], create=True).result()


def test_a_record_with_small_floats_in_either_byte_order(tmp_path):
    """Types of ml_dtypes have no byte order in NumPy, but they do in a chunk."""
    d = np.dtype([("a", ml_dtypes.bfloat16), ("b", "i2"), ("c", [("d", ml_dtypes.bfloat16)])])
    values = np.zeros(3, d)
    values["a"], values["b"], values["c"]["d"] = [1, 2, 3], [4, 5, 6], [-1, 0.5, 8]
    codec = {"name": "bytes", "configuration": {"endian": "big"}}
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/", "metadata": {"codecs": [codec]}}
    store = ts.open(spec, dtype=d, shape=[3], create=True).result()
    store[...] = values
    assert store.read().result().tobytes() == values.tobytes()
    assert (tmp_path / "c/0").read_bytes() == values.view("u2").astype(">u2").tobytes()
