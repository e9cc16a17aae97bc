"""Chunk shapes chosen from constraints, against the arrays that TensorStore creates."""

from __future__ import annotations

from typing import Any

import pytest
import tensorstore as ts
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.chunk_shape import (
    choose_chunk_shape,
    choose_grid_origin,
    choose_read_write_chunk_shapes,
    complete_chunk_shape,
    nearest_divisor,
    nearest_multiple,
)
from chunkwise.errors import InvalidArgumentError

extents = st.one_of(st.integers(0, 3), st.integers(1, 100), st.integers(1, 5000), st.integers(1, 10**7))
sizes = st.one_of(st.none(), st.just(-1), st.integers(1, 20), st.integers(1, 3000))
ratios = st.one_of(st.none(), st.sampled_from([1, 2, 3]), st.floats(0.01, 10), st.floats(0.01, 1000))
elements = st.one_of(st.integers(0, 2), st.integers(1, 1000), st.integers(1, 10**6), st.integers(1, 10**12))


def members(rank: int) -> st.SearchStrategy[dict[str, Any]]:
    """JSON of one grid of `rank` dimensions."""
    parts: dict[str, st.SearchStrategy[Any]] = {}
    for soft in ("", "_soft_constraint"):
        parts[f"shape{soft}"] = st.lists(sizes, min_size=rank, max_size=rank)
        parts[f"aspect_ratio{soft}"] = st.lists(ratios, min_size=rank, max_size=rank)
        parts[f"elements{soft}"] = elements
    return st.fixed_dictionaries({}, optional=parts)


@st.composite
def arrays(draw: st.DrawFn) -> tuple[list[int], dict[str, Any]]:
    """Shape and chunk layout, as JSON, of an array to be created."""
    shape = draw(st.lists(extents, min_size=1, max_size=4))
    usages = draw(st.sets(st.sampled_from(["chunk", "read_chunk", "write_chunk"]), min_size=1))
    return shape, {usage: draw(members(len(shape))) for usage in sorted(usages)}


def created(driver: str, shape: list[int], layout: dict[str, Any]) -> tuple[Any, Any] | str:
    """Read and write chunk shape of the array that TensorStore makes, or the error it raises."""
    schema = {"chunk_layout": layout, "domain": {"shape": shape}, "dtype": "uint8"}
    spec = {"driver": driver, "kvstore": "memory://", "schema": schema}
    try:
        made = ts.open(spec, create=True).result().chunk_layout
    except ValueError as e:
        return str(e)
    return made.read_chunk.shape, made.write_chunk.shape


@given(arrays())
@settings(max_examples=examples(200), deadline=None)
def test_one_grid_has_the_shape_that_tensorstore_gives_it(array: tuple[list[int], dict[str, Any]]) -> None:
    shape, json = array
    try:
        layout = ChunkLayout(json)
    except InvalidArgumentError:
        assume(False)
    expected = created("zarr", shape, json)
    try:
        found = choose_chunk_shape(layout, shape)
    except InvalidArgumentError as e:
        assert isinstance(expected, str) and str(e) in expected
    else:
        assert (found, found) == expected


