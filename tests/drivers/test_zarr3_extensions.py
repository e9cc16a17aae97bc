"""Extensions of Zarr v3: grids, codecs, unknown members, short names, node names."""

import json

import ml_dtypes
import numpy as np
import pytest
import zarr

import chunkwise as ts

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def _spec(path, **members):
    return {"driver": "zarr3", "kvstore": f"file://{path}/", **members}


def _document(shape, chunks, data_type="uint16", codecs=(LITTLE,), **members):
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": list(codecs),
        **members,
    }


def _put(path, document):
    (path / "zarr.json").write_text(json.dumps(document))


# -- rectilinear grids ------------------------------------------------------------------------------------

EDGES = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[2, 3, [1, 2]], 4]}}


def test_a_rectilinear_array_made_by_hand(tmp_path):
    """Rows of chunks with 2, 3, 1 and 1 elements; columns of 4 as in a regular grid."""
    values = np.arange(49, dtype="<u2").reshape(7, 7) + 1
    _put(tmp_path, {**_document((7, 7), (1, 1)), "chunk_grid": EDGES})
    padded = np.pad(values, ((0, 0), (0, 1)))
    for i, (lo, hi) in enumerate([(0, 2), (2, 5), (5, 6), (6, 7)]):
        for j in range(2):
            (tmp_path / "c" / str(i)).mkdir(parents=True, exist_ok=True)
            (tmp_path / "c" / str(i) / str(j)).write_bytes(padded[lo:hi, 4 * j : 4 * j + 4].tobytes())
    store = ts.open(_spec(tmp_path)).result()
    np.testing.assert_array_equal(store.read().result(), values)
    np.testing.assert_array_equal(store[1:6:2, ::-3].read().result(), values[1:6:2, ::-3])
    store[1:6, 3] = values[1:6, 3] = 999
    np.testing.assert_array_equal(store.read().result(), values)
    raw = np.frombuffer((tmp_path / "c/1/0").read_bytes(), "<u2").reshape(3, 4)
    np.testing.assert_array_equal(raw, values[2:5, :4])


def test_creating_a_rectilinear_array(tmp_path):
    store = ts.open(
        _spec(tmp_path, metadata={"chunk_grid": EDGES, "data_type": "float32", "shape": [7, 6]}), create=True
    ).result()
    values = np.arange(42, dtype=np.float32).reshape(7, 6) + 1
    store[...] = values
    document = json.loads((tmp_path / "zarr.json").read_text())
    assert document["chunk_grid"] == EDGES
    again = ts.open(store.spec()).result()
    np.testing.assert_array_equal(again.read().result(), values)
    small = again.resize(exclusive_max=[4, 3]).result()
    np.testing.assert_array_equal(small.read().result(), values[:4, :3])
    assert not (tmp_path / "c/2/0").exists() and (tmp_path / "c/1/0").exists()


@pytest.mark.parametrize("defaults", [False, True])
def test_a_spec_of_a_rectilinear_array_makes_another_one(tmp_path, defaults):
    """The metadata in it say the sizes, and so does the schema."""
    metadata = {"chunk_grid": EDGES, "data_type": "float32", "shape": [7, 6]}
    store = ts.open(_spec(tmp_path / "a", metadata=metadata), create=True).result()
    json_spec = {**store.spec().to_json(include_defaults=defaults), "kvstore": f"file://{tmp_path}/b/"}
    assert ts.open(json_spec, create=True).result().spec().to_json()["metadata"]["chunk_grid"] == EDGES
    assert ts.open(_spec(tmp_path / "a"), schema=store.schema).result().shape == (7, 6)
    layout = store.chunk_layout
    assert not any(layout.read_chunk.shape or ()) and not any(layout.write_chunk.shape or ())
    both = _spec(tmp_path / "c", metadata={"chunk_grid": EDGES})
    made = ts.open(both, schema=store.schema, create=True).result()
    assert made.spec().to_json()["metadata"]["chunk_grid"] == EDGES


CANONICAL = [[2, 3, [1, 2]], 4]


