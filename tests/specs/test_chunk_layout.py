"""ChunkLayout and its grids against TensorStore's, constraint by constraint."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import tensorstore as ts
from examples import examples
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from chunkwise.core.specs.chunk_layout import ChunkLayout

USAGES = ("chunk", "write_chunk", "read_chunk", "codec_chunk")
SOFT = ("", "_soft_constraint")

ranks = st.sampled_from([1, 2, 2, 2, 3])
sizes = st.sampled_from([None, None, 0, -1, 1, 2, 3, 6, -2, 2**62 - 2, 2**62])
ratios = st.sampled_from([None, None, 0, 0.0, 1, 2, 2.5, 1 / 3, -1, 1e20, float("nan"), float("inf")])
origins = st.sampled_from([None, 0, 0, 1, -3, 2**62 - 2, 2**62 - 1])
elements = st.sampled_from([None, 0, 1, 1, 6, -1, 2**62 - 2, 2**62 - 1])


def vectors(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Sequences of one, two or three, mostly of two."""
    return ranks.flatmap(lambda n: st.lists(items, min_size=n, max_size=n))


def optional(members: dict[str, st.SearchStrategy[Any]], n: int) -> st.SearchStrategy[dict[str, Any]]:
    """Dictionaries with up to `n` of the `members`, in any order."""
    names = st.lists(st.sampled_from(sorted(members)), max_size=n, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: members[name] for name in chosen}))


LAYOUT = {f"inner_order{s}": ranks.flatmap(lambda n: st.permutations(range(n))) for s in SOFT} | {
    f"grid_origin{s}": vectors(origins) for s in SOFT
}
PARTS = (
    {f"shape{s}": vectors(sizes) for s in SOFT}
    | {f"aspect_ratio{s}": vectors(ratios) for s in SOFT}
    | {f"elements{s}": elements for s in SOFT}
)
LAYOUT_MEMBERS = LAYOUT | {u: optional(PARTS, 3) for u in USAGES}
JSON = optional(LAYOUT_MEMBERS | {"rank": st.sampled_from([0, 1, 2, 2, 3])}, 4)
# A grid of rank 0 is one of unknown rank in TensorStore.
RANKED_JSON = optional(LAYOUT_MEMBERS | {"rank": st.sampled_from([1, 2, 2, 3])}, 4)
# The keywords codec_chunk_shape and codec_chunk_aspect_ratio set read_chunk in TensorStore 0.1.86.
FLAT = {f"{u}_{p}": v for u in USAGES for p, v in PARTS.items() if u != "codec_chunk" or "elements" in p}
KEYWORDS = optional(
    LAYOUT | {"rank": st.sampled_from([-1, 0, 2, 2, 2, 3, 33])} | FLAT | {"finalize": st.booleans()}, 5
)
GRIDS = optional(PARTS | {"rank": st.sampled_from([1, 2, 2, 3])}, 3)


def outcome(call: Any) -> str:
    """Return the printed result of a call, or its error."""
    try:
        return repr(call())
    except ValueError as e:
        return f"ValueError: {e}".replace("-9223372036854775808", "null")
    except TypeError as e:
        return "TypeError" if "arguments" in str(e) else f"TypeError: {e}"


@given(JSON)
@settings(max_examples=examples(250), deadline=None)
def test_json_is_parsed_and_printed_as_tensorstore_does(json: dict[str, Any]) -> None:
    assert outcome(lambda: ChunkLayout(json)) == outcome(lambda: ts.ChunkLayout(json))


@given(KEYWORDS)
@settings(max_examples=examples(250), deadline=None)
def test_keywords_are_applied_as_in_tensorstore(keywords: dict[str, Any]) -> None:
    assert outcome(lambda: ChunkLayout(**keywords)) == outcome(lambda: ts.ChunkLayout(**keywords))


def grid_of(layout: Any, keywords: dict[str, Any]) -> Any:
    """A Grid as all its properties show it."""
    grid = layout.Grid(**keywords)
    names = [*PARTS, "rank", "ndim"]
    return grid.to_json(), *(getattr(grid, name) for name in names)


@given(GRIDS)
@settings(max_examples=examples(250), deadline=None)
def test_grids_are_built_as_in_tensorstore(keywords: dict[str, Any]) -> None:
    assert outcome(lambda: grid_of(ChunkLayout, keywords)) == outcome(
        lambda: grid_of(ts.ChunkLayout, keywords)
    )


@given(st.sampled_from(USAGES), GRIDS, KEYWORDS)
@settings(max_examples=examples(250), deadline=None)
def test_a_grid_given_whole_is_merged_as_in_tensorstore(
    usage: str, grid: dict[str, Any], keywords: dict[str, Any]
) -> None:
    def build(layout: Any) -> Any:
        return layout(**keywords, **{usage: layout.Grid(**grid)})

    assert outcome(lambda: build(ChunkLayout)) == outcome(lambda: build(ts.ChunkLayout))


@given(JSON, KEYWORDS)
@settings(max_examples=examples(250), deadline=None)
def test_update_adds_up_as_in_tensorstore(json: dict[str, Any], keywords: dict[str, Any]) -> None:
    def build(layout: Any) -> Any:
        made = layout(json)
        made.update(**keywords)
        return made

    assert outcome(lambda: build(ChunkLayout)) == outcome(lambda: build(ts.ChunkLayout))


@given(RANKED_JSON, RANKED_JSON)
@settings(max_examples=examples(250), deadline=None)
def test_layouts_merge_as_in_tensorstore(first: dict[str, Any], second: dict[str, Any]) -> None:
    def peer() -> Any:
        schema = ts.Schema(chunk_layout=ts.ChunkLayout(first))
        schema.update(chunk_layout=ts.ChunkLayout(second))
        return schema.chunk_layout

    assert outcome(lambda: ChunkLayout(first).merged(ChunkLayout(second))) == outcome(peer).replace(
        "Invalid chunk_layout: ", ""
    )


