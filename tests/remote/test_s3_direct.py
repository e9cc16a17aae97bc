"""Reads and writes of S3 by plain HTTP, without obstore, which does what is unclear."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth  # type: ignore[import-untyped,unused-ignore]
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped,unused-ignore]
from botocore.credentials import Credentials  # type: ignore[import-untyped,unused-ignore]

from chunkwise import errors
from chunkwise.kvstore import http_connection, plain_http
from chunkwise.kvstore.aws_credentials import Keys
from chunkwise.kvstore.aws_signature import Signer
from chunkwise.kvstore.http import HttpStore
from chunkwise.kvstore.object_store import ObjectStore
from chunkwise.kvstore.plain_http import Memory, OddAnswerError, PlainServer
from chunkwise.kvstore.request_limits import Limits, Pace, RequestSlots, Retries
from chunkwise.kvstore.s3 import S3Bucket
from chunkwise.kvstore.s3_direct import direct_access

QUICK = Limits(RequestSlots(), Retries(3, 0.02, 0.1))
VALUE = bytes(range(256)) * 400


@contextmanager
def answering(*answers: bytes, pieces: bool = False, keep: bool = True) -> Iterator[tuple[int, list[bytes]]]:
    """Run a server that gives answers in turn, with Nagle's algorithm; yield its port and the requests."""
    seen: list[bytes] = []
    left = list(answers)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while left:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
                    while left:
                        request = b""
                        while not request.endswith(b"\r\n\r\n"):
                            more = connection.recv(1 << 16)
                            if not more:
                                break
                            request += more
                        if not request:
                            break
                        seen.append(request)
                        head, end, body = left.pop(0).partition(b"\r\n\r\n")
                        for piece in (head + end, body) if pieces else (head + end + body,):
                            connection.sendall(piece)
                        if not keep:
                            break

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], seen
        left.clear()
    thread.join(10)