@pytest.mark.parametrize("through_json", [False, True])
def test_a_schema_of_a_rectilinear_array_makes_another_one(tmp_path, through_json):
    """What `chunk_layout` says of the sizes is enough, also as JSON; no regular grid is made of it."""
    edges = {"kind": "inline", "chunk_shapes": [[2, 3, 1, [1, 1]], 4]}
    grid = {"name": "rectilinear", "configuration": edges}
    metadata = {"chunk_grid": grid, "data_type": "float32", "shape": [7, 6]}
    store = ts.open(_spec(tmp_path / "a", metadata=metadata), create=True).result()
    schema = store.schema
    assert schema.chunk_layout.to_json()["chunk_shapes"] == CANONICAL
    if through_json:
        schema = ts.Schema(json.loads(json.dumps(schema.to_json())))
        assert schema == store.schema
    made = ts.open(_spec(tmp_path / "b"), schema=schema, create=True).result()
    assert _sizes(tmp_path / "b") == CANONICAL
    made[...] = values = np.arange(42, dtype=np.float32).reshape(7, 6)
    np.testing.assert_array_equal(
        ts.open(_spec(tmp_path / "b"), schema=schema).result().read().result(), values
    )
    layout_only = _spec(tmp_path / "c", dtype="uint8", schema={"chunk_layout": schema.chunk_layout.to_json()})
    ts.open(layout_only, create=True, shape=[5, 9]).result()
    assert _sizes(tmp_path / "c") == CANONICAL
    with pytest.raises(ValueError, match=r"chunk grid, which ends at 7 in dimension 0"):
        ts.open(
            _spec(tmp_path / "d", dtype="uint8"), create=True, shape=[8, 6], chunk_layout=schema.chunk_layout
        ).result()


@pytest.mark.parametrize("driver", ["zarr", "n5"])
def test_other_formats_refuse_the_chunks_of_a_rectilinear_array(tmp_path, driver):
    """They have no such grid, and choose none in its place."""
    layout = ts.ChunkLayout({"chunk_shapes": CANONICAL})
    spec = {"driver": driver, "kvstore": f"file://{tmp_path}/", "dtype": "uint8"}
    with pytest.raises(ValueError, match=r"chunk_shapes \[\[2,3,\[1,2\]\],4\].*only arrays of zarr3"):
        ts.open(spec, create=True, shape=[7, 6], chunk_layout=layout).result()
    regular = ts.ChunkLayout(chunk_shape=[2, 4])
    ts.open(spec, create=True, shape=[7, 6], chunk_layout=regular).result()
    with pytest.raises(ValueError, match=r"chunk_shapes \[2, 3, \[1, 2\]\] of dimension 0"):
        ts.open(spec, chunk_layout=layout).result()


@pytest.mark.parametrize(
    ("layout", "metadata", "message"),
    [
        ({"chunk": {"shape": [2, 4]}}, {}, "chunk_shapes"),
        ({}, {"chunk_grid": {"name": "regular"}}, "chunk_shape.*missing"),
        ({}, {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 4]}}}, "chunk_shapes"),
        (
            {},
            {"chunk_grid": {**EDGES, "configuration": {"kind": "inline", "chunk_shapes": [[7], 4]}}},
            "existing",
        ),
        ({"read_chunk": {"shape": [1, 2]}}, {}, "needs shards"),
        ({"chunk_shapes": [[2, 3, 1, 1], None]}, {}, "unknown for dimension 1"),
        ({"chunk_shapes": [[2, 3, 0], 4]}, {}, "chunk_shapes"),
        ({"chunk_shapes": 5}, {}, "chunk_shapes"),
    ],
    ids=str,
)
def test_chunk_shapes_that_contradict_the_rest(tmp_path, layout, metadata, message):
    """Both sides are asked for, so neither is chosen."""
    schema = {"chunk_layout": {"chunk_shapes": CANONICAL, **layout}}
    with pytest.raises(ValueError, match=message):
        spec = _spec(tmp_path, dtype="uint8", schema=schema, metadata=metadata)
        ts.open(spec, create=True, shape=[7, 6]).result()
    assert not (tmp_path / "zarr.json").exists()


