"""Creating and opening under constraints: the same documents and the same refusals as TensorStore's."""

import json

import numpy as np
import pytest
import tensorstore

import chunkwise.core.specs.codec_spec as codec_spec
from chunkwise.core.chunk_key import KeyEncoding
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.n5.constraints import parse_constraints
from chunkwise.core.driver.n5.format import N5Format, N5Options
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, InvalidArgumentError

FORMAT: Format = N5Format()
U16 = {"dtype": "uint16"}
AT = {"dtype": "uint16", "domain": {"shape": [40, 50]}}


def ours(schema):
    return Schema(schema)


def theirs_open(stored, metadata, schema, **mode):
    context = tensorstore.Context()
    kvstore = tensorstore.KvStore.open({"driver": "memory"}, context=context).result()
    if stored is not None:
        kvstore["a/attributes.json"] = json.dumps(stored)
    spec = {"driver": "n5", "kvstore": {"driver": "memory", "path": "a/"}, "metadata": metadata}
    store = tensorstore.open({**spec, "schema": schema}, context=context, **mode).result()
    return kvstore, store


CREATE = [
    ({}, {}),
    ({}, U16),
    ({}, {**U16, "rank": 2}),
    ({}, {"domain": {"shape": [4, 5]}}),
    ({}, {"dtype": "uint8", "domain": {"shape": [4, 5]}}),
    ({}, AT),
    ({}, {"dtype": "bool", "domain": {"shape": [4, 5]}}),
    ({}, {**U16, "domain": {"shape": [4, 5], "labels": ["x", "y"]}}),
    ({}, {**U16, "domain": {"labels": ["x", "y"]}}),
    ({}, {**U16, "domain": {"inclusive_min": [0, 0]}}),
    ({}, {**U16, "domain": {"inclusive_min": [[0], [0]], "shape": [[2], 3]}}),
    ({}, {**U16, "domain": {"shape": []}}),
    ({}, {**U16, "domain": {"shape": [0, 5]}}),
    ({"dimensions": [4, 5], "dataType": "uint8"}, {}),
    ({"dimensions": [4, 5]}, {**U16, "domain": {"labels": ["x", "y"]}}),
    ({"dimensions": [4, 5], "axes": ["x", ""]}, U16),
    ({"axes": ["x", "y"]}, AT),
    ({"blockSize": [2, 2]}, U16),
    ({"blockSize": [2, 3]}, AT),
    ({"foo": [1], "n5": "2.0.0"}, AT),
    ({"compression": {"type": "xz"}}, AT),
    ({}, {**AT, "codec": {"driver": "n5", "compression": {"type": "gzip"}}}),
    ({}, {**AT, "codec": {"driver": "n5"}}),
    ({"compression": {"type": "raw"}}, {**AT, "codec": {"driver": "n5", "compression": {"type": "raw"}}}),
    ({"blockSize": [2, 2]}, {**AT, "chunk_layout": {"chunk": {"shape_soft_constraint": [2, 3]}}}),
    ({}, {**AT, "chunk_layout": {"chunk": {"shape": [-1, 10]}}}),
    ({}, {**AT, "chunk_layout": {"chunk": {"elements": 100}}}),
    ({}, {**AT, "chunk_layout": {"chunk": {"elements": 100, "aspect_ratio": [1, 3]}}}),
    ({}, {**AT, "chunk_layout": {"read_chunk": {"shape": [7, 9]}}}),
    ({}, {**AT, "chunk_layout": {"write_chunk": {"shape": [7, 9]}}}),
    ({}, {**AT, "chunk_layout": {"read_chunk": {"shape": [2, 3]}, "write_chunk": {"shape": [4, 6]}}}),
    ({}, {**AT, "chunk_layout": {"grid_origin_soft_constraint": [0, 1]}}),
    ({}, {**AT, "chunk_layout": {"inner_order": [1, 0]}}),
    ({}, {**AT, "chunk_layout": {"inner_order_soft_constraint": [0, 1]}}),
    ({}, {**AT, "chunk_layout": {"codec_chunk": {"shape_soft_constraint": [2, 2]}}}),
    ({}, {**AT, "chunk_layout": {"codec_chunk": {"shape": [2, 2]}}}),
    ({}, {**AT, "chunk_layout": {"codec_chunk": {"aspect_ratio": [2, 2]}}}),
    ({}, {**U16, "domain": {"shape": [2**31, 5]}, "chunk_layout": {"chunk": {"shape": [2**30, 2]}}}),
    ({}, {**U16, "domain": {"shape": [1000, 2000, 3000]}}),
    ({}, {**AT, "fill_value": 0}),
    ({}, {**AT, "dimension_units": ["4nm", None]}),
    ({}, {**AT, "dimension_units": [None, None]}),
    ({"units": ["nm", "um"]}, AT),
    ({"units": ["nm", "um"], "resolution": [2, 3.5]}, AT),
    ({"resolution": [4, 5]}, AT),
    ({"resolution": [4, 5]}, {**AT, "dimension_units": ["4nm", None]}),
    ({"units": ["nm", "nm"], "resolution": [3, 4]}, {**AT, "dimension_units": ["3nm", None]}),
    ({"resolution": [4, 5.5]}, {**AT, "dimension_units": ["3nm", None]}),
]
AT_SPEC = [
    ({"dataType": "uint8"}, AT),
    ({"dimensions": [4, 5]}, {**U16, "domain": {"shape": [4, 6]}}),
    ({"dimensions": [4, 5], "axes": ["a", "b"]}, {**U16, "domain": {"labels": ["x", "y"]}}),
    ({}, {**AT, "chunk_layout": {"grid_origin": [0, 1]}}),
    ({}, {**AT, "chunk_layout": {"inner_order": [0, 1]}}),
    ({"blockSize": [2, 2]}, {**AT, "chunk_layout": {"chunk": {"shape": [2, 3]}}}),
    ({"blockSize": [2, 2]}, {**AT, "chunk_layout": {"write_chunk": {"shape": [2, 3]}}}),
    ({"compression": {"type": "raw"}}, {**AT, "codec": {"driver": "n5", "compression": {"type": "gzip"}}}),
    ({"units": ["nm", "nm"]}, {**AT, "dimension_units": ["3nm", None]}),
    ({}, {**U16, "domain": {"inclusive_min": [1, 0], "shape": [4, 5]}}),
]


