"""URLs in fsspec's order: caches and archives before the place."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.cli.main import main


@pytest.mark.parametrize(
    "url",
    [
        "simplecache::file://{path}/g.zarr",
        "filecache::file://{path}/g.zarr/",
        "blockcache::file://{path}/g.zip|zip:",
        "zip://::simplecache::file://{path}/g.zip",
        "simplecache::zip://::file://{path}/g.zip",
        "zip::file://{path}/g.zip",
    ],
)
def test_what_is_read(url: str, tmp_path: Path) -> None:
    """Caches are the kvstore `cache`, in memory, which sees changes."""
    cw.create_group(tmp_path / "g.zarr").create_array("a", np.arange(6), chunks=3)
    assert main(["zip", str(tmp_path / "g.zarr"), str(tmp_path / "g.zip"), "--quiet"]) == 0
    group = cw.open_group(url.format(path=tmp_path))
    array = group["a"]
    np.testing.assert_array_equal(array, np.arange(6))
    assert ("cache" in str(array.spec().to_json())) == ("cache" in url)
    if "zip" not in url:
        cw.open_array(tmp_path / "g.zarr/a", "r+")[0] = 7
        assert array[0].read().result() == 7


@pytest.mark.parametrize("end", ["", "/", "?signature=1", "|zarr3:"])
@pytest.mark.parametrize("cache", ["simplecache", "filecache", "blockcache"])
@pytest.mark.parametrize("name", ["a.zarr", "one%20%C3%A9%25.zarr"])
def test_a_cache_of_a_server(cache: str, name: str, end: str, tmp_path: Path) -> None:
    """A directory needs no slash at its end, as without a cache."""
    cw.create_array(tmp_path / unquote(name), np.arange(6), chunks=3)
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"{cache}::http://127.0.0.1:{server.server_port}/{name}{end}"
        for read in (cw.read, cw.open_array, lambda url: cw.open(url).result()):
            np.testing.assert_array_equal(read(url), np.arange(6))
        server.shutdown()


def test_an_adapter_alone_says_where_the_place_stands() -> None:
    for url, note in (("reference://", "reference::a.json; references in memory"), ("zip://", "a.json|zip:")):
        with pytest.raises(ValueError) as caught:
            cw.open(url).result()
        assert note in caught.value.__notes__[0]


def test_the_spec_of_a_cache() -> None:
    server = cw.KvStore.Spec("simplecache::https://host:1/k/a?x=1").to_json()
    assert server["base"]["base_url"] == "https://host:1?x=1" and server["path"] == "/k/a"
    spec = cw.KvStore.Spec("simplecache::s3://bucket/k/a").to_json()
    assert spec == {"driver": "cache", "base": {"driver": "s3", "bucket": "bucket"}, "path": "k/a"}
    for wrong in ("simplecache::", "simplecache::rel/path", "other::s3://bucket/k"):
        with pytest.raises(ValueError, match="unsupported URL scheme"):
            cw.KvStore.Spec(wrong)