def test_the_layout_of_views_of_a_rectilinear_array(tmp_path):
    """Sizes go with their dimension; where elements are skipped there are none."""
    metadata = {"chunk_grid": EDGES, "data_type": "uint8", "shape": [7, 6]}
    store = ts.open(_spec(tmp_path, metadata=metadata), create=True).result()
    turned = store[ts.d[1, 0].transpose[:]][ts.d[0].translate_by[10]]
    assert turned.chunk_layout.to_json()["chunk_shapes"] == [4, [2, 3, [1, 2]]]
    assert turned.chunk_layout.grid_origin == (10, 0)
    assert store[::2].chunk_layout.chunk_shapes == (None, 4)
    assert store[3].chunk_layout.chunk_shapes == (4,)
    assert store[::2, ::2].chunk_layout.chunk_shapes is None


def test_a_sharded_rectilinear_array_is_made_of_its_schema(tmp_path):
    """Inner chunks have one shape, which the codecs say."""
    shard = {"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 2]}}
    metadata = {"chunk_grid": EDGES, "data_type": "uint8", "shape": [7, 6], "codecs": [shard]}
    store = ts.open(_spec(tmp_path / "a", metadata=metadata), create=True).result()
    made = ts.open(_spec(tmp_path / "b"), schema=store.schema, create=True).result()
    assert made.schema == store.schema
    made[...] = 7
    assert (ts.open(_spec(tmp_path / "b")).result().read().result() == 7).all()


def test_a_rectilinear_array_grows_by_one_chunk(tmp_path):
    metadata = {"chunk_grid": EDGES, "data_type": "uint16", "shape": [7, 6]}
    store = ts.open(_spec(tmp_path, metadata=metadata), create=True).result()
    other = ts.open(_spec(tmp_path, recheck_cached_metadata=True)).result()
    values = np.arange(1, 111, dtype=np.uint16).reshape(11, 10)
    store[...] = values[:7, :6]
    grown = store.resize(exclusive_max=[9, 10]).result()
    grown[...] = values[:9]
    grown = grown.resize(exclusive_max=[11, 10]).result()
    grown[9:] = values[9:]
    sizes = [[2, 3, [1, 2], 2, 2], 4]
    assert _sizes(tmp_path) == sizes
    np.testing.assert_array_equal(grown.read().result(), values)
    # A handle from before finds the same chunks, and writes to one of them.
    np.testing.assert_array_equal(other.resolve().result().read().result(), values)
    other[4:6, 5] = values[4:6, 5] = 9
    np.testing.assert_array_equal(ts.open(_spec(tmp_path)).result().read().result(), values)
    shorter = grown.resize(exclusive_max=[3, 10]).result()
    again = shorter.resize(exclusive_max=[11, 10]).result()
    # Only the chunk of which a part was left keeps what was behind its end.
    np.testing.assert_array_equal(again[:5].read().result(), values[:5])
    assert not again[5:].read().result().any()
    assert _sizes(tmp_path) == sizes


def _sizes(path):
    return json.loads((path / "zarr.json").read_text())["chunk_grid"]["configuration"]["chunk_shapes"]


def test_a_rectilinear_array_that_was_replaced_is_not_one_that_grew(tmp_path):
    metadata = {"chunk_grid": EDGES, "data_type": "uint16", "shape": [7, 6]}
    store = ts.open(_spec(tmp_path, metadata=metadata), create=True).result()
    document = json.loads((tmp_path / "zarr.json").read_text())
    document["chunk_grid"]["configuration"]["chunk_shapes"] = [[2, 2, 3], 4]
    _put(tmp_path, document)
    with pytest.raises(ValueError, match=r"chunk_grid|changed|replaced"):
        store.resize(exclusive_max=[9, 6]).result()


# -- chunks of size 0 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_a_chunk_size_of_zero_is_for_a_dimension_of_length_zero(tmp_path, driver):
    """zarr-python 3.1 writes it; once there are elements, a chunk has to have a size."""
    version = 3 if driver == "zarr3" else 2
    zarr.create_array(tmp_path, shape=(0, 4), chunks=(1, 2), dtype="u2", zarr_format=version)
    path = tmp_path / ("zarr.json" if driver == "zarr3" else ".zarray")
    document = json.loads(path.read_text())
    sizes = document["chunks"] if version == 2 else document["chunk_grid"]["configuration"]["chunk_shape"]
    sizes[0] = 0
    path.write_text(json.dumps(document))
    spec = {"driver": driver, "kvstore": f"file://{tmp_path}/"}
    store = ts.open(spec).result()
    assert store.shape == (0, 4) and store.chunk_layout.read_chunk.shape == (1, 2)
    np.testing.assert_array_equal(store.read().result(), np.zeros((0, 4), "u2"))
    assert ts.open(store.spec()).result().schema == store.schema
    grown = store.resize(exclusive_max=[3, 4]).result()
    grown[...] = 7
    np.testing.assert_array_equal(zarr.open_array(tmp_path)[...], np.full((3, 4), 7))

    document["shape"] = [4, 4]
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"chunk.*received: (0|\[0,2\])"):
        ts.open(spec, context=ts.Context()).result()


