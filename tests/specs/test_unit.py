"""Units against TensorStore's: parsing, printing, JSON, arithmetic and comparison."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import tensorstore as ts
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chunkwise.core.specs.unit import Unit

text = st.text(alphabet="0159.eE+- \t\n\vnmµ\"'\\\x01\x00f\xa0", max_size=10)
numbers = st.one_of(st.integers(-(10**12), 10**12), st.floats())


def shown(unit: Any) -> tuple[Any, ...]:
    """All forms of a unit; NaN is the same with either sign."""
    return (
        repr(unit).replace("-nan", "nan"),
        str(unit).replace("-nan", "nan"),
        repr(unit.to_json()),
        repr(unit.multiplier),
        unit.base_unit,
    )


@given(text)
@settings(max_examples=examples(1000))
@example("  4  nm ")
@example("1e400m")
@example("1e-400m")
@example("0e-400m")
@example("٤nm")
def test_text_is_parsed_as_in_tensorstore(value: str) -> None:
    assert shown(Unit(value)) == shown(ts.Unit(value))


@given(numbers, text)
@settings(max_examples=examples(500))
def test_number_and_base_unit_are_kept_as_in_tensorstore(multiplier: float, base_unit: str) -> None:
    expected = shown(ts.Unit(multiplier, base_unit))
    assert shown(Unit(multiplier, base_unit)) == expected
    assert shown(Unit((multiplier, base_unit))) == expected
    assert shown(Unit(multiplier=multiplier, base_unit=base_unit)) == expected
    assert shown(Unit(multiplier)) == shown(ts.Unit(multiplier))


@pytest.mark.parametrize(
    "value",
    [[4, "nm"], [4.5, ""], "5 um", "", 7, 7.5, -1, None, True, {}, [], [4], [4, 5], ["4", "m"], [4, "m", 1]],
)
def test_json_is_read_as_in_tensorstore(value: Any) -> None:
    try:
        expected = shown(ts.Unit(json=value))
    except ValueError as e:
        with pytest.raises(ValueError) as raised:
            Unit(json=value)
        assert str(raised.value) == str(e)
    else:
        assert shown(Unit(json=value)) == expected


@pytest.mark.parametrize(
    ("args", "keywords"),
    [
        ((), {"base_unit": "nm"}),
        ((None,), {}),
        ((Unit("nm"),), {}),
        ((4, 5), {}),
        (("4", "nm"), {}),
        ((4, None), {}),
        (((4,),), {}),
        (((4, "a", "b"),), {}),
        ((4, "a", "b"), {}),
        ((10**400,), {}),
        (({},), {}),
        ((), {"json": [4, "nm"], "multiplier": 3}),
        ((), {"multiplier": "4"}),
        ((), {"value": "4nm"}),
        (("3",), {"base_unit": "m"}),
    ],
)
def test_other_arguments_are_type_errors(args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        ts.Unit(*(ts.Unit("nm") if isinstance(a, Unit) else a for a in args), **keywords)
    with pytest.raises(TypeError, match="Unit takes"):
        Unit(*args, **keywords)


@given(numbers, numbers)
def test_arithmetic_and_equality_are_those_of_tensorstore(a: float, b: float) -> None:
    own, peer = Unit(a, "nm"), ts.Unit(a, "nm")
    assert shown(own * b) == shown(peer * b)
    assert shown(own / b) == shown(peer / b)
    assert (own == Unit(b, "nm")) == (peer == ts.Unit(b, "nm"))
    assert (own != Unit(b, "nm")) == (peer != ts.Unit(b, "nm"))


def test_only_units_compare_and_only_numbers_scale() -> None:
    unit = Unit(4, "nm")
    for impossible in (
        lambda: unit == "4 nm",
        lambda: unit != None,  # noqa: E711
        lambda: unit * unit,
        lambda: 2 * unit,  # type: ignore[operator]
        lambda: unit / "2",
        lambda: unit + unit,  # type: ignore[operator]
        lambda: hash(unit),
    ):
        with pytest.raises(TypeError):
            impossible()


def test_units_are_immutable_and_copied_by_pickle() -> None:
    unit = Unit(4.25, "µm")
    with pytest.raises(AttributeError):
        unit.multiplier = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        unit.other = 3  # type: ignore[attr-defined]
    for copied in (pickle.loads(pickle.dumps(unit)), copy.copy(unit), copy.deepcopy(unit)):
        assert copied == unit
