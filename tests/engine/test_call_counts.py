"""Number of functions of the library that a request calls: growth here is growth for every user.

The figures are those of today with a tenth of room; whoever brings them down writes the new ones here.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

import chunkwise

PACKAGE = str(Path(chunkwise.__file__).parent)
ROOM = 1.1


def calls_of(act):
    """Return how many functions of the package `act` calls in this thread."""
    n = 0

    def profile(frame, event, _):
        nonlocal n
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            n += 1

    act()  # what the first request opens is not counted
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
    return n


def array_at(path, pool):
    """2 x 2 x 2 chunks, small enough for the caller's thread to read."""
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd"}]
    store = chunkwise.open(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": f"{path}/"},
            "metadata": {
                "data_type": "uint16",
                "shape": [32, 32, 32],
                "codecs": codecs,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16, 16, 16]}},
            },
        },
        create=True,
        recheck_cached_data="open",
        context=chunkwise.Context({"file_io_sync": False, "cache_pool": pool}),
    ).result()
    store.write(np.arange(32**3, dtype=np.uint16).reshape(32, 32, 32)).result()
    return store


REQUESTS = {
    "8 elements": (lambda a: a[3, 4, 0:8].read().result(), 0, 42),
    "whole read of 8 chunks": (lambda a: a.read().result(), 0, 268),
    "partial write of a chunk": (lambda a: a[3, 4, 0:8].write(np.uint16(7)).result(), 0, 93),
    "cached row of 2 chunks": (lambda a: a[3, 4].read().result(), 1_000_000, 229),
}


@pytest.mark.parametrize("request_name", REQUESTS)
def test_calls(tmp_path, request_name):
    """A request calls no more functions than it did."""
    act, cached_nbytes, known = REQUESTS[request_name]
    array = array_at(tmp_path, {"total_bytes_limit": cached_nbytes})
    n = calls_of(lambda: act(array))
    assert n <= known * ROOM, f"{request_name}: {n} calls, {known} known"


VOLUME, SAMPLES = (128, 128, 128), (256, 3, 32, 32)
RANDOM = np.random.default_rng(7)
SHUFFLED = RANDOM.permutation(256)[:64]
POINTS = tuple(RANDOM.integers(0, 128, 1000) for _ in range(3))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Arrays as jobs read them: volumes in shards and in chunks, and samples, each a chunk of a shard."""
    path = tmp_path_factory.mktemp("jobs")
    grids = {
        "one shard": (VOLUME, VOLUME, (32, 32, 32)),
        "shards": (VOLUME, (64, 64, 64), (32, 32, 32)),
        "samples": (SAMPLES, (32, 3, 32, 32), (1, 3, 32, 32)),
        "chunks": (VOLUME, (64, 64, 64), None),
    }
    arrays = {}
    for name, (shape, chunks, inner) in grids.items():
        data = np.arange(np.prod(shape), dtype=np.uint16).reshape(shape) // 7
        arrays[name] = chunkwise.create_array(
            str(path / name),
            data,
            chunks=inner or chunks,
            shards=inner and chunks,
            codec="zstd",
            format="zarr3",
        )
    with pytest.MonkeyPatch.context() as patch:
        # No file is too new to be trusted.
        patch.setattr("chunkwise.core.kvstore.files.read._SETTLED", -(10**18))
        yield arrays


JOBS = {
    "box of 18 chunks of a shard": ("one shard", lambda a: a[20:68, 20:68, 10:58].read().result(), 320),
    "box of 8 shards": ("shards", lambda a: a[40:88, 40:88, 40:88].read().result(), 420),
    "64 samples of 8 shards": ("samples", lambda a: a[SHUFFLED].read().result(), 680),
    "a sample": ("samples", lambda a: a[77].read().result(), 56),
    "1,000 points": ("chunks", lambda a: a.vindex[POINTS].read().result(), 195),
    "box of 8 chunks": ("chunks", lambda a: a[40:88, 40:88, 40:88].read().result(), 199),
}


@pytest.mark.parametrize("job", JOBS)
def test_calls_of_jobs(stored, job):
    """Nor does a request of a job, all of which is done by the caller's thread."""
    name, act, known = JOBS[job]
    n = calls_of(lambda: act(stored[name]))
    assert n <= known * ROOM, f"{job}: {n} calls, {known} known"