# -- stored shards ----------------------------------------------------------------------------------------

SHARD = {"chunk_shape": [2], "codecs": [LITTLE], "index_codecs": [LITTLE, {"name": "crc32c"}]}
CHANGES = [*({name: ...} for name in SHARD), {"codecs": []}, {"index_codecs": []}]


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("nested", [False, True])
def test_stored_shards_leave_nothing_open(tmp_path, change, nested):
    options = {name: value for name, value in {**SHARD, **change}.items() if value is not ...}
    codec = {"name": "sharding_indexed", "configuration": options}
    outer = {"name": "sharding_indexed", "configuration": {**SHARD, "codecs": [codec]}}
    _put(tmp_path, _document((4,), (4,), codecs=[outer if nested else codec]))
    with pytest.raises(ValueError, match=r"FAILED_PRECONDITION.*zarr\.json.*codecs.*sharding_indexed"):
        ts.open(_spec(tmp_path)).result()
    _put(tmp_path, _document((4,), (4,), codecs=[{"name": "sharding_indexed", "configuration": SHARD}]))
    assert ts.open(_spec(tmp_path)).result().chunk_layout.read_chunk.shape == (2,)


# -- codecs -----------------------------------------------------------------------------------------------

CHAINS = {
    "packbits": ("bool", [{"name": "packbits", "configuration": {"padding_encoding": "first_byte"}}], True),
    "packbits int4": ("int4", [{"name": "packbits"}], True),
    "bitround": ("float32", [{"name": "bitround", "configuration": {"keepbits": 10}}, LITTLE], False),
    "scale_offset": (
        "float64",
        [{"name": "scale_offset", "configuration": {"offset": 3, "scale": 2}}, LITTLE],
        True,
    ),
    "cast_value": (
        "float64",
        [
            {
                "name": "cast_value",
                "configuration": {"data_type": "int16", "rounding": "nearest-even", "out_of_range": "clamp"},
            },
            LITTLE,
        ],
        True,
    ),
    "reshape": ("uint16", [{"name": "reshape", "configuration": {"shape": [[0, 1], -1]}}, LITTLE], True),
    "n5_default": (
        "uint16",
        [
            {
                "name": "n5_default",
                "configuration": {
                    "codecs": [
                        {"name": "transpose", "configuration": {"order": [2, 1, 0]}},
                        {"name": "bytes", "configuration": {"endian": "big"}},
                    ]
                },
            }
        ],
        True,
    ),
    "numcodecs.packbits": (
        "bool",
        [{"name": "numcodecs.packbits", "configuration": {}}, {"name": "bytes"}],
        True,
    ),
    "short names": ("uint8", ["bytes", "crc32c"], True),
    "transpose of everything": (
        "uint16",
        [
            {"name": "transpose", "configuration": {"order": [1, 2, 0]}},
            {"name": "transpose", "configuration": {"order": [1, 2, 0]}},
            LITTLE,
            {
                "name": "blosc",
                "configuration": {
                    "cname": "zstd",
                    "clevel": 1,
                    "shuffle": "bitshuffle",
                    "typesize": 2,
                    "blocksize": 0,
                },
            },
            {"name": "crc32c"},
            {"name": "gzip", "configuration": {"level": 1}},
        ],
        True,
    ),
}


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("name", list(CHAINS))
def test_codecs(name, sharded, tmp_path):
    """Written, read, partly rewritten; also inside a shard."""
    data_type, codecs, exact = CHAINS[name]
    dtype = np.dtype(getattr(ml_dtypes, data_type, data_type))
    chunks = (2, 3, 4)
    if sharded:
        options = {"chunk_shape": [2, 3, 4], "codecs": codecs, "index_codecs": [LITTLE, {"name": "crc32c"}]}
        codecs, chunks = [{"name": "sharding_indexed", "configuration": options}], (4, 3, 8)
    fill = False if data_type == "bool" else 0
    _put(tmp_path, _document((5, 4, 6), chunks, data_type, codecs, fill_value=fill))
    store = ts.open(_spec(tmp_path)).result()
    values = (np.arange(120).reshape(5, 4, 6) % (2 if data_type == "bool" else 7)).astype(dtype)
    store[...] = values
    if exact:
        np.testing.assert_array_equal(store.read().result(), values)
    store[1:4, 2] = values[1:4, 2] = values[1:4, 3]
    again = ts.open(ts.Spec(store.spec().to_json())).result()
    got = again.read().result()
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, values)  # small integers survive all of them
    kept = json.loads((tmp_path / "zarr.json").read_text())["codecs"]
    assert kept == codecs


