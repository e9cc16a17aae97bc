"""Arrays compare by identity with each other; a comparison of elements is refused until they are read."""

from __future__ import annotations

import operator
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import ANY, Mock

import dask.array
import numpy as np
import pytest
import tensorstore
import xarray
import zarr

import chunkwise as cw


@dataclass
class Sample:
    data: cw.TensorStore


def test_arrays_compare_by_identity(tmp_path: Path) -> None:
    group = cw.create_group(tmp_path / "g")
    made = group.create_array("a", np.arange(3))
    arrays: list[Any] = [
        cw.array([1, 2]),
        cw.array([1, 2]),
        made,
        group["a"],
        made[:2],
        cw.cast(made, "float32"),
    ]
    for i, one in enumerate(arrays):
        assert arrays.index(one) == i
        assert one in arrays[i:] and one not in arrays[i + 1 :]
        assert [one == other for other in arrays] == [i == k for k in range(len(arrays))]
        assert [one != other for other in arrays] == [i != k for k in range(len(arrays))]
        assert Sample(one) == Sample(one)
        assert Sample(one) != Sample(arrays[i - 1])
        mock = Mock()
        mock(one)
        mock.assert_called_once_with(one)
        assert {one: 1}[one] == 1


VALUES = np.array([0, 1, 2])
ARRAYS: dict[str, Any] = {
    "numbers": cw.array(VALUES),
    "json": cw.array(np.array([1, "x", None], object)),
    "text": cw.array(np.array(["x", "y"])),
    "bytes": cw.array(np.array([b"x", b"y"])),
    "view": cw.array(VALUES)[1:],
    "no dimension": cw.array(5),
    "stored": cw.create_array("memory://equality/", VALUES),
}
# Their operators are NumPy's, which read the array, as in TensorStore.
READ: dict[str, Any] = {
    "ndarray": VALUES,
    "ndarray without dimensions": np.array(1),
    "masked": np.ma.array(VALUES, mask=[1, 0, 0]),
    "int64": np.int64(1),
    "float64": np.float64(1),
    "bool_": np.True_,
    "dask": dask.array.from_array(VALUES),
    "xarray": xarray.DataArray(VALUES),
}
# They hold elements, so that false for another identity would be a wrong answer.
ELEMENTS: dict[str, Any] = {
    "int": 5,
    "bool": True,
    "float": 2.5,
    "complex": 1j,
    "Fraction": Fraction(1, 2),
    "Decimal": Decimal(1),
    "list": [0, 1, 2],
    "tuple": (0, 1, 2),
    "range": range(3),
    "deque": deque([0, 1, 2]),
    "array": array("q", [0, 1, 2]),
    "memoryview": memoryview(VALUES),
    "bytearray": bytearray(3),
    "tensorstore": tensorstore.array(VALUES),
    "zarr": zarr.array(VALUES),
}
OTHERS: dict[str, Any] = {
    "None": None,
    "object": object(),
    "type": int,
    "Ellipsis": ...,
    "dict": {},
    "set": set(),
    "date": date(2020, 1, 1),
    "Mock": Mock(),
    "dtype": np.dtype("int32"),
    "array": cw.array(VALUES),
}
TEXT = {"str": "x", "bytes": b"x"}
EACH_ARRAY = pytest.mark.parametrize("name", ARRAYS)


def _refused(*operations: Callable[[Any, Any], object], one: Any, other: Any) -> None:
    for operation in operations:
        for pair in ((one, other), (other, one)):
            with pytest.raises(TypeError, match=r"read\(\)"):
                operation(*pair)


ORDERS = (operator.lt, operator.le, operator.gt, operator.ge)


@EACH_ARRAY
@pytest.mark.parametrize("kind", ELEMENTS)
def test_elements_are_refused(name: str, kind: str) -> None:
    one, other = ARRAYS[name], ELEMENTS[kind]
    _refused(operator.eq, operator.ne, *ORDERS, one=one, other=other)
    _refused(lambda a, b: a in [b], lambda a, b: [b].index(a), one=one, other=other)
    _refused(lambda a, b: Sample(a) == Sample(b), one=one, other=other)
    mock = Mock()
    mock(one)
    with pytest.raises(TypeError, match=r"read\(\)"):
        mock.assert_called_once_with(other)


@EACH_ARRAY
@pytest.mark.parametrize("kind", OTHERS)
def test_other_objects_are_unequal(name: str, kind: str) -> None:
    one, other = ARRAYS[name], OTHERS[kind]
    for a, b in ((one, other), (other, one)):
        assert (a == b) is False and (a != b) is True
        assert a not in [b] and [b, a].index(a) == 1
        assert Sample(a) != Sample(b)
        mock = Mock()
        mock(a)
        with pytest.raises(AssertionError):
            mock.assert_called_once_with(b)
    _refused(*ORDERS, one=one, other=other)


