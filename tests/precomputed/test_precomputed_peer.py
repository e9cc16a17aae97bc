"""The driver ``neuroglancer_precomputed`` beside TensorStore's: files, values, specs, errors."""

import json

import numpy as np
import pytest
import tensorstore as ts
from hypothesis import given
from hypothesis import strategies as st

import chunkwise as cw

SHARDING = {
    "@type": "neuroglancer_uint64_sharded_v1",
    "preshift_bits": 1,
    "hash": "identity",
    "minishard_bits": 1,
    "shard_bits": 3,
}
SCATTERED = {
    **SHARDING,
    "hash": "murmurhash3_x86_128",
    "minishard_index_encoding": "gzip",
    "data_encoding": "gzip",
}
SIZE, OFFSET = (50, 40, 30), (3, -5, 7)


def new_spec(encoding, dtype, n_channels, sharding):
    scale = {
        "resolution": [8, 8, 40],
        "size": SIZE,
        "voxel_offset": OFFSET,
        "chunk_size": [16, 16, 16],
        "encoding": encoding,
        "sharding": sharding,
    }
    if encoding == "compressed_segmentation":
        scale["compressed_segmentation_block_size"] = [8, 8, 4]
    return {
        "driver": "neuroglancer_precomputed",
        "create": True,
        "multiscale_metadata": {"data_type": dtype, "num_channels": n_channels, "type": "image"},
        "scale_metadata": scale,
    }


def existing(directory):
    return {"driver": "neuroglancer_precomputed", "kvstore": f"file://{directory}/", "open": True}


def files(directory):
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


@pytest.mark.each_once
@pytest.mark.parametrize("sharding", [None, SHARDING, SCATTERED], ids=["files", "shards", "scattered"])
@pytest.mark.parametrize(
    ("encoding", "dtype", "n_channels"),
    [
        ("raw", "uint8", 1),
        ("raw", "float32", 3),
        ("compressed_segmentation", "uint32", 2),
        ("compressed_segmentation", "uint64", 1),
        ("jpeg", "uint8", 1),
        ("jpeg", "uint8", 3),
        ("png", "uint8", 3),
        ("png", "uint16", 1),
    ],
)
def test_files_are_those_of_tensorstore_and_values_are_read_both_ways(
    encoding, dtype, n_channels, sharding, tmp_path
):
    rng = np.random.default_rng(0)
    shape = (*SIZE, n_channels)
    values = rng.integers(0, 200, shape).astype(dtype)
    if encoding == "jpeg":
        values = np.broadcast_to(np.arange(50, dtype="u1")[:, None, None, None] * 4, shape)
    spec = new_spec(encoding, dtype, n_channels, sharding)
    for library, name in ((ts, "theirs"), (cw, "ours")):
        library.open({**spec, "kvstore": f"file://{tmp_path / name}/"}).result().write(values).result()
    theirs, ours = files(tmp_path / "theirs"), files(tmp_path / "ours")
    assert theirs.keys() == ours.keys()
    assert theirs["info"] == ours["info"]
    if encoding != "png" and sharding is not SCATTERED:  # another zlib makes other bytes
        assert theirs == ours
    for name in ("theirs", "ours"):
        read = [library.open(existing(tmp_path / name)).result().read().result() for library in (ts, cw)]
        tolerance = 2 if encoding == "jpeg" else 0
        np.testing.assert_allclose(read[1].astype(float), read[0].astype(float), atol=tolerance)
        np.testing.assert_allclose(read[1].astype(float), values.astype(float), atol=3 * tolerance)


