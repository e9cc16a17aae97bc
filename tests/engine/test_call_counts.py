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
