"""Writing of pyramids: beside an array, within memory, with progress, and after an interruption."""

import threading
import tracemalloc
from asyncio import CancelledError

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.errors import DataCorruptionError

VOLUME = "neuroglancer_precomputed"


def _image(*shape):
    return np.random.default_rng(0).integers(0, 200, shape).astype("uint8")


def _counting(image, chunk, fail_at=None):
    """An array that counts how often each chunk is read, and may fail at one of them."""
    counts = {}
    lock = threading.Lock()

    def read(domain, array, params):
        with lock:
            counts[domain.origin] = counts.get(domain.origin, 0) + 1
        if fail_at is not None and domain.origin == fail_at:
            raise RuntimeError("broken tile")
        array[...] = image[domain.index_exp]

    store = ts.virtual_chunked(
        read, dtype=image.dtype.name, shape=image.shape, chunk_layout=ts.ChunkLayout(read_chunk_shape=chunk)
    )
    return store, counts


def test_beside_an_array(tmp_path):
    """The array is the first level itself: nothing of it is copied."""
    image = _image(40, 50, 60)
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": f"{tmp_path}/a.n5/v/s0/"}}
    schema = {"dtype": ts.uint8, "shape": image.shape, "dimension_units": ["4 nm"] * 3}
    store = ts.open(spec, create=True, **schema).result()
    store.write(image).result()
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("a.n5/v/s0/**/*") if p.is_file()}
    made = ts.downsample_pyramid(tmp_path / "a.n5/v/s0", factors=[2, 2, 2], levels=2).result()
    assert made.names == ("s0", "s1", "s2")
    assert np.array_equal(made.levels[0].read().result(), image)
    again = ts.downsample(ts.downsample(store, [2] * 3, "mean"), [2] * 3, "mean")
    assert np.array_equal(made.levels[2].read().result(), again.read().result())
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("a.n5/v/s0/**/*") if p.is_file()} == before
    with pytest.raises(ValueError, match="copied"):
        ts.downsample_pyramid(tmp_path / "a.n5/v/s0", convention="ome-ngff-0.5")
    with pytest.raises(ValueError, match='called "s0", not "s1"'):
        ts.downsample_pyramid(tmp_path / "a.n5/v/s1")


def test_wrong_order_beside_an_array(tmp_path):
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/a.zarr/0/"}}
    labels = ts.IndexDomain(shape=[4, 5], labels=["x", "y"])
    ts.open(spec, create=True, dtype=ts.uint8, domain=labels).result()
    with pytest.raises(ValueError, match="order y, x, but this array has x, y"):
        ts.downsample_pyramid(tmp_path / "a.zarr/0")


def test_source_chunks_are_read_once(tmp_path):
    image = _image(64, 64, 64)
    store, counts = _counting(image, [16, 16, 16])
    made = ts.downsample_pyramid(store, tmp_path / "a.zarr", levels=3).result()
    assert len(counts) == 64
    assert set(counts.values()) == {1}
    assert made.levels[3].shape == (8, 8, 8)


def test_progress_reaches_all_bytes(tmp_path):
    seen = []
    image = _image(32, 32)
    ts.downsample_pyramid(
        ts.array(image), tmp_path / "a.zarr", chunks=[8, 8], memory=1, levels=2, progress=seen.append
    ).result()
    done = [p.nbytes_done for p in seen]
    assert done == sorted(done)
    assert done[-1] == seen[-1].nbytes == 32 * 32 + 16 * 16 + 8 * 8
    assert [p.level for p in seen] == sorted(p.level for p in seen)
    assert len(seen) == 16 + 4 + 1


def test_memory_is_bounded(tmp_path):
    """An image of 100 MB takes a fraction of it; what a block needs does not grow with the image."""

    def read(domain, array, params):
        array[...] = 7

    layout = ts.ChunkLayout(read_chunk_shape=[64, 64, 64])
    store = ts.virtual_chunked(read, dtype="uint8", shape=[512, 448, 448], chunk_layout=layout)
    tracemalloc.start()
    try:
        done = ts.downsample_pyramid(
            store, tmp_path / "a.zarr", memory=12 << 20, codec="zstd:1", levels=1, sync=False
        )
        made = done.result()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert made.levels[1].shape == (256, 224, 224)
    assert peak < 24 << 20


def test_resumed_after_a_failure(tmp_path):
    """What was written stays, the rest is added, and until then there is no pyramid."""
    image = _image(64, 64)
    path = tmp_path / "a.zarr"
    options = {"chunks": [16, 16], "memory": 1, "levels": 1}
    broken, before = _counting(image, [16, 16], fail_at=(48, 48))
    with pytest.raises(RuntimeError, match="broken tile"):
        ts.downsample_pyramid(broken, path, **options).result()
    assert len(before) == 16
    assert "ome" not in (path / "zarr.json").read_text()
    assert not (path / "0/zarr.json").exists()
    whole, counts = _counting(image, [16, 16])
    with pytest.raises(ValueError, match="begun and not finished"):
        ts.downsample_pyramid(whole, path, **options)
    with pytest.raises(ValueError, match="its method is another one"):
        ts.downsample_pyramid(whole, path, resume=True, method="max", **options)
    made = ts.downsample_pyramid(whole, path, resume=True, **options).result()
    assert (48, 48) in counts
    assert len(counts) < 16
    assert np.array_equal(made.levels[0].read().result(), image)
    expected = ts.downsample(ts.array(image), [2, 2], "mean").read().result()
    assert np.array_equal(made.levels[1].read().result(), expected)
    assert not list(tmp_path.glob("**/.chunkwise*"))