@pytest.mark.parametrize("sharding", [None, SHARDING], ids=["files", "shards"])
def test_parts_are_written_and_read_in_the_coordinates_of_the_volume(sharding, tmp_path):
    spec = {**new_spec("raw", "uint16", 2, sharding), "kvstore": f"file://{tmp_path}/"}
    array = cw.open(spec).result()
    assert array.domain.origin == (*OFFSET, 0)
    assert array.domain.labels == ("x", "y", "z", "channel")
    expected = np.zeros((*SIZE, 2), "u2")
    array[10:20, -5:3, 30, 1] = 7
    expected[7:17, 0:8, 23, 1] = 7
    array[[10, 40], 5, [7, 36]] = [[1, 2], [3, 4]]
    expected[[7, 37], 10, [0, 29]] = [[1, 2], [3, 4]]
    np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(ts.open(existing(tmp_path)).result().read().result(), expected)
    np.testing.assert_array_equal(array[::-2, 4].read().result(), expected[::-2, 9])
    counts = array.storage_statistics(query_not_stored=True, query_fully_stored=True).result()
    assert (counts.not_stored, counts.fully_stored) == (False, False)


@pytest.mark.parametrize("sharding", [None, SHARDING], ids=["files", "shards"])
def test_a_transaction_changes_nothing_before_it_is_committed(sharding, tmp_path):
    spec = {**new_spec("raw", "uint8", 1, sharding), "kvstore": f"file://{tmp_path}/"}
    array = cw.open(spec).result()
    array[...] = 1
    before = files(tmp_path)
    with cw.Transaction() as transaction:
        inside = array.with_transaction(transaction)
        inside[10:30] = 2
        assert inside[10, 0, 10, 0].read().result() == 2
        assert files(tmp_path) == before
    expected = np.ones((*SIZE, 1), "u1")
    expected[7:27] = 2
    np.testing.assert_array_equal(array, expected)


def test_a_write_of_all_reads_no_shard_twice_and_writes_each_once(tmp_path):
    spec = {**new_spec("raw", "uint8", 1, SHARDING), "kvstore": "memory://v/"}
    context = cw.Context()
    cw.open(spec, context=context).result()[...] = 5
    keys = cw.KvStore.open("memory://v/8_8_40/", context=context).result().list().result()
    assert len(keys) == 8


def test_scales_are_added_found_and_described_as_by_tensorstore(tmp_path):
    spec = new_spec("raw", "uint8", 1, None)
    for library, name in ((ts, "theirs"), (cw, "ours")):
        kvstore = f"file://{tmp_path / name}/"
        library.open({**spec, "kvstore": kvstore}).result()
        second = {
            **existing(tmp_path / name),
            "create": True,
            "scale_metadata": {"resolution": [16, 16, 40], "size": [25, 20, 30]},
        }
        library.open(second).result()
        with pytest.raises(ValueError, match="already exists"):
            library.open({**second, "open": False}).result()
    assert files(tmp_path / "theirs") == files(tmp_path / "ours")
    for asked in (
        {},
        {"scale_index": 1},
        {"scale_metadata": {"resolution": [16, 16, 40]}},
        {"scale_metadata": {"key": "8_8_40"}},
        {"schema": {"dimension_units": ["16nm", None, None, None]}},
    ):
        theirs, ours = (
            library.open({**existing(tmp_path / "ours"), **asked}).result() for library in (ts, cw)
        )
        assert ours.spec().to_json() == theirs.spec().to_json()
        assert ours.spec(minimal_spec=True).to_json() == theirs.spec(minimal_spec=True).to_json()
        assert ours.schema.to_json() == theirs.schema.to_json()
        assert cw.open(ours.spec()).result().domain == ours.domain
    url = f"file://{tmp_path / 'ours'}/|neuroglancer-precomputed:"
    assert cw.open(url).result().url == ts.open(url).result().url == url
    assert cw.open(str(tmp_path / "ours")).result().shape == (*SIZE, 1)


