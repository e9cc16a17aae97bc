"""Programs for TensorStore that gave something else here: the same now, for all of their kind."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tensorstore

import chunkwise as ts

TYPES = [name for name in dir(ml_dtypes) if name.startswith(("float", "bfloat", "int", "uint"))]
TYPES = [name for name in TYPES if hasattr(ts, name)]


@pytest.mark.parametrize("name", TYPES)
def test_views_of_memory_arrays_of_each_small_type(name):
    dtype = getattr(ts, name).numpy_dtype
    values = (np.arange(12) % 2).reshape(4, 3).astype("f4").astype(dtype)
    array = ts.array(values)
    views = {
        "T": (array.T, values.T),
        "strides": (array[::2, ::-1], values[::2, ::-1]),
        "points": (array[[3, 1]], values[[3, 1]]),
        "diagonal": (array[ts.d[0, 1].diagonal], np.diagonal(values[:3])),
        "new": (array[:, ts.newaxis], values[:, None]),
        "stride": (ts.downsample(array, [2, 1], "stride"), values[::2]),
        "cast": (ts.cast(array.T, "float32"), values.T.astype("f4")),
    }
    for which, (view, expected) in views.items():
        found = np.asarray(view.read().result())
        assert found.dtype == expected.dtype, which
        assert np.array_equal(found.astype("f4"), expected.astype("f4"), equal_nan=True), which
    array.T[0:1].write(np.ones((1, 4), "f4").astype(dtype)).result()
    assert np.array_equal(array.read().result()[:, 0].astype("f4"), np.ones(4))


@pytest.mark.parametrize("library", [ts, tensorstore], ids=["chunkwise", "tensorstore"])
def test_labels_of_layers(library):
    plain = library.array(np.zeros((3, 3)))
    labelled = plain[library.d[0].label["x"]]
    with pytest.raises(ValueError, match="labels do not match"):
        library.overlay([labelled], domain=library.IndexDomain(rank=2, labels=["t", ""]))
    for layers in ([labelled, plain], [plain, labelled]):
        found = library.concat(layers, axis="x").domain
        assert found.labels == ("x", "") and found.shape == (6, 3)


@pytest.mark.parametrize("library", [ts, tensorstore], ids=["chunkwise", "tensorstore"])
def test_expressions_are_checked_when_they_are_made(library):
    d = library.d
    for make in (
        lambda: d[1].label["q"][library.newaxis],
        lambda: d[1].diagonal[library.newaxis],
        lambda: d[0].stride[2][..., library.newaxis],
        lambda: d[0].vindex[[0, 4, 2], [2, 1]],
        lambda: d[0].oindex[np.array(True)],
    ):
        with pytest.raises(IndexError):
            make()


@pytest.mark.parametrize("library", [ts, tensorstore], ids=["chunkwise", "tensorstore"])
@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_a_member_of_a_spec_is_known_whatever_is_said_of_others(library, driver):
    array = library.open(
        {"driver": driver, "kvstore": "memory://a/"}, create=True, dtype="uint8", shape=[4]
    ).result()
    spec = array.spec()
    spec.update(fill_value=3)
    assert spec.chunk_layout.read_chunk.shape == (4,)
    assert spec.rank == 1 and spec.codec is not None


@pytest.mark.parametrize("library", [ts, tensorstore], ids=["chunkwise", "tensorstore"])
def test_bounds_of_precomputed_volumes_are_explicit(library):
    volume = library.open(
        {
            "driver": "neuroglancer_precomputed",
            "kvstore": "memory://p/",
            "multiscale_metadata": {"type": "image", "data_type": "uint8", "num_channels": 1},
            "scale_metadata": {
                "resolution": [1, 1, 1],
                "size": [4, 4, 4],
                "chunk_size": [2, 2, 2],
                "encoding": "raw",
            },
        },
        create=True,
    ).result()
    for bounds in (
        {"exclusive_max": [5, 4, 4, 1]},
        {"exclusive_max": [4, 4, 4, 1]},
        {"inclusive_min": [0, 0, 0, 0]},
    ):
        with pytest.raises(ValueError, match=r"Cannot change explicit (upper|lower) bound"):
            volume.resize(**bounds).result()
    assert volume.resize().result().domain == volume.domain


@pytest.mark.parametrize("library", [ts, tensorstore], ids=["chunkwise", "tensorstore"])
def test_chunks_are_computed_once_in_a_transaction(library):
    made = []

    def make(domain, out, parameters):
        made.append(domain.origin)
        out[...] = 1

    layout = library.ChunkLayout(read_chunk_shape=[1, 2])
    options = {"dtype": library.uint8, "shape": [1, 5], "chunk_layout": layout}
    inside = library.virtual_chunked(make, **options, transaction=library.Transaction())
    for _ in range(2):
        assert np.array_equal(inside.read().result(), np.ones((1, 5)))
    assert len(made) == 3
    outside = library.virtual_chunked(make, **options)
    for _ in range(2):
        outside.read().result()
    assert len(made) == 9


@pytest.mark.parametrize("library", [ts, tensorstore], ids=["chunkwise", "tensorstore"])
def test_an_open_ocdbt_database_tells_its_configuration(library, tmp_path):
    base = {"driver": "file", "path": f"{tmp_path}/"}
    store = library.KvStore.open({"driver": "ocdbt", "base": base}).result()
    assert "config" not in store.spec().to_json()
    store["a"] = b"x"
    config = store.spec().to_json()["config"]
    assert set(config) == {
        "uuid",
        "compression",
        "max_decoded_node_bytes",
        "max_inline_value_bytes",
        "version_tree_arity_log2",
    }
    array = library.open(
        {"driver": "zarr3", "kvstore": {"driver": "ocdbt", "base": base, "path": "z/"}},
        create=True,
        dtype="uint8",
        shape=[2],
    ).result()
    assert array.spec().to_json()["kvstore"]["config"] == config


BOTH = pytest.mark.parametrize("library", [ts, tensorstore], ids=["chunkwise", "tensorstore"])
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
TURNED = {"name": "transpose", "configuration": {"order": [1, 0]}}
SHARDS = {"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2], "codecs": [BYTES]}}


@BOTH
@pytest.mark.parametrize(("stored", "wanted"), [([TURNED, BYTES], [BYTES]), ([SHARDS], [BYTES])])
def test_chains_are_merged_in_a_schema(library, stored, wanted):
    spec, context = {"driver": "zarr3", "kvstore": "memory://a/"}, library.Context()
    library.open(
        {**spec, "metadata": {"codecs": stored}}, context=context, create=True, dtype="int32", shape=[4, 4]
    ).result()
    codec = library.CodecSpec({"driver": "zarr3", "codecs": wanted})
    assert library.open(spec, context=context, codec=codec).result().shape == (4, 4)


@BOTH
def test_codecs_behind_shards_are_not_merged_into_them(library):
    schema = library.Schema(codec=library.CodecSpec({"driver": "zarr3", "codecs": []}))
    behind = {"driver": "zarr3", "codecs": [{"name": "sharding_indexed"}, {"name": "gzip"}]}
    with pytest.raises(ValueError, match="Cannot merge codec spec"):
        schema.update(codec=library.CodecSpec(behind))


@BOTH
@pytest.mark.parametrize("option", [{"dtype": "int16"}, {"rank": 1}, {"shape": [2]}])
def test_what_a_json_value_cannot_be_is_refused_in_a_url_too(library, option):
    with pytest.raises(ValueError, match="does not match existing"):
        library.open("memory://j|json:", create=True, **option).result()


@BOTH
def test_writes_to_a_domain_without_bounds_are_refused(library):
    array = library.virtual_chunked(
        write_function=lambda domain, chunk, parameters: None,
        dtype=library.uint8,
        rank=1,
        chunk_layout=library.ChunkLayout(chunk_shape=[3]),
    )
    for target in (array, array[3:], array.with_transaction(library.Transaction())):
        with pytest.raises(ValueError, match=r"finite|unbounded"):
            target.write(1).result()


@BOTH
@pytest.mark.parametrize(
    ("chunk", "block"), [((64, 64, 64), (8, 8, 8)), ((12, 4, 8), (12, 4, 8)), ((16, 20, 7), (8, 8, 7))]
)
def test_blocks_of_compressed_segmentation(library, chunk, block):
    array = library.open(
        {"driver": "neuroglancer_precomputed", "kvstore": "memory://v/"},
        create=True,
        dtype="uint32",
        shape=[100, 100, 100, 1],
        chunk_layout=library.ChunkLayout(chunk_shape=[*chunk, 1]),
        codec=library.CodecSpec(
            {"driver": "neuroglancer_precomputed", "encoding": "compressed_segmentation"}
        ),
    ).result()
    assert array.chunk_layout.codec_chunk.shape == (*block, 1)


@BOTH
def test_urls_of_files_keep_at_signs(library):
    assert library.KvStore.Spec({"driver": "file", "path": "/a@b/c#d/"}).url == "file:///a@b/c%23d/"
