"""Number of requests of a read, and its time with 20 ms for each."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_process import forked_exit_code

import chunkwise as ts
from chunkwise.cli.main import main

CHUNKS = np.arange(1000 * 64, dtype="u2").reshape(1000, 64)
SHARD = np.random.default_rng(1).integers(0, 60000, (1024, 1024)).astype("u2")


def create(kvstore: Any, data: Any, **layout: Any) -> Any:
    spec = {"driver": "zarr3", "kvstore": kvstore}
    array = ts.open(
        spec, create=True, dtype=ts.uint16, shape=data.shape, chunk_layout=ts.ChunkLayout(**layout)
    ).result()
    array[...].write(data).result()
    return array


@pytest.fixture
def web(tmp_path: Path, run_server: Callable[..., str], proxy: Callable[[str], Any]) -> Any:
    """A proxy in front of a web server with two arrays: ``a`` of 1000 chunks, ``s`` of one shard."""
    create(f"file://{tmp_path}/a/", CHUNKS, chunk_shape=[1, 64])
    create(f"file://{tmp_path}/s/", SHARD, read_chunk_shape=[32, 32], write_chunk_shape=[1024, 1024])
    return proxy(run_server("http_server.py", str(tmp_path)))


def opened(proxy: Any, path: str) -> Any:
    return ts.open({"driver": "zarr3", "kvstore": f"{proxy.url}/{path}/"}).result()


def test_opening_is_one_request(web: Any) -> None:
    """The metadata document is all that opening asks for."""
    web.set()
    opened(web, "a")
    assert web.log() == ["GET /a/zarr.json"]


def test_latency_is_hidden(web: Any) -> None:
    """1000 chunks, one request each with 20 ms, take at most three times the ideal of 32 at a time.

    What counts is how many are under way, on average, while one waits: a third of 32 would be three times
    the ideal.  A clock would tell how busy the machine is.
    """
    array = opened(web, "a")
    array[:64].read().result()  # connections are open
    web.set(delay=0.02)
    found = array.read().result()
    np.testing.assert_array_equal(found, CHUNKS)
    flight = web.flight()
    assert len(web.log()) == len(flight) == 1000 and max(flight) <= 32
    assert np.mean(flight) > 32 / 3


def test_concurrency_of_the_context(web: Any) -> None:
    """With a limit of 4, no more than 4 requests are under way."""
    context = {"http_request_concurrency": {"limit": 4}}
    spec = {"driver": "zarr3", "kvstore": f"{web.url}/a/", "context": context}
    array = ts.open(spec).result()
    web.set(delay=0.02)
    array[:40].read().result()
    flight = web.flight()
    assert len(flight) == 40 and 1 < max(flight) <= 4


def test_inner_chunks_of_a_shard(web: Any) -> None:
    """64 of 1024 inner chunks take the index and a request, and later the request alone."""
    array = opened(web, "s")
    web.set()
    np.testing.assert_array_equal(array[:256, :256].read().result(), SHARD[:256, :256])
    assert len(web.log()) == 2
    web.set()
    np.testing.assert_array_equal(array[256:512, :256].read().result(), SHARD[256:512, :256])
    assert len(web.log()) == 1
    web.set()
    np.testing.assert_array_equal(array[::128, ::128].read().result(), SHARD[::128, ::128])
    assert len(web.log()) <= 3


def test_gap_of_the_context(web: Any) -> None:
    """Without any gap, each inner chunk that does not follow another has a request; they run at once."""
    context = {"request_coalescing": {"gap": 0}}
    spec = {"driver": "zarr3", "kvstore": f"{web.url}/s/", "context": context}
    array = ts.open(spec).result()
    web.set()
    np.testing.assert_array_equal(array[::256, ::256].read().result(), SHARD[::256, ::256])
    assert len(web.log()) >= 16


def test_replaced_shard_is_noticed(tmp_path: Path, web: Any) -> None:
    """An index that is remembered is not used for a shard that was written since."""
    array = opened(web, "s")
    array[:64, :64].read().result()
    writer = ts.open({"driver": "zarr3", "kvstore": f"file://{tmp_path}/s/"}).result()
    new = SHARD[::-1].copy()
    writer[...].write(new).result()
    np.testing.assert_array_equal(array[:64, :64].read().result(), new[:64, :64])
    writer[...].write(np.zeros_like(new)).result()
    assert array[:64, :64].read().result().sum() == 0


@pytest.mark.parametrize("name", ["s3", "azure"])
def test_inner_chunks_on_object_stores(request: pytest.FixtureRequest, name: str, proxy: Any) -> None:
    """64 inner chunks take at most 3 requests: on Azure the size of the shard has to be asked for."""
    store = request.getfixturevalue(name)
    bucket = store.bucket
    kvstore: dict[str, Any] = {"driver": name}
    if name == "s3":
        kvstore |= {"bucket": bucket.bucket, "aws_region": "us-east-1"}
        endpoint, path = bucket.endpoint, ""
    else:
        kvstore |= {"container": bucket.container, "account_name": bucket.account}
        endpoint, _, path = bucket.endpoint.rpartition("/")
        path = f"/{path}"
    between = proxy(endpoint)
    kvstore |= {"endpoint": between.url + path, "path": "s/"}
    create(kvstore, SHARD, read_chunk_shape=[32, 32], write_chunk_shape=[1024, 1024])
    array = ts.open({"driver": "zarr3", "kvstore": kvstore}).result()
    between.set()
    np.testing.assert_array_equal(array[:256, :256].read().result(), SHARD[:256, :256])
    assert len(between.log()) <= 3, between.log()
    between.set()
    np.testing.assert_array_equal(array[256:512, :256].read().result(), SHARD[256:512, :256])
    assert len(between.log()) == 1, between.log()


def test_server_without_ranges(tmp_path: Path, run_server: Callable[..., str]) -> None:
    """A server that ignores ranges sends the whole shard, of which the part is taken."""
    create(f"file://{tmp_path}/s/", SHARD, read_chunk_shape=[32, 32], write_chunk_shape=[1024, 1024])
    url = run_server("http_server.py", str(tmp_path), "--no-ranges")
    array = ts.open({"driver": "zarr3", "kvstore": f"{url}/s/"}).result()
    np.testing.assert_array_equal(array[5:50, 5:50].read().result(), SHARD[5:50, 5:50])


def test_web_server_does_not_look_empty(web: Any) -> None:
    """Listing and writing are errors that say why; a missing chunk is one, a missing array an error."""
    store = ts.KvStore.open(f"{web.url}/a/").result()
    with pytest.raises(NotImplementedError, match="does not support listing"):
        store.list().result()
    with pytest.raises(NotImplementedError, match="does not support writing"):
        store.write("k", b"v").result()
    assert store.read("none").result().state == "missing"
    with pytest.raises(ts.NotFoundError if hasattr(ts, "NotFoundError") else ValueError, match="NOT_FOUND"):
        ts.open({"driver": "zarr3", "kvstore": f"{web.url}/none/"}).result()


def test_zip_over_http(tmp_path: Path, web: Any) -> None:
    """An array in an archive on a web server is read by ranges, the table of contents once."""
    create(f"file://{tmp_path}/x.zip|zip:a/", CHUNKS[:8], chunk_shape=[1, 64])
    url = f"{web.url}/x.zip|zip:a/|zarr3:"
    array = ts.open(url).result()
    np.testing.assert_array_equal(array.read().result(), CHUNKS[:8])
    web.set()
    array[3].read().result()
    assert len(web.log()) <= 3, web.log()


def test_ocdbt_over_http(tmp_path: Path, web: Any) -> None:
    """A database on a web server is read by ranges, a node of it once."""
    spec = {"driver": "ocdbt", "base": f"file://{tmp_path}/db/", "config": {"max_inline_value_bytes": 9}}
    with ts.Transaction() as transaction:
        layout = ts.ChunkLayout({"chunk": {"shape": [1, 64]}})
        options = {"dtype": CHUNKS.dtype.name, "shape": [8, 64], "chunk_layout": layout}
        array = ts.open(
            {"driver": "zarr3", "kvstore": spec}, create=True, transaction=transaction, **options
        ).result()
        array[...] = CHUNKS[:8]
    web.set()
    found = ts.open(f"{web.url}/db/").result()
    assert found.url == f"{web.url}/db/|ocdbt:|zarr3:"
    n = len(web.log())
    np.testing.assert_array_equal(found.read().result(), CHUNKS[:8])
    asked = web.log()[n:]
    assert len(asked) <= 8 + 1 + 8, (
        asked
    )  # the manifest by each worker at most, the node once, and each chunk
    with pytest.raises(NotImplementedError, match="does not support writing"):
        found[0] = 0


def in_child(array: Any, number: int) -> None:
    """Read in a forked process."""

    def work() -> int:
        return 0 if np.array_equal(array[number].read().result(), CHUNKS[number]) else 1

    assert forked_exit_code(work) == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("name", ["http", "s3", "object"])
def test_fork_and_pickle(request: pytest.FixtureRequest, name: str) -> None:
    """A store that was used goes on in forked processes, and out of a pickle that has no secrets."""
    if name == "http":
        array = opened(request.getfixturevalue("web"), "a")
    else:
        bucket = request.getfixturevalue("s3_bucket")
        kvstore: Any = {"driver": "s3", "bucket": bucket.bucket, "endpoint": bucket.endpoint, "path": "a/"}
        if name == "object":
            from obstore.store import S3Store

            store = S3Store(
                bucket.bucket,
                endpoint=bucket.endpoint,
                region="us-east-1",
                access_key_id="EXPLICITKEY",
                secret_access_key="EXPLICITSECRET",
                client_options={"allow_http": True},
            )
            kvstore = {"driver": "object", "object": store, "path": "a/"}
        create(kvstore, CHUNKS[:8], chunk_shape=[1, 64])
        array = ts.open({"driver": "zarr3", "kvstore": kvstore}).result()
    np.testing.assert_array_equal(array[1].read().result(), CHUNKS[1])
    in_child(array, 2)
    in_child(array, 3)
    pickled = pickle.dumps(array)
    for secret in (b"cwtestsecret", b"EXPLICITSECRET", b"CWTESTKEY"):
        assert secret not in pickled
    np.testing.assert_array_equal(pickle.loads(pickled)[4].read().result(), CHUNKS[4])


def test_sizes_are_listed(
    s3_bucket: Any, proxy: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """What ``chunkwise info`` says of the stored size comes from one listing, not from the chunks."""
    between = proxy(s3_bucket.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", between.url)
    place = f"s3://{s3_bucket.bucket}/a/"
    create(place, CHUNKS[:20], chunk_shape=[1, 64])
    between.set()
    assert main(["info", "--json", place]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stored"]["chunks"] == 20 and told["stored"]["bytes"] == 20 * 128
    assert not any("/a/c/" in line for line in between.log())
