"""Web servers that don't list, compress unasked, send pages for what is missing, or know no last bytes."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise
from chunkwise import errors
from chunkwise.cli.main import main

DATA = np.arange(64, dtype=np.uint16).reshape(8, 8)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A consolidated tree of each format, and one that isn't."""
    path = tmp_path_factory.mktemp("stored")
    for format in ("zarr3", "zarr2"):
        group = chunkwise.create_group(path / format, format=format, attributes={"title": "t"})
        shards = {"shards": (4, 4)} if format == "zarr3" else {}
        group.create_array("v", DATA, chunks=(2, 2), attributes={"a": 1}, **shards)
        group.create_array("sub/w", DATA, chunks=(4, 4))
        chunkwise.copy_tree(path / format, path / f"{format}-bare")
        main(["consolidate", str(path / format)])
    return path


Change = Callable[[Any, str, bytes | None], bool]


@contextmanager
def served(path: Path, change: Change = lambda *_: False) -> Iterator[str]:
    """Serve a directory; `change` may answer a request by itself, and then returns True."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def send(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_GET(self) -> None:
            file = Path(f"{path}{self.path}")
            body = file.read_bytes() if file.is_file() else None
            if change(self, self.headers.get("Range", ""), body):
                return
            wanted = self.headers.get("Range")
            if body is None:
                self.send(404, b"nothing")
            elif wanted is None:
                self.send(200, body)
            else:
                start, _, stop = wanted.removeprefix("bytes=").partition("-")
                first = int(start) if start else max(0, len(body) - int(stop))
                last = min(int(stop), len(body) - 1) if start and stop else len(body) - 1
                told = f"bytes {first}-{last}/{len(body)}"
                self.send(206, body[first : last + 1], Content_Range=told)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
    thread.join()


def run(capsys: Any, *words: str) -> tuple[int, Any]:
    status = main([*words, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_commands_without_listing(stored: Path, format: str, capsys: Any) -> None:
    """What consolidated metadata and shapes say is used where keys can't be listed."""
    with served(stored) as url:
        place = f"{url}/{format}"
        status, told = run(capsys, "info", f"{place}/v")
        assert (status, told["shape"], told["attributes"]) == (0, [8, 8], {"a": 1}) and "stored" not in told
        status, told = run(capsys, "info", place)
        assert (status, told["arrays"], told["groups"]) == (0, 2, 1)
        status, told = run(capsys, "info", f"{place}-bare")
        assert (status, told["arrays"], told["attributes"]) == (0, None, {"title": "t"})
        status, told = run(capsys, "verify", f"{place}/v")
        assert (status, told[0]["chunks"], told[0]["bad"]) == (0, 16, [])
        status, told = run(capsys, "verify", place)
        found = {report["name"]: report["chunks"] for report in told}
        assert (status, found) == (0, {"": 0, "sub": 0, "sub/w": 4, "v": 16})
        assert [report.n_chunks for report in chunkwise.verify(place)] == [0, 0, 4, 16]


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_damage_is_found_without_listing(stored: Path, format: str, capsys: Any) -> None:
    name = "c/1/0" if format == "zarr3" else "1.0"

    def change(handler: Any, wanted: str, body: bytes | None) -> bool:
        damaged = handler.path.endswith(f"sub/w/{name}")
        if damaged:
            handler.send(200, b"bad")
        return damaged

    with served(stored, change) as url:
        status, told = run(capsys, "verify", f"{url}/{format}")
        (bad,) = [bad for report in told for bad in report["bad"]]
        assert status == 1 and bad["key"].endswith(f"sub/w/{name}")


def test_answers_that_are_compressed_unasked(stored: Path) -> None:
    """A whole value is what was compressed; a part of something compressed is an error."""

    def change(handler: Any, wanted: str, body: bytes | None) -> bool:
        if body is not None:
            handler.send(200, gzip.compress(body), Content_Encoding="gzip")
        return body is not None

    with served(stored, change) as url:
        array = chunkwise.open(f"{url}/zarr3/v").result()
        np.testing.assert_array_equal(array.read().result(), DATA)
        np.testing.assert_array_equal(array[1:3, 5].read().result(), DATA[1:3, 5])

    def part(handler: Any, wanted: str, body: bytes | None) -> bool:
        if wanted and body is not None:
            told = f"bytes 0-2/{len(body)}"
            handler.send(206, b"abc", Content_Encoding="gzip", Content_Range=told)
        return bool(wanted) and body is not None

    def other(handler: Any, wanted: str, body: bytes | None) -> bool:
        handler.send(200, b"abc", Content_Encoding="br")
        return True

    for how, text in ((part, 'a part of the value in Content-Encoding "gzip"'), (other, '"br"')):
        with served(stored, how) as url, pytest.raises(errors.StorageError, match=text):
            chunkwise.open(f"{url}/zarr3/v|zarr3:").result()[0, 0].read().result()


def test_bombs_are_not_unpacked(stored: Path) -> None:
    """What would be larger than an answer may be is refused."""

    def change(handler: Any, wanted: str, body: bytes | None) -> bool:
        handler.send(200, bomb, Content_Encoding="gzip")
        return True

    bomb = gzip.compress(bytes(1 << 20))
    from chunkwise.core.kvstore.web.http import HttpStore
    from chunkwise.core.kvstore.web.request import Bounds

    with served(stored, change) as url:
        assert len(HttpStore(url).read("k").value or b"") == 1 << 20
        with pytest.raises(errors.StorageError, match="Content-Encoding"):
            HttpStore(url, bounds=Bounds(largest=1 << 19)).read("k")


def test_pages_in_place_of_values(stored: Path) -> None:
    """A login page is neither a document nor a missing chunk; the error has its title."""
    page = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>...</body></html>"

    def change(handler: Any, wanted: str, body: bytes | None) -> bool:
        if body is None:
            handler.send(200, page, Content_Type="text/html; charset=utf-8")
        return body is None

    with served(stored, change) as url:
        for place in (f"{url}/none", f"{url}/none|zarr3:"):
            with pytest.raises(
                errors.StorageError, match=r'HTML page "Sign in" with status 200.*signed in to'
            ):
                chunkwise.open(place).result()
        assert main(["info", f"{url}/none"]) == 1
        kv = chunkwise.KvStore.open(url).result()
        (stored / "page.html").write_bytes(page)
        assert kv.read("page.html").result().value == page


def test_last_bytes_that_a_server_does_not_know(stored: Path) -> None:
    """They are asked for by their places."""

    def change(handler: Any, wanted: str, body: bytes | None) -> bool:
        refused = wanted.startswith("bytes=-")
        if refused:
            handler.send(416, b"no")
        return refused

    with served(stored, change) as url:
        array = chunkwise.open(f"{url}/zarr3/v").result()
        np.testing.assert_array_equal(array[1:3, 5].read().result(), DATA[1:3, 5])
