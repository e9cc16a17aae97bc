"""Values that the type of a copy can't hold, by each rule: what they become, or that there is no copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OutOfRangeError

INF, NAN = np.inf, np.nan
MAX32 = float(np.finfo("float32").max)
CASTS: list[tuple[Any, str, str, Any]] = [
    # values, type of the copy, rule, and what the copy has, or the error
    ([1.5, INF, NAN], "float32", "error", [1.5, INF, NAN]),
    ([1.5, 1e300], "float32", "error", "1 value doesn't fit float32, such as 1e"),
    ([65504, 65519.0], "float16", "error", [65504.0, 65504.0]),
    ([65504, 65520.0], "float16", "error", "1 value doesn't fit float16, such as 65520"),
    ([448.0, 463.0, NAN], "float8_e4m3fn", "error", [448.0, 448.0, NAN]),
    ([1.0, INF, -INF], "float8_e4m3fn", "error", "2 values don't fit float8_e4m3fn, such as inf"),
    ([1.0, INF, -INF], "float8_e4m3fn", "clamp", "2 values don't fit float8_e4m3fn, such as inf"),
    ([1.0, INF, 3.0], "float8_e4m3fn", "scale", "1 value doesn't fit float8_e4m3fn, such as inf"),
    ([1.0, 1e300, -1e300], "float8_e4m3fn", "clamp", [1.0, 448.0, -448.0]),
    ([1.0, NAN], "float4_e2m1fn", "clamp", "1 value doesn't fit float4_e2m1fn, such as nan"),
    ([1.0, 100.0], "float4_e2m1fn", "clamp", [1.0, 6.0]),
    ([1.0, 2.5], "int8", "error", "1 value doesn't fit int8, such as 2.5"),
    ([1.0, 300.0, -300.0, 2.5], "int8", "clamp", [1, 127, -128, 2]),
    ([1.0, 300.0, -300.0], "int8", "wrap", [1, 44, -44]),
    ([1.0, INF], "int8", "clamp", "1 value doesn't fit int8, such as inf"),
    ([1.0, NAN], "int8", "wrap", "1 value doesn't fit int8, such as nan"),
    ([1.0, NAN, 3.0], "float32", "scale", [0.0, NAN, 1.0]),
    ([1.0, 3.0], "uint8", "scale", [0, 255]),
    ([5.0, 5.0], "uint8", "scale", [0, 0]),
    ([NAN, NAN], "float32", "scale", [NAN, NAN]),
    ([NAN, NAN], "uint8", "scale", "2 values don't fit uint8, such as nan"),
    ([], "uint8", "scale", []),
    ([True, False], "uint8", "scale", [255, 0]),
    ([2**63 + 5, 1], "float16", "error", "1 value doesn't fit float16, such as 9223372036854775813"),
    # whole numbers are not rounded, other than fractions
    ([2**53 + 1, 1], "float64", "error", "1 value doesn't fit float64, such as 9007199254740993"),
    ([2**63 + 5, 1], "float64", "error", "1 value doesn't fit float64, such as 9223372036854775813"),
    ([2**63 - 1, -(2**63)], "float64", "error", "1 value doesn't fit float64, such as 9223372036854775807"),
    ([2**24 + 1], "float32", "error", "1 value doesn't fit float32, such as 16777217"),
    ([2**53, -(2**62), 2**24 + 2], "float32", "error", [2**53, -(2**62), 2**24 + 2]),
    ([2**24 + 1], "float32", "clamp", [2**24]),
    # the nearest value is no infinity
    ([1.0, 1e300, -1e300, INF], "float32", "clamp", [1.0, MAX32, -MAX32, INF]),
    ([2**63 + 5], "float16", "clamp", [65504]),
    ([-(2**62), 65504], "float16", "clamp", [-65504, 65504]),
    ([1e300, -1e300], "float8_e5m2", "clamp", [57344, -57344]),
    ([1.0], "float32", "wrap", 'cast "wrap" needs an integer type, not float32'),
    ([1.0], "float32", "round", "cast: expected one of error, clamp, wrap, scale, not 'round'"),
    ([1j], "complex64", "clamp", 'cast "clamp" is for real numbers, not for complex128 to complex64'),
]


@pytest.mark.parametrize(("values", "dtype", "rule", "expected"), CASTS, ids=lambda value: str(value)[:30])
def test_values_that_do_not_fit(tmp_path: Path, values: Any, dtype: str, rule: Any, expected: Any) -> None:
    """Either the copy has them as the rule says, or nothing is there."""
    source = np.array(values, "uint64" if 2**63 + 5 in values else None)
    cw.create_array(tmp_path / "a", data=source, chunks=2)
    if isinstance(expected, str):
        with pytest.raises(ChunkwiseError, match=expected) as e:
            cw.copy(tmp_path / "a", tmp_path / "b", dtype=dtype, cast=rule)
        assert isinstance(e.value, OutOfRangeError) == ("fit" in expected)
        assert not (tmp_path / "b").exists()
        return
    cw.copy(tmp_path / "a", tmp_path / "b", dtype=dtype, cast=rule)
    np.testing.assert_array_equal(cw.open_array(tmp_path / "b").read().result().astype(float), expected)


def test_times_out_of_range(tmp_path: Path) -> None:
    """NumPy wraps times around that a finer unit can't hold, and calls that safe."""
    times = np.array(["3000-01-01", "2020-01-01", "NaT"], "M8[s]")
    cw.create_array(tmp_path / "a", times)
    with pytest.raises(InvalidArgumentError, match="3000-01-01T00:00:00 is out of the range"):
        cw.cast(cw.open_array(tmp_path / "a"), "datetime64[ns]").read().result()
    with pytest.raises(OutOfRangeError, match="3000-01-01T00:00:00 is out of the range"):
        cw.copy(tmp_path / "a", tmp_path / "b", dtype="datetime64[ns]")
    assert not (tmp_path / "b").exists()
    cw.open_array(tmp_path / "a", "r+")[0] = times[1]
    cw.copy(tmp_path / "a", tmp_path / "b", dtype="datetime64[ns]")
    np.testing.assert_array_equal(cw.read(tmp_path / "b"), times[[1, 1, 2]])


@pytest.mark.parametrize(("format", "shards"), [("zarr3", None), ("zarr3", 2), ("zarr2", None)])
@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (np.array(["é", "b"], object), "string", ["é".encode(), b"b"]),
        (np.array(["é", "b"]), "ustring", ["é", "b"]),
        (np.array([b"a\xff", b"b"]), "string", [b"a\xff", b"b"]),
    ],
)
def test_text_as_bytes(
    tmp_path: Path, values: Any, dtype: str, expected: list[Any], format: str, shards: int | None
) -> None:
    """The codec of the elements is that of their new type; the others are kept."""
    cw.create_array(tmp_path / "a", values, format=format, chunks=1, shards=shards, codec="gzip:2")
    cw.copy(tmp_path / "a", tmp_path / "b", dtype=dtype)
    copy = cw.open_array(tmp_path / "b")
    assert copy.read().result().tolist() == expected
    assert "gzip" in str(copy.codec) and (copy.chunk_layout.write_chunk.shape == (shards or 1,))
