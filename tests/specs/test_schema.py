"""Schemas against TensorStore's: parsing, merging, indexing, views and back, errors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import tensorstore as ts
from examples import examples
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.core.base.binding import plain_json

CODECS = [
    {"driver": "zarr3", "codecs": ["gzip"]},
    {"driver": "zarr3", "codecs": [{"name": "gzip", "configuration": {"level": 5}}]},
    {"driver": "zarr"},
    {"driver": "zarr", "compressor": None},
    {"driver": "zarr", "compressor": {"id": "zlib"}},
    {"driver": "n5", "compression": {"type": "gzip"}},
    {"driver": "foo"},
]


def of_length(n: int, items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Lists of `n` items."""
    return st.lists(items, min_size=n, max_size=n)


def domains(rank: int) -> st.SearchStrategy[dict[str, Any]]:
    """JSON of domains of `rank` dimensions."""
    bounds = st.one_of(
        st.fixed_dictionaries({"shape": of_length(rank, st.sampled_from([3, 3, 4, [5], 2]))}),
        st.fixed_dictionaries(
            {
                "exclusive_max": of_length(rank, st.sampled_from([3, 4, [5], "+inf", ["+inf"]])),
                "inclusive_min": of_length(rank, st.sampled_from([0, 1, [0], -2, "-inf", ["-inf"]])),
            }
        ),
        st.fixed_dictionaries({"inclusive_min": of_length(rank, st.sampled_from([0, 1, -2]))}),
        st.just({"rank": rank}),
    )
    labels = st.just({}) | of_length(rank, st.sampled_from(["", "", "x", "y"])).map(lambda v: {"labels": v})
    return st.builds(lambda a, b: a | b, bounds, labels)


def layouts(rank: int) -> st.SearchStrategy[dict[str, Any]]:
    """JSON of chunk layouts of `rank` dimensions."""
    sizes = of_length(rank, st.sampled_from([0, 3, 4]))
    return st.one_of(
        st.just({}),
        st.just({"chunk": {"elements": 5}}),
        sizes.map(lambda v: {"chunk": {"shape": v}}),
        sizes.map(lambda v: {"read_chunk": {"shape_soft_constraint": v}}),
        of_length(rank, st.sampled_from([0, 1, None])).map(lambda v: {"grid_origin": v}),
        st.permutations(range(rank)).map(lambda v: {"inner_order": v}),
    )


numbers = st.sampled_from([0, 1, 5, -1, 2.5])
# Not 8-bit integers, which TensorStore prints as characters in messages.
fills = st.one_of(numbers, numbers, of_length(3, numbers), of_length(3, of_length(1, numbers)))


def schemas(rank: int) -> st.SearchStrategy[dict[str, Any]]:
    """JSON of schemas, mostly of `rank` dimensions."""
    ranks = st.sampled_from([rank] * 12 + [1, 2, 3])
    units = st.sampled_from([None, "4nm", [4, "nm"], 5, "5s"])
    return st.fixed_dictionaries(
        {},
        optional={
            "rank": ranks,
            "dtype": st.sampled_from(["int32", "int32", "int32", "float32", "complex64", "foo"]),
            "domain": ranks.flatmap(domains),
            "chunk_layout": ranks.flatmap(layouts),
            "codec": st.sampled_from(CODECS),
            "fill_value": fills,
            "dimension_units": ranks.flatmap(lambda n: of_length(n, units)),
        },
    )


pairs = st.integers(1, 2).flatmap(lambda n: st.tuples(schemas(n), schemas(n)))


def shown(schema: Any) -> tuple[Any, ...]:
    """All that a schema shows."""
    fill = schema.fill_value
    return (
        repr(schema),
        schema.to_json(),
        schema.rank,
        repr(schema.domain),
        repr(schema.dtype),
        repr(schema.chunk_layout),
        repr(schema.codec),
        None if fill is None else (fill.tolist(), fill.dtype, fill.shape),
        repr(schema.dimension_units),
    )


def outcome(call: Any) -> Any:
    """Return the result of a call, or the kind and text of its error."""
    try:
        return call()
    except (ValueError, IndexError) as e:
        kind = "IndexError" if isinstance(e, IndexError) else "ValueError"
        return f"{kind}: {e}".partition(" [domain=")[0].partition(" [transform=")[0]


@given(st.integers(1, 3).flatmap(schemas))
@settings(max_examples=examples(400), deadline=None)
def test_json_is_read_and_shown_as_in_tensorstore(json: dict[str, Any]) -> None:
    assert outcome(lambda: shown(cw.Schema(json))) == outcome(lambda: shown(ts.Schema(json)))