def test_overwrite(tmp_path):
    path = tmp_path / "a.n5"
    first = ts.downsample_pyramid(ts.array(_image(8, 8)), path, levels=1).result()
    assert first.levels[0].shape == (8, 8)
    with pytest.raises(ValueError, match="is an array already"):
        ts.downsample_pyramid(ts.array(_image(6, 6)), path, levels=1)
    again = ts.downsample_pyramid(ts.array(_image(6, 6)), path, levels=1, overwrite=True).result()
    assert again.levels[0].shape == (6, 6)


def test_cancelled(tmp_path):
    """No block is begun after a cancellation, and nothing looks like a pyramid."""
    started, release = threading.Event(), threading.Event()
    begun = []

    def read(domain, array, params):
        begun.append(domain.origin)
        started.set()
        release.wait(10)
        array[...] = 1

    layout = ts.ChunkLayout(read_chunk_shape=[8, 8])
    store = ts.virtual_chunked(read, dtype="uint8", shape=[80, 80], chunk_layout=layout)
    future = ts.downsample_pyramid(store, tmp_path / "a.zarr", chunks=[8, 8], memory=1, levels=1)
    assert started.wait(10)
    future.cancel()
    release.set()
    with pytest.raises(CancelledError):
        future.result()
    for thread in threading.enumerate():
        if thread.name == "chunkwise-pyramid":
            thread.join(10)
    assert len(begun) < 20
    assert "ome" not in (tmp_path / "a.zarr/zarr.json").read_text()


def test_in_the_way(tmp_path):
    array = ts.array(_image(8, 8))
    ts.downsample_pyramid(array, tmp_path / "a.zarr", levels=0).result()
    with pytest.raises(ValueError, match="is an array, not a group"):
        ts.downsample_pyramid(array, tmp_path / "a.zarr/0")
    with pytest.raises(ValueError, match="zarr3 group, and the pyramid is zarr2"):
        ts.downsample_pyramid(array, tmp_path / "a.zarr", convention="ome-ngff-0.4")
    with pytest.raises(ValueError, match="needs a destination"):
        ts.downsample_pyramid(array)


def test_of_a_stack_of_tiles(tmp_path):
    """A mosaic is written as one pyramid without being put together first."""
    image = _image(48, 48)
    tiles = [ts.array(image[y : y + 28, x : x + 28]).translate_to[y, x] for y in (0, 20) for x in (0, 20)]
    made = ts.downsample_pyramid(ts.overlay(tiles), tmp_path / "a.zarr", levels=1).result()
    expected = ts.downsample(ts.array(image), [2, 2], "mean").read().result()
    assert np.array_equal(made.levels[0].read().result(), image)
    assert np.array_equal(made.levels[1].read().result(), expected)


def test_in_an_open_kvstore():
    """The destination may be any store, here one in memory that only its handle leads to."""
    image = _image(32, 32)
    kvstore = ts.KvStore.open("memory://image/").result()
    made = ts.downsample_pyramid(ts.array(image), kvstore, levels=1).result()
    assert np.array_equal(made.levels[0].read().result(), image)
    assert b'"multiscales"' in kvstore["zarr.json"]


@pytest.mark.parametrize("convention", ["ome-ngff-0.5", "ome-ngff-0.4", "n5-viewer", "cosem", VOLUME])
@pytest.mark.parametrize("again", [{"resume": True}, {"resume": True, "verify": True}])
def test_a_complete_pyramid_is_resumed_like_a_complete_copy(tmp_path, convention, again):
    """It is there, unless it was made with other options; and compared if that is wanted."""
    path, image = tmp_path / "i", ts.array(_image(20, 30, 40))
    options = {"convention": convention, "units": ["4 nm"] * 3, "levels": 2, "method": "mean"}
    made = ts.downsample_pyramid(image, path, **options).result()
    files = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in tmp_path.rglob("*") if p.is_file()}
    found = ts.downsample_pyramid(image, path, **again, **options).result()
    assert (found.names, found.factors) == (made.names, made.factors)
    assert [level.shape for level in found.levels] == [level.shape for level in made.levels]
    for other in ({"levels": 3}, {"units": ["5 nm"] * 3}):
        with pytest.raises(ValueError, match="already"):
            ts.downsample_pyramid(image, path, **again, **{**options, **other})
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in tmp_path.rglob("*") if p.is_file()} == files
    level = ts.open(made.levels[-1].spec(), open=True, read=True, write=True).result()
    level[(0,) * level.rank].write(201).result()
    if "verify" in again:
        with pytest.raises(DataCorruptionError):
            ts.downsample_pyramid(image, path, **again, **options).result()


def test_levels_beside_an_array_are_resumed_when_complete(tmp_path):
    for format, name, axes in (("zarr3", "0", ["y", "x"]), ("n5", "s0", ["x", "y"])):
        array = ts.create_array(tmp_path / format / name, _image(20, 30), format=format)
        array.attrs["k"] = 1
        options = {"factors": [2, 2], "levels": 2, "axes": axes}
        ts.downsample_pyramid(tmp_path / format / name, **options).result()
        found = ts.downsample_pyramid(tmp_path / format / name, resume=True, verify=True, **options)
        assert len(found.result().levels) == 3
        with pytest.raises(ValueError, match="is an array already"):
            ts.downsample_pyramid(tmp_path / format / name, **options)