DOMAIN = {"shape": [1000, 2000, 3000, 1]}
SCHEMAS = [
    {"dtype": "uint8", "domain": {"shape": [10, 20, 30, 1]}},
    {"dtype": "uint64", "domain": {"shape": [10, 20, 30, 2], "inclusive_min": [1, -2, 3, 0]}},
    {"dtype": "uint8", "domain": DOMAIN, "dimension_units": ["4nm", None, "5.5nm", None]},
    {"dtype": "uint8", "domain": DOMAIN, "codec": {"driver": "neuroglancer_precomputed", "encoding": "jpeg"}},
    {
        "dtype": "uint8",
        "domain": DOMAIN,
        "codec": {"driver": "neuroglancer_precomputed", "shard_data_encoding": "raw"},
    },
    {
        "dtype": "uint32",
        "domain": DOMAIN,
        "codec": {"driver": "neuroglancer_precomputed", "encoding": "compressed_segmentation"},
    },
    *(
        {"dtype": "uint8", "domain": DOMAIN, "chunk_layout": layout}
        for layout in (
            {"chunk": {"elements": 1000}},
            {"chunk": {"aspect_ratio": [2, 1, 1, 1]}},
            {"write_chunk": {"elements": 10**7}},
            {"write_chunk": {"elements": 6 * 64**3}, "read_chunk": {"shape": [64, 64, 64, 1]}},
            {"write_chunk": {"elements": 64**3 * 2**17}, "read_chunk": {"elements": 64**3}},
            {"write_chunk": {"shape": [512, 512, 512, 1]}, "read_chunk": {"shape": [64, 64, 64, 1]}},
            {
                "write_chunk": {"shape_soft_constraint": [300, 100, 900, 1]},
                "read_chunk": {"shape": [50, 50, 50, 1]},
            },
        )
    ),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_choices_from_a_schema_are_those_of_tensorstore(schema):
    theirs, ours = (
        library.open(
            {"driver": "neuroglancer_precomputed", "kvstore": "memory://v/", "create": True, "schema": schema}
        ).result()
        for library in (ts, cw)
    )
    assert ours.spec().to_json() == theirs.spec().to_json()
    assert ours.schema.to_json() == theirs.schema.to_json()


REFUSED = [
    {},
    {"dtype": "uint8"},
    {"dtype": "float64", "schema": {"domain": DOMAIN}},
    {"dtype": "uint8", "schema": {"domain": {"shape": [1, 2, 3]}}},
    {"dtype": "uint8", "schema": {"domain": DOMAIN, "fill_value": 0}},
    {"dtype": "uint8", "schema": {"domain": DOMAIN, "dimension_units": ["4nm", "5um", None, None]}},
    {"dtype": "uint8", "schema": {"domain": DOMAIN, "dimension_units": [None, None, None, "1nm"]}},
    {"dtype": "uint8", "schema": {"domain": DOMAIN, "chunk_layout": {"inner_order": [0, 1, 2, 3]}}},
    {"dtype": "uint8", "schema": {"domain": DOMAIN, "chunk_layout": {"grid_origin": [1, 0, 0, 0]}}},
    {"dtype": "uint8", "schema": {"domain": DOMAIN, "chunk_layout": {"chunk": {"shape": [5, 5, 5, 2]}}}},
    {"dtype": "uint8", "schema": {"domain": {**DOMAIN, "labels": ["z", "y", "x", "c"]}}},
    {"dtype": "uint32", "schema": {"domain": DOMAIN}, "scale_metadata": {"encoding": "png"}},
    {"dtype": "uint8", "schema": {"domain": DOMAIN}, "scale_metadata": {"encoding": "gif"}},
    {"dtype": "uint8", "schema": {"domain": DOMAIN}, "scale_metadata": {"jpeg_quality": 5}},
    {"dtype": "uint8", "schema": {"domain": DOMAIN}, "scale_metadata": {"voxel_offset": [1, 2, 3]}},
    {"dtype": "uint8", "schema": {"domain": DOMAIN}, "scale_metadata": {"sharding": {}}},
    {"dtype": "uint8", "schema": {"domain": DOMAIN}, "scale_index": 1},
    {"dtype": "uint8", "schema": {"domain": DOMAIN}, "metadata": {}},
    {"dtype": "uint8", "schema": {"domain": {"shape": [5, 5, 5, 2]}}, "scale_metadata": {"encoding": "jpeg"}},
]


@pytest.mark.parametrize("members", REFUSED, ids=json.dumps)
def test_what_tensorstore_refuses_is_refused(members):
    for library in (ts, cw):
        with pytest.raises(ValueError):
            library.open(
                {"driver": "neuroglancer_precomputed", "kvstore": "memory://v/", "create": True, **members}
            ).result()


INFO = {
    "@type": "neuroglancer_multiscale_volume",
    "type": "image",
    "data_type": "uint8",
    "num_channels": 1,
    "scales": [
        {
            "key": "8_8_8",
            "size": [100, 100, 100],
            "resolution": [8, 8, 8],
            "chunk_sizes": [[64, 64, 64], [32, 32, 32]],
            "encoding": "raw",
        }
    ],
}


def open_info(library, info, **members):
    context = library.Context()
    library.KvStore.open("memory://v/", context=context).result()["info"] = json.dumps(info)
    spec = {"driver": "neuroglancer_precomputed", "kvstore": "memory://v/", "open": True, **members}
    return library.open(spec, context=context).result()


@pytest.mark.parametrize(
    ("where", "members"),
    [
        ("info", {"@type": "other"}),
        ("info", {"data_type": "float64"}),
        ("info", {"num_channels": 0}),
        ("info", {"type": 5}),
        ("info", {"scales": {}}),
        ("info", {"scales": []}),
        ("scale", {"key": 5}),
        ("scale", {"size": [1, 2]}),
        ("scale", {"size": [1, 2, -3]}),
        ("scale", {"voxel_offset": [0, 0, 2**62]}),
        ("scale", {"resolution": "8"}),
        ("scale", {"chunk_sizes": []}),
        ("scale", {"chunk_sizes": [[0, 1, 1]]}),
        ("scale", {"encoding": "gif"}),
        ("scale", {"encoding": "compressed_segmentation"}),
        ("scale", {"sharding": SHARDING}),
        ("spec", {"scale_metadata": {"chunk_size": [31, 32, 32]}}),
        ("spec", {"scale_metadata": {"size": [31, 32, 32]}}),
        ("spec", {"scale_metadata": {"sharding": SHARDING}}),
        ("spec", {"multiscale_metadata": {"num_channels": 2}}),
        ("spec", {"dtype": "uint16"}),
        ("spec", {"schema": {"domain": {"shape": [100, 100, 99, 1]}}}),
        ("spec", {"schema": {"codec": {"driver": "neuroglancer_precomputed", "encoding": "png"}}}),
        ("spec", {"scale_index": 1}),
    ],
    ids=repr,
)
def test_volumes_that_tensorstore_does_not_open(where, members):
    info = dict(INFO)
    if where == "info":
        info.update(members)
    if where == "scale":
        info["scales"] = [{**INFO["scales"][0], **members}]
    for library in (ts, cw):
        open_info(library, INFO)
        with pytest.raises(ValueError):
            open_info(library, info, **(members if where == "spec" else {}))


def test_chunks_of_another_size_of_the_scale():
    array = open_info(cw, INFO, scale_metadata={"chunk_size": [32, 32, 32]})
    assert array.chunk_layout.read_chunk.shape == (32, 32, 32, 1)


@pytest.mark.parametrize("key", ["../other", "a/../../other", "/etc"])
def test_no_scale_lies_outside_of_its_volume(key):
    with pytest.raises(NotImplementedError, match="leads out of the directory"):
        open_info(cw, {**INFO, "scales": [{**INFO["scales"][0], "key": key}]})


def test_chunks_of_wrong_sizes_are_named(tmp_path):
    array = cw.open({**new_spec("raw", "uint8", 1, None), "kvstore": f"file://{tmp_path}/"}).result()
    array[...] = 1
    (tmp_path / "8_8_40" / "3-19_-5-11_7-23").write_bytes(b"short")
    with pytest.raises(ValueError, match=r"3-19_-5-11_7-23.*5 bytes"):
        array.read().result()


def test_pictures_of_other_sizes_are_refused_before_they_are_decoded(tmp_path):
    from PIL import Image

    array = cw.open({**new_spec("png", "uint8", 1, None), "kvstore": f"file://{tmp_path}/"}).result()
    array[...] = 1
    Image.new("L", (5000, 5000)).save(tmp_path / "8_8_40" / "3-19_-5-11_7-23", "png")
    with pytest.raises(ValueError, match="5000 x 5000 pixels, but the chunk has 4096"):
        array.read().result()


def test_a_volume_has_the_size_that_it_has(tmp_path):
    array = cw.open({**new_spec("raw", "uint8", 1, None), "kvstore": f"file://{tmp_path}/"}).result()
    with pytest.raises(ValueError, match="Cannot change explicit upper bound"):
        array.resize(exclusive_max=[100, 100, 100, 1]).result()


@given(
    size=st.tuples(*[st.integers(1, 70)] * 3),
    chunk=st.tuples(*[st.sampled_from([1, 4, 16])] * 3),
    bits=st.tuples(*[st.integers(0, 4)] * 3),
    hash=st.sampled_from(["identity", "murmurhash3_x86_128"]),
)
def test_write_chunks_of_sharded_volumes(size, chunk, bits, hash):
    """They are TensorStore's; where the chunks of a shard lie apart, ours are unknown, not the whole."""
    sharding = dict(zip(("preshift_bits", "minishard_bits", "shard_bits"), bits, strict=True))
    spec = {
        "driver": "neuroglancer_precomputed",
        "kvstore": "memory://",
        "multiscale_metadata": {"type": "image", "data_type": "uint8", "num_channels": 1},
        "scale_metadata": {
            "size": size,
            "resolution": [4, 4, 40],
            "encoding": "raw",
            "chunk_size": chunk,
            "sharding": {"@type": "neuroglancer_uint64_sharded_v1", "hash": hash, **sharding},
        },
    }
    ours, theirs = (
        (
            library.Spec(spec).schema.chunk_layout.write_chunk.shape,
            library.open(spec, create=True).result().chunk_layout.write_chunk.shape,
        )
        for library in (cw, ts)
    )
    assert ours[0] == theirs[0]
    whole = tuple(-(-n // c) * c for n, c in zip(size, chunk, strict=True))
    assert ours[1] == theirs[1] or (None in ours[1] and theirs[1][:3] == whole)


def test_verify_counts_the_chunks_of_shards(tmp_path):
    """Where no box of voxels is in one shard, each chunk is looked at all the same."""
    volume = {"scale_metadata": {"size": [20, 30, 10], "chunk_size": [8, 8, 8], "resolution": [1, 1, 1]}}
    sharding = {"@type": "neuroglancer_uint64_sharded_v1", "hash": "murmurhash3_x86_128"}
    bits = {"preshift_bits": 1, "minishard_bits": 1, "shard_bits": 2}
    volume["scale_metadata"] |= {"encoding": "raw", "sharding": {**sharding, **bits}}
    spec = {"driver": "neuroglancer_precomputed", "kvstore": f"file://{tmp_path}/", "create": True, **volume}
    multiscale = {"type": "image", "data_type": "uint8", "num_channels": 1}
    array = cw.open({**spec, "multiscale_metadata": multiscale}).result()
    array.write(np.ones(array.shape, "u1")).result()
    (report,) = [report for report in cw.verify(tmp_path) if report.n_chunks]
    assert (report.n_chunks, report.bad) == (3 * 4 * 2, [])


@pytest.mark.parametrize("suffix", ["gz", "br", "zstd"])
@pytest.mark.parametrize(
    "door",
    [cw.read, cw.open_array, cw.open_multiscale, cw.verify, lambda path: cw.copy(path, f"{path}.zarr")],
)
def test_compressed_files_of_cloud_volume_are_not_read_as_zeros(tmp_path, suffix, door):
    array = cw.open({**new_spec("raw", "uint8", 1, None), "kvstore": f"file://{tmp_path}/v/"}).result()
    array[...] = 1
    for chunk in (tmp_path / "v/8_8_40").iterdir():
        chunk.rename(f"{chunk}.{suffix}")
    with pytest.raises(ValueError, match=f"compressed files such as .*[.]{suffix}"):
        door(tmp_path / "v")
