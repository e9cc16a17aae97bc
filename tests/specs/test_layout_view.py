"""Chunk layouts seen through index transforms, against TensorStore, and back again."""

from __future__ import annotations

from typing import Any

import pytest
import tensorstore as ts
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chunkwise.core.index_space import IndexTransform
from chunkwise.core.specs.chunk_layout import ChunkLayout, inverse_view_layout, view_layout
from chunkwise.errors import InvalidArgumentError

SOFT = ("", "_soft_constraint")


def nested(n: int, dim: int) -> Any:
    """An index array of rank `n` with the elements 1 and 2 along `dim`."""
    out: Any = [1, 2]
    for _ in range(n - 1 - dim):
        out = [[x] for x in out]
    for _ in range(dim):
        out = [out]
    return out


def layouts(rank: int) -> st.SearchStrategy[dict[str, Any]]:
    """JSON of layouts of `rank` dimensions."""

    def vector(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(st.none() | items, min_size=rank, max_size=rank)

    grid: dict[str, Any] = {}
    whole: dict[str, Any] = {}
    for soft in SOFT:
        grid[f"shape{soft}"] = vector(st.integers(1, 20))
        grid[f"aspect_ratio{soft}"] = vector(st.sampled_from([1, 2, 1.5]))
        grid[f"elements{soft}"] = st.integers(0, 100)
        whole[f"grid_origin{soft}"] = vector(st.integers(-9, 9))
        whole[f"inner_order{soft}"] = st.permutations(range(rank))
    grids = st.fixed_dictionaries({}, optional=grid)
    whole |= dict.fromkeys(("read_chunk", "write_chunk", "codec_chunk"), grids)
    return st.fixed_dictionaries({"rank": st.just(rank)}, optional=whole)


def transforms(n_outputs: int, n_inputs: int) -> st.SearchStrategy[dict[str, Any]]:
    """JSON of transforms over a domain of two elements per dimension."""
    maps: list[st.SearchStrategy[Any]] = [st.fixed_dictionaries({"offset": st.integers(0, 5)})]
    if n_inputs:
        dims = st.integers(0, n_inputs - 1)
        single = st.fixed_dictionaries(
            {
                "input_dimension": dims,
                "offset": st.integers(-5, 5),
                "stride": st.sampled_from([1, 1, -1, 2, -2, 3, -4, 6]),
            }
        )
        maps += [single, single, single, dims.map(lambda d: {"index_array": nested(n_inputs, d)})]
    outputs = st.lists(st.one_of(maps), min_size=n_outputs, max_size=n_outputs)
    domain = {"input_inclusive_min": [0] * n_inputs, "input_shape": [2] * n_inputs}
    return outputs.map(lambda output: domain | {"output": output, "input_rank": n_inputs})


ranks = st.integers(1, 3)


@given(st.data(), ranks, st.integers(0, 4))
@settings(max_examples=examples(150), deadline=None)
def test_a_view_has_the_layout_that_tensorstore_gives_it(data: st.DataObject, rank: int, n: int) -> None:
    json, transform = data.draw(layouts(rank)), data.draw(transforms(rank, n))
    domain = ts.IndexDomain(inclusive_min=[-100] * rank, exclusive_max=[100] * rank)
    schema = ts.Schema(chunk_layout=ts.ChunkLayout(json), domain=domain)
    expected = schema[ts.IndexTransform(json=transform)].chunk_layout
    assert repr(view_layout(ChunkLayout(json), IndexTransform(json=transform))) == repr(expected)


@given(st.data(), ranks, st.integers(1, 3))
@settings(max_examples=examples(150), deadline=None)
def test_what_is_asked_of_a_view_is_asked_of_the_array(data: st.DataObject, rank: int, n: int) -> None:
    json, transform = data.draw(layouts(n)), data.draw(transforms(rank, n))
    try:
        own = inverse_view_layout(ChunkLayout(json), IndexTransform(json=transform))
    except InvalidArgumentError:
        assume(False)
    spec = ts.Spec({"driver": "zarr", "kvstore": "memory://", "transform": transform})
    spec.update(chunk_layout=ts.ChunkLayout(json))
    expected = spec.to_json().get("schema", {}).get("chunk_layout", {})
    # The rank of the array follows from the transform.
    assert {k: v for k, v in own.to_json().items() if k != "rank"} == expected


@given(st.data(), ranks)
def test_permutations_and_shifts_lose_nothing(data: st.DataObject, rank: int) -> None:
    layout = ChunkLayout(data.draw(layouts(rank)))
    output = [
        {"input_dimension": dim, "offset": data.draw(st.integers(-5, 5))}
        for dim in data.draw(st.permutations(range(rank)))
    ]
    transform = IndexTransform(json={"input_rank": rank, "output": output})
    assert inverse_view_layout(view_layout(layout, transform), transform) == layout


def test_a_hard_constraint_on_a_dimension_that_the_array_lacks_is_refused() -> None:
    transform = IndexTransform(json={"input_shape": [2, 2], "output": [{"input_dimension": 1}]})
    for member in ("grid_origin", "read_chunk_shape", "write_chunk_aspect_ratio"):
        layout = ChunkLayout(**{member: [3, None]})  # type: ignore[misc]
        with pytest.raises(ValueError, match="No output dimension corresponds to input dimension 0"):
            inverse_view_layout(layout, transform)
        soft = ChunkLayout(**{f"{member}_soft_constraint": [3, None]})  # type: ignore[misc]
        assert inverse_view_layout(soft, transform) == ChunkLayout(rank=1)


def test_the_whole_extent_stays_the_whole_extent() -> None:
    transform = IndexTransform(
        json={"input_shape": [2], "output": [{"input_dimension": 0, "stride": 3, "offset": 1}]}
    )
    layout = ChunkLayout(chunk_shape=[-1])
    assert view_layout(layout, transform) == layout
    assert inverse_view_layout(layout, transform) == layout


def test_a_layout_of_unknown_rank_keeps_its_element_counts() -> None:
    transform = IndexTransform(input_rank=2)
    layout = ChunkLayout(chunk_elements=5)
    assert view_layout(layout, transform) == inverse_view_layout(layout, transform) == layout
