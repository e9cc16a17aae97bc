"""NWB files in buckets: how many requests opening takes, and copies that are proven, or out of date."""

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
from obstore.store import MemoryStore, S3Store
from pynwb import TimeSeries

import chunkwise as ts
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.obstore import ForeignBucket
from chunkwise.hdmf import NWBZarrIO, convert
from chunkwise.hdmf.model.tree import dump_copies, read_copies

pytestmark = pytest.mark.filterwarnings("ignore")

FORMATS = ("zarr2", "zarr3", "n5")
MOST = {"zarr2": 10, "zarr3": 10, "n5": 30}


def _store(moto: str, bucket: str) -> ts.KvStore:
    spec = {"driver": "s3", "bucket": bucket, "endpoint": moto, "path": "session.nwb/"}
    return ts.KvStore.open(spec).result()


def _session() -> Any:
    nwb = new_file("all")
    for add in CONTENT.values():
        if add.__name__ not in ("tables", "icephys"):
            add(nwb)
    for i in range(20):
        nwb.add_acquisition(TimeSeries(f"ts{i}", np.arange(5.0) + i, "V", rate=1.0))
    return nwb


def _read_session(place: ts.KvStore, between: Any) -> list[str]:
    """Return the requests that reading a session took."""
    between.set()
    with NWBZarrIO(place) as io:
        found = io.read()
        log: list[str] = between.log()
        assert found.acquisition["ts7"].rate == 1.0
        assert found.acquisition["ts7"].data[:].tolist() == [7.0, 8.0, 9.0, 10.0, 11.0]
        assert found.electrodes["label"][:].tolist() == [f"e{i}" for i in range(6)]
    return log


@pytest.mark.parametrize("format", FORMATS)
def test_opening_a_whole_session_takes_few_requests(
    format: str, moto: str, s3_bucket: Any, proxy: Callable[[str], Any]
) -> None:
    with NWBZarrIO(_store(moto, s3_bucket.bucket), "w", format=format) as io:
        io.write(_session())
    between = proxy(moto)
    log = _read_session(_store(between.url, s3_bucket.bucket), between)
    assert len(log) <= MOST[format], log


@pytest.mark.parametrize("format", FORMATS)
def test_copies_hold_after_an_upload_of_all_files(
    format: str, tmp_path: Path, moto: str, s3_bucket: Any, proxy: Callable[[str], Any]
) -> None:
    """The ETag of an upload to S3 is the MD5 of its bytes."""
    with NWBZarrIO(tmp_path / "session.nwb", "w", format=format) as io:
        io.write(_session())
    store = _store(moto, s3_bucket.bucket)
    for file in (tmp_path / "session.nwb").rglob("*"):
        if file.is_file():
            store[file.relative_to(tmp_path / "session.nwb").as_posix()] = file.read_bytes()
    between = proxy(moto)
    log = _read_session(_store(between.url, s3_bucket.bucket), between)
    assert len(log) <= MOST[format], log


@pytest.mark.parametrize(
    "format", [pytest.param(f, marks=[] if f == "zarr3" else pytest.mark.slow) for f in FORMATS]
)
def test_copies_hold_where_etags_are_no_digests(
    format: str, azurite: str, azure_container: Any, proxy: Callable[[str], Any]
) -> None:
    between = proxy(azurite)
    account = azure_container.account
    spec = {"driver": "azure", "container": azure_container.container, "account_name": account}
    spec["endpoint"] = f"{between.url}/{account}"
    store = ts.KvStore.open({**spec, "path": "session.nwb/"}).result()
    with NWBZarrIO(store, "w", format=format) as io:
        io.write(_session())
    log = _read_session(store, between)
    assert len(log) <= MOST[format], log
    other = ts.KvStore.open({**spec, "path": "other.nwb/"}).result()
    for key in store.list().result():
        other[key] = store[key]
    assert len(_read_session(other, between)) > MOST[format]


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


@pytest.fixture(params=FORMATS)
def series(request: pytest.FixtureRequest, moto: str, s3_bucket: Any) -> tuple[str, ts.KvStore]:
    """Format and place of a file with the acquisition "ts"."""
    store = _store(moto, s3_bucket.bucket)
    with NWBZarrIO(store, "w", format=request.param) as io:
        nwb = new_file("before")
        nwb.add_acquisition(TimeSeries("ts", np.arange(5.0), "V", rate=1.0))
        io.write(nwb)
    assert _data(store) == [0.0, 1.0, 2.0, 3.0, 4.0]
    return request.param, store


DRIVERS = {"zarr2": "zarr", "zarr3": "zarr3", "n5": "n5"}


def test_changes_by_an_array_library_are_read(series: tuple[str, ts.KvStore]) -> None:
    format, store = series
    spec = {"driver": DRIVERS[format], "kvstore": (store / "acquisition/ts/data/").spec()}
    ts.open(spec).result()[2].write(9.0).result()
    assert _data(store) == [0.0, 1.0, 9.0, 3.0, 4.0]


