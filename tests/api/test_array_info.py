"""``nbytes``, ``chunks`` and ``info()`` of arrays, and how a future is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

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


DOCUMENTS = ("zarr.json", ".zarray", "attributes.json", "chunkwise.json")


@pytest.mark.parametrize(
    ("format", "shards"), [("zarr3", None), ("zarr3", (20, 20)), ("zarr2", None), ("n5", None)]
)
def test_a_notebook_tells_what_is_stored_of_a_view(tmp_path: Path, format: str, shards: Any) -> None:
    more = {"shards": shards} if shards else {}
    a = ts.create_array(tmp_path / "a", shape=(40, 60), dtype="u2", chunks=(10, 10), format=format, **more)
    a[:20, :].write(np.random.default_rng(0).integers(0, 60_000, (20, 60), dtype="u2")).result()
    views = {  # chunks, keys without shards, keys with them
        "rows across a border": (a[9:11, 5], 2, 2, 1),
        "every other column": (a[0, ::2], 6, 6, 3),
        "turned": (a[35:, :15].T, 2, 2, 1),
        "what is missing": (a[20:, 0], 2, 2, 1),
    }
    files = [p.stat().st_size for p in (tmp_path / "a").rglob("*") if p.is_file() and p.name not in DOCUMENTS]
    for name, (view, n_chunks, n_keys, n_shards) in views.items():
        shown = " ".join(ElementTree.fromstring(view._repr_html_()).itertext())
        keys = n_shards if shards else n_keys
        assert f"{n_chunks} chunks are met" in shown, name
        stored = re.search(r"stored (\S+) (k?B) under the (\d+) keys", shown)
        assert stored and int(stored[3]) == keys, name
        nbytes = float(stored[1]) * (1000 if stored[2] == "kB" else 1)
        least, most = (0, 0) if name in ("turned", "what is missing") else (min(files), max(files))
        assert least * keys * 0.99 <= nbytes <= most * keys * 1.01, name


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
    assert repr(ts.Future(np.zeros((2, 3), "u1"))).endswith("done: ndarray (2, 3) uint8>")
    array = ts.create_array("memory://shown/", np.zeros((2, 3), "u1"))
    assert repr(ts.Future(array)).endswith("done: TensorStore (2, 3) uint8>")
    written = array.write(1)
    written.result()
    assert repr(written) == "<chunkwise.WriteFutures copy done: None, commit done: None>"


def test_reports_are_a_line_or_two_and_a_table(tmp_path: Path) -> None:
    a = ts.open_group(tmp_path / "t", "w").create_array(
        "a", np.arange(4000).reshape(40, 100), chunks=(10, 10)
    )
    pyramid = ts.downsample_pyramid(a, tmp_path / "p", axes=["y", "x"], levels=1).result()
    levels = ts.open_multiscale(tmp_path / "p").levels
    assert repr(levels) == "<2 levels: 0 voxels of 1, 1; 1 voxels of 2, 2>"  # none is opened for it
    _ = levels[1]
    reports = {  # text, table
        "ArrayCopyReport": (
            ts.copy(tmp_path / "t/a", tmp_path / "b"),
            "array=TensorStore (40, 100) int64",
            "32,000",
        ),
        "CopyReport": (ts.copy_tree(tmp_path / "t", tmp_path / "u"), "n_arrays=1", "arrays 1"),
        "NodeReport": (next(iter(ts.verify(tmp_path / "t/a"))), "n_chunks=40", "chunks 40"),
        "pyramid": (pyramid, "1: 20x50", "TensorStore (20, 50) int64"),
        "levels": (levels, "TensorStore (20, 50) int64, voxels of 2, 2", "TensorStore (20, 50) int64"),
        "Difference": (next(iter(ts.diff(tmp_path / "t/a", tmp_path / "p/1"))), "what=", "what"),
    }
    for name, (report, told, row) in reports.items():
        assert name in repr(report) and told in repr(report)
        assert len(repr(report)) < 300 and "\n" not in repr(report)
        table = " ".join(ElementTree.fromstring(report._repr_html_()).itertext())
        assert name.lower() in table.lower() and row in table


PIECES = {
    "whole chunks": (lambda a: a[2:6], True),
    "parts of them": (lambda a: a[1:5], False),
    "parts of rows": (lambda a: a[2:6, :8], False),
    "rows in another order": (lambda a: a[[3, 2]], False),
    "backwards": (lambda a: a[::-1], False),
    "transposed": (lambda a: a.T[:, 2:6], False),
    "columns": (lambda a: a[2:6, 3], False),
}


@pytest.mark.parametrize("name", PIECES)
def test_chunks_that_are_a_piece_of_the_result_are_decoded_into_it(name: str) -> None:
    """Others are decoded beside it, if they are small."""
    view, in_place = PIECES[name]
    array = ts.create_array("memory://pieces/", np.zeros((8, 16), "u1"), chunks=(2, 16), overwrite=True)
    strategy = str(view(array).explain()).splitlines()[-1]
    assert ("decoded into the result" in strategy, "decoded beside the result" in strategy) == (
        in_place,
        not in_place,
    )


def test_a_strategy_is_told_in_words(tmp_path: Path) -> None:
    a = ts.create_array(tmp_path / "a", np.zeros((64, 64), "u1"), chunks=(8, 8), shards=(32, 32))
    strategy = str(a[3:40, 5].explain()).splitlines()[-1]
    told = "ranges of shards, decoded beside the result and copied to it, by the calling thread, "
    assert re.fullmatch(rf"strategy +{told}[\d,]+ bytes at a time", strategy)
    nothing = a[3:3].explain()
    assert "\nstrategy" not in str(nothing) and "0 requests" in repr(nothing)
