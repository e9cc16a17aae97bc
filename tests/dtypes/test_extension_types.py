"""Data types of other packages: a class and its registration are all that Zarr v3 needs to store them."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import ModuleType
from typing import Any, Self

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.core.base.binding import Members, expect_int, expect_string
from chunkwise.core.base.catalogue import DATA_TYPES, data_types
from chunkwise.core.base.registry import Entry
from chunkwise.core.dtypes.conversion import Conversion, convertible
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.zarr3 import parse_zarr3, to_zarr3


@dataclass(frozen=True)
class FixedPoint:
    """Counts of the last digit."""

    digits: int
    name = "test.fixed_point"
    memory_dtype = np.dtype(np.int64)

    @classmethod
    def parse(cls, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        digits = members.take("digits", lambda v: expect_int(v, 0, 18))
        members.finish()
        return cls(digits)

    def to_json(self) -> dict[str, Any]:
        return {"digits": self.digits}

    def parse_fill_value(self, value: Any) -> int:
        return int(Decimal(expect_string(value)).scaleb(self.digits))

    def print_fill_value(self, fill: Any) -> str:
        return str(Decimal(int(fill)).scaleb(-self.digits))


class Key:
    """Sixteen bytes."""

    name = "test.key"
    memory_dtype = np.dtype("V16")

    @classmethod
    def parse(cls, configuration: Mapping[str, Any]) -> Self:
        Members(configuration).finish()
        return cls()

    def to_json(self) -> dict[str, Any]:
        return {}

    def parse_fill_value(self, value: Any) -> bytes:
        return bytes.fromhex(value)

    def print_fill_value(self, fill: Any) -> str:
        return str(fill.tobytes().hex())


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(data_types._registered, ("", "test.fixed_point"), FixedPoint)
    monkeypatch.setitem(data_types._registered, ("zarr3", "test.key"), Key)


def fixed_point(digits: int) -> dict[str, Any]:
    return {"name": "test.fixed_point", "configuration": {"digits": digits}}


@pytest.mark.parametrize("digits", [0, 2])
@pytest.mark.parametrize("sharded", [False, True])
def test_an_array_of_such_a_type(digits: int, sharded: bool) -> None:
    """What is written is read again, by a handle that knows the stored document only."""
    context = ts.Context()
    metadata = {"data_type": fixed_point(digits), "fill_value": "-7"}
    layout = {"read_chunk_shape": [2], "write_chunk_shape": [4]} if sharded else {"chunk_shape": [3]}
    spec = {"driver": "zarr3", "kvstore": "memory://a/", "metadata": metadata}
    made = ts.open(
        spec, create=True, shape=[10], chunk_layout=ts.ChunkLayout(**layout), context=context
    ).result()
    made[2:5] = np.array([1, -(2**40), 3])
    again = ts.open({"driver": "zarr3", "kvstore": "memory://a/"}, context=context).result()
    fill = -7 * 10**digits
    expected = np.array([fill, fill, 1, -(2**40), 3, *[fill] * 5])
    np.testing.assert_array_equal(again.read().result(), expected)
    assert again.fill_value == fill
    assert again.dtype is made.dtype is DataType(again.dtype.name)
    document = json.loads(again.kvstore["zarr.json"])
    assert document["data_type"] == fixed_point(digits)
    assert Decimal(document["fill_value"]) == -7
    fresh = ts.open(again.spec(), context=ts.Context(), create=True, open=True).result()
    np.testing.assert_array_equal(fresh.read().result(), np.full(10, fill))
    if not sharded:
        assert again.kvstore["c/0"] == expected[:3].astype("<i8").tobytes()


def test_a_type_is_one_object() -> None:
    """However it is named, and after pickling."""
    one = parse_zarr3(fixed_point(3))
    spelled = '{ "configuration": {"digits": 3}, "name": "test.fixed_point" }'
    assert one is DataType(spelled) is DataType(one.name) is pickle.loads(pickle.dumps(one))
    assert one != parse_zarr3(fixed_point(2))
    assert to_zarr3(one) == fixed_point(3)
    assert repr(one) == f"dtype({one.name})"
    key = DataType("test.key")
    assert key is parse_zarr3("test.key") is parse_zarr3({"name": "test.key"})
    assert repr(key) == 'dtype("test.key")' and to_zarr3(key) == "test.key"
    assert key != "V16" and key.memory_dtype == np.dtype("V16")


def test_a_new_array_by_name() -> None:
    """Zero is the fill value where none is given."""
    store = ts.open("memory://b/|zarr3", create=True, dtype="test.key", shape=[3]).result()
    store[1] = np.void(bytes(range(16)))
    assert store.read().result().tobytes() == bytes(16) + bytes(range(16)) + bytes(16)
    assert json.loads(store.kvstore["zarr.json"])["fill_value"] == "00" * 16


def test_a_row_of_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row is enough for a type that comes with the package."""
    module = ModuleType("type_of_its_own_file")
    module.Money = type("Money", (Key,), {"name": "test.money"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(
        DATA_TYPES, "test.money", Entry("type_of_its_own_file:Money", zarr3=("test.money", "test.cash"))
    )
    assert parse_zarr3("test.cash") is DataType("test.money")


def test_conversion() -> None:
    """Elements that are the same in memory are passed on; no others are guessed at."""
    fixed = parse_zarr3(fixed_point(2))
    assert convertible(DataType("int64"), fixed) is Conversion.IMPLICIT
    assert convertible(fixed, DataType("int64")) is Conversion.IMPLICIT
    for other in (DataType("int32"), DataType("json"), DataType("test.key"), parse_zarr3(fixed_point(1))):
        assert convertible(other, fixed) is convertible(fixed, other) is Conversion.NONE


def test_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other formats can't name it; wrong options, fill values and types in memory are named."""
    with pytest.raises(NotImplementedError, match=r"not supported: test\.key"):
        ts.open("memory://c/|zarr2", create=True, dtype="test.key", shape=[3]).result()
    with pytest.raises(ValueError, match=r"test\.key"):
        ts.open("memory://c/|n5", create=True, dtype="test.key", shape=[3]).result()
    with pytest.raises(ValueError, match=r'configuration of "test\.fixed_point".*"digits".*19'):
        parse_zarr3(fixed_point(19))
    with pytest.raises(ValueError, match=r'configuration of "test\.key".*colour'):
        parse_zarr3({"name": "test.key", "configuration": {"colour": 1}})
    with pytest.raises(ValueError, match=r'field "a"'):
        parse_zarr3({"name": "structured", "configuration": {"fields": [["a", "test.key"]]}})
    with pytest.raises(ValueError, match=r"supported data types: .*test\.key"):
        parse_zarr3("test.keys")
    with pytest.raises(ValueError, match=r'No TensorStore data type with name: "\{'):
        DataType('{"name": "test.keys"}')
    with pytest.raises(ValueError, match=r'No TensorStore data type with name: "\{'):
        DataType('{"name": ' + "[" * 100_000)
    metadata = {"data_type": "test.key", "fill_value": "no hexadecimal", "shape": [2]}
    with pytest.raises(ValueError, match=r'"fill_value": Expected value of test\.key, but received'):
        ts.open({"driver": "zarr3", "kvstore": "memory://d/", "metadata": metadata}, create=True).result()
    monkeypatch.setattr(Key, "parse_fill_value", lambda self, value: {"0": bytes(16)}[value])
    with pytest.raises(ValueError, match=r'"fill_value": Expected value of test\.key, but received'):
        ts.open({"driver": "zarr3", "kvstore": "memory://d/", "metadata": metadata}, create=True).result()
    monkeypatch.setattr(Key, "memory_dtype", np.dtype(object))
    with pytest.raises(ValueError, match=r'"test\.key" has elements of dtype\(.O.\), but expected'):
        parse_zarr3("test.key")
