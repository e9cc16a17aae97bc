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
