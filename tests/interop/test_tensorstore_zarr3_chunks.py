"""The chunks of new Zarr v3 arrays, over random constraints on them, are those that TensorStore chooses."""

from __future__ import annotations

from typing import Any

import pytest
import tensorstore
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as ts

SIZES = st.lists(st.sampled_from([0, -1, 1, 2, 3, 4, 6, 12, 24]), min_size=2, max_size=2)
CHAINS: list[list[Any]] = [
    [],
    ["bytes"],
    ["crc32c"],
    ["bytes", {"name": "gzip", "configuration": {"level": 1}}],
    [{"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes"],
]
SHARDS: list[list[Any]] = [
    [{"name": "sharding_indexed"}],
    [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3]}}],
    [CHAINS[4][0], {"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3]}}],
    [CHAINS[4][0], {"name": "sharding_indexed"}],
    [
        {
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [4, 6],
                "codecs": [
                    CHAINS[4][0],
                    {"name": "sharding_indexed", "configuration": {"chunk_shape": [3, 2]}},
                ],
            },
        }
    ],
]


@st.composite
def _grid_constraints(draw: st.DrawFn) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, values in (
        ("shape", SIZES),
        ("elements", st.integers(1, 200)),
        ("aspect_ratio", st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=2, max_size=2)),
    ):
        if draw(st.integers(0, 2)) == 0:
            out[name + draw(st.sampled_from(["", "_soft_constraint"]))] = draw(values)
    return out


@st.composite
def _asked(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], list[Any] | None]:
    """Return metadata constraints, a chunk layout and the codecs of a schema."""
    metadata: dict[str, Any] = {"shape": [24, 30], "data_type": "uint8"}
    chain = draw(st.sampled_from([None, *CHAINS, *SHARDS]))
    in_schema = draw(st.booleans())
    if chain is not None and not in_schema:
        metadata["codecs"] = chain
    # Without a grid TensorStore makes no shards that fit given inner chunks.
    if draw(st.booleans()) or chain in SHARDS:
        grid = draw(st.sampled_from([[24, 30], [12, 6], [12, 12]]))
        metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": grid}}
    usages = [usage for usage in ("chunk", "write_chunk", "read_chunk") if draw(st.booleans())]
    layout = {usage: draw(_grid_constraints()) for usage in usages}
    return metadata, layout, chain if in_schema else None


def _made(m: Any, metadata: dict[str, Any], layout: dict[str, Any], codecs: list[Any] | None) -> Any:
    codec = {} if codecs is None else {"codec": {"driver": "zarr3", "codecs": codecs}}
    spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}
    spec["schema"] = {"chunk_layout": layout, **codec}
    try:
        store = m.open(spec, create=True, context=m.Context()).result()
    except ValueError:
        return None
    made = store.spec().to_json()["metadata"]
    return made["chunk_grid"], made["codecs"], store.chunk_layout.to_json()


@settings(deadline=None, max_examples=examples(300))
@given(_asked())
def test_chunks_are_chosen_as_by_tensorstore(asked: tuple[Any, Any, Any]) -> None:
    expected, found = _made(tensorstore, *asked), _made(ts, *asked)
    if expected is None and found is not None and "codecs" in asked[0] and asked[0]["codecs"] in CHAINS:
        # Both sizes are demanded: TensorStore puts only a schema's codecs into shards.
        read, write = found[2]["read_chunk"]["shape"], found[2]["write_chunk"]["shape"]
        assert read != write
        hard = ts.ChunkLayout(asked[1])
        for shape, wanted in ((read, hard.read_chunk.shape), (write, hard.write_chunk.shape)):
            assert all(n == w for n, w in zip(shape, wanted or (), strict=False) if w not in (None, -1))
        return
    assert found == expected


@pytest.mark.parametrize("elements", [1000, 10**7])
@pytest.mark.parametrize("usage", ["chunk", "read_chunk", "write_chunk"])
@pytest.mark.parametrize("member", ["shape", "shape_soft_constraint", "elements", "elements_soft_constraint"])
def test_large_chunks_are_divided_where_tensorstore_divides(member: str, usage: str, elements: int) -> None:
    value = elements if "elements" in member else [2000, 2000]
    metadata = {"shape": [4000, 4000], "data_type": "uint8"}
    grid = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2000, 2000]}}}
    for given_members in ({}, grid, {"codecs": ["bytes"]}, {"codecs": []}, {**grid, "codecs": ["bytes"]}):
        asked = {**metadata, **given_members}, {usage: {member: value}}, None
        assert _made(ts, *asked) == _made(tensorstore, *asked)
