"""Metadata documents and constraints: what is read, what is refused, in TensorStore's words."""

import json

import numpy as np
import pytest
import tensorstore
from hypothesis import given
from hypothesis import strategies as st

from chunkwise.core.base import catalogue
from chunkwise.core.codec.bz2_lzma import Bzip2
from chunkwise.core.codec.n5_block import N5Block
from chunkwise.core.codec.n5_parts import parse_compression, read_compression
from chunkwise.core.driver.n5.constraints import check_constraints, parse_constraints
from chunkwise.core.driver.n5.metadata import block_codec, parse_metadata, to_json
from chunkwise.core.driver.n5.tree import (
    Version,
    check_version,
    dump_document,
    is_dataset,
    load_document,
    parse_version,
)
from chunkwise.errors import FailedPreconditionError, SpecError, UnknownExtensionError, UnsupportedError

BASE = {"dimensions": [5, 3], "blockSize": [3, 2], "dataType": "int16", "compression": {"type": "raw"}}


def ts_open(document, **metadata):
    """Open a stored document with TensorStore; return its error text, or the spec's metadata."""
    context = tensorstore.Context()
    kvstore = tensorstore.KvStore.open({"driver": "memory"}, context=context).result()
    kvstore["attributes.json"] = document if isinstance(document, bytes) else json.dumps(document)
    spec = {"driver": "n5", "kvstore": {"driver": "memory"}, "metadata": metadata}
    try:
        return tensorstore.open(spec, context=context).result().spec().to_json()["metadata"]
    except ValueError as e:
        return str(e)


# --- stored documents


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"axes": ["x", ""], "units": ["nm", "um"], "resolution": [4, 5.5], "foo": [1, None, {"a": 2}]},
        {"resolution": [4, 5.5]},
        {"compression": {"type": "gzip"}},
        {"compression": {"type": "xz"}},
        {"compression": {"type": "bzip2"}},
        {"compression": {"type": "zstd"}},
        {"compression": {"type": "blosc", "cname": "lz4", "clevel": 1, "shuffle": 1}},
        {"dimensions": [5.0, 3], "blockSize": [3.0, 2]},
        {"dimensions": [0, 3]},
        {"dimensions": [], "blockSize": []},
    ],
    ids=str,
)
def test_what_tensorstore_reads_is_read_as_it_says(more):
    assert to_json(parse_metadata({**BASE, **more})) == ts_open({**BASE, **more})


@pytest.mark.parametrize(
    "change",
    [
        {"dimensions": None},
        {"dimensions": [5, -3]},
        {"dimensions": "x"},
        {"dimensions": [5]},
        {"dimensions": [2**63 - 1, 2]},
        {"dimensions": ["5", 3]},
        {"dimensions": [1] * 33, "blockSize": [1] * 33},
        {"blockSize": [0, 1]},
        {"blockSize": [2**30 + 1, 1]},
        {"dataType": "bool"},
        {"dataType": "complex64"},
        {"dataType": "UINT8"},
        {"dataType": 5},
        {"compression": None},
        {"compression": "raw"},
        {"compression": {}},
        {"compression": {"type": 4}},
        {},
    ],
    ids=str,
)
def test_malformed_documents_get_the_words_of_tensorstore(change):
    document = {**BASE, **change} if change else {"n5": "2.0.0"}
    with pytest.raises(SpecError) as caught:
        parse_metadata(document)
    assert f'"attributes.json": {caught.value}' in ts_open(document)


@pytest.mark.parametrize("missing", ["dimensions", "blockSize", "dataType", "compression"])
def test_each_member_is_needed(missing):
    document = {name: value for name, value in BASE.items() if name != missing}
    assert not is_dataset(document)
    with pytest.raises(SpecError, match="but member is missing") as caught:
        parse_metadata(document)
    assert str(caught.value) in ts_open(document)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("axes", "units") for value in ("nm", ["x"], [1, 2], None)),
        *(("resolution", value) for value in ("nm", ["x"], None)),
    ],
)
def test_conventions_of_others_are_attributes(name, value):
    metadata = parse_metadata({**BASE, name: value})
    assert metadata.attributes == {name: value}
    assert (metadata.axes, metadata.units, metadata.resolution) == (("", ""), None, None)
    assert to_json(metadata)[name] == value


def test_version_0_metadata():
    document = {"dimensions": [5], "blockSize": [5], "dataType": "int8", "compressionType": "gzip"}
    metadata = parse_metadata(document)
    assert metadata.compression == {"type": "gzip", "level": -1, "useZlib": False}
    assert metadata.attributes == {}
    both = parse_metadata({**document, "compression": {"type": "raw"}})
    assert both.compression == {"type": "raw"}
    assert both.attributes == {"compressionType": "gzip"}