@pytest.mark.parametrize("name", ["bytes", "crc32c"])
def test_must_understand_false_does_not_make_an_unknown_codec_harmless(name, tmp_path):
    known = {"name": name, "must_understand": False}
    codecs = [known] if name == "bytes" else ["bytes", known]
    _put(tmp_path, _document((3,), (2,), "uint8", codecs))
    store = ts.open(_spec(tmp_path)).result()
    store[...] = [1, 2, 3]
    assert store.read().result().tolist() == [1, 2, 3]
    _put(tmp_path, _document((3,), (2,), "uint8", ["bytes", {"name": "mystery", "must_understand": False}]))
    with pytest.raises(ValueError, match=r'zarr\.json.*"mystery" is not registered'):
        ts.open(_spec(tmp_path)).result()


# -- members ----------------------------------------------------------------------------------------------


def test_unknown_members(tmp_path):
    """One that must be understood is refused by name; one that need not be is kept through every rewrite."""
    harmless = {"must_understand": False, "x": [1, {"y": None}]}
    _put(tmp_path, _document((3,), (2,), extension=harmless, attributes={"k": "v"}))
    store = ts.open(_spec(tmp_path)).result()
    store.resize(exclusive_max=[5]).result()
    document = json.loads((tmp_path / "zarr.json").read_text())
    assert (
        document["extension"] == harmless
        and document["attributes"] == {"k": "v"}
        and document["shape"] == [5]
    )
    assert ts.open(store.spec()).result().shape == (5,)
    for member in ({"must_understand": True}, {"x": 1}, 5, None):
        _put(tmp_path, _document((3,), (2,), extension=member))
        with pytest.raises(ValueError, match=r'zarr\.json.*Unsupported metadata field "extension"'):
            ts.open(_spec(tmp_path)).result()


@pytest.mark.parametrize("transformers", [[], [{"name": "cache", "must_understand": False}]])
def test_storage_transformers_that_can_be_ignored(transformers, tmp_path):
    _put(tmp_path, _document((3,), (2,), storage_transformers=transformers))
    store = ts.open(_spec(tmp_path)).result()
    store[...] = [1, 2, 3]
    store.resize(exclusive_max=[4]).result()
    assert json.loads((tmp_path / "zarr.json").read_text())["storage_transformers"] == transformers
    again = ts.open(ts.Spec(store.spec().to_json())).result()
    assert again.read().result().tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize(
    "transformer", ["cache", {"name": "cache"}, {"name": "cache", "must_understand": True}]
)
def test_storage_transformers_that_can_not(transformer, tmp_path):
    _put(tmp_path, _document((3,), (2,), storage_transformers=[transformer]))
    with pytest.raises(ValueError, match=r"zarr\.json.*storage_transformers"):
        ts.open(_spec(tmp_path)).result()