@pytest.mark.parametrize(("metadata", "schema"), CREATE, ids=str)
def test_created_documents_and_refusals_are_those_of_tensorstore(metadata, schema):
    try:
        kvstore, _ = theirs_open(None, metadata, schema, create=True)
    except ValueError as e:
        with pytest.raises(ChunkwiseError) as caught:
            FORMAT.create(parse_constraints(metadata), None, ours(schema))
        assert isinstance(caught.value, InvalidArgumentError)
        assert caught.value.message.rstrip(".") in str(e)
        return
    created = FORMAT.create(parse_constraints(metadata), None, ours(schema))
    assert FORMAT.encode(created) == kvstore["a/attributes.json"]
    FORMAT.check(created, parse_constraints(metadata), None, Schema())
    described = FORMAT.schema_of(created, None).to_json()
    stored = json.loads(kvstore["a/attributes.json"])
    _, reopened = theirs_open(stored, {}, {}, open=True)
    assert described == reopened.schema.to_json()


@pytest.mark.parametrize(("metadata", "schema"), AT_SPEC, ids=str)
def test_conflicts_inside_a_spec_are_found_before_opening(metadata, schema):
    with pytest.raises(ValueError) as theirs:
        spec = {"driver": "n5", "kvstore": "memory://", "metadata": metadata, "schema": schema}
        tensorstore.Spec(spec).schema
    with pytest.raises(ChunkwiseError) as caught:
        FORMAT.constraint_schema(parse_constraints(metadata), None, ours(schema))
    message = str(theirs.value).removeprefix('Error parsing object member "metadata": ')
    if "Specified dtype" in message:
        assert "Specified dtype" in caught.value.message
    elif "Cannot merge index domain" in message:
        assert "Mismatch in dimension" in caught.value.message
    elif "dimension units" in message:
        assert "Cannot merge dimension units" in caught.value.message
    elif "codec spec" in message:
        assert '"compression" does not match' in caught.value.message
    else:
        assert message.partition(":")[0] in caught.value.message
    with pytest.raises(ChunkwiseError):
        FORMAT.create(parse_constraints(metadata), None, ours(schema))


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"dimensions": [5, 3]},
        {"axes": ["x", "y"]},
        {"axes": ["", ""]},
        {"blockSize": [2, 2]},
        {"units": ["nm", "um"]},
        {"resolution": [1, 2]},
        {"units": ["nm", "um"], "resolution": [3, 4]},
        {"compression": {"type": "raw"}, "dataType": "uint8"},
        {"dimensions": [5, 3], "axes": ["x", ""], "foo": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "schema",
    [{}, {"rank": 2}, {"domain": {"labels": ["x", ""]}}, {"chunk_layout": {"chunk": {"elements": 9}}}],
    ids=str,
)
def test_what_constraints_say_before_opening(metadata, schema):
    spec = {"driver": "n5", "kvstore": "memory://", "metadata": metadata, "schema": schema}
    try:
        spec = tensorstore.Spec(spec)
    except ValueError:
        with pytest.raises(ChunkwiseError):
            FORMAT.constraint_schema(parse_constraints(metadata), None, ours(schema))
        return
    found = FORMAT.constraint_schema(parse_constraints(metadata), None, ours(schema))
    assert found.to_json() == spec.schema.to_json()


