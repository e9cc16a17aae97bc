"""Metadata derived from a similar document equals the result of parsing the document itself."""

from __future__ import annotations

import copy
import dataclasses
import json
from functools import partial
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.core.api import spec_cache
from chunkwise.core.driver.chunked import documents
from chunkwise.core.driver.chunked.documents import cached_metadata, layout_of
from chunkwise.core.driver.chunked.record import FieldOptions
from chunkwise.core.driver.n5.format import N5Format, N5Options
from chunkwise.core.driver.zarr1.format import Zarr1Format
from chunkwise.core.driver.zarr2.format import Zarr2Format, Zarr2Options
from chunkwise.core.driver.zarr3.format import Zarr3Format
from chunkwise.errors import ChunkwiseError

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
ZARR3 = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [9, 7],
    "data_type": "uint16",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 3,
    "codecs": [LITTLE, {"name": "gzip", "configuration": {"level": 1}}],
}
RECTILINEAR = {
    **ZARR3,
    "chunk_grid": {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [[5, 4], 3]},
    },
}
ZARR2 = {
    "zarr_format": 2,
    "shape": [9, 7],
    "chunks": [4, 4],
    "dtype": "<u2",
    "compressor": {"id": "zlib", "level": 1},
    "fill_value": None,
    "order": "F",
    "filters": None,
}
ZARR1 = {
    "zarr_format": 1,
    "shape": [9, 7],
    "chunks": [4, 4],
    "dtype": "<u2",
    "compression": "zlib",
    "compression_opts": 1,
    "fill_value": 0,
    "order": "C",
}
N5 = {
    "dimensions": [9, 7],
    "blockSize": [4, 4],
    "dataType": "uint16",
    "compression": {"type": "gzip", "level": 1},
    "axes": ["x", "y"],
}
FORMATS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "zarr3": (Zarr3Format(), FieldOptions(), ZARR3),
    "rectilinear": (Zarr3Format(), FieldOptions(), RECTILINEAR),
    "zarr3-void": (Zarr3Format(), FieldOptions(open_as_void=True), ZARR3),
    "zarr2": (Zarr2Format(), Zarr2Options(), ZARR2),
    "zarr1": (Zarr1Format(), Zarr2Options(metadata_key="meta"), ZARR1),
    "n5": (N5Format(), N5Options(crop_end_blocks=True), N5),
}

SIZES = st.one_of(st.integers(0, 20), st.sampled_from([-1, 2.0, 2.5, True, None, "3", 2**62, 2**63, 10**30]))
SHAPES = st.one_of(st.lists(SIZES, min_size=2, max_size=2), st.lists(st.integers(0, 5), max_size=4), SIZES)
VALUES = st.sampled_from([None, 1, 1.0, True, "y", [], {}, ["a", "b"], ["a", "a"], [1, 2], {"units": "nm"}])
NAMES = st.sampled_from(
    [
        "attributes",
        "dimension_names",
        "axes",
        "units",
        "resolution",
        "fill_value",
        "order",
        "extra",
        "dataType",
        "compressionType",
        "dimension_separator",
        "node_type",
        "codecs",
        "filters",
        "storage_transformers",
    ]
)


def outcome(parse: Any, document: Any) -> Any:
    try:
        return parse(document)
    except (ChunkwiseError, ValueError) as e:
        return type(e), str(e)


def values(record: Any) -> dict[str, Any]:
    """Return the fields of a record; what has no equality by its text."""
    out = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        out[field.name] = (type(value), repr(value))
    return out


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_what_is_known_of_like_documents_is_what_parsing_gives(name, data):
    format, options, base = FORMATS[name]
    shape_member = "dimensions" if name == "n5" else "shape"
    changes = st.lists(st.tuples(NAMES, VALUES), max_size=2)
    for _ in range(3):  # what came before must not matter
        document = copy.deepcopy({**base, **dict(data.draw(changes))})
        document[shape_member] = data.draw(SHAPES)
        before = json.dumps(document)
        known = outcome(lambda d: cached_metadata(format, d), document)
        parsed = outcome(format.parse_metadata, json.loads(before))
        assert json.dumps(document) == before
        if isinstance(parsed, tuple):
            assert known == parsed
            continue
        assert values(known) == values(parsed)
        path = data.draw(st.sampled_from(["", "a/", "b/c/"]))
        layout = outcome(partial(layout_of, format, path=path, options=options), known)
        stored = outcome(partial(format.stored_array, prefix=path, options=options), parsed)
        if isinstance(stored, tuple):
            assert layout == stored
            continue
        assert layout.domain == format.domain_of(parsed, options)
        mine, expected = values(layout.stored), values(stored)
        mine.pop("field", None), expected.pop("field", None)  # which holds functions
        assert mine == expected


def test_what_is_kept_has_no_attributes():
    """A large attribute of one array must not stay in memory because others are like it."""
    for name in ("zarr3", "n5"):
        format, options, base = FORMATS[name]
        own = "attributes" if name == "zarr3" else "custom"
        metadata = cached_metadata(format, {**base, "fill_value": 7, own: {"large": "x" * 100_000}})
        layout_of(format, metadata, "", options)
        kinds = [kept for kept in documents._templates.values() if "x" * 1000 in repr(kept.document)]
        frames = [s for _, s in documents._stored_arrays.values() if "x" * 1000 in repr(s.document)]
        assert (kinds, frames) == ([], [])


def test_arrays_that_differ_in_shape_and_attributes(tmp_path):
    """Each has its own shape, attributes, chunks and place, in whatever order they are opened."""
    for driver in ("zarr3", "zarr", "n5"):
        specs = []
        for i in range(6):
            path = tmp_path / driver / f"{i}"
            spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}
            store = ts.open(spec, create=True, dtype=ts.int16, shape=[3 + i % 3, 4]).result()
            store.write(i).result()
            specs.append(spec)
            name = {"zarr3": "zarr.json", "n5": "attributes.json"}.get(driver)
            if name is not None:
                document = json.loads((path / name).read_text())
                place = document.setdefault("attributes", {}) if driver == "zarr3" else document
                place["number"] = i
                (path / name).write_text(json.dumps(document))
        for i in (0, 3, 1, 5, 4, 2, 3, 0):
            store = ts.open(specs[i]).result()
            assert store.shape == (3 + i % 3, 4)
            assert np.array_equal(store.read().result(), np.full((3 + i % 3, 4), i))
            metadata = store.spec().to_json()["metadata"]
            if driver != "zarr":
                assert metadata.get("attributes", metadata)["number"] == i
            assert store.kvstore.path == specs[i]["kvstore"]["path"] + "/"


@pytest.mark.parametrize("path", ["a", "a/", "", "../x", "a//b", "a\0b", "./a", "a.__lock"])
@pytest.mark.parametrize("driver", ["zarr3", "n5", "auto"])
def test_a_spec_that_is_moved_says_what_a_parsed_one_says(tmp_path, monkeypatch, driver, path):
    """Paths that can't be are refused with the same words, whether the spec is of a known kind or not."""
    monkeypatch.chdir(tmp_path)

    def opened(spec: dict[str, Any]) -> Any:
        try:
            return ts.open(spec).result().spec().to_json()
        except Exception as e:
            return type(e), str(e)

    def spec(path: str) -> dict[str, Any]:
        return {"driver": driver, "kvstore": {"driver": "file", "path": path}}

    (tmp_path / "a").mkdir()
    spec_cache._specs.clear()
    first = opened(spec(path))
    spec_cache._specs.clear()
    opened(spec("missing/"))
    assert opened(spec(path)) == first
    assert opened(spec(path)) == first