def ok(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", 'ETag: "e"', *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize("token", [None, "a+b/c=="])
@pytest.mark.parametrize("more", [{}, {"x-amz-request-payer": "requester"}])
@pytest.mark.parametrize("path", ["/b/c/0/0", "/b/a%20b/%C3%A4%2B%27~x"])
@pytest.mark.parametrize(("method", "body"), [("GET", b""), ("PUT", b"value")])
def test_signature_is_botocores(
    token: str | None, more: dict[str, str], path: str, method: str, body: bytes
) -> None:
    """A request has the signature that AWS's own library gives it."""
    signer = Signer(Keys("AKID", "secret/+", token)._asdict, "eu-west-3", "host:9000", more)
    content = sha256(body).hexdigest()
    lines = signer.lines(method, path, content)
    headers = dict(line.split(":", 1) for line in lines.split("\r\n") if line)
    own = headers.pop("authorization")
    request = AWSRequest(method, f"http://host:9000{path}", headers=headers, data=body)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = S3SigV4Auth(Credentials("AKID", "secret/+", token), "s3", "eu-west-3")
    text = auth.string_to_sign(request, auth.canonical_request(request))
    assert own.endswith(f"Signature={auth.signature(text, request)}")
    assert f"Credential=AKID/{auth.credential_scope(request)}," in own
    assert f"SignedHeaders={auth.signed_headers(auth.headers_to_sign(request))}," in own


def test_keys_are_asked_for_before_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary keys are replaced a minute before they end, others are asked for once, or when told to."""
    given: list[Keys] = []

    def provider() -> Any:
        ends = datetime.now(UTC) + timedelta(seconds=30 if not given else 3600)
        given.append(Keys(f"key{len(given)}", "s", None, ends))
        return given[-1]._asdict()

    signer = Signer(provider, "r", "h", {})
    clock = iter(range(10**9, 10**9 + 100))
    monkeypatch.setattr(time, "time", lambda: next(clock))
    used = [signer.lines("GET", "/").partition("Credential=")[2].partition("/")[0] for _ in range(3)]
    signer.forget()
    used.append(signer.lines("GET", "/").partition("Credential=")[2].partition("/")[0])
    assert used == ["key0", "key1", "key1", "key2"]


@pytest.fixture
def store(s3: ObjectStore, between: Any) -> ObjectStore:
    """A bucket behind the proxy with one value, to which the way is known."""
    s3.write("k", VALUE)
    assert isinstance(s3.bucket, S3Bucket)
    found = ObjectStore(replace(s3.bucket, endpoint=between.url), QUICK)
    found.read("k")
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The requests that are made without obstore."""
    requests: list[bytes] = []
    ask = PlainServer.ask

    def seen(self: PlainServer, request: bytes, memory: Any = None, body: Any = b"") -> Any:
        requests.append(request)
        return ask(self, request, memory, body)

    monkeypatch.setattr(PlainServer, "ask", seen)
    return requests


PARTS = [(0, None), (100, 50_000), (100, None), (-70_000, None), (100_000, None)]


@pytest.mark.parametrize("part", PARTS)
def test_one_request(store: ObjectStore, between: Any, asked: list[bytes], part: Any) -> None:
    """Values and parts of them take one request, which is not obstore's, from the second on."""
    between.set()
    found = store.open_reader()("k", *part)
    assert found is not None and bytes(found) == VALUE[slice(*part)]
    assert len(asked) == len(between.log()) == 1


def test_missing_and_unchanged_are_one_request(store: ObjectStore, between: Any, asked: list[bytes]) -> None:
    """So is the answer that there is no such key, and that a value is still the same."""
    generation = store.read("k").generation
    asked.clear()
    between.set()
    assert store.open_reader()("missing") is None
    assert store.read("missing").value is None
    assert store.read("k", if_not_equal=generation).value is None
    assert len(asked) == len(between.log()) == 3


def test_generations_are_obstores(store: ObjectStore) -> None:
    """Both ways to read give the same generation, so that a write may depend on either."""
    assert isinstance(store.bucket, S3Bucket)
    without = ObjectStore(store.bucket, Limits(RequestSlots(), Retries(0, 0.02, 0.1)))  # by obstore alone
    assert without.read("k").generation == store.read("k").generation
    written = store.write("k", b"new")
    assert store.read("k").generation == written


@pytest.mark.parametrize("key", ["a b", "ä/+=&?#%", "~'()*!,;:@$", "日本", "a%2Fb"])
def test_names(store: ObjectStore, asked: list[bytes], key: str) -> None:
    """Keys are encoded as obstore encodes them."""
    obstores = ObjectStore(store.bucket, Limits(RequestSlots(), Retries(0, 0.02, 0.1)))
    obstores.write(key, b"v")
    assert not asked
    found = store.open_reader()(key)
    assert found is not None and bytes(found) == b"v" and len(asked) == 1
    store.write(key, b"w")
    assert len(asked) == 2 and obstores.read(key).value == b"w"


@pytest.mark.parametrize("action", ["reset", "reset_after", "truncate", "slow", "500", "503", "429", "502"])
@pytest.mark.parametrize("part", [(0, None), (100, 50_000), (-70_000, None)])
def test_passing_failures_are_not_seen(store: ObjectStore, between: Any, action: str, part: Any) -> None:
    """A read that fails twice is made again, no more often than by obstore, and gives the value."""
    between.set({"method": "GET", "path": "/k", "action": action, "times": 1 if action == "slow" else 2})
    found = store.open_reader()("k", *part)
    assert found is not None and bytes(found) == VALUE[slice(*part)]
    assert len(between.log()) == (1 if action == "slow" else 3)


LASTING: list[tuple[str, str, type[Exception], int]] = [
    ("reset", "", errors.UnavailableError, 2),
    ("500", "", errors.UnavailableError, 2),
    ("503", "<Error><Code>SlowDown</Code></Error>", errors.ThrottledError, 2),
    ("403", "<Error><Code>AccessDenied</Code></Error>", errors.PermissionDeniedError, 3),
    ("403", "<Error><Code>ExpiredToken</Code></Error>", errors.CredentialsError, 3),
    ("404", "<Error><Code>NoSuchBucket</Code></Error>", errors.BucketNotFoundError, 1),
]


@pytest.mark.parametrize(("action", "body", "kind", "n"), LASTING)
def test_lasting_failures(
    store: ObjectStore, between: Any, action: str, body: str, kind: type[Exception], n: int
) -> None:
    """The error is obstore's, and the attempt without it was one of those that are allowed.

    What is denied is asked for without obstore, with it, and anonymously.
    """
    once = ObjectStore(store.bucket, Limits(RequestSlots(), Retries(1, 0.02, 0.1)))
    between.set({"action": action, "body": body, "times": 10**6})
    with pytest.raises(kind):
        once.open_reader()("k")
    reads = [line for line in between.log() if line.startswith("GET")]
    assert len(reads) == n or (action == "reset" and len(reads) == n + 1)  # one more on a stale connection


def test_without_retries_obstore_asks(store: ObjectStore, between: Any, asked: list[bytes]) -> None:
    """Where one attempt is allowed, it is obstore's."""
    never = ObjectStore(store.bucket, Limits(RequestSlots(), Retries(0, 0.02, 0.1)))
    between.set({"action": "500", "times": 10**6})
    with pytest.raises(errors.UnavailableError):
        never.open_reader()("k")
    assert len(between.log()) == 1 and not asked


@pytest.mark.parametrize("size", [0, 1, 100_000, 3_000_000])
def test_writing_is_one_request(store: ObjectStore, between: Any, asked: list[bytes], size: int) -> None:
    """A value that is stored whatever was there takes one request, which is not obstore's."""
    between.set()
    value = VALUE * (size // len(VALUE)) + VALUE[: size % len(VALUE)]
    generation = store.write("new/key", value)
    assert len(asked) == len(between.log()) == 1 and asked[0].startswith(b"PUT ")
    found = store.read("new/key")
    assert found.generation == generation and bytes(found.value or b"") == value


def test_conditional_writes_are_obstores(store: ObjectStore, asked: list[bytes]) -> None:
    """A write that depends on what is there may not be made twice, and is left to obstore."""
    generation = store.read("k").generation
    store.conditional_writes("k")
    asked.clear()
    assert store.write("k", b"new", if_equal=generation) is not None
    assert store.write("k", b"newer", if_equal=generation) is None
    assert not asked


@pytest.mark.parametrize("action", ["reset", "reset_after", "500", "503", "429"])
def test_passing_failures_of_writes(store: ObjectStore, between: Any, action: str) -> None:
    """A write that fails twice is made again, no more often than by obstore."""
    between.set({"method": "PUT", "path": "/w", "action": action, "times": 2})
    store.write("w", VALUE)
    assert len(between.log()) == 3
    assert store.read("w").value == VALUE


def test_lasting_failures_of_writes(store: ObjectStore, between: Any) -> None:
    """The error is obstore's."""
    once = ObjectStore(store.bucket, Limits(RequestSlots(), Retries(1, 0.02, 0.1)))
    between.set({"action": "500", "times": 10**6})
    with pytest.raises(errors.UnavailableError):
        once.write("k", b"v")
    assert len(between.log()) == 2


def test_bodies_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body arrives whole, however little of it the system takes at a time."""
    for most in (1, 20, 1000):

        class Slow(socket.socket):
            def sendmsg(self, buffers: Any, *_: Any) -> int:
                return self.send(b"".join(map(bytes, buffers))[:most])  # noqa: B023 - used at once

        monkeypatch.setattr(socket, "socket", Slow)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            got = bytearray()

            def serve() -> None:
                with listener.accept()[0] as connection:
                    while not got.endswith(b"END"):  # noqa: B023
                        got.extend(connection.recv(1 << 16))  # noqa: B023
                    connection.sendall(ok(b""))

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            PlainServer("127.0.0.1", listener.getsockname()[1]).ask(b"HEAD\r\n\r\n", None, VALUE + b"END")
            thread.join(10)
        assert bytes(got) == b"HEAD\r\n\r\n" + VALUE + b"END"


@pytest.mark.parametrize("operation", ["read", "write"])
def test_slots_hold(store: ObjectStore, between: Any, asked: list[bytes], operation: str) -> None:
    """Requests without obstore take slots too."""
    few = ObjectStore(store.bucket, Limits(RequestSlots(2), QUICK.retries))
    between.set(delay=0.02)

    def work() -> None:
        if operation == "read":
            few.open_reader()("k")
        else:
            few.write("k", VALUE)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(between.flight()) == len(asked) == 12 and max(between.flight()) <= 2


def test_writes_keep_pace(store: ObjectStore, asked: list[bytes]) -> None:
    """Writes without obstore wait for their turn too."""
    waits: list[str] = []

    class Counted(Pace):
        def wait(self) -> None:
            waits.append("write")

    ObjectStore(store.bucket, QUICK._replace(write_pace=Counted(None))).write("k", VALUE)
    assert len(waits) == len(asked) == 1


ODD = [
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\nabc",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\nab",
    b"SSH-2.0-x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
]


@pytest.mark.parametrize("answer", ODD, ids=lambda a: str(a[:60]))
def test_odd_answers(answer: bytes) -> None:
    """What is no complete plain answer is not taken for one, whatever length it claims to have."""
    with answering(answer, keep=False) as (port, _), pytest.raises((OddAnswerError, ConnectionError)):
        PlainServer("127.0.0.1", port).ask(b"GET / HTTP/1.1\r\n\r\n")


def test_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """One stays open for the next request unless the server says no; one that it closed is replaced."""
    made: list[Any] = []
    connect = socket.create_connection

    def counted(*place: Any) -> socket.socket:
        made.append(place)
        return connect(*place)

    monkeypatch.setattr(socket, "create_connection", counted)
    answers = [ok(b"a"), ok(b"b"), ok(b"c", "Connection: close"), ok(b"d")]
    with answering(*answers) as (port, seen):
        server = PlainServer("127.0.0.1", port)
        found = [bytes(server.ask(b"GET / HTTP/1.1\r\n\r\n").body) for _ in answers]
    assert found == [b"a", b"b", b"c", b"d"] and len(seen) == 4 and len(made) == 2
    made.clear()
    with answering(ok(b"a"), ok(b"b"), keep=False) as (port, _):
        server = PlainServer("127.0.0.1", port)
        assert [bytes(server.ask(b"GET / HTTP/1.1\r\n\r\n").body) for _ in range(2)] == [b"a", b"b"]
    assert len(made) == 2


def test_large_bodies_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is taken as a body comes, and used again for the next; growth leaves older views alone."""
    monkeypatch.setattr(plain_http, "_UNCHECKED", 100_000)
    bodies = [bytes([n]) * size for n, size in enumerate((10, 120_000, 50, 900_000))]
    memory = Memory()
    with answering(*map(ok, bodies)) as (port, _):
        server = PlainServer("127.0.0.1", port)
        found = []
        for body in bodies:
            found.append(server.ask(b"GET / HTTP/1.1\r\n\r\n", memory).body)
            assert bytes(found[-1]) == body
        assert bytes(found[1]) != bodies[1] and bytes(found[0]) == bodies[0]


@pytest.mark.skipif(sys.platform != "linux", reason="acknowledges at once on Linux")
@pytest.mark.parametrize("which", ["s3", "web"])
def test_held_back_answers(which: str) -> None:
    """A server that waits for an acknowledgement before it sends the rest of an answer gets it at once."""
    n = 40
    with answering(*[ok(b"x" * 1000)] * n, pieces=True) as (port, _):
        if which == "s3":
            server = PlainServer("127.0.0.1", port)

            def ask() -> Any:
                return server.ask(b"GET / HTTP/1.1\r\n\r\n")
        else:

            def ask() -> Any:
                return http_connection.send("GET", f"http://127.0.0.1:{port}/", [])

        taken = []
        for _ in range(n):
            start = time.perf_counter()
            ask()
            taken.append(time.perf_counter() - start)
    assert min(taken[20:-1]) < 0.03  # 40 ms each if not; the first and the last are quick in any case


@pytest.mark.parametrize(
    "endpoint", ["https://h", "http://", "http://h:x", "http://u:p@h", "http://h/a b", "ftp://h", "h:80"]
)
def test_what_is_left_to_obstore(endpoint: str) -> None:
    """TLS, credentials in the URL, and what is no plain URL of a server."""
    assert direct_access(endpoint, "bucket", None, "r", {}) is None


def test_proxies_are_left_to_obstore(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is a server behind a proxy of the environment."""
    http_connection.proxy_for.cache_clear()
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "near")
    try:
        assert direct_access("http://far:9000", "b", None, "r", {}) is None
        assert direct_access("http://near:9000", "b", None, "r", {}) is not None
    finally:
        http_connection.proxy_for.cache_clear()


@pytest.mark.parametrize(
    ("base", "bucket", "path"), [("", "b", "/b/k"), ("/a/", "b", "/a/b/k"), ("", "", "/k")]
)
def test_paths_of_endpoints(base: str, bucket: str, path: str) -> None:
    """The path of an endpoint comes first; an endpoint without a bucket is one."""
    with answering(ok(b"v")) as (port, seen):
        reader = direct_access(f"http://127.0.0.1:{port}{base}", bucket, None, "r", {"x-amz-a": "1"})
        assert reader is not None
        found = reader("k", {})
        assert found is not None and bytes(found.value) == b"v"
    assert seen[0].startswith(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nx-amz-a: 1\r\n".encode())


@pytest.mark.parametrize("told", ["bytes 0-2/9", "bytes 1-4/9", "bytes 1-3/*", "", "bytes 1-3/2"])
def test_other_ranges_than_asked_for(told: str) -> None:
    """An answer with another part of the value, or all of it, is none."""
    answer = ok(b"abc", f"Content-Range: {told}").replace(b"200 OK", b"206 X")
    with answering(answer, ok(b"abcdefghi"), answer.replace(told.encode(), b"bytes 1-3/9")) as (port, _):
        reader = direct_access(f"http://127.0.0.1:{port}", "b", None, "r", {})
        assert reader is not None
        assert reader("k", {"range": (1, 4)}) is None
        assert reader("k", {"range": (1, 4)}) is None
        found = reader("k", {"range": (1, 4)})
        if told:
            assert found is not None and found.meta["size"] == 9


def test_a_server_that_is_not_understood_is_left_alone() -> None:
    """One whose answers are complete only for others is not asked twice for everything, for ever."""
    with answering(*[ODD[0], ok(b"v").replace(b"ETag", b"X-Tag")] * 10, keep=False) as (port, seen):
        reader = direct_access(f"http://127.0.0.1:{port}", "b", None, "r", {})
        assert reader is not None
        assert [reader("k", {}) for _ in range(10)] == [None] * 10
        assert len(seen) == 4


def test_keys_that_can_not_be_had() -> None:
    """The errors of who gives the keys are left to obstore to tell, whatever their type."""

    def provider() -> Any:
        raise KeyError("role")

    reader = direct_access("http://127.0.0.1:1", "b", provider, "r", {})
    assert reader is not None
    assert reader("k", {}) is None and reader.put("k", memoryview(b"v")) is None


def test_web_servers_too() -> None:
    """Answers in two pieces are read from web servers, over connections that acknowledge at once."""
    values = [b"value", VALUE]
    with answering(*map(ok, values), pieces=True) as (port, seen):
        store = HttpStore(f"http://127.0.0.1:{port}/a")
        assert [store.read("k").value for _ in values] == values
    assert [request.split(b" HTTP")[0] for request in seen] == [b"GET /a/k"] * 2