STORED = {
    "dimensions": [5, 3],
    "blockSize": [3, 2],
    "dataType": "uint16",
    "compression": {"type": "gzip", "level": 5},
}
UNITS = {**STORED, "units": ["nm", "um"], "resolution": [4, 5], "axes": ["x", "y"]}
OPEN = [
    {},
    {"rank": 3},
    {"rank": 2},
    {"dtype": "uint8"},
    {"dtype": "uint16"},
    {"domain": {"shape": [5, 4]}},
    {"domain": {"shape": [5, 3], "labels": ["a", "y"]}},
    {"domain": {"shape": [5, 3], "labels": ["x", "y"]}},
    {"chunk_layout": {"chunk": {"shape": [3, 3]}}},
    {"chunk_layout": {"chunk": {"shape": [3, 2]}}},
    {"chunk_layout": {"chunk": {"shape_soft_constraint": [1, 1]}}},
    {"chunk_layout": {"inner_order": [0, 1]}},
    {"chunk_layout": {"grid_origin": [1, 0]}},
    {"chunk_layout": {"chunk": {"elements": 7, "aspect_ratio": [1, 2]}}},
    {"chunk_layout": {"codec_chunk": {"shape": [3, 2]}}},
    {"codec": {"driver": "n5", "compression": {"type": "gzip"}}},
    {"codec": {"driver": "n5", "compression": {"type": "gzip", "level": 5}}},
    {"codec": {"driver": "n5"}},
    {"fill_value": 0},
    {"dimension_units": ["4nm", None]},
    {"dimension_units": ["3nm", None]},
    {"dimension_units": [None, None]},
]


@pytest.mark.parametrize("schema", OPEN, ids=str)
@pytest.mark.parametrize("stored", [STORED, UNITS], ids=["plain", "units"])
def test_schema_constraints_hold_where_they_hold_for_tensorstore(stored, schema):
    refusal = None
    try:
        theirs_open(stored, {}, schema, open=True)
    except ValueError as e:
        refusal = str(e)
    metadata = FORMAT.parse_metadata(stored)
    try:
        FORMAT.check(metadata, parse_constraints({}), None, ours(schema))
    except (FailedPreconditionError, InvalidArgumentError) as e:
        assert refusal is not None
        assert refusal.startswith("FAILED_PRECONDITION") == isinstance(e, FailedPreconditionError)
        assert e.message in refusal
    else:
        assert refusal is None


