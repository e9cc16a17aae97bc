"""Fields of records by name: ``array["flux"]`` and ``open(..., field="flux")``, in every format."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw

FLAT = np.dtype([("name", "<U4"), ("n", ">i4"), ("flux", "<f4")])
NESTED = np.dtype([("n", "<i4"), ("at", "<f8", (2, 3))])
CASES = [("zarr1", FLAT), ("zarr1", NESTED), ("zarr2", FLAT), ("zarr2", NESTED), ("zarr3", FLAT)]


def records(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(3)
    out = np.zeros((5, 4), dtype)
    for name in dtype.names or ():
        of = out[name]
        numbers = rng.integers(0, 1000, of.shape)
        out[name] = numbers.astype(of.dtype)
    return out


@pytest.mark.parametrize(("format", "dtype"), CASES)
def test_a_field_is_what_numpy_selects(tmp_path: Path, format: str, dtype: np.dtype[Any]) -> None:
    values = records(dtype)
    place = tmp_path / "a"
    array = cw.create_array(place, values, chunks=[2, 3], format=format)
    for name in dtype.names or ():
        assert np.array_equal(array[name].read().result(), values[name])
        assert np.array_equal(cw.open(place, field=name).result().read().result(), values[name])
        view = array[1:4, ::2][name]
        assert np.array_equal(view.read().result(), values[1:4, ::2][name])
        chosen = array.oindex[[4, 0, 1], 2][name]
        assert np.array_equal(chosen.read().result(), values[[4, 0, 1], 2][name])
        assert np.array_equal(array.T[name][1].read().result(), values.swapaxes(0, 1)[name][1])
        values[name][1:3] = np.zeros((), values[name].dtype)
        array[1:3][name] = values[name][1:3]
        assert np.array_equal(array.read().result(), values)  # other fields are as they were
    with pytest.raises(IndexError, match='"nothing" is not a field: the fields are'):
        array["nothing"]
    with pytest.raises(IndexError, match='"nothing" is not a field'):
        cw.open(place, field="nothing").result()


@pytest.mark.parametrize("key", [("flux", 0), ["flux", "n"], ("flux", "n"), (0, "flux")])
def test_fields_are_chosen_alone(key: Any) -> None:
    """As h5py and NumPy have them, with an index or several at once."""
    array = cw.array(records(FLAT))
    for use in (lambda: array[key], lambda: operator.setitem(array, key, 1)):
        with pytest.raises(IndexError) as caught:
            use()
        assert "array[field][0:2]" in caught.value.__notes__[0]


def test_arrays_without_fields_say_so() -> None:
    array = cw.array(np.arange(6).reshape(2, 3))
    with pytest.raises(IndexError, match="Only integers") as caught:
        array["x"]
    assert "no fields" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "key", [-1, (0, -1), slice(-2, None), slice(None, -1), (slice(None), slice(-2, None))]
)
def test_indices_that_count_from_the_end_say_what_to_write(key: Any) -> None:
    array = cw.array(np.arange(6).reshape(2, 3))
    with pytest.raises(IndexError) as read:
        array[key]
    with pytest.raises(IndexError) as written:
        array[key] = 0
    for caught in (read, written):
        assert "array[array.shape[0] - 1]" in caught.value.__notes__[0]
    with pytest.raises(IndexError) as outside:
        array[7]
    assert not hasattr(outside.value, "__notes__")
    with pytest.raises(IndexError) as moved:
        array[1:][0]
    assert "view.translate_to[0]" in moved.value.__notes__[0]
