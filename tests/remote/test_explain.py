"""Explanations of reads, against the requests that the reads make."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.cli.main import main

DATA = np.random.default_rng(2).integers(0, 60000, (256, 256)).astype("u2")


@pytest.fixture
def between(tmp_path: Path, run_server: Callable[..., str], proxy: Callable[[str], Any]) -> Any:
    """A proxy in front of a web server with an array of 64 chunks and one of 4 shards of 64."""
    for name, layout in (
        ("a", {"chunk_shape": [32, 32]}),
        ("s", {"read_chunk_shape": [16, 16], "write_chunk_shape": [128, 128]}),
    ):
        ts.open(
            {"driver": "zarr3", "kvstore": f"file://{tmp_path}/{name}/"},
            create=True,
            dtype=ts.uint16,
            shape=DATA.shape,
            chunk_layout=ts.ChunkLayout(**layout),
        ).result()[...].write(DATA).result()
    return proxy(run_server("http_server.py", str(tmp_path)))


@pytest.mark.each_once
@pytest.mark.parametrize(
    "region", [np.s_[...], np.s_[:64], np.s_[3, 5], np.s_[::100, ::100], np.s_[130:, 20:60]]
)
@pytest.mark.parametrize("name", ["a", "s"])
def test_requests_are_as_told(between: Any, name: str, region: Any) -> None:
    """The requests on the wire are those that were told, first with unknown and then with known indexes."""
    view = ts.open({"driver": "zarr3", "kvstore": f"{between.url}/{name}/"}).result()[region]
    between.set()
    told = view.explain().requests
    assert between.log() == []
    np.testing.assert_array_equal(view.read().result(), DATA[region])
    assert told.n_requests <= len(between.log()) <= told.n_requests_at_most
    between.set()
    told = view.explain().requests
    view.read().result()
    assert told.n_requests == told.n_requests_at_most == len(between.log())


def test_text_and_numbers(between: Any) -> None:
    """The text names chunks, requests and bytes; other arrays than those in chunks are refused."""
    array = ts.open({"driver": "zarr3", "kvstore": f"{between.url}/s/"}).result()
    text = str(array[:20, :20].explain())
    assert "4 in 1 shards, of which 0 indexes are known" in text
    assert "requests         2 to 6" in text
    assert "result bytes     800" in text
    with pytest.raises(NotImplementedError, match="arrays in a kvstore"):
        ts.array(np.zeros(3)).explain()


def test_command(between: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """``chunkwise plan`` reads the metadata and prints the same."""
    between.set()
    assert main(["plan", f"{between.url}/a/", "--region", "0:40,0:40", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["n_chunks"], told["n_requests"], told["n_result_bytes"]) == (4, 4, 3200)
    log = between.log()
    assert log and all(".json" in line or ".z" in line or "attributes" in line for line in log)
    assert main(["plan", f"{between.url}/a/", "--region", "0:40,0:40"]) == 0
    assert "requests         4" in capsys.readouterr().out


@pytest.mark.each_once
@pytest.mark.parametrize("name", ["a", "s"])
@pytest.mark.parametrize("region", [np.s_[...], np.s_[:40, :40], np.s_[::100, ::100]])
def test_cache_hits_are_told(between: Any, name: str, region: Any) -> None:
    """What the cache of the context holds is told as that, and takes no request."""
    context = {"cache_pool": {"total_bytes_limit": 10_000_000}}
    spec = {"driver": "zarr3", "kvstore": f"{between.url}/{name}/", "recheck_cached_data": False}
    view = ts.open(spec, context=ts.Context(context)).result()[region]
    between.set()
    first = view.explain().requests
    assert first.n_cache_hits == 0
    view.read().result()
    assert first.n_requests <= len(between.log()) <= first.n_requests_at_most
    between.set()
    told = view.explain()
    view.read().result()
    assert told.requests.n_requests <= len(between.log()) <= told.requests.n_requests_at_most
    if name == "a" or region is ...:  # whole values are what is kept
        assert told.requests.n_cache_hits == told.requests.n_objects > 0
        assert between.log() == [] and told.requests.n_stored_bytes == 0
        assert f"{told.requests.n_objects} of {told.requests.n_objects} keys are in a cache" in str(told)


def test_views_with_another_dtype(between: Any) -> None:
    """A conversion asks the same of the storage and gives a result of another size."""
    array = ts.open({"driver": "zarr3", "kvstore": f"{between.url}/a/"}).result()
    told, other = array[:40].explain(), ts.cast(array, ts.float64)[:40].explain()
    assert other.requests == told.requests and told.requests.n_requests == 16
    assert (told.n_result_bytes, other.n_result_bytes) == (40 * 256 * 2, 40 * 256 * 8)
