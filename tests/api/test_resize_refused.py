"""Arrays that have no size of their own to change: the refusal is TensorStore's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise

ARRAYS: dict[str, Any] = {
    "array": lambda m, a: a,
    "view": lambda m, a: a[1:3],
    "cast": lambda m, a: m.cast(a, m.int32),
    "concat": lambda m, a: m.concat([a, a], axis=0),
}


@pytest.mark.parametrize("make", ARRAYS)
@pytest.mark.parametrize("bounds", [[8, 4], [2, 4], [None, None]], ids=["grow", "shrink", "nothing"])
def test_an_array_in_memory_is_not_resized(make: str, bounds: Any) -> None:
    said = []
    for module in (chunkwise, tensorstore):
        store = ARRAYS[make](module, module.array(np.arange(16.0).reshape(4, 4)))
        with pytest.raises(NotImplementedError) as raised:
            store.resize(exclusive_max=bounds).result()
        said.append(str(raised.value))
        with pytest.raises(ValueError, match="must have rank 2"):
            store.resize(exclusive_max=bounds[:1]).result()
    assert said[0] == said[1]


def test_the_lower_bounds_of_a_stored_array_are_explicit_the_upper_ones_not() -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    store = chunkwise.open(spec, create=True, dtype="uint8", shape=[4]).result()
    with pytest.raises(ValueError, match="explicit lower bound"):
        store.resize(inclusive_min=[1]).result()
    assert store.resize(exclusive_max=[9]).result().shape == (9,)


def test_a_size_of_one_dimension_is_told_where_it_belongs() -> None:
    """As in h5py and zarr-python: ``resize(20)``, ``resize((20,))``."""
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    store = chunkwise.open(spec, create=True, dtype="uint8", shape=[4]).result()
    for call in (lambda: store.resize(20), lambda: store.resize(exclusive_max=np.int64(20))):
        with pytest.raises(TypeError, match=r"exclusive_max=\[20\]"):
            call()
    with pytest.raises(ValueError, match="explicit lower bound") as raised:
        store.resize((20,))
    assert "exclusive_max=" in "".join(raised.value.__notes__)
    assert store.resize(exclusive_max=[20]).result().shape == (20,)
