"""Fill values of options, schemas and specs: converted when, and to what, TensorStore does it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise

PLACE = {"driver": "zarr3", "kvstore": "memory://u/"}
VALUES: dict[str, Any] = {
    "-1": -1,
    "300": 300,
    "1.5": 1.5,
    "2.0": 2.0,
    "nan": float("nan"),
    "2**70": 2**70,
    "[1, 2]": [1, 2],
    "True": True,
    "float64": np.float64(3),
    "int64": np.int64(-1),
    "array": np.array(-1),
    "array of one": np.array([7]),
    "array of floats": np.array(1.5),
}


def _updated(ts: Any, spec: dict[str, Any], **options: Any) -> Any:
    made = ts.Spec(spec)
    made.update(**options)
    return made


def _opened(ts: Any, spec: dict[str, Any], value: Any, **options: Any) -> Any:
    return ts.open(spec, create=True, shape=[2], fill_value=value, **options).result().fill_value


def _twice(ts: Any, value: Any) -> Any:
    made = _updated(ts, {**PLACE, "dtype": "uint8"}, fill_value=value)
    made.update(fill_value=value)
    return made.fill_value


def _dtype_last(ts: Any, value: Any) -> Any:
    made = ts.Schema(fill_value=value)
    made.update(dtype=ts.uint8)
    return made.fill_value, made.to_json()


WAYS: dict[str, Any] = {
    "open with a data type": lambda ts, v: _opened(ts, PLACE, v, dtype=ts.uint8),
    "open a spec with one": lambda ts, v: _opened(ts, {**PLACE, "dtype": "uint8"}, v),
    "open metadata with one": lambda ts, v: _opened(ts, {**PLACE, "metadata": {"data_type": "uint8"}}, v),
    "open zarr": lambda ts, v: _opened(ts, {**PLACE, "driver": "zarr", "dtype": "int16"}, v),
    "open cast": lambda ts, v: _opened(
        ts, {"driver": "cast", "base": {**PLACE, "dtype": "int32"}, "dtype": "uint8"}, v
    ),
    "update with a data type": lambda ts, v: _updated(ts, PLACE, dtype=ts.uint8, fill_value=v).fill_value,
    "update a spec with one": lambda ts, v: (
        _updated(ts, {**PLACE, "dtype": "uint8"}, fill_value=v).fill_value
    ),
    "JSON of it": lambda ts, v: _updated(ts, {**PLACE, "dtype": "uint8"}, fill_value=v).to_json(),
    "the other members": lambda ts, v: [
        str(getattr(_updated(ts, {**PLACE, "dtype": "uint8"}, fill_value=v), name))
        for name in ("dtype", "rank")
    ],
    "twice": _twice,
    "float32": lambda ts, v: _opened(ts, {**PLACE, "dtype": "float32"}, v),
    "schema with a data type": lambda ts, v: ts.Schema(dtype=ts.uint8, fill_value=v).fill_value,
    "schema, data type last": _dtype_last,
    "schema of a schema": lambda ts, v: ts.Schema(schema=ts.Schema(dtype=ts.uint8), fill_value=v).fill_value,
    "spec with a schema": lambda ts, v: (
        _updated(ts, {**PLACE, "dtype": "uint8"}, schema=ts.Schema(fill_value=v)).fill_value
    ),
}


def _outcome(ts: Any, way: str, value: Any) -> Any:
    try:
        return repr(WAYS[way](ts, value))
    except (ValueError, OverflowError, TypeError) as e:
        return OverflowError if isinstance(e, OverflowError) else type(e).__mro__[-3]


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("way", WAYS)
def test_the_same_as_in_tensorstore(way: str, value: str) -> None:
    if (way, value) == ("twice", "nan"):  # which TensorStore takes for another value
        assert _outcome(chunkwise, way, VALUES[value]) == "array(nan)"
        return
    ours, theirs = (_outcome(ts, way, VALUES[value]) for ts in (chunkwise, tensorstore))
    assert ours == theirs


def test_what_is_out_of_range_is_named() -> None:
    with pytest.raises(chunkwise.errors.InvalidArgumentError, match=r"Invalid fill_value: .*-1 .*uint8"):
        chunkwise.open(PLACE, create=True, dtype="uint8", shape=[2], fill_value=-1)


def test_a_schema_without_a_rank_reversed() -> None:
    schema = chunkwise.Schema(dtype="int8")
    assert schema == schema.T
    assert chunkwise.Schema(dimension_units=["1 nm", None]).T.dimension_units == (
        None,
        chunkwise.Unit("1 nm"),
    )