def test_short_names(tmp_path):
    """An extension without options may be its bare name."""
    document = _document((3,), (2,), "uint8", ["bytes"], chunk_key_encoding="v2")
    _put(tmp_path, document)
    store = ts.open(_spec(tmp_path)).result()
    store[...] = [1, 2, 3]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1", "zarr.json"]
    _put(tmp_path, {**document, "data_type": {"name": "uint8"}})
    assert ts.open(_spec(tmp_path)).result().read().result().tolist() == [1, 2, 3]


FILLS = [
    ("float32", "NaN", np.float32(np.nan).tobytes()),
    ("float32", "-Infinity", np.float32(-np.inf).tobytes()),
    ("float32", "0x7fc00001", (0x7FC00001).to_bytes(4, "little")),
    ("float32", "0xffc12345", (0xFFC12345).to_bytes(4, "little")),
    ("float64", "0x7ff8000000000001", (0x7FF8000000000001).to_bytes(8, "little")),
    ("float16", "0x7e01", (0x7E01).to_bytes(2, "little")),
    ("bfloat16", "0x7fc1", (0x7FC1).to_bytes(2, "little")),
    ("float64", 1e300, np.float64(1e300).tobytes()),
    ("float64", -0.0, np.float64(-0.0).tobytes()),
    ("complex64", ["NaN", "-Infinity"], np.array([np.nan, -np.inf], "f4").tobytes()),
    (
        "complex128",
        [1.5, "0x7ff8000000000001"],
        np.float64(1.5).tobytes() + (0x7FF8000000000001).to_bytes(8, "little"),
    ),
    ("int64", -(2**63), (2**63).to_bytes(8, "little")),
    ("uint64", 2**64 - 1, b"\xff" * 8),
    ("r24", [1, 2, 255], b"\x01\x02\xff"),
    ("bool", True, b"\x01"),
]


@pytest.mark.parametrize(("data_type", "fill", "raw"), FILLS, ids=lambda v: str(v)[:24])
def test_fill_values(data_type, fill, raw, tmp_path):
    """Bit for bit what a missing chunk reads as, and the very same JSON when written again."""
    stored = tmp_path / "stored"
    stored.mkdir()
    codec = LITTLE if data_type not in ("bool", "r24") else {"name": "bytes"}
    _put(stored, _document((3,), (2,), data_type, [codec], fill_value=fill))
    store = ts.open(_spec(stored)).result()
    assert store.read().result().tobytes() == raw * 3
    store.write(store[0].read().result()).result()
    assert not (stored / "c").exists()  # equal to the fill value, bit by bit
    copy = tmp_path / "copy"
    made = ts.open(_spec(copy, metadata=store.spec().to_json()["metadata"]), create=True).result()
    assert made.read().result().tobytes() == raw * 3
    assert json.loads((copy / "zarr.json").read_text())["fill_value"] == fill


