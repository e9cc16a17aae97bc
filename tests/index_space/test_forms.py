"""Pickles, texts and JSON of index transforms and expressions, beside TensorStore's."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise as cw


def _both(make: Any) -> list[Any]:
    out = []
    for library in (tensorstore, cw):
        try:
            out.append(make(library))
        except ValueError as error:
            out.append(str(error).replace("Error parsing index transform from JSON: ", ""))
    return out


@pytest.mark.parametrize(
    "key",
    [True, False, slice(True, True), slice(True, None), slice(None, False), slice(True, False)],
    ids=repr,
)
def test_text_of_implicit_bounds(key: Any) -> None:
    theirs, ours = _both(lambda library: repr(library.d[0].mark_bounds_implicit[key]))
    assert ours == theirs


@pytest.mark.parametrize("array", [[], [[]], [[1, 2]], [[[3]], [[4]]], [5], [5, 6]], ids=repr)
@pytest.mark.parametrize("shape", [[2], [0], [1, 2], [2, 1, 1], [1, 0]], ids=repr)
def test_json_of_an_index_array(array: Any, shape: list[int]) -> None:
    def make(library: Any) -> Any:
        json = {
            "input_shape": shape,
            "input_inclusive_min": [0] * len(shape),
            "output": [{"index_array": array}],
        }
        transform = library.IndexTransform(json=json)
        return transform.to_json()

    theirs, ours = _both(make)
    assert type(ours) is type(theirs)
    assert ours == theirs or isinstance(ours, str)


@pytest.mark.parametrize("index", [[1, 3], [[0], [2]], [True, False, True, False]], ids=repr)
def test_a_pickle_keeps_index_arrays(index: Any) -> None:
    transform = cw.IndexTransform(input_shape=[4, 6])[np.array(index)]
    again = pickle.loads(pickle.dumps(transform))
    assert again == transform
    assert np.array_equal(again.output[0].index_array, transform.output[0].index_array)
    assert again.output[1] == transform.output[1]
    with pytest.raises(ValueError, match="read-only"):
        again.output[0].index_array[...] = 0
