"""Pickles, texts and JSON of index transforms and expressions, beside TensorStore's."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise as cw
from chunkwise.core.index_space.bounds import check_unread
from chunkwise.errors import OutOfRangeError


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


@pytest.mark.parametrize("key", [slice(1, None), slice(None, 5, 2), slice(None, None, -1), (slice(2, 3),), 4])
def test_text_of_slices(key: Any) -> None:
    theirs, ours = _both(lambda library: repr(library.d[0, 1][key]))
    assert ours == theirs


@pytest.mark.parametrize("first", [(0, 5, True, False), (2, 9, False, True), (3, 3, True, True)])
@pytest.mark.parametrize("second", [(0, 9, False, False), (2, 5, True, True), (-1, 12, True, False)])
def test_hulls_of_dimensions_with_implicit_bounds(first: Any, second: Any) -> None:
    def make(library: Any) -> str:
        a, b = (
            library.Dim(inclusive_min=lo, exclusive_max=hi, implicit_lower=below, implicit_upper=above)
            for lo, hi, below, above in (first, second)
        )
        return f"{a.hull(b)} {b.hull(a)} {a.intersect(b)}"

    theirs, ours = _both(make)
    assert ours == theirs


def test_an_integer_along_an_index_array_with_another_origin() -> None:
    def make(library: Any) -> Any:
        array = library.OutputIndexMap(index_array=[[1, 2], [3, 4], [5, 6]])
        transform = library.IndexTransform(input_inclusive_min=[5, 0], input_shape=[3, 2], output=[array])
        return transform[6].to_json()

    theirs, ours = _both(make)
    assert ours == theirs


def test_what_is_no_output_map_is_named() -> None:
    with pytest.raises(TypeError, match="output must be a sequence of OutputIndexMap, found 3"):
        cw.IndexTransform(input_rank=1, output=[3])  # type: ignore[list-item]


def test_a_view_without_elements_is_outside_where_another_dimension_ends() -> None:
    storage = cw.IndexDomain(shape=[4, 4])
    within = cw.IndexTransform(input_inclusive_min=[0, 2], input_shape=[0, 2])
    check_unread(within, storage)
    with pytest.raises(OutOfRangeError, match="Index 4 is outside"):
        check_unread(cw.IndexTransform(input_inclusive_min=[0, 2], input_shape=[0, 3]), storage)


@pytest.mark.parametrize("amount", [2**63, [0, -(2**63) - 1]])
def test_amounts_of_more_than_64_bits_are_named(amount: Any) -> None:
    with pytest.raises(TypeError, match=r"^-?9223372036854775\d+ does not fit 64 bits$"):
        cw.d[0, 1].translate_by[amount]


@pytest.mark.parametrize("amounts", ["", "1", 1.5, [1.5], ["1"], int], ids=repr)
@pytest.mark.parametrize("operation", ["translate_to", "translate_by", "translate_backward_by", "stride"])
def test_amounts_that_are_no_integers_are_refused_as_by_tensorstore(operation: str, amounts: Any) -> None:
    """A text isn't a sequence of amounts, even one without characters."""
    for library in (tensorstore, cw):
        with pytest.raises(TypeError):
            getattr(library.d[0], operation)[amounts]


@pytest.mark.parametrize("lower", [None, -2, 0])
@pytest.mark.parametrize("upper", [None, -1, 0, 3])
def test_a_domain_as_slices_is_tensorstores(lower: int | None, upper: int | None) -> None:
    """With bounds at 0, without bounds, and with none that an array can have."""

    def make(library: Any) -> Any:
        return library.IndexDomain([library.Dim(inclusive_min=lower, exclusive_max=upper)]).index_exp

    theirs, ours = _both(make)
    assert ours == theirs or (isinstance(ours, str) and isinstance(theirs, str))
