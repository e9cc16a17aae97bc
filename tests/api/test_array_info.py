"""``nbytes``, ``chunks`` and ``info()`` of arrays, and how a future is shown."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import chunkwise as ts


@pytest.mark.parametrize("driver", ["zarr", "zarr3", "n5"])
def test_size_and_chunks(tmp_path: Path, driver: str) -> None:
    layout = ts.ChunkLayout(chunk_shape=[4, 5])
    spec = {"driver": driver, "kvstore": f"file://{tmp_path}/a/"}
    a = ts.open(spec, create=True, dtype="uint16", shape=[10, 20], chunk_layout=layout).result()
    assert (a.nbytes, a.chunks) == (400, (4, 5))
    assert (a[2:4, 3].nbytes, a[2:4, 3].chunks) == (4, (4,))
    assert a.T.chunks == (5, 4)
    info = a.info()
    assert info["shape"] == (10, 20) and info["dtype"] == "uint16" and info["nbytes"] == 400
    assert "shards" not in info and str(tmp_path) in info["url"]
    lines = str(info).splitlines()
    assert [line.split()[0] for line in lines] == list(info)


def test_shards() -> None:
    layout = ts.ChunkLayout(read_chunk_shape=[10, 10], write_chunk_shape=[50, 50])
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    a = ts.open(spec, create=True, dtype="float64", shape=[100, 100], chunk_layout=layout).result()
    assert (a.chunks, a.info()["chunks"], a.info()["shards"]) == ((10, 10), (10, 10), (50, 50))


def test_arrays_without_chunks() -> None:
    assert ts.array(np.zeros((2, 3))).chunks is None
    assert ts.array(np.zeros((2, 3))).info()["nbytes"] == 48
    assert ts.array(np.zeros(())).chunks == ()


@pytest.mark.parametrize("driver", ["zarr", "zarr3", "n5"])
def test_stored_size(tmp_path: Path, driver: str) -> None:
    spec = {"driver": driver, "kvstore": f"file://{tmp_path}/a/"}
    a = ts.open(spec, create=True, dtype="uint16", shape=[50, 40]).result()
    a.write(np.arange(2000, dtype="uint16").reshape(50, 40)).result()
    files = [file.stat().st_size for file in (tmp_path / "a").rglob("*") if file.is_file()]
    assert a.nbytes_stored() == a[3:5].nbytes_stored() == sum(files)
    assert re.search(rf"{sum(files) / 1e3:.3g} kB, 1:|{sum(files)} B, 1:", a._repr_html_())
    assert "1:" not in a[3:5]._repr_html_().partition("stored")[2].partition("</tr>")[0]
    with pytest.raises(ValueError, match="stored nowhere"):
        ts.array([1, 2]).nbytes_stored()


def test_the_state_of_a_future_is_shown() -> None:
    promise, future = ts.Promise.new()
    assert "pending" in repr(future)
    promise.set_result(1)
    assert "done" in repr(future) and "done" in repr(ts.Future(3))
    promise, future = ts.Promise.new()
    promise.set_exception(ValueError("x"))
    assert "failed: ValueError" in repr(future)
    _promise, future = ts.Promise.new()
    future.cancel()
    assert "cancelled" in repr(future)
