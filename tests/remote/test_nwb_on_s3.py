"""NWB files in buckets: how many requests opening takes, and copies of values that are out of date."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "hdmf"))

from nwb_content import CONTENT, new_file
from pynwb import TimeSeries

import chunkwise as ts
from chunkwise.hdmf import NWBZarrIO

pytestmark = pytest.mark.filterwarnings("ignore")

FORMATS = ("zarr2", "zarr3", "n5")
MOST = {"zarr2": 10, "zarr3": 10, "n5": 30}


def _store(moto: str, bucket: str) -> ts.KvStore:
    spec = {"driver": "s3", "bucket": bucket, "endpoint": moto, "path": "session.nwb/"}
    return ts.KvStore.open(spec).result()


@pytest.mark.parametrize("format", FORMATS)
def test_opening_a_whole_session_takes_few_requests(
    format: str, moto: str, s3_bucket: Any, proxy: Callable[[str], Any]
) -> None:
    nwb = new_file("all")
    for add in CONTENT.values():
        if add.__name__ not in ("tables", "icephys"):
            add(nwb)
    for i in range(20):
        nwb.add_acquisition(TimeSeries(f"ts{i}", np.arange(5.0) + i, "V", rate=1.0))
    with NWBZarrIO(_store(moto, s3_bucket.bucket), "w", format=format) as io:
        io.write(nwb)
    between = proxy(moto)
    place = _store(between.url, s3_bucket.bucket)
    between.set()
    with NWBZarrIO(place) as io:
        found = io.read()
        log = between.log()
        assert found.acquisition["ts7"].rate == 1.0
        assert found.acquisition["ts7"].data[:].tolist() == [7.0, 8.0, 9.0, 10.0, 11.0]
        assert found.electrodes["label"][:].tolist() == [f"e{i}" for i in range(6)]
    assert len(log) <= MOST[format], log


def _data(store: ts.KvStore) -> Any:
    with NWBZarrIO(store) as io:
        return io.read().acquisition["ts"].data[:].tolist()


@pytest.mark.parametrize("format", FORMATS)
def test_what_was_changed_since_is_read(format: str, moto: str, s3_bucket: Any) -> None:
    store = _store(moto, s3_bucket.bucket)
    with NWBZarrIO(store, "w", format=format) as io:
        nwb = new_file()
        nwb.add_acquisition(TimeSeries("ts", np.arange(5.0), "V", rate=1.0))
        io.write(nwb)
    with NWBZarrIO(store, "r+") as io:
        io.read().acquisition["ts"].data[2] = 9.0
        assert _data(store) == [0.0, 1.0, 9.0, 3.0, 4.0]
    assert _data(store) == [0.0, 1.0, 9.0, 3.0, 4.0]


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_copies_are_not_used_once_others_have_consolidated(format: str, moto: str, s3_bucket: Any) -> None:
    store = _store(moto, s3_bucket.bucket)
    with NWBZarrIO(store, "w", format=format) as io:
        io.write(new_file("before"))
    key = ".zmetadata" if format == "zarr2" else "zarr.json"
    document = json.loads(store[key])
    (document if format == "zarr2" else document["consolidated_metadata"]).pop("chunkwise_copies")
    store[key] = json.dumps(document)
    spec = {"driver": "zarr" if format == "zarr2" else "zarr3", "kvstore": (store / "identifier/").spec()}
    ts.open(spec).result().write("after").result()
    with NWBZarrIO(store) as io:
        assert io.read().identifier == "after"