@given(pairs)
@settings(max_examples=examples(300), deadline=None)
def test_schemas_merge_as_in_tensorstore(jsons: tuple[dict[str, Any], dict[str, Any]]) -> None:
    # TensorStore takes a number and the same number as JSON for different.
    first, second = jsons
    second.pop("fill_value", None)

    def merged(library: Any) -> Any:
        schema = library.Schema(first)
        schema.update(schema=library.Schema(second))
        return shown(schema)

    ours, theirs = outcome(lambda: merged(cw)), outcome(lambda: merged(ts))
    if isinstance(ours, str) and ours.endswith("not unique") and not isinstance(theirs, str):
        # TensorStore merges labels into a domain that it takes from nobody else.
        labels = [label for label in theirs[1]["domain"]["labels"] if label]
        assert len(set(labels)) < len(labels)
        with pytest.raises(ValueError, match="not unique"):
            ts.Schema({"domain": {"labels": theirs[1]["domain"]["labels"]}})
        return
    assert ours == theirs


@pytest.mark.parametrize("library", [cw, ts])
def test_labels_are_unique_after_a_merge_too(library: Any) -> None:
    schema = library.Schema({"domain": {"labels": ["", "x"]}})
    other = library.Schema({"domain": {"labels": ["x", ""]}})
    if library is ts:
        schema.update(schema=other)
        assert schema.domain.labels == ("x", "x")  # which it refuses elsewhere
        return
    with pytest.raises(ValueError, match="not unique"):
        schema.update(schema=other)


INDEXING = {
    "s[0]": lambda s, d: s[0],
    "s[:, 1]": lambda s, d: s[:, 1],
    "s[...]": lambda s, d: s[...],
    "s[::2]": lambda s, d: s[::2],
    "s[2:0:-1]": lambda s, d: s[2:0:-1],
    "s[None]": lambda s, d: s[None],
    "s[1:3]": lambda s, d: s[1:3],
    "s.oindex[[1, 2]]": lambda s, d: s.oindex[[1, 2]],
    "s.vindex[[1, 2]]": lambda s, d: s.vindex[[1, 2]],
    "s[mask]": lambda s, d: s[[True, False, True]],
    "s.T": lambda s, d: s.T,
    "s.label": lambda s, d: s.label["a"],
    "s.translate_by": lambda s, d: s.translate_by[3],
    "s.translate_to": lambda s, d: s.translate_to[3],
    "s.mark_bounds_implicit": lambda s, d: s.mark_bounds_implicit[True],
    "d[0].stride[-1]": lambda s, d: s[d[0].stride[-1]],
    "d[0][None]": lambda s, d: s[d[0][None]],
    "d[0, 1].diagonal": lambda s, d: s[d[0, 1].diagonal],
}


@given(schemas(1) | schemas(2), st.sampled_from(sorted(INDEXING)))
@settings(max_examples=examples(400), deadline=None)
def test_views_are_described_as_in_tensorstore(json: dict[str, Any], name: str) -> None:
    # Along a diagonal or a stride of an unknown extent a fill value has no meaning; TensorStore keeps a part.
    if isinstance(json.get("fill_value"), list) and "d[" in name and "domain" not in json:
        json.pop("fill_value")

    def view(library: Any) -> Any:
        schema = library.Schema(json)
        # Without a rank TensorStore ends the process.
        return None if schema.rank is None else shown(INDEXING[name](schema, library.d))

    found, expected = outcome(lambda: view(cw)), outcome(lambda: view(ts))
    if isinstance(expected, str) and "Error transforming fill_value" in expected:
        assert isinstance(found, str) and "Error transforming fill_value" in found
    else:
        assert found == expected


@st.composite
def transforms(draw: st.DrawFn, n_inputs: int) -> dict[str, Any]:
    """JSON of transforms whose outputs are shifted and strided inputs or constants."""
    strides = st.sampled_from([1, 1, -1, 2, -3])
    maps = st.fixed_dictionaries(
        {"input_dimension": st.integers(0, n_inputs - 1), "offset": st.integers(-3, 3), "stride": strides}
    ) | st.fixed_dictionaries({"offset": st.integers(0, 3)})
    output = draw(st.lists(maps, min_size=1, max_size=3))
    return {"input_shape": [3] * n_inputs, "input_inclusive_min": [0] * n_inputs, "output": output}


