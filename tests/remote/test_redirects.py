"""Redirects of each status, to each place, of each request: no secret goes there, nothing comes back."""

from __future__ import annotations

import base64
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_web_servers import Web, answer, web

from chunkwise import errors
from chunkwise.core.kvstore.objects.azure import AzureContainer
from chunkwise.core.kvstore.objects.gcs import GcsBucket
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, ByteRange
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots
from chunkwise.core.kvstore.web.http import HttpStore

ONCE = Limits(Slots(), Retries(0, 0.001, 0.001, 0.2))
SECRET = "s3cr3t"
DATE = "Mon, 01 Jan 2024 00:00:00 GMT"
STATUSES = (301, 302, 303, 307, 308)
PLACES: dict[str, Callable[[Web], str]] = {
    "other port": lambda other: f"{other.url}/there",
    "other host": lambda other: f"http://localhost:{other.port}/there",
    "link-local": lambda other: "http://169.254.169.254/latest/meta-data/",
    "other scheme": lambda other: f"https://127.0.0.1:{other.port}/there",
    "no scheme of the web": lambda other: "file:///etc/passwd",
    "bad host": lambda other: "http://[bad/there",
    "bad port": lambda other: "http://127.0.0.1:abc/there",
    "port too large": lambda other: "http://127.0.0.1:99999/there",
}
REQUESTS: dict[str, Callable[[Any], object]] = {
    "GET": lambda store: store.read("a/k"),
    "GET of a part": lambda store: store.read("a/k", byte_range=ByteRange(1, 3)),
    "HEAD": lambda store: store.read("a/k", byte_range=ByteRange(2, 2)),
    "PUT": lambda store: store.write("a/k", b"value"),
    "PUT on condition": lambda store: store.write("a/k", b"value", if_equal=MISSING_GENERATION),
    "POST and parts": lambda store: store.write("a/k", bytes(1 << 25)),
    "DELETE": lambda store: store.delete("a/k"),
    "LIST": lambda store: list(store.list("a/", "a0")),
    "LIST and DELETE": lambda store: store.delete_range("a/", "a0"),
    "LIST of a level": lambda store: store.list_children("a/"),
}


def _s3(url: str, limits: Limits = ONCE) -> ObjectStore:
    keys = {"access_key_id": "key", "secret_access_key": SECRET, "token": SECRET, "expires_at": None}
    return ObjectStore(S3Bucket("bucket", "eu-west-1", url, provider=lambda: keys), limits)


def _gcs(url: str, limits: Limits = ONCE) -> ObjectStore:
    later = datetime.now(UTC) + timedelta(hours=1)
    provider = lambda: {"token": SECRET, "expires_at": later}  # noqa: E731
    return ObjectStore(GcsBucket("bucket", f"project-{SECRET}", provider), limits)


def _azure(kind: str) -> Callable[..., ObjectStore]:
    def made(url: str, limits: Limits = ONCE) -> ObjectStore:
        given: dict[str, Any] = {"access_key": base64.b64encode(SECRET.encode()).decode()}
        if kind == "token":
            given = {"token": SECRET, "expires_at": None}
        if kind == "sas":
            given = {"sas_token": f"sv=2023&sig={SECRET}", "expires_at": None}
        given.setdefault("expires_at", None)
        return ObjectStore(AzureContainer("c", "acc", f"{url}/acc", provider=lambda: given), limits)

    return made


def _http(url: str, limits: Limits = ONCE) -> HttpStore:
    headers = [(name, SECRET) for name in ("Authorization", "Cookie", "X-Amz-Security-Token", "X-Goog-Token")]
    return HttpStore(url, headers, limits)


STORES: dict[str, Callable[..., Any]] = {
    "s3": _s3,
    "gcs": _gcs,
    "azure, key": _azure("key"),
    "azure, token": _azure("token"),
    "azure, sas": _azure("sas"),
    "http": _http,
}
XML = (
    b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a/wrong</Key><Size>1</Size>"
    b"<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>"
)