@pytest.mark.parametrize(
    ("stored", "canonical"),
    [
        ({"type": "gzip", "level": 5, "foo": 1}, {"type": "gzip", "level": 5, "useZlib": False}),
        ({"type": "gzip", "level": 99}, {"type": "gzip", "level": -1, "useZlib": False}),
        ({"type": "lz4", "blockSize": 6}, {"type": "lz4", "blockSize": 65536}),
        ({"type": "lz4", "id": "lz4", "acceleration": 1}, {"type": "lz4", "blockSize": 65536}),
        ({"type": "zstd", "id": "zstd", "level": 3, "checksum": False}, {"type": "zstd", "level": 3}),
        (
            {"type": "blosc", "clevel": 5, "cname": "lz4", "nthreads": 1, "typesize": 1, "shuffle": 1},
            {"type": "blosc", "clevel": 5, "cname": "lz4", "shuffle": 1, "blocksize": 0},
        ),
        ({"type": "blosc"}, {"type": "blosc", "clevel": 6, "cname": "blosclz", "shuffle": 0, "blocksize": 0}),
    ],
    ids=str,
)
def test_encoder_settings_of_others_do_not_matter(stored, canonical):
    assert read_compression(stored)[0] == canonical
    # and what is written in their place can be read by TensorStore
    if canonical["type"] != "lz4":
        assert ts_open({**BASE, "compression": canonical})["compression"] == canonical


def test_an_unknown_compression_hides_the_blocks_only():
    metadata = parse_metadata({**BASE, "compression": {"type": "snappyish", "x": 1}})
    assert to_json(metadata)["compression"] == {"type": "snappyish", "x": 1}
    with pytest.raises(UnknownExtensionError, match='"snappyish" is not registered'):
        block_codec(metadata)


def test_compressions_can_be_registered():
    class Reversed(Bzip2):
        name = "reversed_bzip2"

    catalogue.codecs.register("reversed", Reversed, format="n5")
    metadata = parse_metadata({**BASE, "compression": {"type": "reversed", "blockSize": 3}})
    assert block_codec(metadata) == N5Block((Reversed(3),))
    assert metadata.compression == {"type": "reversed", "blockSize": 3}


def test_resize_keeps_what_it_does_not_understand():
    stored = {**BASE, "compression": {"type": "gzip", "foo": 1}, "bar": float("nan"), "axes": "xy"}
    metadata = parse_metadata(stored).resized((7, 1))
    assert metadata.shape == (7, 1)
    assert metadata.document == {**stored, "dimensions": [7, 1]}
    assert stored["dimensions"] == [5, 3]
    with pytest.raises(SpecError, match="rank 3"):
        metadata.resized((1, 2, 3))


def test_text_is_that_of_tensorstore():
    context = tensorstore.Context()
    kvstore = tensorstore.KvStore.open({"driver": "memory"}, context=context).result()
    metadata = {**BASE, "axes": ["é", "y"], "resolution": [4, 0.5], "foo": {"b": [1, None], "a": "\x01/"}}
    spec = {"driver": "n5", "kvstore": {"driver": "memory"}, "metadata": metadata}
    tensorstore.open(spec, create=True, context=context).result()
    stored = kvstore["attributes.json"]
    assert dump_document(to_json(parse_metadata(load_document(stored)))) == stored


@pytest.mark.parametrize(
    ("raw", "document"),
    [
        (b"", {}),
        (b" \n", {}),
        (b"\xef\xbb\xbf{}", {}),
        (b'{"a": [NaN, -Infinity]}', {"a": [pytest.approx(np.nan, nan_ok=True), float("-inf")]}),
        ('{"é": 1}'.encode(), {"é": 1}),
        (b"[1]", [1]),
    ],
)
def test_documents_are_read_forgivingly(raw, document):
    assert load_document(raw) == document


@pytest.mark.parametrize("raw", [b"{", b"\xff", b"{a: 1}", b"[" * 200_000, b'{"a": 1} x'])
def test_what_is_no_json_is_refused(raw):
    with pytest.raises(SpecError, match=r"^Invalid JSON$"):
        load_document(raw)


def test_groups_with_a_data_type_are_groups():
    assert not is_dataset({"dataType": "uint8", "downsamplingFactors": [[1, 1, 1]]})
    assert not is_dataset([1])
    assert is_dataset({**BASE, "compression": None})


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists) | st.binary())
def test_no_document_fails_but_with_a_spec_error(value):
    for document in (value, {**BASE, "dimensions": value}, {**BASE, "compression": value}):
        try:
            metadata = parse_metadata(document)
        except SpecError:
            continue
        assert parse_metadata(to_json(metadata)) == metadata


# --- constraints