@given(st.data(), st.integers(1, 3))
@settings(max_examples=examples(200), deadline=None)
def test_units_of_a_view_become_those_of_the_array_as_in_tensorstore(data: st.DataObject, n: int) -> None:
    transform = data.draw(transforms(n))
    units = data.draw(of_length(n, st.sampled_from([None, "4nm", "2s"])))

    def peer() -> Any:
        spec = ts.Spec({"driver": "zarr3", "kvstore": "memory://", "transform": transform})
        spec.update(dimension_units=units)
        return spec.to_json().get("schema", {}).get("dimension_units")

    def own() -> Any:
        schema = cw.Schema(dimension_units=units)
        return schema.inverse_transformed(cw.IndexTransform(json=transform)).to_json().get("dimension_units")

    assert outcome(own) == outcome(peer)


@given(st.data(), st.integers(1, 3))
@settings(deadline=None, max_examples=examples(60))
def test_a_permuted_and_shifted_view_leads_back(data: st.DataObject, rank: int) -> None:
    json = data.draw(schemas(rank)) | {"rank": rank}
    try:
        schema = cw.Schema(json)
    except ValueError:
        reject()
    order = data.draw(st.permutations(range(rank)))
    output = [{"input_dimension": d, "offset": data.draw(st.integers(-3, 3))} for d in order]
    labels = [""] * rank
    for dim, label in zip(order, schema.domain.labels if schema.domain else labels, strict=True):
        labels[dim] = label
    free = cw.IndexTransform(json={"input_labels": labels, "output": output})
    transform = cw.IndexTransform(domain=schema.domain or cw.IndexDomain(rank=rank)).compose(free)
    view = schema.transformed(transform, keep_domain=schema.domain is not None)
    assert view.inverse_transformed(transform) == schema


KEYWORDS: list[dict[str, Any]] = [
    {"rank": -1},
    {"rank": 33},
    {"rank": 2, "dimension_units": []},
    {"dtype": int, "fill_value": 1.5},
    {"dtype": "int8", "fill_value": 3.5},
    {"dtype": "float32", "fill_value": [[1, 2, 3]]},
    {"fill_value": [5, 5]},
    {"fill_value": [[[1]], [[2]]]},
    {"fill_value": np.broadcast_to([1, 2], (3, 2))},
    {"fill_value": [[1, 2]], "rank": 0},
    {"fill_value": [[1], [2]], "rank": 1},
    {"fill_value": [[1], [2]], "dimension_units": ["m"]},
    {"fill_value": [1, 2, 3], "shape": [3]},
    {"fill_value": [1, 2, 3], "shape": [4]},
    {"shape": [3, 4]},
    {"shape": []},
    {"shape": [3, -1]},
    {"dimension_units": [None, "4nm", 5, (3, "s")]},
    {"rank": "a"},
    {"rank": 1.0},
    {"shape": 5},
    {"domain": 5},
    {"schema": 5},
    {"codec": {}},
    {"chunk_layout": {}},
    {"dimension_units": "ab"},
    {"dimension_units": 5},
]


@pytest.mark.parametrize("keywords", KEYWORDS, ids=str)
def test_keywords_mean_what_they_mean_in_tensorstore(keywords: dict[str, Any]) -> None:
    def made(library: Any) -> Any:
        try:
            return shown(library.Schema(**keywords))
        except TypeError as e:
            return f"TypeError: {e}"

    assert outcome(lambda: made(cw)) == outcome(lambda: made(ts))


@pytest.mark.parametrize(
    "json",
    [
        None,
        5,
        {"foo": 1},
        {"rank": None},
        {"rank": 33},
        {"dtype": 5},
        {"dtype": None},
        {"domain": None},
        {"domain": {}},
        {"chunk_layout": None},
        {"codec": None},
        {"dimension_units": None},
        {"dimension_units": [{}]},
        {"rank": 0, "fill_value": [[1, 2]]},
        {"fill_value": [[1], [2, 3]]},
        {"fill_value": [[1], 2], "dtype": "json"},
        {"fill_value": [[1, 2, 3]], "dtype": "json"},
        {"fill_value": {"a": 1}, "dtype": "json"},
        {"fill_value": None, "dtype": "json"},
        {"fill_value": "abc", "dtype": "ustring"},
        {"fill_value": 3.5, "dtype": "uint8"},
        {"fill_value": "5", "dtype": "uint8"},
        {"fill_value": 1, "dtype": "complex64"},
    ],
    ids=str,
)
def test_unusual_json_is_treated_as_in_tensorstore(json: Any) -> None:
    assert outcome(lambda: shown(cw.Schema(json))) == outcome(lambda: shown(ts.Schema(json)))