@pytest.mark.parametrize("large", ["some", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", STORES)
def test_redirects(name: str, large: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large values are sent to each place with one of the statuses, or with all."""

    def elsewhere(target: str, head: str) -> Iterator[bytes]:
        body = XML if "list" in target else b"wrong"
        yield answer(body, ETag='"e"', Last_Modified=DATE)

    now: list[Any] = [301, ""]
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    wrong = []
    with web(elsewhere) as other, web(lambda *_: iter([answer(b"", now[0], Location=now[1])])) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        for status, place, request in itertools.product(STATUSES, PLACES, REQUESTS):
            reads = request.startswith(("GET", "HEAD"))
            if name == "http" and not reads:
                continue
            at = list(PLACES).index(place)
            if large == "some" and request == "POST and parts" and status != STATUSES[at % len(STATUSES)]:
                continue
            now[:] = status, PLACES[place](other)
            case = f"{status} {place} {request}"
            try:
                found = REQUESTS[request](STORES[name](server.url))
            except errors.ChunkwiseError as e:
                text = str(e)
                if SECRET in text or not (server.url in text or "gs://" in text):
                    wrong.append(f"{case}: {text}")
            except BaseException as e:
                wrong.append(f"{case}: raw {e!r}")
            else:
                if name != "http" or place not in ("other port", "other host"):
                    wrong.append(f"{case}: {found!r}")
            wrong += [f"{case}: sent {head}" for head in other.requests if SECRET in head]
            if name != "http" and other.requests:
                wrong.append(f"{case}: followed")
            other.requests.clear()
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:20])


def _stalled(target: str, head: str) -> Iterator[bytes]:
    yield f'HTTP/1.1 200 OK\r\nETag: "e"\r\nLast-Modified: {DATE}\r\nContent-Length: 100\r\n\r\nabc'.encode()
    time.sleep(0.6)
    raise OSError("closes")


def _only(status: str) -> Callable[[str, str], Iterator[bytes]]:
    def answers(target: str, head: str) -> Iterator[bytes]:
        while True:
            yield f"HTTP/1.1 {status}\r\n\r\n".encode()
            time.sleep(0.01)

    return answers


def _later(seconds: str) -> Callable[[str, str], Iterator[bytes]]:
    return lambda target, head: iter([answer(b"", 503, Retry_After=seconds)])


PATIENCE: dict[str, tuple[Callable[[str, str], Iterator[bytes]], type[Exception]]] = {
    "a body that stalls": (_stalled, errors.DeadlineExceededError),
    "endless 100": (_only("100 Continue"), errors.DeadlineExceededError),
    "endless 103": (_only("103 Early Hints"), errors.DeadlineExceededError),
    "Retry-After in seconds": (_later("3600"), errors.ChunkwiseError),
    "Retry-After as a date": (_later("Fri, 01 Jan 2100 00:00:00 GMT"), errors.ChunkwiseError),
}


@pytest.mark.parametrize("behaviour", PATIENCE)
@pytest.mark.parametrize("name", ["s3", "gcs", "azure, key", "http"])
def test_patience(name: str, behaviour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is tried as often as is said, whatever the server says; an hour is not waited for."""
    answers, kind = PATIENCE[behaviour]
    with web(answers) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        store = STORES[name](server.url, Limits(Slots(), Retries(1, 0.01, 0.01, 0.2)))
        with pytest.raises(kind):
            store.read("a/k")
        assert len(server.requests) == 2


@pytest.mark.parametrize("name", STORES)
def test_a_netrc_is_not_used(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for file in (".netrc", "_netrc"):
        (tmp_path / file).write_text(
            "machine 127.0.0.1 login user password n3trc\ndefault login u password n3trc\n"
        )
        (tmp_path / file).chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with web(lambda *_: iter([answer(b"value", ETag='"e"', Last_Modified=DATE)])) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        assert STORES[name](server.url).read("a/k").value == b"value"
        assert server.requests
        for head in server.requests:
            assert "n3trc" not in head and base64.b64encode(b"user:n3trc").decode() not in head


@pytest.mark.parametrize("variable", ["all_proxy", "ALL_PROXY", "http_proxy"])
@pytest.mark.parametrize("name", ["s3", "azure, key", "http"])
def test_a_proxy_of_the_environment(name: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
        monkeypatch.delenv(other.upper(), raising=False)
    with web(lambda *_: iter([answer(b"value", ETag='"e"', Last_Modified=DATE)])) as proxy:
        monkeypatch.setenv(variable, proxy.url)
        assert STORES[name]("http://storage.invalid").read("a/k").value == b"value"
        assert proxy.requests[0].startswith("GET http://storage.invalid/")


@pytest.mark.parametrize("name", ["http", "s3", "gcs", "azure, key"])
def test_what_a_redirect_signs_is_not_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No error shows the query of a redirect, which is a signature, nor its password."""
    signed = f"there?X-Amz-Signature={SECRET}"
    answers: dict[str, bytes] = {
        "refused": answer(b"", 403),
        "broken": answer(b"", 500),
        "a page": answer(b"<!doctype html><title>Log in</title>", Content_Type="text/html"),
        "packed": answer(b"abc", Content_Encoding="br"),
        "no range": answer(b"abc", 206),
        "a redirect to a file": answer(b"", 302, Location=f"file:///etc/{signed}"),
        "a redirect to no port": answer(b"", 302, Location=f"http://me:{SECRET}@127.0.0.1:abc/{signed}"),
        "cut off": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
    }
    now: list[Any] = [b""]
    wrong = []
    with web(lambda *_: iter(now[:1])) as other:
        there = answer(b"", 302, Location=f"{other.url}/{signed}")
        with web(lambda *_: iter([there])) as server:
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
            for what, now[0] in answers.items():
                part = ByteRange(0, 2) if what == "no range" else None
                with pytest.raises(errors.ChunkwiseError) as failure:
                    STORES[name](server.url).read("a/k", byte_range=part)
                shown = f"{failure.value} {failure.value.__cause__}"
                if SECRET in shown:
                    wrong.append(f"{what}: {shown}")
    assert not wrong, "\n".join(wrong)