@pytest.mark.parametrize("series", ["zarr2", "zarr3"], indirect=True)
def test_changes_by_zarr_python_are_read(series: tuple[str, ts.KvStore], moto: str, s3_bucket: Any) -> None:
    import zarr

    options = {"endpoint": moto, "region": "us-east-1", "client_options": {"allow_http": True}}
    bucket = S3Store(s3_bucket.bucket, prefix="session.nwb", **options)
    there = zarr.storage.ObjectStore(bucket)
    zarr.open_array(there, path="acquisition/ts/data", mode="r+")[2] = 9.0
    assert _data(series[1]) == [0.0, 1.0, 9.0, 3.0, 4.0]


def test_chunks_that_were_deleted_or_added_are_read_so(series: tuple[str, ts.KvStore]) -> None:
    format, store = series
    key = {"zarr2": "0", "zarr3": "c/0", "n5": "0"}[format]
    chunk = store[f"acquisition/ts/data/{key}"]
    store[f"acquisition/ts/data/{key}"] = None
    assert _data(store) == [0.0] * 5
    with NWBZarrIO(store, "r+") as io:  # a copy says from here on that the chunk is missing
        io.read().add_scratch([1.0], name="more", description="a change")
    assert _data(store) == [0.0] * 5
    store[f"acquisition/ts/data/{key}"] = chunk
    assert _data(store) == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("series", ["n5"], indirect=True)
def test_documents_of_n5_that_were_changed_added_or_deleted_are_read_so(
    series: tuple[str, ts.KvStore],
) -> None:
    _, store = series
    key = "acquisition/ts/attributes.json"
    document = json.loads(store[key])
    document["hdmf_attributes"]["comments"] = "changed"
    store[key] = json.dumps(document)
    for name in store.list().result():
        if name.startswith(b"acquisition/ts/"):
            store[name.replace(b"/ts/", b"/added/")] = store[name]
    with NWBZarrIO(store) as io:
        found = io.read().acquisition
        assert found["ts"].comments == "changed"
        assert set(found) == {"ts", "added"}
        assert found["added"].data[:].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    store[key] = None
    with NWBZarrIO(store) as io:
        assert set(io.read().acquisition) == {"added"}


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_copies_are_not_used_on_web_servers(
    format: str, tmp_path: Path, run_server: Callable[..., str], proxy: Callable[[str], Any]
) -> None:
    with NWBZarrIO(tmp_path / "session.nwb", "w", format=format) as io:
        io.write(new_file("before"))
    array = f"file://{tmp_path}/session.nwb/identifier/"
    ts.open({"driver": DRIVERS[format], "kvstore": array}).result().write("after").result()
    between = proxy(run_server("http_server.py", str(tmp_path)))
    between.set()
    with NWBZarrIO(f"{between.url}/session.nwb") as io:
        assert io.read().identifier == "after"
    assert not [line for line in between.log() if ".chunkwise-copies" in line]


def test_copies_beyond_the_keys_that_are_listed_are_not_used() -> None:
    kv = ObjectStore(ForeignBucket(MemoryStore()))
    for i in range(9_999):
        kv.write(f"s/data/{i}", b"chunk")
    small = ("s/a", "s/z", "s/data/missing")
    for key in small[:2]:
        kv.write(key, b"small")
    copies = dump_copies(kv, "s/", [(key[2:], kv.read(key)) for key in small])
    kv.write("s/.chunkwise-copies", copies)
    proven = read_copies(kv, "s/")
    assert proven is not None
    assert proven == ({"a": b"small"}, None)
    kv.delete_range("s/data/", "s/data0")
    proven = read_copies(kv, "s/")
    assert proven is not None
    assert proven.values == {"a": b"small", "z": b"small", "data/missing": None}
    assert proven.keys == {".chunkwise-copies", "a", "z"}


def test_a_conversion_between_buckets_is_resumed(moto: str, s3_bucket: Any) -> None:
    """A store with an endpoint of its own has no URL, and is known again all the same."""
    values = np.arange(2048 * 512, dtype="i2").reshape(2048, 512)
    place = _store(moto, s3_bucket.bucket)
    nwb = new_file("all")
    nwb.add_acquisition(TimeSeries("large", values, "V", rate=1.0))
    with NWBZarrIO(place, "w") as io:
        io.write(nwb)
    target = ts.KvStore.open({**place.spec().to_json(), "path": "copy.nwb/"}).result()

    def stop(nbytes: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(place, target, memory="20MB", progress=stop)
    convert(_store(moto, s3_bucket.bucket), target, resume=True, verify=True)
    with NWBZarrIO(target) as io:
        assert np.array_equal(io.read().acquisition["large"].data[...], values)
    assert not [key for key in target.list().result() if b".chunkwise-copy.json" in key]
