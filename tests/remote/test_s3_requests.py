"""Requests to S3 on the wire: their number, their targets, their retries."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import boto3  # comes with moto
import pytest

from chunkwise import errors
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.request_limits import Limits, Pace, Retries, Slots

QUICK = Limits(Slots(), Retries(3, 0.02, 0.1))
VALUE = bytes(range(256)) * 400


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Run a server that gives answers in turn, the last one for ever; yield its port and the requests."""
    seen: list[bytes] = []
    left = list(answers)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    request = connection.recv(1 << 16)
                    if request:
                        seen.append(request)
                        connection.sendall(left.pop(0) if len(left) > 1 else left[0])

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1], seen
        listener.shutdown(socket.SHUT_RDWR)


def ok(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", 'ETag: "e"', *headers]
    lines += ["Last-Modified: Mon, 05 Jan 2026 10:00:00 GMT", "Connection: close"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.fixture
def store(s3: ObjectStore, between: Any) -> ObjectStore:
    """A bucket behind the proxy with one value, to which the way is known."""
    s3.write("k", VALUE)
    assert isinstance(s3.bucket, S3Bucket)
    found = ObjectStore(replace(s3.bucket, endpoint=between.url), QUICK)
    found.read("k")
    return found


@pytest.mark.parametrize("part", [(0, None), (100, 50_000), (100, None), (-70_000, None), (100_000, None)])
def test_reading_is_one_request(store: ObjectStore, between: Any, part: Any) -> None:
    """A value and a part of it take one each."""
    between.set()
    found = store.open_reader()("k", *part)
    assert found is not None and bytes(found) == VALUE[slice(*part)]
    assert len(between.log()) == 1


def test_missing_and_unchanged_are_one_request(store: ObjectStore, between: Any) -> None:
    """So is the answer that there is no such key, and that a value is still the same."""
    generation = store.read("k").generation
    between.set()
    assert store.open_reader()("missing") is None
    assert store.read("missing").value is None
    assert store.read("k", if_not_equal=generation).value is None
    assert len(between.log()) == 3


@pytest.mark.parametrize("size", [0, 1, 100_000, 3_000_000])
def test_writing_is_one_request(store: ObjectStore, between: Any, size: int) -> None:
    """A value that is stored whatever was there takes one request, which tells its generation."""
    between.set()
    value = VALUE * (size // len(VALUE)) + VALUE[: size % len(VALUE)]
    generation = store.write("new/key", value)
    assert [line.split()[0] for line in between.log()] == ["PUT"]
    found = store.read("new/key")
    assert found.generation == generation and bytes(found.value or b"") == value


@pytest.mark.parametrize("key", ["a b", "ä/+=&?#%", "~'()*!,;:@$", "日本", "a%2Fb"])
def test_names(store: ObjectStore, s3_bucket: S3Bucket, key: str) -> None:
    """Keys are on the server what they are here."""
    store.write(key, b"v")
    client = boto3.client("s3", endpoint_url=s3_bucket.endpoint, region_name="us-east-1")
    found = client.list_objects_v2(Bucket=s3_bucket.bucket)["Contents"]
    assert {entry["Key"] for entry in found} == {"k", key}
    assert store.read(key).value == b"v"


LASTING: list[tuple[str, str, type[Exception], int]] = [
    ("reset", "", errors.UnavailableError, 2),
    ("500", "", errors.UnavailableError, 2),
    ("503", "<Error><Code>SlowDown</Code></Error>", errors.ThrottledError, 2),
    ("403", "<Error><Code>AccessDenied</Code></Error>", errors.PermissionDeniedError, 2),
    ("403", "<Error><Code>ExpiredToken</Code></Error>", errors.CredentialsError, 2),
    ("404", "<Error><Code>NoSuchBucket</Code></Error>", errors.BucketNotFoundError, 1),
]


@pytest.mark.parametrize("operation", ["read", "write"])
@pytest.mark.parametrize(("action", "body", "kind", "n"), LASTING)
def test_lasting_failures(
    store: ObjectStore, between: Any, action: str, body: str, kind: type[Exception], n: int, operation: str
) -> None:
    """A request is made as often as is allowed; one that is denied once more, anonymously."""
    once = ObjectStore(store.bucket, Limits(Slots(), Retries(1, 0.02, 0.1)))
    between.set({"action": action, "body": body, "times": 10**6})
    with pytest.raises(kind):
        if operation == "read":
            once.open_reader()("k")
        else:
            once.write("k", b"v")
    assert len(between.log()) == n


@pytest.mark.parametrize("action", ["reset", "reset_after", "500", "503", "429"])
def test_passing_failures_of_writes(store: ObjectStore, between: Any, action: str) -> None:
    """A write that fails twice is made again."""
    between.set({"method": "PUT", "path": "/w", "action": action, "times": 2})
    store.write("w", VALUE)
    assert len(between.log()) == 3
    assert store.read("w").value == VALUE


@pytest.mark.parametrize("operation", ["read", "write"])
def test_slots_hold(store: ObjectStore, between: Any, operation: str) -> None:
    """No more requests are under way than there are slots."""
    few = ObjectStore(store.bucket, Limits(Slots(2), QUICK.retries))
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
    assert len(between.flight()) == 12 and max(between.flight()) <= 2


def test_requests_keep_pace(store: ObjectStore) -> None:
    """Reads and writes wait for their turn, each with those of its kind."""
    waits: list[str] = []

    class Counted(Pace):
        def __init__(self, name: str) -> None:
            super().__init__(None)
            self.name = name

        def wait(self) -> None:
            waits.append(self.name)

    paced = ObjectStore(store.bucket, QUICK._replace(read_pace=Counted("read"), write_pace=Counted("write")))
    paced.write("k", VALUE)
    paced.open_reader()("k")
    assert waits == ["write", "read"]


@pytest.mark.parametrize(
    ("base", "bucket", "path"), [("", "b", "/b/k"), ("/a", "b", "/a/b/k"), ("", "", "/k")]
)
def test_paths_of_endpoints(base: str, bucket: str, path: str) -> None:
    """The path of an endpoint comes first; an endpoint without a bucket is one."""
    with answering(ok(b"v")) as (port, seen):
        endpoint = f"http://127.0.0.1:{port}{base}"
        assert ObjectStore(S3Bucket(bucket, endpoint=endpoint), QUICK).read("k").value == b"v"
    assert seen[0].startswith(f"GET {path} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize("told", ["bytes 0-2/9", "bytes 1-4/9", "bytes 1-3/*", "", "bytes 1-3/2", "x"])
def test_other_ranges_than_asked_for(told: str) -> None:
    """An answer with another part of the value, or all of it, is an error after the retries."""
    wrong = ok(b"abc", f"Content-Range: {told}", status="206 X")
    for answer in (wrong, ok(b"abcdefghi")):
        with answering(answer) as (port, seen):
            store = ObjectStore(S3Bucket("b", endpoint=f"http://127.0.0.1:{port}"), QUICK)
            with pytest.raises(errors.StorageError):
                store.open_reader()("k", 1, 4)
            assert len(seen) < 10


def test_a_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """For servers that `no_proxy` does not name."""
    with answering(ok(b"v")) as (port, seen):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "near.invalid")
        store = ObjectStore(S3Bucket("b", endpoint="http://far.invalid:9000"), QUICK)
        assert store.read("k").value == b"v"
        assert seen[0].startswith(b"GET http://far.invalid:9000/b/k HTTP/1.1\r\n")
        near = S3Bucket("b", endpoint="http://near.invalid:9000")
        with pytest.raises(errors.UnavailableError):
            ObjectStore(near, Limits(Slots(), Retries(0))).read("k")
        assert len(seen) == 1
