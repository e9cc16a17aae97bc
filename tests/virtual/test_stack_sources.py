"""Layers in local files are read without being opened one by one, and nothing else is different for that."""

import re
import shutil

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.errors import NotFoundError

KINDS = {
    "zarr3 raw": ("zarr3", {"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}),
    "zarr3 big": ("zarr3", {"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}),
    "zarr3 turned": (
        "zarr3",
        {
            "codecs": [
                {"name": "transpose", "configuration": {"order": [1, 0]}},
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": 1}},
            ]
        },
    ),
    "zarr3 shards": (
        "zarr3",
        {
            "codecs": [
                {
                    "name": "sharding_indexed",
                    "configuration": {
                        "chunk_shape": [1, 1],
                        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
                    },
                }
            ]
        },
    ),
    "zarr2": ("zarr", {"compressor": {"id": "zlib", "level": 1}}),
    "n5": ("n5", {"compression": {"type": "gzip"}}),
}
CHUNKS = {"zarr3": "chunk_grid", "zarr": "chunks", "n5": "blockSize"}


def _chunks(driver, shape):
    if driver != "zarr3":
        return {CHUNKS[driver]: shape}
    return {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}}}


def _layer(driver, path, at, shape, **more):
    output = [{"input_dimension": d, "offset": -a} for d, a in enumerate(at)]
    return {
        "driver": driver,
        "kvstore": {"driver": "file", "path": f"{path}/"},
        "transform": {"input_inclusive_min": at, "input_shape": shape, "output": output},
        **more,
    }


def _tiles(tmp_path, kind, chunks):
    """Return the layers of a 3 by 4 mosaic of 6 by 5 tiles, and what is seen of it."""
    driver, metadata = KINDS[kind]
    canvas = np.random.default_rng(0).integers(1, 999, (18, 20)).astype("int32")
    layers = []
    for row, column in np.ndindex(3, 4):
        at, path = [6 * row, 5 * column], tmp_path / f"{row}-{column}"
        layer = _layer(driver, path, at, [6, 5])
        tile = ts.open(
            {k: v for k, v in layer.items() if k != "transform"}
            | {"metadata": metadata | _chunks(driver, chunks)},
            create=True,
            dtype="int32",
            shape=[6, 5],
        ).result()
        tile[...] = canvas[at[0] : at[0] + 6, at[1] : at[1] + 5]
        layers.append(layer)
    return layers, canvas


def _stack(layers, **more):
    return ts.open({"driver": "stack", "dtype": "int32", "layers": layers, **more}).result()


def _the_long_way(layers):
    """Return the specs of layers with a cache, which are opened as any array is."""
    return [{**layer, "cache_pool": {"total_bytes_limit": 1}} for layer in layers]


REGIONS = [
    np.s_[...],
    np.s_[2:15, 3:19],
    np.s_[7, 3:19],
    np.s_[2:15, 11],
    np.s_[8, 8],
    np.s_[6:12, 5:10],
    np.s_[7:9, 6:9],
    np.s_[1:17:2, ::3],
    np.s_[[3, 9, 14], 2:18],
    np.s_[4:4, :],
]


@pytest.mark.each_once
@pytest.mark.parametrize("chunks", [[6, 5], [4, 4], [8, 8], [1, 2]], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_values(tmp_path, kind, chunks, opened):
    layers, canvas = _tiles(tmp_path, kind, chunks)
    store = _stack(layers)
    for region in REGIONS:
        assert np.array_equal(store[region].read().result(), canvas[region]), region
        assert np.array_equal(store[region].T.read().result(), canvas[region].T), region
    opened()
    assert np.array_equal(store[2:15, 3:19].read().result(), canvas[2:15, 3:19])
    assert np.array_equal(store[7, 3:19].read().result(), canvas[7, 3:19])
    assert bool(opened()) == (kind == "zarr3 shards")
    assert np.array_equal(store[::-1, 2:19:3].T.read().result(), canvas[::-1, 2:19:3].T)


def test_layers_outside_a_region_are_not_looked_at(tmp_path):
    layers, canvas = _tiles(tmp_path, "zarr3 raw", [6, 5])
    store = _stack(layers)
    gone = [(row, column) for row, column in np.ndindex(3, 4) if row > 1 or column > 1]
    for row, column in gone:
        shutil.rmtree(tmp_path / f"{row}-{column}")
    assert np.array_equal(store[3:9, 2:8].read().result(), canvas[3:9, 2:8])
    with pytest.raises(ValueError, match="While opening layer ") as e:
        store.read().result()
    number = re.search(r"While opening layer (\d+): ", str(e.value))
    # Layers are opened together, so any of those that are gone may be the first.
    assert number is not None and int(number[1]) in {4 * row + column for row, column in gone}


def test_large_layers(tmp_path, opened):
    """Layers that are read by several threads each."""
    canvas = np.random.default_rng(0).integers(0, 99, (600, 1200)).astype("int32")
    layers = [_layer("zarr3", tmp_path / str(i), [0, 400 * i], [600, 400]) for i in range(3)]
    for i, layer in enumerate(layers):
        spec = {k: v for k, v in layer.items() if k != "transform"}
        metadata = KINDS["zarr3 raw"][1] | _chunks("zarr3", [64, 64])
        made = ts.open({**spec, "metadata": metadata}, create=True, dtype="int32", shape=[600, 400])
        made.result()[...] = canvas[:, 400 * i : 400 * i + 400]
    store = _stack(layers)
    assert np.array_equal(store.read().result(), canvas)
    assert np.array_equal(store[5:, 9:1100].T.read().result(), canvas[5:, 9:1100].T)
    assert not opened()
    assert np.array_equal(store[::-2, 9:1100:3].read().result(), canvas[::-2, 9:1100:3])
    (tmp_path / "1" / "c" / "2" / "3").write_bytes(b"")
    with pytest.raises(ValueError, match=r"Error reading local file .*1/c/2/3"):
        store.read().result()
    shutil.rmtree(tmp_path / "1")
    with pytest.raises(ValueError, match="While opening layer 1: "):
        store.read().result()


@pytest.mark.parametrize("kind", KINDS)
def test_open_layers(tmp_path, kind):
    layers, canvas = _tiles(tmp_path, kind, [4, 5])
    store = ts.overlay([ts.open(layer, read=True).result() for layer in layers])
    for region in REGIONS:
        assert np.array_equal(store[region].read().result(), canvas[region]), region
    assert np.array_equal(store.T[3:9, 2:17].read().result(), canvas[2:17, 3:9].T)


@pytest.mark.parametrize("damage", ["cut off", "too long", "gone"])
@pytest.mark.parametrize("kind", ["zarr3 raw", "zarr2"])
def test_damaged_open_layers(tmp_path, kind, damage):
    """A chunk that is not what it should be is an error that names it; one that is missing is filled."""
    layers, canvas = _tiles(tmp_path, kind, [6, 5])
    store = ts.overlay([ts.open(layer, read=True).result() for layer in layers])
    chunk = tmp_path / "1-1" / ("c/0/0" if kind == "zarr3 raw" else "0.0")
    if damage == "gone":
        chunk.unlink()
        canvas[6:12, 5:10] = 0
        assert np.array_equal(store.read().result(), canvas)
        return
    chunk.write_bytes(chunk.read_bytes()[:-3] if damage == "cut off" else chunk.read_bytes() * 2)
    found = [_outcome(store, region) for region in (np.s_[...], np.s_[6:12, 4:11])]
    assert "1-1" in found[0][1]
    store = ts.overlay([ts.open(layer, read=True).result() for layer in _the_long_way(layers)])
    assert found == [_outcome(store, region) for region in (np.s_[...], np.s_[6:12, 4:11])]


@pytest.mark.parametrize("recheck", ["open", True, False])
def test_open_layers_that_change(tmp_path, recheck):
    """They are looked at again as their staleness bound says, and a resize by their own handle is seen."""
    layers, canvas = _tiles(tmp_path, "zarr3 raw", [6, 5])
    more = {"recheck_cached_metadata": recheck}
    handles = [ts.open({**layer, **more}, read=True, write=True).result() for layer in layers]
    store = ts.overlay(handles)
    assert np.array_equal(store.read().result(), canvas)
    # in another context, which shares no metadata
    spec = {k: v for k, v in layers[5].items() if k != "transform"}
    other = ts.open(spec, context=ts.Context()).result()
    other.resize(exclusive_max=[6, 3], resize_metadata_only=True).result()
    if recheck is True:
        with pytest.raises((IndexError, ValueError), match="Layer 5"):
            store.read().result()
    else:
        assert np.array_equal(store.read().result(), canvas)
    other.resize(exclusive_max=[6, 5]).result()
    assert np.array_equal(store.read().result(), canvas)


@pytest.mark.parametrize("chunks", [[6, 5], [6, 2]], ids=str)
def test_a_view_that_is_read_again(tmp_path, chunks):
    """Its plan and what is known of its layers are kept until any of them changes."""
    layers, canvas = _tiles(tmp_path, "zarr3 raw", chunks)
    context = ts.Context()
    store = ts.overlay([ts.open(layer, read=True, context=context).result() for layer in layers])
    spec = {k: v for k, v in layers[5].items() if k != "transform"}
    same = ts.open(spec, context=context).result()
    regions = [np.s_[:, :], np.s_[2:15, 3:19]]
    views = [(region, store[region]) for region in regions]
    for width in (5, 3, 5):
        same.resize(exclusive_max=[6, width]).result()
        if width < 5 and chunks == [6, 2]:
            canvas[6:12, 9] = 0  # its chunk is deleted
        for region, view in views:
            for _ in range(3):
                if width < 5:
                    with pytest.raises((IndexError, ValueError), match="Layer 5"):
                        view.read().result()
                else:
                    assert np.array_equal(view.read().result(), canvas[region])
        assert np.array_equal(store[0:6].read().result(), canvas[0:6])
    (tmp_path / "0-0" / "c" / "0" / "0").unlink()
    canvas[0:6, 0 : chunks[1]] = 0
    for region, view in views:
        assert np.array_equal(view.read().result(), canvas[region])


def test_layers_with_attributes_of_their_own(tmp_path, opened):
    """Documents that differ in what says nothing about chunks; fill values that differ."""
    canvas = np.zeros((4, 12), "int32")
    layers = []
    for i in range(6):
        layer = _layer("zarr3", tmp_path / str(i), [0, 2 * i], [4, 2])
        spec = {k: v for k, v in layer.items() if k != "transform"}
        metadata = KINDS["zarr3 raw"][1] | _chunks("zarr3", [4, 2]) | {"attributes": {"number": i}}
        metadata |= {"data_type": "int32", "fill_value": i // 2}
        tile = ts.open({**spec, "metadata": metadata}, create=True, dtype="int32", shape=[4, 2]).result()
        canvas[:, 2 * i : 2 * i + 2] = i // 2
        if i % 2:
            canvas[:, 2 * i : 2 * i + 2] = 10 + i
            tile[...] = 10 + i
        layers.append(layer)
    assert np.array_equal(_stack(layers).read().result(), canvas)
    assert not opened()
    store = ts.overlay([ts.open(layer, read=True).result() for layer in layers])
    assert np.array_equal(store.read().result(), canvas)
    assert np.array_equal(store[1:, ::-1].read().result(), canvas[1:, ::-1])


def test_tiles_over_tiles(tmp_path):
    """Of layers with the same bounds the last one is seen."""
    layers, canvas = _tiles(tmp_path, "zarr3 raw", [6, 5])
    blank = [ts.array(np.full((6, 5), -1, "int32")).translate_to[6, 5]]
    stores = [ts.open(layer, read=True).result() for layer in layers]
    assert np.array_equal(ts.overlay(blank + stores).read().result(), canvas)
    canvas[6:12, 5:10] = -1
    assert np.array_equal(ts.overlay(stores + blank).read().result(), canvas)
    assert np.array_equal(ts.overlay(stores + blank).T.read().result(), canvas.T)


def test_planes(tmp_path, opened):
    """Layers with fewer dimensions than the stack, and with more."""
    layers, canvas = _tiles(tmp_path, "zarr3 raw", [6, 5])
    plain = [{k: v for k, v in layer.items() if k != "transform"} for layer in layers]
    planes = [
        {
            **layer,
            "transform": {
                "input_inclusive_min": [0, i, 0],
                "input_shape": [6, 1, 5],
                "output": [{"input_dimension": 0}, {"input_dimension": 2}],
            },
        }
        for i, layer in enumerate(plain)
    ]
    tiles = canvas.reshape(3, 6, 4, 5).transpose(0, 2, 1, 3).reshape(12, 6, 5)
    store = _stack(planes)
    assert np.array_equal(store.read().result(), tiles.transpose(1, 0, 2))
    assert np.array_equal(store[2, 3:7, 1:4].read().result(), tiles[3:7, 2, 1:4])
    assert not opened()
    assert np.array_equal(store[:, [7, 2, 2], :].read().result(), tiles[[7, 2, 2]].transpose(1, 0, 2))
    assert np.array_equal(store[::2, ::-3, 1].read().result(), tiles[::-3, ::2, 1].T)
    lines = [
        {
            **layer,
            "transform": {
                "input_inclusive_min": [5 * i],
                "input_shape": [5],
                "output": [{"offset": 2}, {"input_dimension": 0, "offset": -5 * i}],
            },
        }
        for i, layer in enumerate(plain)
    ]
    opened()
    store = _stack(lines)
    assert np.array_equal(store.read().result(), tiles[:, 2].reshape(-1))
    assert np.array_equal(store[7:23].read().result(), tiles[:, 2].reshape(-1)[7:23])
    assert not opened()
    repeated = [
        {**plane, "transform": {**plane["transform"], "input_shape": [6, 2, 5]}} for plane in planes[:1]
    ]
    assert np.array_equal(_stack(repeated).read().result(), np.broadcast_to(tiles[0][:, None], (6, 2, 5)))


@st.composite
def layers_seen_through_views(draw):
    """Arrays with constant indices and new axes: where each lies, and what is painted."""
    rank = draw(st.integers(1, 3))
    canvas = np.full((6,) * rank, -1, "int32")
    layers = []
    for i in range(draw(st.integers(1, 5))):
        size = [draw(st.sampled_from([None, 1, 2, 4])) for _ in range(rank)]  # None: a new axis
        at = [draw(st.integers(0, 6 - (n or 1))) for n in size]
        shape, constants = [], []
        for n in (*size, None):
            if draw(st.integers(0, 4)) == 0:
                shape.append(3)
                constants.append(draw(st.integers(0, 2)))
            if n is not None:
                shape.append(n)
                constants.append(None)
        values = np.arange(np.prod(shape, dtype=int), dtype="int32").reshape(shape) + 1000 * i
        chunks = [draw(st.integers(1, 3)) for _ in shape] if draw(st.booleans()) else None
        index = tuple(slice(None) if c is None else c for c in constants)
        axes = tuple(np.newaxis if n is None else slice(None) for n in size)
        box = tuple(slice(a, a + (n or 1)) for a, n in zip(at, size, strict=True))
        canvas[box] = values[index][axes]
        layers.append((values, chunks, index, axes, at))
    corners = [sorted([draw(st.integers(0, 6)), draw(st.integers(0, 6))]) for _ in range(rank)]
    return layers, canvas, tuple(slice(a, b) for a, b in corners)


@settings(max_examples=examples(150), deadline=None)
@given(layers_seen_through_views(), st.booleans())
def test_views_as_layers(tmp_path_factory, case, as_specs):
    """Layers with more dimensions than the stack or fewer, in files and in memory, against a painter."""
    layers, canvas, region = case
    found = []
    for values, chunks, index, axes, at in layers:
        store = ts.array(values)
        if chunks is not None:
            spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path_factory.mktemp('layer')}/"}
            spec["metadata"] = KINDS["zarr3 raw"][1] | _chunks("zarr3", chunks)
            spec["context"] = {"file_io_sync": False}
            store = ts.open(spec, create=True, dtype="int32", shape=values.shape).result()
            store[...] = values
        view = store[(*index, ...)][(*axes, ...)].translate_to[tuple(at)]
        found.append(view.spec() if as_specs else view)
    stack = ts.overlay(found, shape=canvas.shape, fill_value=-1)
    for _ in range(2):
        assert np.array_equal(stack.read().result(), canvas)
        assert np.array_equal(stack[region].read().result(), canvas[region])
        assert np.array_equal(stack[region].T.read().result(), canvas[region].T)


def test_fill(tmp_path, opened):
    """Chunks that are missing are filled in, or are an error, as the layer says."""
    layers, canvas = _tiles(tmp_path, "zarr3 raw", [3, 5])
    (tmp_path / "1-2" / "c" / "1" / "0").unlink()
    canvas[9:12, 10:15] = 0
    assert np.array_equal(_stack(layers).read().result(), canvas)
    strict = [{**layer, "fill_missing_data_reads": False} for layer in layers]
    with pytest.raises(NotFoundError, match=r"chunk \{1, 0\} stored at .*1-2/c/1/0.* is missing"):
        _stack(strict).read().result()
    assert not opened()


def test_holes_and_layers_over_each_other(tmp_path):
    layers, canvas = _tiles(tmp_path, "zarr3 raw", [6, 5])
    moved = _layer("zarr3", tmp_path / "0-0", [4, 3], [6, 5])
    expected = canvas.copy()
    expected[4:10, 3:8] = canvas[:6, :5]
    expected[12:, 15:] = -1
    assert np.array_equal(_stack([*layers[:-1], moved], fill_value=-1).read().result(), expected)


def _outcome(store, region):
    try:
        return store[region].read().result().tolist()
    except Exception as e:
        return type(e), str(e)


DAMAGES = {
    "gone": lambda path: shutil.rmtree(path),
    "no document": lambda path: (path / "zarr.json").unlink(),
    "no JSON": lambda path: (path / "zarr.json").write_text("{"),
    "a group": lambda path: (path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}'),
    "another type": lambda path: _create(path, "int16", [6, 5]),
    "another rank": lambda path: _create(path, "int32", [6, 5, 1]),
    "smaller": lambda path: _create(path, "int32", [6, 4]),
    "cut off": lambda path: (path / "c/0/0").write_bytes(b"1234"),
    "too long": lambda path: (path / "c/0/0").write_bytes(b"1234" * 31),
    "a directory": lambda path: ((path / "zarr.json").unlink(), (path / "zarr.json").mkdir()),
}


def _create(path, dtype, shape):
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
    ts.open(spec, create=True, delete_existing=True, dtype=dtype, shape=shape).result()


@pytest.mark.parametrize("damage", DAMAGES)
def test_errors(tmp_path, damage, opened):
    """What is wrong with a layer is noticed by the next read, and told in the same words."""
    layers, canvas = _tiles(tmp_path, "zarr3 raw", [6, 5])
    store = _stack(layers)
    regions = [np.s_[...], np.s_[6:12, 5:10], np.s_[7, 6:9], np.s_[1:7, 2:6]]
    assert np.array_equal(store.read().result(), canvas)
    DAMAGES[damage](tmp_path / "1-1")
    found = [_outcome(store, region) for region in regions]
    assert isinstance(found[0], tuple)
    if damage not in ("cut off", "too long"):
        assert "layer 5" in found[0][1].lower()
    opened()
    store = _stack(_the_long_way(layers))
    assert found == [_outcome(store, region) for region in regions]
    assert opened()


def test_changes_are_seen(tmp_path):
    """Each read looks at the documents again; layers that are written with other codecs are decoded so."""
    layers, canvas = _tiles(tmp_path, "zarr3 raw", [6, 5])
    store = _stack(layers)
    assert np.array_equal(store.read().result(), canvas)
    spec = {k: v for k, v in layers[4].items() if k != "transform"}
    metadata = KINDS["zarr3 turned"][1] | _chunks("zarr3", [2, 5])
    tile = ts.open(
        {**spec, "metadata": metadata}, create=True, delete_existing=True, dtype="int32", shape=[7, 9]
    ).result()
    tile[...] = 7
    canvas[6:12, 0:5] = 7
    assert np.array_equal(store.read().result(), canvas)


@pytest.mark.parametrize(
    "more",
    [
        {"recheck_cached_metadata": False},
        {"assume_metadata": True, "metadata": {"shape": [6, 5]}},
        {"context": {"cache_pool": {"total_bytes_limit": 1000000}}},
        {"context": {"file_io_mode": {"mode": "memmap"}}},
        {"context": {"file_io_concurrency": {"limit": 1}}},
        {"open": True, "create": True},
    ],
    ids=str,
)
def test_layers_that_are_opened(tmp_path, more, opened):
    """What takes more than a look at the document is opened."""
    layers, canvas = _tiles(tmp_path, "zarr3 raw", [6, 5])
    if "metadata" in more:
        codecs = KINDS["zarr3 raw"][1]
        more = {**more, "metadata": {**more["metadata"], **codecs, **_chunks("zarr3", [6, 5])}}
    context = {name: value for name, value in more.items() if name == "context"}
    more = {name: value for name, value in more.items() if name != "context"}
    store = _stack([{**layer, **more} for layer in layers], **context)
    if "create" in more:
        with pytest.raises(ValueError, match="open mode of `create`"):
            store.read().result()
        return
    assert np.array_equal(store.read().result(), canvas)
    assert opened() == len(layers)


def test_transaction(tmp_path):
    """A transaction sees what it has written."""
    layers, canvas = _tiles(tmp_path, "zarr3 raw", [6, 5])
    store = _stack(layers)
    with ts.Transaction() as transaction:
        bound = store.with_transaction(transaction)
        bound[7:9, 6:8] = 5
        canvas[7:9, 6:8] = 5
        assert np.array_equal(bound.read().result(), canvas)
        assert not np.array_equal(store.read().result(), canvas)
    assert np.array_equal(store.read().result(), canvas)


def test_layers_opened_one_by_one_are_read_by_one_table(tmp_path):
    """Chains that decode alike make one table; a chain, or a fill value, of another kind makes another."""

    def layer(i, **metadata):
        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": f"{tmp_path}/{i}/"},
            "metadata": {"data_type": "uint16", "shape": [1, 4], **metadata},
        }
        store = ts.open(spec, create=True).result()
        if not metadata:
            store.write(np.uint16(i)).result()
        return store.translate_to[i, 0]

    stack = ts.overlay([layer(i) for i in range(6)] + [layer(6, fill_value=9), layer(7, fill_value=7)])
    sources = stack._array._layers.layer_sources(range(8))
    assert len({source.kind for source in sources[:6]}) == 1
    assert len({source.kind for source in sources}) == 3
    assert stack.read().result()[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 9, 7]
