"""Pickles, texts and JSON of index transforms and expressions, beside TensorStore's."""

from __future__ import annotations

import copy
import pickle
import re
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
        except (ValueError, IndexError) as error:
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


@pytest.mark.parametrize(
    "key", [slice(1, None), slice(None, 5, 2), slice(None, None, -1), slice(0, 2, 1), (slice(2, 3),), 4]
)
def test_text_of_slices(key: Any) -> None:
    theirs, ours = _both(lambda library: repr(library.d[0, 1][key]))
    assert ours == theirs


BOUNDS = [None, -4, -2, -1, 0, 1, 2]


@pytest.mark.parametrize("step", [None, 1, 2, -1, -2])
def test_slices_of_new_dimensions(step: int | None) -> None:
    """Slices that count from one end; another would depend on a rank that is not known yet."""
    made = 0
    for start in BOUNDS:
        for stop in BOUNDS:
            if (
                start == stop is not None
            ):  # nothing is new; TensorStore asks whether there is such a dimension
                continue

            def make(library: Any, key: slice = slice(start, stop, step)) -> Any:
                transform = library.IndexTransform(input_shape=[5, 6, 7])
                return transform[library.d[key][library.newaxis]].to_json()

            theirs, ours = _both(make)
            assert ours == theirs, (start, stop)
            made += not isinstance(ours, str)
    assert made > 5


@pytest.mark.parametrize("key", [slice(0, 33), slice(0, 10**12), (slice(0, 20), slice(20, 40)), range(33)])
def test_too_many_new_dimensions(key: Any) -> None:
    with pytest.raises(IndexError, match=r"(Rank|Number of new dimensions) .*\b32\b"):
        cw.IndexTransform(input_shape=[5])[cw.d[tuple(key) if isinstance(key, range) else key][cw.newaxis]]


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
    array = cw.OutputIndexMap(index_array=np.full((1, 1), 9))
    domain = cw.IndexDomain(inclusive_min=[0, 2], shape=[0, 3])
    check_unread(cw.IndexTransform(domain, [array, cw.OutputIndexMap(0, offset=0)]), storage)


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


