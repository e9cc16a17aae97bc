"""Web servers that do more, or something else, than what they were asked for; redirects and proxies."""

from __future__ import annotations

import io
import pickle
import re
import socket
import socketserver
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pytest

import chunkwise as ts
from chunkwise import errors
from chunkwise.core.kvstore.objects.azure import AzureContainer
from chunkwise.core.kvstore.objects.gcs import GcsBucket
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.protocol import ByteRange
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots
from chunkwise.core.kvstore.web.http import HttpStore, _retry_after
from chunkwise.core.kvstore.web.request import Answer, Bounds

QUICK = Limits(Slots(), Retries(2, 0.01, 0.01))
VALUE = bytes(range(256)) * 40
DATE = "Mon, 01 Jan 2024 00:00:00 GMT"
Answers = Callable[[str, str], Iterator[bytes]]


class Web:
    """A server: its URL, the requests that it got, and how many connections they came over."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[str] = []  # their heads
        self.bodies: list[str] = []
        self.n_connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def web(answers: Answers) -> Iterator[Web]:
    """Run a server that sends what `answers` yields for the target and the head of a request."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            found.n_connections += 1
            try:
                while True:
                    head = ""
                    while not head.endswith("\r\n\r\n"):
                        line = self.rfile.readline().decode("latin-1")
                        if not line:
                            return
                        head += line
                    found.requests.append(head)
                    length = re.search(r"(?im)^content-length: *([0-9]+)", head)
                    # A body may look like the head of another request.
                    found.bodies.append(self.rfile.read(int(length[1])).decode("latin-1") if length else "")
                    for piece in answers(head.split(" ")[1], head):
                        self.wfile.write(piece)
            except OSError:  # the client has had enough
                pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Handler) as server:
        found = Web(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield found
        server.shutdown()
    thread.join()


def answer(body: bytes, status: int = 200, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def endless(status: str, *headers: str, piece: bytes = bytes(1 << 16), pause: float = 0.0) -> Answers:
    def answers(target: str, head: str) -> Iterator[bytes]:
        yield "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode()
        chunked = any("chunked" in header for header in headers)
        while True:
            yield b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece
            time.sleep(pause)

    return answers


CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.parametrize("headers", [[CHUNKED], ["Connection: close"]])
@pytest.mark.parametrize("part", [(0, None), (5, 10), (-5, None)])
def test_a_value_without_end(headers: list[str], part: tuple[int, int | None]) -> None:
    with web(endless("200 OK", *headers)) as server:
        store = HttpStore(server.url, (), QUICK, Bounds(largest=1 << 20))
        with pytest.raises(
            errors.StorageError, match=f"{server.url}/k: the server sends more than 1048576 b"
        ):
            store.open_reader()("k", *part)
        assert len(server.requests) == 1


@pytest.mark.parametrize("headers", [[CHUNKED], ["Content-Length: 1000000000000000"]])
def test_a_part_without_end(headers: list[str]) -> None:
    """Whatever the server says of its length, little more is taken than was asked for."""
    with web(endless("206 X", "Content-Range: bytes 5-9/100", *headers)) as server:
        with pytest.raises(errors.StorageError, match="sends more than"):
            HttpStore(server.url, (), QUICK).open_reader()("k", 5, 10)
        assert len(server.requests) == 1


def test_a_value_that_never_stops_to_come() -> None:
    """Each piece comes before the server counts as silent."""
    with web(endless("200 OK", "Content-Length: 1000000", piece=b"x", pause=0.02)) as server:
        store = HttpStore(server.url, (), QUICK, Bounds(seconds=0.3))
        with pytest.raises(errors.DeadlineExceededError, match=r"did not end within 0\.3 s"):
            store.read("k")
        assert len(server.requests) == 1


def test_a_message_without_end() -> None:
    """What goes with a status is not read to its end, and the status counts."""
    with web(endless("404 X", CHUNKED)) as server:
        assert HttpStore(server.url, (), QUICK).open_reader()("k") is None
    with (
        web(endless("403 X", CHUNKED)) as server,
        pytest.raises(errors.PermissionDeniedError),
    ):
        HttpStore(server.url, (), QUICK).read("k")


def test_redirects_in_circles() -> None:
    """They end after ten, and the request is not made again."""

    def circle(target: str, head: str) -> Iterator[bytes]:
        yield answer(b"", 302, Location="/b" if target == "/a" else "/a")

    with web(circle) as server:
        with pytest.raises(
            errors.StorageError, match=f"Failed to read {server.url}/a: more than 10 redirects"
        ):
            HttpStore(server.url, (), QUICK).read("a")
        assert len(server.requests) == 11


REFUSED = {
    "ftp://127.0.0.1/a": "expected the scheme http or https",
    "file:///etc/passwd": "expected the scheme http or https",
    "http://169.254.169.254/latest/meta-data/": "link-local address 169.254.169.254",
    "//169.254.170.2/": "link-local address 169.254.170.2",
    "http://0xa9fea9fe/": "link-local address 169.254.169.254",
    "http://[bad/": "Invalid IPv6 URL",
    "http://[fe80::1]:80/": "link-local address fe80::1",
    "http://[::ffff:169.254.169.254]/": "link-local address ::ffff:",
}


@pytest.mark.parametrize("location", REFUSED)
def test_redirects_that_are_not_followed(location: str) -> None:
    """The error names where the server wanted the request to go."""
    with web(lambda target, head: iter([answer(b"", 307, Location=location)])) as server:
        with pytest.raises(errors.StorageError, match=REFUSED[location]) as caught:
            HttpStore(server.url, (), QUICK).read("a")
        assert location.removeprefix("//") in str(caught.value) and len(server.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(status: int) -> None:
    """With the range that was asked for; credentials go to no other host."""

    def values(target: str, head: str) -> Iterator[bytes]:
        assert "Range: bytes=2-4" in head
        yield answer(b"cde", 206, Content_Range="bytes 2-4/9")

    def move(target: str, head: str) -> Iterator[bytes]:
        place = f"http://localhost:{last.port}/there" if target == "/near" else "/near"
        yield answer(b"moved", status, Location=place)

    secrets = [
        *("Authorization", "X-API-Key", "Cookie", "X-Auth-Token", "Private-Token", "PROXY-AUTHORIZATION"),
        *("Ocp-Apim-Subscription-Key", "X-Anything-Else"),
    ]
    headers = [*((name, "secret") for name in secrets), ("Accept", "kept")]
    with web(values) as last, web(move) as first:
        store = HttpStore(first.url, headers, QUICK)
        assert store.open_reader()("k", 2, 5) == b"cde"
        assert [request.count("secret") for request in first.requests] == [8, 8]
        assert "secret" not in last.requests[0] and "Accept: kept" in last.requests[0]


@pytest.mark.parametrize(
    "told",
    ["bytes 0-2/9", "bytes 2-4/9", "bytes 1-3/*", "", "bytes 1-3/2", "bytes 3-1/9", "x", "bytes 1-9/9"],
)
def test_other_ranges_than_asked_for(told: str) -> None:
    """A part of the value that isn't the one that was asked for is an error, and no value."""
    wrong = answer(b"abc", 206, Content_Range=told)
    with web(lambda target, head: iter([wrong])) as server:
        with pytest.raises((errors.StorageError, errors.OutOfRangeError)):
            HttpStore(server.url, (), QUICK).open_reader()("k", 1, 4)
        assert len(server.requests) <= 1 + QUICK.retries.max_retries


def test_parts_with_what_is_around_them() -> None:
    with web(lambda target, head: iter([answer(VALUE, 206, Content_Range="bytes 0-10239/20000")])) as server:
        assert HttpStore(server.url, (), QUICK).open_reader()("k", 7, 9) == VALUE[7:9]


def test_a_value_without_tag_and_date_that_is_replaced() -> None:
    """Whoever keeps it is told, though the new one is as long."""
    spec = {
        "driver": "zarr3",
        "kvstore": "memory://",
        "metadata": {"shape": [4], "data_type": "uint8", "codecs": [{"name": "bytes"}]},
    }
    array = ts.open(spec, create=True).result()

    def answers(target: str, head: str) -> Iterator[bytes]:
        value = array.kvstore.read(target[1:]).result().value
        yield answer(value or b"", 200 if value else 404)

    with web(answers) as server:
        array.write([1, 2, 3, 4]).result()
        seen = ts.open(
            {
                "driver": "zarr3",
                "kvstore": server.url,
                "context": {"cache_pool": {"total_bytes_limit": 10**6}},
            }
        ).result()
        assert seen.read().result().tolist() == [1, 2, 3, 4]
        array.write([5, 6, 7, 8]).result()
        assert seen.read().result().tolist() == [5, 6, 7, 8]
        store = HttpStore(server.url, (), QUICK)
        known = store.read("c/0").generation
        assert store.read("c/0", if_not_equal=known)[:2] == (None, known)
        assert store.read("c/0", byte_range=ByteRange(1, 3), if_not_equal=known)[:2] == (None, known)


def test_connections_are_used_again() -> None:
    """One for any number of requests in turn, and by all threads; one that the server closed is replaced."""

    def value(target: str, head: str) -> Iterator[bytes]:
        yield answer(VALUE, **({"Connection": "close"} if target == "/last" else {}))
        if target == "/last":
            raise OSError("closes")

    with web(value) as server:
        read = HttpStore(server.url, (), QUICK).open_reader()
        assert [read("k") for _ in range(5)] == [VALUE] * 5 and server.n_connections == 1
        thread = threading.Thread(target=read, args=("k",))
        thread.start()
        thread.join()
        assert server.n_connections == 1 and len(server.requests) == 6
        assert read("last") == VALUE and read("k") == VALUE
        assert server.n_connections == 2 and len(server.requests) == 8


def test_a_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """For servers that `no_proxy` does not name; one that urllib3 doesn't speak to is an error."""
    with web(lambda target, head: iter([answer(b"v")])) as server:
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", "near.invalid")
        assert HttpStore("http://far.invalid:9000", (), QUICK).read("k").value == b"v"
        assert server.requests[0].startswith("GET http://far.invalid:9000/k HTTP/1.1\r\n")
        assert "proxy-authorization: basic bwu6cebzcw==" in server.requests[0].lower()
        with pytest.raises(errors.UnavailableError):
            HttpStore("http://near.invalid", (), QUICK).read("k")
        assert len(server.requests) == 1
    monkeypatch.setenv("http_proxy", "socks9://user:secret@127.0.0.1:1")
    with pytest.raises(
        errors.UnsupportedError, match=r"socks9://127\.0\.0\.1:1 of the environment"
    ) as caught:
        HttpStore("http://elsewhere.invalid", (), QUICK).read("k")
    assert "secret" not in str(caught.value)


def test_names_in_urls() -> None:
    """What a key has of other characters arrives as it was; user and password are sent, and never told."""
    keys = ["a b", "ä/+=&?#%", "~'()*!,;:@$", "a//b", "a%2Fb"]
    with web(lambda target, head: iter([answer(target.encode())])) as server:
        store = HttpStore(server.url.replace("//", "//me:secret@") + "/x?q=1", (), QUICK)
        assert [unquote(bytes(store.read(key).value or b"").decode()) for key in keys] == [
            f"/x/{key}?q=1" for key in keys
        ]
        assert "Authorization: Basic bWU6c2VjcmV0" in server.requests[0] and "secret" not in repr(store)


def test_no_server_is_waited_for_in_an_array() -> None:
    """The error of a chunk says which, and which server is to blame."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    spec = {
        "driver": "zarr3",
        "kvstore": {
            "driver": "http",
            "base_url": f"http://127.0.0.1:{port}/a/",
            "http_request_retries": {"max_retries": 1, "initial_delay": "1ms", "max_delay": "1ms"},
        },
    }
    with pytest.raises(errors.UnavailableError, match=f"127.0.0.1:{port}/a/zarr.json.*after 2 attempts"):
        ts.open(spec).result()


@pytest.mark.parametrize("place", ["https://127.0.0.1:{port}/x", "http://127.0.0.1:{other}/x"])
def test_another_scheme_or_port_is_another_host(place: str) -> None:
    with web(lambda target, head: iter([answer(b"there")])) as other:
        moved = answer(b"", 302, Location=place.format(port=1, other=other.port))
        with web(lambda target, head: iter([moved])) as server:
            store = HttpStore(server.url, [("Private-Token", "secret")], Limits(Slots(), Retries(0)))
            if place.startswith("https"):
                with pytest.raises(errors.UnavailableError):
                    store.read("k")
            else:
                assert store.read("k").value == b"there"
                assert "secret" not in other.requests[0]


SECRET = "s3cr3t-value"
BASIC = "bWU6czNjcjN0LXZhbHVl"  # with the user "me"
GIVEN: list[Callable[[str], Any]] = [
    lambda url: url.replace("://", f"://me:{SECRET}@") + "/a/",
    lambda url: {"driver": "http", "base_url": url.replace("://", f"://me:{SECRET}@"), "path": "a/"},
    lambda url: {
        "driver": "http",
        "base_url": url,
        "path": "a/",
        "headers": [f"Authorization: Basic {BASIC}"],
    },
    lambda url: {
        "driver": "http",
        "base_url": url.replace("://", f"://me:{SECRET}@"),
        "path": "a/",
        "headers": ["Accept: text/html", f"Private-Token: {SECRET}", f"X-Anything: {SECRET}"],
    },
]


@pytest.mark.parametrize("given", GIVEN, ids=["URL", "base_url", "header", "headers"])
def test_secrets_stay_in_the_process(given: Callable[[str], Any]) -> None:
    """They are sent with each request, also of specs that are opened again, and shown nowhere."""
    spec = {"driver": "zarr3", "kvstore": "memory://a/"}
    made = ts.open(spec, create=True, dtype="int8", shape=[3], fill_value=5).result()
    assert made.kvstore is not None
    document = made.kvstore["zarr.json"]

    def answers(target: str, head: str) -> Iterator[bytes]:
        if f"Basic {BASIC}" not in head:
            yield answer(b"", 401)
        elif target == "/a/zarr.json":
            yield answer(document)
        else:
            yield answer(b"", 500 if "broken" in target else 404)

    context = ts.Context({"http_request_retries": {"max_retries": 0}})
    with web(answers) as server:
        store = ts.KvStore.open(given(server.url), context=context).result()
        kvstore_spec = ts.KvStore.Spec(given(server.url))
        array = ts.open({"driver": "zarr3", "kvstore": given(server.url)}, context=context).result()
        again = ts.open(array.spec(), context=context).result()
        assert again.read().result().tolist() == [5] * 3
        assert ts.KvStore.open(kvstore_spec, context=context).result()["zarr.json"] == document
        with pytest.raises(errors.UnavailableError) as failed:
            store.read("broken").result()
        with pytest.raises(errors.ChunkwiseError) as not_there:
            ts.open({"driver": "n5", "kvstore": given(server.url)}, context=context).result()
        things = [store, store.spec(), store.spec(retain_context=True), kvstore_spec]
        things += [array, array.spec(), array.kvstore, ts.Spec({"driver": "zarr3", "kvstore": kvstore_spec})]
        shown: list[object] = [str(failed.value), str(not_there.value), array.info(), array._repr_html_()]
        for thing in things:
            shown += [repr(thing), str(thing), thing.url, pickle.dumps(thing)]
            if hasattr(thing, "to_json"):
                shown += [thing.to_json(), thing.to_json(include_defaults=True)]
        for text in shown:
            text = text.decode("latin-1") if isinstance(text, bytes) else str(text)
            assert SECRET not in text and BASIC not in text, text


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        *(("0", 0.0), ("7", 7.0), ("1000", 60.0), ("99999999999999", 60.0), ("9" * 5000, 0.0)),
        *(("²", 0.0), ("٣", 0.0), ("-5", 0.0), ("+5", 0.0), ("1.5", 0.0), ("1e3", 0.0), ("", 0.0)),
        *(("nan", 0.0), ("inf", 0.0), ("5 5", 0.0), ("Wed, 21 Oct 2099 07:28:00 GMT", 0.0)),
    ],
)
def test_seconds_to_wait(told: str, seconds: float) -> None:
    assert _retry_after(Answer(503, {"Retry-After": told}, b"", "")) == seconds


@pytest.mark.parametrize("header", ["Content-Length", "Content-Range"])
@pytest.mark.parametrize("number", ["²", "٣", "-5", "9" * 5000, "", "0x5"])
def test_numbers_in_headers(header: str, number: str) -> None:
    """What is no number is an error of this library, or as if it weren't there."""

    def answers(target: str, head: str) -> Iterator[bytes]:
        size = number if header == "Content-Length" else "3"
        part = f"bytes 1-3/{number}" if header == "Content-Range" else "bytes 1-3/4"
        yield f"HTTP/1.1 206 X\r\nContent-Length: {size}\r\nContent-Range: {part}\r\n\r\nabc".encode()
        raise OSError("closes")

    with web(answers) as server:
        try:
            value = HttpStore(server.url, (), Limits(Slots(), Retries(0))).open_reader()("k", 1, 4)
            assert value == b"abc"
        except errors.ChunkwiseError as e:
            assert server.url in str(e)


@pytest.mark.parametrize("exception", ["{host}", "{host}:{port}", "*", "a.b,{host}", ""])
@pytest.mark.parametrize("driver", ["s3", "gcs", "azure", "http"])
def test_no_proxy(driver: str, exception: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host, its host and port, and "*" keep the requests of every store away from the proxy."""
    with web(lambda target, head: iter([answer(b"value", ETag='"e"', Last_Modified=DATE)])) as server:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        monkeypatch.setenv("no_proxy", exception.format(host="127.0.0.1", port=server.port))
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        once = Limits(Slots(), Retries(0))
        key = f"k-{exception or 'none'}".replace("*", "all").format(host="h", port="p")
        bucket: Any = {
            "s3": S3Bucket(f"bucket-{len(exception)}", region="us-east-1", endpoint=server.url),
            "gcs": GcsBucket(f"bucket-{len(exception)}"),
            "azure": AzureContainer("c", account=f"a{len(exception)}", endpoint=f"{server.url}/a"),
        }.get(driver)
        store: Any = HttpStore(server.url, (), once) if bucket is None else ObjectStore(bucket, once)
        if exception:
            assert bytes(store.read(key).value) == b"value"
        else:
            with pytest.raises(errors.UnavailableError):
                store.read(key)
            assert not server.requests


@pytest.mark.parametrize("n_members", [1, 2000])  # with fewer and more bytes than are read at first
@pytest.mark.parametrize("ranges", [True, False])
def test_an_archive_without_tag_and_date(n_members: int, ranges: bool) -> None:
    """A whole value and a part of it have different generations there, which is no replacement."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(n_members):
            archive.writestr(f"k{number}", bytes([number % 256]) * 40)
    value = file.getvalue()

    def answers(target: str, head: str) -> Iterator[bytes]:
        found = re.search(r"(?i)range: bytes=(\d*)-(\d*)", head)
        if found is None or not ranges:
            yield answer(value)
            return
        first = int(found[1]) if found[1] else max(0, len(value) - int(found[2]))
        part = value[first : int(found[2]) + 1 if found[1] and found[2] else len(value)]
        if part:
            told = f"bytes {first}-{first + len(part) - 1}/{len(value)}"
            yield answer(part, 206, Content_Range=told)
        else:
            yield answer(b"", 416, Content_Range=f"bytes */{len(value)}")

    with web(answers) as server:
        store = ts.KvStore.open(f"{server.url}/a.zip|zip:").result()
        assert len(store.list().result()) == n_members
        assert store[f"k{n_members - 1}"] == bytes([(n_members - 1) % 256]) * 40
