"""Memory that reading and writing take beside the result: a few chunks a worker, whatever the size.

A whole chunk is decoded straight into the result: what is held is the chunk as stored, and what the codec
gives.  Of a chunk that is wanted in part there is the decoded chunk as well, which most codecs write to
themselves; what comes out in another order or byte order is copied there.  Filters make new arrays.
Chunks of less than 1 MiB are read, and of less than 4 MiB written, several at a time.
"""

import tracemalloc

import numpy as np
import pytest

import chunkwise as ts

CHUNK = (64, 64, 128)  # 1 MiB of uint16
NBYTES = 2 * 64**2 * 128
SHAPE = (128, 192, 256)
WORKERS = 2

FORMATS = {
    "zarr3 zstd": ("zarr3", {"codecs": ["bytes", {"name": "zstd", "configuration": {"level": 1}}]}, {}),
    "zarr3 gzip": ("zarr3", {"codecs": ["bytes", {"name": "gzip", "configuration": {"level": 1}}]}, {}),
    "zarr3 transposed": (
        "zarr3",
        {"codecs": [{"name": "transpose", "configuration": {"order": "F"}}, "bytes"]},
        {},
    ),
    "zarr3 shards": (
        "zarr3",
        {"codecs": ["bytes", {"name": "zstd", "configuration": {"level": 1}}]},
        {"write_chunk": {"shape": [128, 64, 128]}, "read_chunk": {"shape": list(CHUNK)}},
    ),
    "zarr blosc": ("zarr", {}, {}),
    "zarr filters": (
        "zarr",
        {"filters": [{"id": "delta", "dtype": "<u2"}], "compressor": {"id": "zlib", "level": 1}},
        {},
    ),
    "zarr big-endian F": (
        "zarr",
        {"dtype": ">u2", "order": "F", "compressor": {"id": "zstd", "level": 1}},
        {},
    ),
    "n5 gzip": ("n5", {"compression": {"type": "gzip", "level": 1}}, {}),
    "n5 raw": ("n5", {"compression": {"type": "raw"}}, {}),
}


@pytest.fixture(scope="module")
def volume():
    """Values that compress a little, so that encoded chunks are not small."""
    return np.random.default_rng(0).integers(0, 2000, SHAPE, np.uint16)


@pytest.fixture(params=list(FORMATS))
def store(request, volume, tmp_path):
    driver, metadata, layout = FORMATS[request.param]
    context = {"data_copy_concurrency": {"limit": WORKERS}, "file_io_sync": False}
    made = ts.open(
        {
            "driver": driver,
            "kvstore": f"file://{tmp_path}/",
            "metadata": metadata,
            "schema": {"chunk_layout": layout or {"chunk": {"shape": list(CHUNK)}}},
            "context": context,
        },
        create=True,
        dtype="uint16",
        shape=SHAPE,
    ).result()
    made[...] = volume
    made.read().result()  # so that codecs are loaded
    return made


def _extra(act, given):
    """Peak of memory beside `given` bytes, in chunks."""
    tracemalloc.start()
    try:
        act()
        return (tracemalloc.get_traced_memory()[1] - given) / NBYTES
    finally:
        tracemalloc.stop()


def test_memory(store, volume, request):
    name = request.node.callspec.params["store"]
    # Of a shard, neighbouring chunks are read at once.
    whole, part, writing = {
        "zarr3 shards": (3.2, 3.2, 12),
        "zarr filters": (3.2, 4.2, 8),
        "zarr big-endian F": (2.2, 3.2, 7),
        "n5 gzip": (2.2, 3.2, 7),
    }.get(name, (2.4, 2.4, 7))
    kept = []
    assert _extra(lambda: kept.append(store.read().result()), volume.nbytes) < whole * WORKERS
    assert (kept.pop() == volume).all()
    view = store[5:122, 7:180:3, 33:200]
    assert _extra(lambda: kept.append(view.read().result()), 2 * view.size) < part * WORKERS
    assert (kept.pop() == volume[5:122, 7:180:3, 33:200]).all()
    assert _extra(lambda: store.write(volume).result(), 0) < writing * WORKERS
    source = np.broadcast_to(np.uint16(7), (100, 150, 200))
    assert _extra(lambda: store[10:110, 20:170, 20:220].write(source).result(), 0) < writing * WORKERS


def test_an_array_far_larger_than_memory(tmp_path):
    """Only chunks that are touched cost anything, whatever the extent of the array."""
    store = ts.open(
        {"driver": "zarr3", "kvstore": f"file://{tmp_path}/"},
        create=True,
        dtype="uint8",
        shape=[2**40, 2**40],
        chunk_layout=ts.ChunkLayout(chunk_shape=[256, 256]),
    ).result()
    view = store[2**39 : 2**39 + 300, 2**38 : 2**38 + 10]
    view[...] = 5
    assert _extra(lambda: view.read().result(), 0) < 3
    assert (view.read().result() == 5).all()
    store[2**40 - 1, 2**40 - 1] = 9
    assert store[2**40 - 1, 2**40 - 1].read().result() == 9
    assert store.resize(exclusive_max=[2**62, 2**62]).result().shape == (2**62, 2**62)