def test_a_schema_without_rank_has_no_bounds() -> None:
    """TensorStore 0.1.86 ends the process."""
    for use in (
        lambda: cw.Schema().shape,
        lambda: cw.Schema().origin,
        lambda: cw.Schema().size,
        lambda: cw.Schema()[...],
    ):
        with pytest.raises(ValueError, match="unspecified rank"):
            use()


def test_a_schema_with_just_a_rank_is_unbounded() -> None:
    own, peer = cw.Schema(rank=2), ts.Schema(rank=2)
    for name in ("shape", "origin", "size", "ndim", "domain", "dimension_units"):
        assert getattr(own, name) == getattr(peer, name)


def test_a_fill_value_of_foreign_byte_order_keeps_its_value() -> None:
    """TensorStore 0.1.86 takes its bytes for native ones."""
    assert cw.Schema(fill_value=np.array(258, ">i4")) == cw.Schema(fill_value=np.int32(258))


def test_a_failed_update_changes_nothing() -> None:
    schema = cw.Schema(rank=2, dtype="uint8")
    with pytest.raises(ValueError, match="Specified dtype \\(int8\\) does not match existing value"):
        schema.update(shape=[3, 4], schema=cw.Schema(dtype="int8"))
    assert schema == cw.Schema(rank=2, dtype="uint8")


def test_json_and_keywords_do_not_mix() -> None:
    with pytest.raises(TypeError, match="JSON or keywords"):
        cw.Schema({}, rank=1)
    with pytest.raises(TypeError, match="'ranks'"):
        cw.Schema(ranks=1)


@given(schemas(2))
@settings(deadline=None)
def test_copies_are_equal_and_independent(json: dict[str, Any]) -> None:
    try:
        schema = cw.Schema(json)
    except ValueError:
        reject()
    for copied in (schema.copy(), pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema)):
        assert copied == schema
        assert repr(copied) == repr(schema)
    changed = schema.copy()
    changed.update(chunk_layout=cw.ChunkLayout(codec_chunk_elements=17))
    assert schema.chunk_layout.codec_chunk.elements is None


def test_equality_is_that_of_the_constraints() -> None:
    assert cw.Schema(fill_value=0.0) == cw.Schema(fill_value=-0.0)
    assert cw.Schema(fill_value=np.nan) == cw.Schema(fill_value=np.nan)
    assert cw.Schema(fill_value=1) != cw.Schema(fill_value=2)
    assert cw.Schema(fill_value=1) != cw.Schema()
    assert cw.Schema(codec=cw.CodecSpec({"driver": "n5"})) == cw.Schema({"codec": {"driver": "n5"}})
    for impossible in (lambda: cw.Schema() == 5, lambda: hash(cw.Schema())):
        with pytest.raises(TypeError):
            impossible()


def test_json_may_hold_objects_and_numpy_numbers() -> None:
    json = {
        "domain": cw.IndexDomain(shape=np.array([3, 4])),
        "dtype": cw.uint8,
        "chunk_layout": cw.ChunkLayout(chunk_shape=(np.int64(2), 2)),
        "codec": cw.CodecSpec({"driver": "n5"}),
        "dimension_units": (cw.Unit("4 nm"), None),
        "fill_value": np.uint8(7),
    }
    peer = {
        "domain": ts.IndexDomain(shape=np.array([3, 4])),
        "dtype": ts.uint8,
        "chunk_layout": ts.ChunkLayout(chunk_shape=(np.int64(2), 2)),
        "codec": ts.CodecSpec({"driver": "n5"}),
        "dimension_units": (ts.Unit("4 nm"), None),
        "fill_value": np.uint8(7),
    }
    assert repr(cw.Schema(json)) == repr(ts.Schema(peer))
    assert cw.Schema(cw.Schema(json)) == cw.Schema(json)
    assert cw.ChunkLayout(json["chunk_layout"]) == json["chunk_layout"]


def test_what_has_no_json_is_a_type_error() -> None:
    for value in ({1, 2}, iter([1]), 1j, object()):
        with pytest.raises(TypeError, match="does not support conversion to JSON"):
            plain_json({"member": [value]})
    assert plain_json({1: (True, np.bool_(True), np.str_("x"), np.array(3), range(2))}) == {
        "1": [True, True, "x", 3, [0, 1]]
    }
    unit = cw.Unit(3)
    assert plain_json({"a": [unit]}, lambda member, value: member == "a" and value is unit)["a"][0] is unit
