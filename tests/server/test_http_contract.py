"""The server as HTTP has it, through a real socket: ranges, ETags, CORS, compression, what is refused."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import chunkwise
from chunkwise.errors import NotFoundError, StorageError
from chunkwise.images.server.app import Limits, make_app
from chunkwise.images.server.sources import sources_of

LONG = {"k": "v" * 900}
VALUES = np.arange(16 * 16, dtype="u2").reshape(16, 16)


@pytest.fixture
def array(tmp_path: Path) -> Path:
    """A Zarr v3 array with raw chunks of 128 bytes, of which one is missing."""
    chunkwise.create_array(
        tmp_path / "a.zarr", VALUES, chunks=(8, 8), codec="none", attributes={"k": "v" * 900}
    )
    (tmp_path / "a.zarr/c/1/1").unlink()
    return tmp_path / "a.zarr"


@pytest.fixture
def server(array: Path):
    with chunkwise.serve(array) as server:
        yield server


def test_a_chunk_has_its_bytes_type_and_headers(ask, server, array: Path) -> None:
    got = ask(f"{server.url}zarr3/a.zarr/c/0/1")
    assert (got.status, got.body) == (200, (array / "c/0/1").read_bytes())
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["accept-ranges"] == "bytes"
    assert got.headers["access-control-allow-origin"] == "*"
    assert "ETag" in got.headers["access-control-expose-headers"]
    head = ask(f"{server.url}zarr3/a.zarr/c/0/1", "HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "128")
    assert head.headers["etag"] == got.headers["etag"]


@pytest.mark.parametrize(
    ("wanted", "start", "stop"),
    [("bytes=0-9", 0, 10), ("bytes=100-", 100, 128), ("bytes=-7", 121, 128), ("bytes=120-500", 120, 128),
     ("bytes=-900", 0, 128)],
)  # fmt: skip
@pytest.mark.parametrize("key", ["zarr3/a.zarr/c/0/1", "precomputed/a.zarr/.0/0-8_0-8_0-1"])
def test_ranges(ask, server, key: str, wanted: str, start: int, stop: int) -> None:
    whole = ask(server.url + key).body
    assert len(whole) == 128
    got = ask(server.url + key, Range=wanted)
    assert (got.status, got.body) == (206, whole[start:stop])
    assert got.headers["content-range"] == f"bytes {start}-{stop - 1}/128"


@pytest.mark.parametrize("key", ["zarr3/a.zarr/c/0/1", "precomputed/a.zarr/.0/0-8_0-8_0-1"])
def test_ranges_that_are_none(ask, server, key: str) -> None:
    url = server.url + key
    outside = ask(url, Range="bytes=128-")
    assert (outside.status, outside.headers["content-range"]) == (416, "bytes */128")
    for text in ("bytes=x-y", "bytes=9-2", "bytes=-", "bytes=", "bytes=1"):
        got = ask(url, Range=text)
        assert got.status == 400, text
        assert "malformed range" in json.loads(got.body)["error"]
    for ignored in ("lines=1-2", "bytes=0-1,5-6"):
        assert ask(url, Range=ignored).status == 200


@pytest.mark.parametrize("key", ["zarr3/a.zarr/c/0/1", "zarr3/a.zarr/zarr.json", "n5/a.zarr/0/1", ""])
def test_what_is_known_is_not_sent_again(ask, server, key: str) -> None:
    first = ask(server.url + key)
    again = ask(server.url + key, If_None_Match=f'W/"other", {first.headers["etag"]}')
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert ask(server.url + key, If_None_Match='"other"').status == 200
    assert ask(server.url + key, If_None_Match="*").status == 304


def test_the_etag_of_a_chunk_changes_with_it(ask, server, array: Path) -> None:
    url = f"{server.url}zarr3/a.zarr/c/0/1"
    before = ask(url).headers["etag"]
    chunkwise.open(str(array)).result()[0:8, 8:16] = 9
    changed = ask(url, If_None_Match=before)
    assert (changed.status, changed.body) == (200, np.full(64, 9, "<u2").tobytes())
    whole = ask(url, Range="bytes=0-1", If_Range=before)
    assert (whole.status, len(whole.body)) == (200, 128)
    assert ask(url, Range="bytes=0-1", If_Range=changed.headers["etag"]).status == 206


def test_json_is_compressed_for_those_who_take_it(ask, server) -> None:
    url = f"{server.url}zarr3/a.zarr/zarr.json"
    plain, packed = ask(url), ask(url, Accept_Encoding="br, gzip;q=0.5")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert packed.headers["vary"] == "Accept-Encoding"
    assert packed.headers["etag"] != plain.headers["etag"]
    assert "content-encoding" not in ask(url, Accept_Encoding="gzip;q=0").headers
    assert "content-encoding" not in ask(f"{server.url}zarr3/a.zarr/c/0/1", Accept_Encoding="gzip").headers


def test_other_methods_and_preflight(ask, server) -> None:
    url = f"{server.url}zarr3/a.zarr/zarr.json"
    for method in ("PUT", "POST", "DELETE", "PATCH"):
        got = ask(url, method)
        assert (got.status, got.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    asked = ask(url, "OPTIONS", Origin="http://example.org", Access_Control_Request_Headers="range")
    assert asked.status == 204
    assert asked.headers["access-control-allow-headers"] == "*"
    assert asked.headers["access-control-allow-private-network"] == "true"


def test_missing_chunks_and_keys_outside(ask, server, array: Path) -> None:
    (array.parent / "secret").write_text("secret")
    for space in ("zarr3", "n5", "precomputed", "viewer"):
        for key in (
            "c/1/1", "1/1", ".0/8-16_8-16_0-1", "c/2/0", "c/00/1", "c/-1/0", "nix", "../secret",
            "%2e%2e/secret", "..%2fsecret", "c/0/1/../../../../secret", "/etc/passwd", "c//0/1", "c/0/1%00",
            "..%5csecret",
        ):  # fmt: skip
            got = ask(f"{server.url}{space}/a.zarr/{key}")
            assert got.status == 404, (space, key)
            assert b"secret" not in got.body or b"secret" in key.encode()
    assert ask(f"{server.url}zarr3/../../etc/passwd").status == 404
    assert "a.zarr" in json.loads(ask(f"{server.url}zarr3/b.zarr/zarr.json").body)["error"]


def test_an_overlong_url_is_refused(ask, server) -> None:
    for url in (f"zarr3/{'a' * 5000}", f"api/tree?path={'a' * 5000}"):
        got = ask(server.url + url)
        assert got.status == 414 and "4096" in json.loads(got.body)["error"]


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("zarr3/a.zarr/zarr.json", "application/json"),
        ("zarr3/a.zarr/c/0/0", "application/octet-stream"),
        ("n5/a.zarr/0/0", "application/octet-stream"),
        ("n5/a.zarr/attributes.json", "application/json"),
        ("precomputed/a.zarr/info", "application/json"),
        ("zarr3/a.zarr/nothing", "application/json"),
        ("zarr3/a.zarr/", "application/json"),
        ("zarr3/a.zarr", "text/html; charset=utf-8"),
        ("", "text/html; charset=utf-8"),
        ("page/main.js", "text/javascript; charset=utf-8"),
        ("page/style.css", "text/css; charset=utf-8"),
        ("page/icon.svg", "image/svg+xml"),
    ],
)
def test_content_types(ask, server, path: str, media_type: str) -> None:
    for method in ("GET", "HEAD"):
        assert ask(server.url + path, method).headers["content-type"] == media_type


def test_symbolic_links_lead_nowhere_outside(ask, tmp_path: Path) -> None:
    outside, tree = tmp_path / "outside.zarr", tmp_path / "tree"
    chunkwise.create_array(outside, VALUES, chunks=(8, 8), codec="none")
    group = chunkwise.open_group(tree, "w")
    for name, codec in (("raw", "none"), ("bz2", "bz2")):
        group.create_array(name, VALUES, chunks=(8, 8), codec=codec)
        (tree / name / "c/0/1").unlink()
        (tree / name / "c/0/1").symlink_to(outside / "c/0/1")
    (tree / "raw/c/1/1").unlink()
    (tree / "raw/c/1/1").symlink_to(tree / "raw/c/0/0")
    (tree / "linked").symlink_to(outside)
    with chunkwise.serve(tree) as server:
        for space in ("zarr3", "n5"):
            assert ask(f"{server.url}{space}/tree/linked/zarr.json").status == 404
            assert ask(f"{server.url}{space}/tree/linked/c/0/0").status == 404
        assert ask(f"{server.url}zarr3/tree/raw/c/0/1").status == 404
        assert ask(f"{server.url}zarr3/tree/bz2/c/0/1").status == 404  # not decoded either
        assert ask(f"{server.url}n5/tree/raw/0/1").status == 404
        assert ask(f"{server.url}zarr3/tree/raw/c/1/1").body == (tree / "raw/c/0/0").read_bytes()


def test_directories_are_listed_as_json(ask, tmp_path: Path) -> None:
    group = chunkwise.open_group(tmp_path / "t", "w")
    group.create_array("deep/a b", VALUES)
    group.create_array("x", VALUES)
    with chunkwise.serve(tmp_path / "t") as server:
        top = json.loads(ask(f"{server.url}zarr3/").body)
        assert [m["name"] for m in top["members"]] == ["t"]
        members = json.loads(ask(f"{server.url}zarr3/t/").body)["members"]
        assert [(m["name"], m["kind"]) for m in members] == [
            ("deep", "group"),
            ("x", "array"),
            ("zarr.json", "key"),
        ]
        assert members[1]["shape"] == [16, 16]
        inner = json.loads(ask(members[0]["url"] + "/").body)["members"]
        assert json.loads(ask(f"{inner[0]['url']}/zarr.json").body)["shape"] == [16, 16]


def test_fsspec_and_zarr_python_list_what_is_served(ask, tmp_path: Path) -> None:
    import fsspec
    import zarr

    group = chunkwise.open_group(tmp_path / "t", "w")
    group.create_array("deep/a b", VALUES, chunks=(8, 8))
    group.create_array("<x>", VALUES, chunks=(8, 8), codec="bz2")
    (tmp_path / "t/deep/a b/notes.txt").write_text("x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "0").write_text("secret")
    (tmp_path / "t/deep/a b/c/5").symlink_to(outside)
    with chunkwise.serve(tmp_path / "t") as server:
        web = fsspec.filesystem("http")
        base = f"{server.url}zarr3/t"
        assert web.ls(f"{base}/", detail=False) == [f"{base}/%3Cx%3E/", f"{base}/deep/", f"{base}/zarr.json"]
        found = {url.removeprefix(base): web.cat_file(url) for url in web.find(f"{base}/deep/")}
        stored = {
            f"/deep/a%20b/c/{i}/{j}": tmp_path / f"t/deep/a b/c/{i}/{j}" for i in (0, 1) for j in (0, 1)
        }
        assert found.keys() == {"/deep/zarr.json", "/deep/a%20b/zarr.json", *stored}
        assert all(found[key] == path.read_bytes() for key, path in stored.items())
        names = [name for name, _ in zarr.open_group(f"{base}/deep", mode="r").members(max_depth=None)]
        assert names == ["a%20b"] or names == ["a b"]
        got = ask(f"{base}/%3Cx%3E/")  # whose chunks are made when they are asked for
        assert got.status == 501 and "can't be listed" in json.loads(got.body)["error"]
        page = ask(base)
        assert page.headers["content-type"].startswith("text/html") and b"&lt;x&gt;" in page.body
        assert ask(f"{base}/deep/a%20b/c/7/").status == 404


def test_a_damaged_chunk_names_itself_and_the_rest_goes_on(ask, tmp_path: Path) -> None:
    chunkwise.create_array(tmp_path / "a.zarr", VALUES, chunks=(8, 8), codec="bz2")
    (tmp_path / "a.zarr/c/0/1").write_bytes(b"damaged")
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        for key in ("zarr3/a.zarr/c/0/1", "n5/a.zarr/0/1", "precomputed/a.zarr/.0/8-16_0-8_0-1"):
            got = ask(server.url + key)
            assert got.status == 500
            assert "c/0/1" in json.loads(got.body)["error"]
        for key in ("zarr3/a.zarr/c/1/1", "n5/a.zarr/1/1", "precomputed/a.zarr/.0/0-8_8-16_0-1"):
            assert ask(server.url + key).status == 200


def test_a_token_lets_in_and_nothing_else_does(ask, array: Path) -> None:
    with chunkwise.serve(array, token="abc-123") as server:
        root = server.url.removesuffix("abc-123/")
        assert server.url.endswith("/abc-123/")
        assert ask(f"{server.url}zarr3/a.zarr/zarr.json").status == 200
        for wrong in (
            "",
            "abc-12/",
            "ABC-123/",
            "zarr3/a.zarr/zarr.json",
            "abc-1234/zarr3/a.zarr/zarr.json",
            "é/",
        ):
            got = ask(root + wrong.encode("ascii", "ignore").decode())
            assert got.status == 403
            assert "token" in json.loads(got.body)["error"]
    with chunkwise.serve(array, host="0.0.0.0") as server:
        assert server.token is not None and len(server.token) > 20
    with chunkwise.serve(array) as server:
        assert server.token is None and server.url.startswith("http://127.0.0.1:")


def test_a_port_in_use_says_so(array: Path, free_port: int) -> None:
    with chunkwise.serve(array, port=free_port), pytest.raises(StorageError, match=f"{free_port}.* in use"):
        chunkwise.serve(array, port=free_port)


def test_what_is_no_array_lists_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "d/notes").mkdir(parents=True)
    (tmp_path / "d/readme.txt").write_text("x")
    with pytest.raises(NotFoundError, match=r'"notes", "readme.txt"'):
        chunkwise.serve(tmp_path / "d")
    chunkwise.create_array(tmp_path / "volume.zarr", VALUES)
    with pytest.raises(NotFoundError, match=r"volume\.zarr"):
        chunkwise.serve(tmp_path / "volum.zarr")


def test_clients_that_go_away_are_no_error(ask, server, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(20):
        with socket.create_connection((server.host, server.port)) as client:
            client.sendall(b"GET /zarr3/a.zarr/c/0/0 HTTP/1.1\r\nHost: x\r\n\r\n")
    with socket.create_connection((server.host, server.port)) as client:
        client.sendall(b"GET /zarr3/a.z")
    assert ask(f"{server.url}zarr3/a.zarr/c/0/0").status == 200
    assert capfd.readouterr().err == ""


def test_a_request_that_needs_too_much_memory_is_refused(ask, tmp_path: Path) -> None:
    chunkwise.create_array(tmp_path / "a.zarr", VALUES, chunks=(16, 16), codec="bz2")
    with chunkwise.serve(tmp_path / "a.zarr", max_memory=1000) as server:
        got = ask(f"{server.url}zarr3/a.zarr/c/0/0")
        assert got.status == 413
        assert "1,000" in json.loads(got.body)["error"]
        assert ask(f"{server.url}zarr3/a.zarr/zarr.json").status == 200


def test_no_more_than_max_requests_are_answered_at_a_time(ask, tmp_path: Path) -> None:
    under_way, most, turn = 0, 0, threading.Lock()
    begun = threading.Semaphore(0)

    def slow(domain, out, _) -> None:
        nonlocal under_way, most
        with turn:
            under_way += 1
            most = max(most, under_way)
        begun.release()
        threading.Event().wait(0.05)
        out[...] = 1
        with turn:
            under_way -= 1

    view = chunkwise.virtual_chunked(
        slow, dtype="uint8", shape=[64], chunk_layout=chunkwise.ChunkLayout(chunk_shape=[4])
    )
    with chunkwise.serve({"slow": view}, max_requests=2) as server:
        answers: list[int] = []
        work = [
            threading.Thread(target=lambda n=n: answers.append(ask(f"{server.url}zarr3/slow/c/{n}").status))
            for n in range(12)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    assert answers == [200] * 12
    assert most <= 2


def test_who_waits_and_who_goes_away(ask, counted) -> None:
    """Of three requests one is answered, one waits, one is refused; for one that has gone nothing is made."""
    made: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def slow(domain, out, _) -> None:
        made.append(domain.origin[0])
        begun.set()
        assert go_on.wait(20)
        out[...] = 1

    view = chunkwise.virtual_chunked(
        slow, dtype="uint8", shape=[64], chunk_layout=chunkwise.ChunkLayout(chunk_shape=[4])
    )
    url, asked = counted(make_app(sources_of({"slow": view}), None, Limits(1, 1, 1 << 30)))
    answers: list[int] = []
    first = threading.Thread(target=lambda: answers.append(ask(f"{url}zarr3/slow/c/0").status))
    first.start()
    assert begun.wait(20)
    gone = socket.create_connection(("127.0.0.1", urlsplit(url).port))
    gone.sendall(b"GET /zarr3/slow/c/5 HTTP/1.1\r\nHost: x\r\n\r\n")
    while "/zarr3/slow/c/5" not in asked:
        time.sleep(0.01)
    refused = ask(f"{url}zarr3/slow/c/7")
    assert refused.status == 503 and refused.headers["retry-after"] == "1"
    assert "1 requests wait already" in json.loads(refused.body)["error"]
    gone.close()
    go_on.set()
    first.join()
    assert answers == [200]
    assert ask(f"{url}zarr3/slow/c/9").status == 200
    assert made == [0, 36]


def test_the_extra_is_named_where_a_package_is_missing(children, array: Path) -> None:
    code = f"""if 1:
        import sys
        sys.modules["uvicorn"] = sys.modules["starlette"] = None
        import chunkwise
        try:
            chunkwise.serve({str(array)!r})
        except ImportError as e:
            print(e)
        from chunkwise.cli.main import main
        main(["serve", {str(array)!r}])
    """
    process = children.python(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.communicate(timeout=60)
    assert 'pip install "chunkwise[serve]"' in out
    assert 'pip install "chunkwise[serve]"' in err