@given(arrays())
@settings(max_examples=examples(200), deadline=None)
def test_two_grids_have_the_shapes_that_tensorstore_gives_them(
    array: tuple[list[int], dict[str, Any]],
) -> None:
    shape, json = array
    try:
        layout = ChunkLayout(json)
    except InvalidArgumentError:
        assume(False)
    expected = created("zarr3", shape, json)
    # A shard of more than 2**30 inner chunks, or one of 2**63 bytes, can't be stored, however it is chosen.
    assume("more than 1073741824 entries" not in expected)
    assume("Integer overflow computing encoded size" not in expected)
    try:
        found = choose_read_write_chunk_shapes(layout, shape)
    except InvalidArgumentError as e:
        assert isinstance(expected, str) and str(e) in expected
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("shape", "layout", "expected"),
    [
        ([1000, 2000, 3000], {}, (101, 101, 101)),
        ([1000, 2000, 3000], {"chunk": {"aspect_ratio": [1, 2, 2]}}, (64, 128, 128)),
        (
            [1000, 2000, 3000],
            {"chunk": {"aspect_ratio": [1, 2, 2], "elements": 2_000_000}},
            (79, 159, 159),
        ),
        ([3000, 3000, 10], {}, (323, 323, 10)),
        (
            [1000, 2000, 3000],
            {"chunk": {"shape": [10, 0, 0], "aspect_ratio": [0, 2, 1], "elements": 10**7}},
            (10, 1414, 707),
        ),
        ([40, 50], {"chunk": {"shape": [100, None], "elements": 1000}}, (100, 10)),
        ([0, 7], {}, (1, 7)),
        ([None, None], {}, (1024, 1024)),
        ([], {}, ()),
        # Where bisection stops decides between 764 and 765.
        (
            [13, 45, 2214, 9547526],
            {"chunk": {"aspect_ratio": [0, 2, 2, 109.29454681179814]}},
            (6, 13, 13, 765),
        ),
    ],
)
def test_known_chunk_shapes(
    shape: list[int | None], layout: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert choose_chunk_shape(ChunkLayout(layout), shape) == expected


@pytest.mark.parametrize(
    ("shape", "layout", "expected"),
    [
        ([100, 100], {"read_chunk": {"shape": [10, 10]}}, ((10, 10), (100, 100))),
        ([100, 100], {"write_chunk": {"shape": [10, 10]}}, ((10, 10), (10, 10))),
        # No divisor of a prime number is near to more than 1,000,000 elements.
        (
            [2_000_003, 5_143_751],
            {"write_chunk": {"shape": [None, -1]}},
            ((1_000_000, 1), (1_000_000, 5_143_751)),
        ),
        (
            [100, 100],
            {"read_chunk": {"shape_soft_constraint": [10, 10]}, "write_chunk": {"shape": [55, 52]}},
            ((11, 13), (55, 52)),
        ),
        (
            [100, 100],
            {"read_chunk": {"shape": [10, 10]}, "write_chunk": {"shape_soft_constraint": [55, 52]}},
            ((10, 10), (50, 50)),
        ),
        (
            [1000, 2000, 3000],
            {
                "chunk": {"aspect_ratio": [2, 1, 1]},
                "read_chunk": {"elements": 2 * 10**6},
                "write_chunk": {"elements": 10**9},
            },
            ((200, 100, 100), (1000, 1000, 1000)),
        ),
    ],
)
def test_known_read_and_write_chunk_shapes(shape: list[int], layout: dict[str, Any], expected: Any) -> None:
    assert choose_read_write_chunk_shapes(ChunkLayout(layout), shape) == expected


def test_contradicting_sizes_are_refused() -> None:
    layout = ChunkLayout(read_chunk_shape=[10], write_chunk_shape=[55])
    with pytest.raises(ValueError, match="dimension 0: read size of 10, write size of 55"):
        choose_read_write_chunk_shapes(layout, [100])
    with pytest.raises(ValueError, match="write_chunk constraints not compatible with existing read_chunk"):
        choose_chunk_shape(layout, [100])


def test_an_unbounded_dimension_can_not_be_covered_by_one_chunk() -> None:
    with pytest.raises(ValueError, match="Cannot match chunk size for dimension 1 to unbounded domain"):
        choose_chunk_shape(ChunkLayout(chunk_shape=[4, -1]), [10, None])


@given(st.integers(1, 2000), st.integers(1, 3000))
def test_nearest_divisor_and_multiple(number: int, size: int) -> None:
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    multiples = range(number, size + 2 * number, number)
    assert nearest_divisor(number, size) == min(divisors, key=lambda d: (abs(d - size), d))
    assert nearest_multiple(number, size) == min(multiples, key=lambda m: (abs(m - size), m))


def test_nearest_divisor_of_a_large_prime_is_found_at_once() -> None:
    assert nearest_divisor(10**15 + 37, 900) == 1
    assert nearest_divisor(2**31 - 1, 10**6) == 1
    assert nearest_divisor(10**12, 999_000) == 1_000_000


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=5), st.integers(1, 10**7))
def test_the_target_is_never_exceeded_and_the_domain_never_left(shape: list[int], target: int) -> None:
    chunk = complete_chunk_shape([0] * len(shape), [1.0] * len(shape), target, shape)
    n_elements = 1
    for size, extent in zip(chunk, shape, strict=True):
        assert 1 <= size <= extent
        n_elements *= size
    assert n_elements <= target


def test_the_grid_starts_with_the_domain_unless_told_otherwise() -> None:
    layout = ChunkLayout(grid_origin=[7, None, None, None], grid_origin_soft_constraint=[None, 3, None, None])
    assert choose_grid_origin(layout, [25, 25, -25, None], [10, 10, 10, 10]) == (7, 3, 5, 0)


LARGE = [
    ([2**31, 2**31], None, "uint8"), ([2**31, 2**31], None, "uint16"), ([2**31, 2**32 - 1], None, "uint8"),
    ([2**31, 2**32], None, "uint8"), ([2**31, 2**31], None, "uint32"), ([2**20] * 4, None, "uint8"),
    ([2**31, 2**32], [2**31, 2**10], "uint8"), ([2**31, 2**31], [2**31, 2**10], "uint8"),
]  # fmt: skip


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
@pytest.mark.parametrize(("shape", "inner", "dtype"), LARGE)
def test_chunks_that_no_memory_can_hold(
    driver: str, shape: list[int], inner: list[int] | None, dtype: str
) -> None:
    """A new array with chunks of 2^63 bytes or more is refused, as in TensorStore."""
    if inner is not None and driver == "zarr":
        inner = None
    layout = {"write_chunk": {"shape": shape}, "read_chunk": {"shape": inner or shape}}
    schema = {"chunk_layout": layout, "domain": {"shape": shape}, "dtype": dtype}
    spec = {"driver": driver, "kvstore": "memory://", "schema": schema}
    outcomes = []
    for library in (ts, cw):
        try:
            library.open(spec, create=True).result()
            outcomes.append("made")
        except ValueError:
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1]