CONSTRAINTS = [
    {},
    {"dimensions": [5, 3]},
    {"dimensions": [5.0, 3]},
    {"dimensions": []},
    {"axes": ["x", "y"]},
    {"axes": ["", ""]},
    {"units": ["nm", "um"]},
    {"resolution": [1, 2]},
    {"foo": 1, "dataType": "uint8"},
    {"compression": {"type": "gzip"}},
    {"compression": {"type": "zstd"}},
    {"compression": {"type": "raw"}},
    {"compression": {"type": "blosc", "cname": "lz4", "clevel": 1, "shuffle": 1}},
    {"compression": {"type": "gzip", "level": 3.0}},
    {"blockSize": [2**20] * 3, "dataType": "uint8"},
    BASE,
]
REFUSED = [
    {"dimensions": [5, 3], "blockSize": [1]},
    {"blockSize": [1], "axes": ["x", "y"]},
    {"axes": ["x", "y"], "units": ["nm"]},
    {"units": ["nm"], "resolution": [1, 2]},
    {"axes": ["x", "x"]},
    {"axes": [None, "x"]},
    {"units": ["nm", None]},
    {"resolution": ["1", 2]},
    {"dataType": "bool"},
    {"dataType": "nope"},
    {"dimensions": None},
    {"dimensions": ["5", 3]},
    {"blockSize": [0]},
    {"compression": None},
    {"compression": {"type": "gzip", "foo": 1}},
    {"compression": {"type": "raw", "level": 1}},
    {"compression": {"type": "gzip", "level": 10}},
    {"compression": {"type": "gzip", "useZlib": 1}},
    {"compression": {"type": "xz", "preset": -1}},
    {"compression": {"type": "bzip2", "blockSize": 0}},
    {"compression": {"type": "blosc", "cname": "lz4", "clevel": 10, "shuffle": 1}},
]


def ts_spec(metadata):
    return tensorstore.Spec({"driver": "n5", "kvstore": "memory://", "metadata": metadata}).to_json()


@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=str)
def test_constraints_are_completed_as_tensorstore_does(constraints):
    assert parse_constraints(constraints).to_json() == ts_spec(constraints).get("metadata", {})


@pytest.mark.parametrize("constraints", REFUSED, ids=str)
def test_malformed_constraints_get_the_words_of_tensorstore(constraints):
    with pytest.raises(SpecError) as caught:
        parse_constraints(constraints)
    with pytest.raises(ValueError) as theirs:
        ts_spec(constraints)
    assert str(theirs.value) == f'Error parsing object member "metadata": {caught.value}'


@pytest.mark.parametrize(
    "compression",
    [
        {"type": "nope"},
        {"type": "zstd", "level": 100},
        {"type": "blosc", "cname": "x", "clevel": 1, "shuffle": 1},
        {"type": "blosc", "cname": "lz4", "clevel": 1},
        {"type": "blosc", "cname": "lz4", "clevel": 1, "shuffle": -1},
    ],
    ids=str,
)
def test_compressions_that_tensorstore_refuses_are_refused(compression):
    with pytest.raises(ValueError):
        ts_spec({"compression": compression})
    with pytest.raises((SpecError, UnknownExtensionError)):
        parse_compression(compression)


STORED = {
    "dimensions": [5, 3],
    "blockSize": [3, 2],
    "dataType": "uint16",
    "compression": {"type": "gzip", "level": 5},
    "foo": {"a": [1, 2.0], "b": True},
}


@pytest.mark.parametrize(
    "constraints",
    [
        {},
        {"dimensions": [5, 3]},
        {"dimensions": [5, 4]},
        {"blockSize": [3, 3]},
        {"dataType": "uint8"},
        {"compression": {"type": "gzip"}},
        {"compression": {"type": "gzip", "level": 5, "useZlib": False}},
        {"axes": ["x", "y"]},
        {"axes": ["", ""]},
        {"units": ["nm", "nm"]},
        {"resolution": [1, 1]},
        {"foo": {"a": [1.0, 2], "b": True}},
        {"foo": {"a": [1, 2.0], "b": 1}},
        {"foo": {"a": [1]}},
        {"bar": 1},
        {"dimensions": [5, 4], "blockSize": [1, 1], "axes": ["x", "y"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("more", [{}, {"axes": ["x", "y"], "units": ["nm", "um"], "resolution": [1, 2.5]}])
def test_constraints_hold_where_they_hold_for_tensorstore(constraints, more):
    theirs = ts_open({**STORED, **more}, **constraints)
    try:
        check_constraints(parse_constraints(constraints), parse_metadata({**STORED, **more}))
    except FailedPreconditionError as e:
        assert e.message in theirs
        assert theirs.startswith("FAILED_PRECONDITION")
    else:
        assert isinstance(theirs, dict)


# --- version


@pytest.mark.parametrize(
    ("value", "version"),
    [
        ("2.0.0", (2, 0, 0, "")),
        ("4", (4, 0, 0, "")),
        ("4.1", (4, 1, 0, "")),
        (2, (2, 0, 0, "")),
        (2.5, (2, 5, 0, "")),
        ("2.1.0-SNAPSHOT", (2, 1, 0, "-SNAPSHOT")),
        ("abc", None),
        (None, None),
        (True, None),
        ([4], None),
    ],
)
def test_versions(value, version):
    assert parse_version(value) == (version if version is None else Version(*version))
    check_version(value)


@pytest.mark.parametrize("value", ["5.0.0", 5, "10.0.0-SNAPSHOT"])
def test_newer_containers_are_refused(value):
    with pytest.raises(UnsupportedError, match=r"Incompatible N5 version (5|10)\.0\.0"):
        check_version(value)