def test_the_sign_of_zero_is_a_value(tmp_path):
    """A chunk of -0.0 is not the fill value 0.0."""
    _put(tmp_path, _document((2,), (2,), "float32"))
    store = ts.open(_spec(tmp_path)).result()
    store[...] = np.float32(-0.0)
    assert np.signbit(ts.open(_spec(tmp_path)).result().read().result()).all()
    assert (tmp_path / "c/0").exists()


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ({"fill_value": []}, "fill_value"),
        ({"fill_value": ...}, "fill_value"),
        ({"fill_value": 70000}, "fill_value"),
        ({"codecs": []}, "codecs"),
        ({"codecs": [{"name": "gzip", "configuration": {"level": 1}}]}, "codecs"),
        ({"codecs": [LITTLE, LITTLE]}, "codecs"),
        ({"codecs": [LITTLE, {"name": "transpose", "configuration": {"order": [0]}}]}, "codecs"),
        ({"codecs": [{"name": "bytes", "configuration": {"endian": "middle"}}]}, "endian"),
        ({"codecs": [LITTLE, {"name": "gzip", "configuration": {"level": 10}}]}, "level"),
        ({"codecs": [{"name": "transpose", "configuration": {"order": [1]}}, LITTLE]}, "order"),
        ({"chunk_grid": {"name": "hexagonal"}}, "hexagonal"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0]}}}, "chunk_shape"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1]}}}, "chunk_grid"),
        ({"chunk_key_encoding": {"name": "base64"}}, "base64"),
        ({"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "-"}}}, "separator"),
        ({"dimension_names": ["a", "b"]}, "dimension_names"),
        ({"dimension_names": [5]}, "dimension_names"),
        ({"attributes": []}, "attributes"),
    ],
    ids=str,
)
def test_bad_members(member, message, tmp_path):
    document = {k: v for k, v in {**_document((3,), (2,)), **member}.items() if v is not ...}
    _put(tmp_path, document)
    with pytest.raises(ValueError, match=rf"FAILED_PRECONDITION.*zarr\.json.*{message}"):
        ts.open(_spec(tmp_path)).result()


# -- what documents have to say ---------------------------------------------------------------------------


def _record(name, *fields):
    return {"name": name, "configuration": {"fields": list(fields)}}


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize(
    ("data_type", "fill", "refused"),
    [
        ("uint16", 0, True),
        ("uint8", 0, False),
        ({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}, "", True),
        ({"name": "null_terminated_bytes", "configuration": {"length_bytes": 8}}, "", False),
        (_record("struct", {"name": "a", "data_type": "int16"}), {"a": 0}, True),
        (_record("struct", {"name": "a", "data_type": "int8"}), {"a": 0}, False),
        # zarr-python left it out of these, and the registry has readers take them for little-endian
        (_record("structured", ["a", "int16"]), "AAA=", False),
    ],
    ids=str,
)
def test_a_byte_order_that_is_missing(data_type, fill, refused, sharded, tmp_path):
    codecs = [{"name": "bytes"}]
    stored = tmp_path / "stored"
    stored.mkdir()
    if sharded:
        options = {"chunk_shape": [1], "codecs": codecs, "index_codecs": [LITTLE]}
        codecs = [{"name": "sharding_indexed", "configuration": options}]
    _put(stored, _document((3,), (2,), data_type, codecs, fill_value=fill))
    if refused:
        with pytest.raises(ValueError, match=r'member "codecs": "bytes" codec requires that "endian" is'):
            ts.open(_spec(stored)).result()
    else:
        assert ts.open(_spec(stored)).result().shape == (3,)
    metadata = {"codecs": codecs, "data_type": data_type, "shape": [3]}  # a spec may leave it open
    made = ts.open(_spec(tmp_path / "new", metadata=metadata), create=True).result()
    assert ts.open(made.spec()).result().shape == (3,)


@pytest.mark.parametrize("checksum", [None, False, True])
def test_the_checksum_of_zstd_is_written_where_it_is_true(checksum, tmp_path):
    options = {"level": 1} if checksum is None else {"level": 1, "checksum": checksum}
    inner = ["bytes", {"name": "zstd", "configuration": options}]
    options = {"chunk_shape": [1], "codecs": inner, "index_codecs": [LITTLE]}
    shards = [{"name": "sharding_indexed", "configuration": options}]
    for name, codecs in (("plain", inner), ("sharded", shards)):
        metadata = {"codecs": codecs, "data_type": "uint8", "shape": [2]}
        store = ts.open(_spec(tmp_path / name, metadata=metadata), create=True).result()
        text = (tmp_path / name / "zarr.json").read_text()
        assert ("checksum" in text) is (checksum is True)
        assert ts.open(store.spec()).result().spec() == store.spec()
    other = {"name": "zstd", "configuration": {"level": 1, "checksum": not checksum}}
    with pytest.raises(ValueError, match="checksum"):
        ts.open(_spec(tmp_path / "plain", metadata={"codecs": ["bytes", other]})).result()