@EACH_ARRAY
@pytest.mark.parametrize("kind", TEXT)
def test_text_is_an_element_of_text(name: str, kind: str) -> None:
    if name in ("text", "bytes", "json"):
        _refused(operator.eq, operator.ne, one=ARRAYS[name], other=TEXT[kind])
    else:
        assert ARRAYS[name] != TEXT[kind] and TEXT[kind] != ARRAYS[name]
    _refused(*ORDERS, one=ARRAYS[name], other=TEXT[kind])


@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("operation", [operator.eq, operator.ne, *ORDERS])
def test_numpy_reads(kind: str, operation: Any) -> None:
    """As with TensorStore, but for dask, which takes no array of TensorStore."""
    other = READ[kind]
    for ts in (cw, tensorstore) if kind != "dask" else (cw,):
        one = ts.array(VALUES)
        for found, expected in (
            (operation(one, other), operation(VALUES, other)),
            (operation(other, one), operation(other, VALUES)),
        ):
            assert type(found) is type(expected)
            np.testing.assert_array_equal(found, expected)


def test_anything_equals_what_says_so() -> None:
    for one in ARRAYS.values():
        assert one == ANY and one == ANY
        mock = Mock()
        mock(one, 1)
        mock.assert_called_once_with(ANY, 1)


OPERATORS = [
    *(getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")),
    *(getattr(operator, name) for name in ("matmul", "and_", "or_", "xor", "lshift", "rshift")),
]


@pytest.mark.parametrize("compute", OPERATORS)
@pytest.mark.parametrize("other", [2, [1, 2], 1.5, None])
def test_computing_says_to_read(compute: Callable[[Any, Any], Any], other: Any) -> None:
    array = cw.array(np.arange(4))
    for left, right in ((array, other), (other, array), (array, array)):
        with pytest.raises(TypeError, match="is read before its elements are computed with"):
            compute(left, right)


def test_computing_in_place_says_to_read_and_write() -> None:
    array = cw.array(np.arange(4))
    with pytest.raises(TypeError, match=r"a\[2:4\] = a\[2:4\].read\(\).result\(\) \+ 1"):
        array[1:3] += 10
    for unary in (operator.neg, operator.pos, operator.invert, abs):
        with pytest.raises(TypeError, match="is read before"):
            unary(array)
    assert array.read().result().tolist() == [0, 1, 2, 3]


def test_numpy_computes_with_what_it_reads() -> None:
    array = cw.array(np.arange(4))
    assert (array + np.arange(4)).tolist() == (np.arange(4) + array).tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_groups_at_one_place_are_equal(tmp_path: Path, format: str) -> None:
    group = cw.open_group(tmp_path / "g", "w", format=format)
    inner = group.create_group("a/b")
    (tmp_path / "link").symlink_to(tmp_path / "g")
    for same in (group["a/b"], group["a"]["b"], cw.open_group(tmp_path / "g/a/b", format=format),
                 cw.open_group(tmp_path / "link", format=format)["a/b"], inner.parent["b"]):  # fmt: skip
        assert same == inner and hash(same) == hash(inner)
    cw.open_group(tmp_path / "other", "w", format=format).create_group("a/b")
    for other in (group, group["a"], cw.open_group(tmp_path / "other", format=format)["a/b"], "a/b", None):
        assert other != inner


# Two values that differ, of each class whose values can be compared.
COMPARED: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "dim": lambda ts: (ts.Dim(3), ts.Dim(4)),
    "domain": lambda ts: (ts.IndexDomain(shape=[3]), ts.IndexDomain(shape=[4])),
    "map": lambda ts: (ts.OutputIndexMap(offset=1), ts.OutputIndexMap(offset=2)),
    "transform": lambda ts: (ts.IndexTransform(input_shape=[3]), ts.IndexTransform(input_shape=[4])),
    "expression": lambda ts: (ts.d[0], ts.d[1]),
    "spec": lambda ts: (_spec(ts, "a/"), _spec(ts, "b/")),
    "mode": lambda ts: (ts.OpenMode(open=True), ts.OpenMode(create=True)),
    "keys": lambda ts: (ts.KvStore.KeyRange("a"), ts.KvStore.KeyRange("b")),
    "generation": lambda ts: (
        ts.KvStore.TimestampedStorageGeneration(b"a", 1.0),
        ts.KvStore.TimestampedStorageGeneration(b"b", 1.0),
    ),
    "statistics": lambda ts: (
        ts.TensorStore.StorageStatistics(not_stored=True),
        ts.TensorStore.StorageStatistics(not_stored=False),
    ),
}


def _spec(ts: Any, path: str) -> Any:
    return ts.Spec({"driver": "zarr", "kvstore": {"driver": "memory", "path": path}})


@pytest.mark.parametrize("kind", COMPARED)
def test_values_are_compared_with_their_class_only(kind: str) -> None:
    def answers(ts: Any) -> list[Any]:
        one, other = COMPARED[kind](ts)
        same, _ = COMPARED[kind](ts)
        found: list[Any] = [one == same, one == other, one != same, one != other]
        for stranger in (None, 1, "x", repr(one), object()):
            try:
                found.append(one == stranger)
            except TypeError:
                found.append(TypeError)
        return found

    assert answers(cw) == answers(tensorstore) == [True, False, False, True, *5 * [TypeError]]