REFUSED: dict[str, tuple[Any, str]] = {
    "Dim: label": (lambda ts: ts.Dim(3, "x", label="y"), "Dim: label given twice"),
    "Dim: bounds": (lambda ts: ts.Dim(1, 3, inclusive_min=0), "Dim: bounds given twice"),
    "Dim: size": (lambda ts: ts.Dim(3, size=4), "Dim: size given twice"),
    "Dim: lower": (lambda ts: ts.Dim(3, inclusive_min=4, exclusive_max=9), "Dim: inclusive_min given twice"),
    "domain: two": (
        lambda ts: ts.IndexDomain([ts.Dim(3)], dimensions=[ts.Dim(4)]),
        "IndexDomain: dimensions can't be combined with other arguments",
    ),
    "domain: rank": (
        lambda ts: ts.IndexDomain(1, dimensions=[ts.Dim(4)]),
        "IndexDomain: dimensions can't be combined with other arguments",
    ),
    "domain: labels": (
        lambda ts: ts.IndexDomain([ts.Dim(4)], labels=["x"]),
        "IndexDomain: a sequence of Dim can't be combined with other arguments",
    ),
    "map: many": (
        lambda ts: ts.OutputIndexMap(0, 1, 1, ts.Dim(), 3),
        "OutputIndexMap takes at most 4 positional arguments, not 5",
    ),
    "map: offset": (lambda ts: ts.OutputIndexMap(0, 1, offset=3), "OutputIndexMap: offset given twice"),
    "map: sources": (
        lambda ts: ts.OutputIndexMap(input_dimension=0, index_array=[1]),
        "OutputIndexMap: only one of input_dimension and index_array can be given",
    ),
    "transform: domains": (
        lambda ts: ts.IndexTransform(ts.IndexDomain(2), domain=ts.IndexDomain(2)),
        "IndexTransform: domain given twice",
    ),
    "transform: json": (
        lambda ts: ts.IndexTransform(json={"input_rank": 2}, input_rank=2),
        "IndexTransform: json can't be combined with other arguments",
    ),
    "transform: bounds": (
        lambda ts: ts.IndexTransform(domain=ts.IndexDomain(2), input_shape=[2, 3]),
        "IndexTransform: a domain can't be combined with other bounds",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_said_twice_is_refused_as_by_tensorstore(case: str) -> None:
    make, text = REFUSED[case]
    for library, match in ((tensorstore, "incompatible"), (cw, f"^{text}$")):
        with pytest.raises(TypeError, match=match):
            make(library)


def _offset(offset: int, stride: int = 1) -> Any:
    """Make a key that leads out of what 64-bit integers can address."""

    def key(ts: Any) -> Any:
        return ts.IndexTransform(
            input_rank=1, output=[ts.OutputIndexMap(offset=offset, stride=stride, input_dimension=0)]
        )

    return key


EDGES: dict[str, tuple[Any, Any]] = {
    "above": ([-(2**61)], _offset(2**62 - 2)),
    "far above": ([-(2**61)], _offset(2**62 + 2**61)),
    "below": ([2**61], _offset(-(2**62) + 2)),
    "largest stride": ([2**61], _offset(0, -(2**63))),
    "stride": ([0], lambda ts: ts.d[0].stride[-(2**63)]),
    "translated above": ([0], lambda ts: ts.d[0].translate_to[2**62]),
    "translated below": ([0], lambda ts: ts.d[0].translate_to[-(2**62)]),
    "nearly": ([0], lambda ts: ts.d[0].translate_to[2**62 - 8]),
    "index array": ([0] * 32, lambda ts: [[0]]),
    "empty slice": ([0, 0], lambda ts: ts.IndexDomain(inclusive_min=[1, 2], shape=[2, 0])),
    "True": ([0, 0], lambda ts: ts.d[1][True, 2]),
    "True and an index array": ([0, 0], lambda ts: ts.d[1][True, [1, 2]]),
    "two index arrays": ([0, 0], lambda ts: ts.d[1, 0][True, [1, 2], [0, 1]]),
    "False": ([0, 0], lambda ts: ts.d[0, 1][2:4, False, [1]]),
    "no range": ([0] * 4, lambda ts: ts.d[3:1].label["a"]),
    "no range down": ([0] * 4, lambda ts: ts.d[1:3:-1].label["a"]),
}


@pytest.mark.parametrize("case", EDGES)
def test_rare_keys_are_tensorstores(case: str) -> None:
    origin, key = EDGES[case]

    def make(library: Any) -> Any:
        transform = library.IndexTransform(input_inclusive_min=origin, input_shape=[5] * len(origin))
        if case == "empty slice":  # of an index array
            transform = transform[[1, 2, 3]]
        return transform[key(library)].to_json()

    theirs, ours = _both(make)
    if isinstance(theirs, str):  # TensorStore adds the transforms
        theirs = re.split(r" \[(domain|transform)=", theirs)[0].removeprefix("OUT_OF_RANGE: ")
        ours = ours.removeprefix("OUT_OF_RANGE: ")
    assert ours == theirs


def test_none_as_stride_changes_nothing() -> None:
    transform = cw.IndexTransform(input_shape=[5, 6])
    assert transform[cw.d[0, 1].stride[None, 2]] == transform[cw.d[1].stride[2]]


def test_ranks_above_32_are_refused() -> None:
    for make in (
        lambda: cw.IndexDomain([cw.Dim(4)] * 33),
        lambda: cw.IndexTransform(json={"input_rank": 1, "output": [{"offset": 1}] * 33}),
    ):
        with pytest.raises(ValueError, match=r"Invalid rank: 33|Rank 33 is outside valid range \[0, 32\]"):
            make()


@pytest.mark.parametrize("array", [[[1, 2], 3], [1, [2]], [[1, 2], [3]]], ids=repr)
def test_ragged_index_arrays_are_refused(array: Any) -> None:
    for library in (tensorstore, cw):
        with pytest.raises(ValueError, match=r'member "index_array": .* at position \{1\}'):
            library.IndexTransform(json={"input_shape": [2, 2], "output": [{"index_array": array}]})


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_and_pickles(again: Any) -> None:
    transform = cw.IndexTransform(input_shape=[5, 6])[[1, 3]]
    assert again(transform) == transform
    assert again(transform.output) == transform.output
    assert again(cw.d) is cw.d and repr(cw.d) == "d"
