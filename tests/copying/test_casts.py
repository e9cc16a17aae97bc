"""Values that the type of a copy can't hold, by each rule: what they become, or that there is no copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.errors import ChunkwiseError, OutOfRangeError

INF, NAN = np.inf, np.nan
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
