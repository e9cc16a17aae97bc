"""Views without elements whose other indices lie outside: TensorStore refuses some of them, and so do we."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise

LIBRARIES = {"tensorstore": tensorstore, "chunkwise": chunkwise}
VIEWS = {
    "inside": np.s_[..., 0:2, 1:1],
    "behind": np.s_[..., 8:9, 1:1],
    "before": np.s_[..., -3:-2, 1:1],
    "across": np.s_[..., 3:9, 1:1],
    "in the last": np.s_[..., 1:1, 8:9],
    "index": np.s_[..., 20, 1:1],
    "indices": np.s_[..., [1, 20], 1:1],
    "stride": np.s_[..., 3:19:2, 1:1],
    "not empty": np.s_[..., 8:9, 1:2],
}


def _memory(ts: Any) -> Any:
    return ts.array(np.arange(49, dtype="u2").reshape(7, 7))[ts.d[1, 0].mark_bounds_implicit[True]]


def _stored(ts: Any, driver: str) -> Any:
    return ts.open(
        {"driver": driver, "kvstore": "memory://a/"},
        create=True,
        dtype="uint16",
        shape=[7, 7],
        chunk_layout=ts.ChunkLayout(chunk_shape=[3, 3]),
    ).result()


def _virtual(ts: Any) -> Any:
    def read(domain: Any, chunk: Any, parameters: Any) -> None:
        chunk[...] = 1

    return ts.virtual_chunked(
        read, dtype=ts.uint16, domain=ts.IndexDomain([ts.Dim(0, 7, implicit_upper=True)] * 2)
    )


ARRAYS: dict[str, Any] = {
    "memory": _memory,
    "zarr3": lambda ts: _stored(ts, "zarr3"),
    "n5": lambda ts: _stored(ts, "n5"),
    "cast of memory": lambda ts: ts.cast(_memory(ts), ts.float32),
    "cast of zarr3": lambda ts: ts.cast(_stored(ts, "zarr3"), ts.float32),
    "mean of memory": lambda ts: ts.downsample(_memory(ts), [2, 2], "mean"),
    "stride of memory": lambda ts: ts.downsample(_memory(ts), [2, 2], "stride"),
    "median of memory": lambda ts: ts.downsample(_memory(ts), [2, 1], "median"),
    "mean of zarr3": lambda ts: ts.downsample(_stored(ts, "zarr3"), [2, 2], "mean"),
    "stride of zarr3": lambda ts: ts.downsample(_stored(ts, "zarr3"), [2, 2], "stride"),
    "stack": lambda ts: ts.stack([_stored(ts, "zarr3")] * 2, 0),
    "overlay": lambda ts: ts.overlay([_memory(ts), _stored(ts, "n5")]),
    "virtual_chunked": _virtual,
}


def _outcome(array: Any, view: Any) -> Any:
    try:
        return array[view].read().result().shape
    except (ValueError, IndexError) as e:
        return IndexError if isinstance(e, IndexError) else ValueError


@pytest.mark.parametrize("name", ARRAYS)
def test_reads_of_nothing(name: str) -> None:
    theirs, ours = (
        {what: _outcome(ARRAYS[name](ts), view) for what, view in VIEWS.items()} for ts in LIBRARIES.values()
    )
    assert theirs == ours