def test_codec_specs():
    found = codec_spec.CodecSpec({"driver": "n5", "compression": {"type": "gzip"}})
    theirs = tensorstore.CodecSpec({"driver": "n5", "compression": {"type": "gzip"}})
    assert found.to_json() == theirs.to_json()
    assert repr(found) == repr(theirs)
    with pytest.raises(ValueError, match="Object includes extra members"):
        codec_spec.CodecSpec({"driver": "n5", "foo": 1})


# --- the stored array, and what the flows ask of a format


def test_stored_array_decodes_what_tensorstore_wrote():
    values = np.arange(15, dtype="u2").reshape(5, 3)
    kvstore, theirs = theirs_open(None, STORED, {}, create=True)
    theirs.write(values).result()
    metadata = FORMAT.parse_metadata(json.loads(kvstore["a/attributes.json"]))
    stored = FORMAT.stored_array(metadata, "a/", N5Options())
    assert stored.shape == (5, 3)
    assert stored.dtype == "uint16"
    assert stored.grid.chunk_shape == (3, 2)
    assert stored.fill_value == 0
    assert stored.keys.key((1, 1)) == "a/1/1"
    out = np.full((3, 2), 9, "u2")
    stored.chain.open_decoder()(kvstore["a/1/1"], out)
    np.testing.assert_array_equal(out, [[11, 0], [14, 0], [0, 0]])


def test_rank_0_has_one_block():
    metadata = FORMAT.parse_metadata({**STORED, "dimensions": [], "blockSize": []})
    assert FORMAT.stored_array(metadata, "p/", N5Options()).keys == KeyEncoding("p/", "/", "p/0")


def test_strings_are_an_array_of_text():
    metadata = FORMAT.create(parse_constraints({"dimensions": [3]}), None, ours({"dtype": "ustring"}))
    assert metadata.data_type == "string"
    stored = FORMAT.stored_array(metadata, "", N5Options())
    assert stored.dtype == "ustring"
    raw = bytes(stored.chain.open_encoder()(np.array(["a", "", "é"], object)))
    assert raw[:12] == bytes.fromhex("00010001 00000003 00000006")
    out = np.empty(3, object)
    stored.chain.open_decoder()(raw, out)
    assert out.tolist() == ["a", "", "é"]


def test_a_dataset_takes_over_the_version_of_its_container_and_nothing_else():
    created = FORMAT.create(parse_constraints(STORED), None, Schema())
    adopted = FORMAT.adopt(created, {"n5": "2.1.0"})
    assert adopted.document == {**created.document, "n5": "2.1.0"}
    assert FORMAT.adopt(created, {}).document == created.document
    for existing in (STORED, [1], {"n5": "2.0.0", "foo": 1}, {"dataType": "int8"}):
        assert FORMAT.adopt(created, existing) is None


def test_resized_metadata_is_the_same_array():
    metadata = FORMAT.parse_metadata({**UNITS, "foo": 1})
    assert FORMAT.same_but_resized(metadata, metadata.resized((9, 9)))
    assert FORMAT.same_but_resized(metadata, FORMAT.parse_metadata(UNITS))
    for change in ({"blockSize": [1, 1]}, {"dataType": "int8"}, {"axes": ["x", "z"]}):
        assert not FORMAT.same_but_resized(metadata, FORMAT.parse_metadata({**UNITS, **change}))


def test_layout_of_every_dataset_is_precise():
    layout = FORMAT.schema_of(FORMAT.parse_metadata(STORED), None).chunk_layout
    assert layout == ChunkLayout(
        grid_origin=[0, 0], inner_order=[1, 0], read_chunk_shape=[3, 2], write_chunk_shape=[3, 2]
    )