@given(RANKED_JSON)
@settings(max_examples=examples(500), deadline=None)
def test_properties_show_hard_and_soft_parts_as_tensorstore_does(json: dict[str, Any]) -> None:
    def build(layout: Any) -> Any:
        made = layout(json)
        names = ("rank", "ndim", *LAYOUT)
        grids = [getattr(made, usage) for usage in USAGES[1:]]
        return [getattr(made, n) for n in names] + [getattr(g, n) for g in grids for n in PARTS]

    assert outcome(lambda: build(ChunkLayout)) == outcome(lambda: build(ts.ChunkLayout))


@given(RANKED_JSON)
@example({"read_chunk": {"shape": [3]}, "grid_origin": [2**62 - 2]})
@settings(max_examples=examples(150), deadline=None)
def test_chunk_templates_are_those_of_tensorstore(json: dict[str, Any]) -> None:
    def build(layout: Any) -> Any:
        made = layout(json)
        return made.read_chunk_template, made.write_chunk_template

    assert outcome(lambda: build(ChunkLayout)) == outcome(lambda: build(ts.ChunkLayout))


@pytest.mark.parametrize("part", ["shape", "aspect_ratio"])
@pytest.mark.parametrize("soft", SOFT)
def test_codec_chunk_keywords_constrain_codec_chunks(part: str, soft: str) -> None:
    """TensorStore 0.1.86 sets them on read chunks."""
    layout = ChunkLayout(**{f"codec_chunk_{part}{soft}": [2, None]})  # type: ignore[misc]
    assert layout.to_json() == {"codec_chunk": {f"{part}{soft}": [2, None]}}


@pytest.mark.parametrize(
    "keywords",
    [
        {"chunk_shape": 5},
        {"chunk_shape": "ab"},
        {"chunk_shape": [1.5]},
        {"chunk_shape": [2**63]},
        {"chunk_shape": {3: 4}},
        {"chunk_aspect_ratio": ["1"]},
        {"chunk_elements": 5.0},
        {"inner_order": [0, None]},
        {"rank": 2.0},
        {"chunk": {"shape": [1]}},
        {"finalize": "yes"},
    ],
)
def test_arguments_of_wrong_types_are_refused_as_in_tensorstore(keywords: dict[str, Any]) -> None:
    expected = outcome(lambda: ts.ChunkLayout(**keywords))
    assert expected.startswith("TypeError: Invalid ")
    assert outcome(lambda: ChunkLayout(**keywords)) == expected


def test_unknown_and_mixed_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="no keyword 'chunk_size'"):
        ChunkLayout(chunk_size=[1])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no keyword 'size'"):
        ChunkLayout.Grid(size=[1])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="JSON or keywords"):
        ChunkLayout({}, rank=2)
    with pytest.raises(TypeError, match="JSON or keywords"):
        ChunkLayout.Grid({}, rank=2)
    with pytest.raises(ValueError, match='extra members: "chunk_size"'):
        ChunkLayout({"chunk_size": [1]})
    with pytest.raises(ValueError, match="Rank of chunk layout is unspecified"):
        ChunkLayout().read_chunk_template


def test_a_failed_update_changes_nothing() -> None:
    layout = ChunkLayout(write_chunk_shape=[1, 2])
    before = layout.copy()
    with pytest.raises(ValueError, match="Invalid write_chunk_shape"):
        layout.update(inner_order=[1, 0], write_chunk_shape=[5, 4])
    assert layout == before
    grid = ChunkLayout.Grid(elements=5)
    with pytest.raises(ValueError, match="Invalid elements"):
        grid.update(shape=[2], elements=6)
    assert grid == ChunkLayout.Grid(elements=5)


def test_grids_of_a_layout_are_copies() -> None:
    layout = ChunkLayout(write_chunk_shape=[1, 2])
    layout.write_chunk.update(elements=5)
    other = layout.copy()
    other.update(inner_order=[1, 0], read_chunk_elements=3)
    assert layout.to_json() == {"write_chunk": {"shape": [1, 2]}}


@given(RANKED_JSON)
def test_pickling_and_json_keep_everything(json: dict[str, Any]) -> None:
    try:
        layout = ChunkLayout(json)
    except ValueError:
        reject()
    for copied in (pickle.loads(pickle.dumps(layout)), copy.copy(layout), ChunkLayout(layout.to_json())):
        assert copied == layout
    grid = layout.read_chunk
    assert pickle.loads(pickle.dumps(grid)) == grid


def test_layouts_compare_with_layouts_only() -> None:
    layout = ChunkLayout(chunk_shape=[1, 2])
    assert layout == ChunkLayout(rank=2, chunk_shape=[1, 2])
    assert layout != ChunkLayout(chunk_shape_soft_constraint=[1, 2])
    assert layout != ChunkLayout(read_chunk_shape=[1, 2])
    for impossible in (lambda: layout == 5, lambda: layout.read_chunk == 5, lambda: hash(layout)):
        with pytest.raises(TypeError):
            impossible()


def test_rank_zero_is_a_rank() -> None:
    layout = ChunkLayout(rank=0)
    assert (layout.rank, layout.grid_origin, layout.read_chunk.shape) == (0, (), ())
    assert repr(layout.read_chunk_template) == repr(ts.ChunkLayout(rank=0).read_chunk_template)
    with pytest.raises(ValueError, match="Rank 1 does not match existing rank 0"):
        layout.update(chunk_shape=[3])
