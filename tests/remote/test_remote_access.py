"""Who asks: credentials from each place that they can be in, and none where none are."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

import chunkwise as ts
from chunkwise import errors
from chunkwise.kvstore import object_library
from chunkwise.kvstore.aws_credentials import find_provider
from chunkwise.kvstore.azure import AzureContainer
from chunkwise.kvstore.object_store import ObjectStore
from chunkwise.kvstore.protocol import MISSING_GENERATION
from chunkwise.kvstore.request_limits import Limits, RequestSlots, Retries
from chunkwise.kvstore.s3 import S3Bucket

QUICK = Limits(RequestSlots(), Retries(1, 0.02, 0.1))


class Metadata(BaseHTTPRequestHandler):
    """A container's and an instance's metadata service."""

    keys: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        body = json.dumps(self.keys)
        if self.path.endswith("/security-credentials/"):
            body = "role"
        right = (
            self.headers.get("X-aws-ec2-metadata-token") == "t"
            or self.headers.get("Authorization") == "secret"
        )
        self.send_response(200 if right else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_PUT(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1")
        self.end_headers()
        self.wfile.write(b"t")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def metadata() -> Iterator[str]:
    later = datetime.now(UTC) + timedelta(hours=1)
    Metadata.keys = {
        "AccessKeyId": "FROMTHEMACHINE",
        "SecretAccessKey": "s",
        "Token": "t",
        "Expiration": later.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def nothing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No credentials anywhere; if there is a store, it has a value from before."""
    if "s3" in request.fixturenames:
        request.getfixturevalue("s3").write("written", b"v")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.delenv(name)
    return monkeypatch


def test_environment() -> None:
    """Keys in the environment are found by ``default`` and ``environment``."""
    for kind in ("default", "environment"):
        provider = find_provider(kind, {})
        assert provider is not None and provider()["access_key_id"] == "CWTESTKEY"
    assert find_provider("anonymous", {}) is None


def test_profile(nothing: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keys in the files of AWS's tools are found by the profile's name, or that of the environment."""
    (tmp_path / "c").write_text("[science]\naws_access_key_id = PROFILEKEY\naws_secret_access_key = s\n")
    (tmp_path / "f").write_text("[profile science]\nregion = eu-west-2\n[default]\nregion = x\n")
    options = {
        "profile": "science",
        "credentials_file": str(tmp_path / "c"),
        "config_file": str(tmp_path / "f"),
    }
    provider = find_provider("profile", options)
    assert provider is not None and provider()["access_key_id"] == "PROFILEKEY"
    nothing.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "c"))
    nothing.setenv("AWS_PROFILE", "science")
    provider = find_provider("default", {})
    assert provider is not None and provider()["access_key_id"] == "PROFILEKEY"
    with pytest.raises(errors.CredentialsError, match="profile 'art' has no keys"):
        find_provider("profile", {**options, "profile": "art"})


def test_machine(nothing: pytest.MonkeyPatch, metadata: str) -> None:
    """Keys of a container and of an instance are asked for, and come with the time at which they expire."""
    nothing.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret")
    nothing.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata)
    nothing.setenv("AWS_EC2_METADATA_DISABLED", "false")
    for kind, options in (("ecs", {"endpoint": metadata}), ("imds", {}), ("default", {})):
        provider = find_provider(kind, options)
        assert provider is not None
        keys = provider()
        assert keys["access_key_id"] == "FROMTHEMACHINE" and keys["token"] == "t"
        assert keys["expires_at"] > datetime.now(UTC)


def test_nothing_is_explained(s3: ObjectStore, nothing: pytest.MonkeyPatch, s3_bucket: S3Bucket) -> None:
    """Without credentials requests are anonymous, and the error says that, and where they are looked for."""
    assert find_provider("default", {}) is None
    store = ObjectStore(S3Bucket("b", credentials="environment"), QUICK)
    told = r"Failed to read s3://b/k: .*AWS_ACCESS_KEY_ID and .* are not set; .* another type"
    with pytest.raises(errors.CredentialsError, match=told):
        store.read("k")
    with pytest.raises(errors.PermissionDeniedError, match="no AWS credentials were found"):
        ObjectStore(replace(s3_bucket, requester_pays=True), QUICK).read("written")


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
def test_an_endpoint_comes_before_those_of_the_environment(
    name: str, s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a request is made with: nothing goes to, or comes from, a server that was not meant."""
    nowhere = "http://127.0.0.1:1"
    monkeypatch.setenv(name, nowhere)
    store = ObjectStore(s3_bucket, QUICK)
    assert store.write("k", b"1", if_equal=MISSING_GENERATION)
    assert store.read("k").value == b"1" and list(store.list()) == ["k"]
    monkeypatch.setenv(name, s3_bucket.endpoint)
    with pytest.raises(errors.UnavailableError, match=nowhere):
        ObjectStore(replace(s3_bucket, endpoint=nowhere), QUICK).read("k")
    assert ObjectStore(replace(s3_bucket, endpoint=""), QUICK).read("k").value == b"1"


def test_an_endpoint_of_azure_comes_before_the_emulator(
    azure: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    azure.write("k", b"1")
    assert azure.read("k").value == b"1"


def test_credentials_that_come_later(
    nothing: pytest.MonkeyPatch, s3: ObjectStore, s3_bucket: S3Bucket
) -> None:
    """After a refusal credentials are looked for again: who sets them need not start anew."""
    store = ObjectStore(replace(s3_bucket, requester_pays=True), QUICK)
    with pytest.raises(errors.PermissionDeniedError):
        store.read("written")
    nothing.setenv("AWS_ACCESS_KEY_ID", "a")
    nothing.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert store.read("written").value == b"v"
    assert s3.read("written").value == b"v"


def test_explicit_provider(nothing: pytest.MonkeyPatch, s3_bucket: S3Bucket) -> None:
    """A function that gives keys is used in place of everything else."""
    calls = []

    def keys() -> dict[str, Any]:
        calls.append(1)
        return {"access_key_id": "a", "secret_access_key": "b", "token": None, "expires_at": None}

    bucket = S3Bucket(s3_bucket.bucket, endpoint=s3_bucket.endpoint, provider=keys)
    ObjectStore(bucket, QUICK).write("k", b"v")
    assert calls


def test_azure_connection_string(nothing: pytest.MonkeyPatch, azure_container: AzureContainer) -> None:
    """Account, key and endpoint may come from a connection string; without it the error says what to set."""
    with pytest.raises(errors.ChunkwiseError, match="set AZURE_STORAGE_CONNECTION_STRING"):
        ObjectStore(azure_container, QUICK).write("k", b"")
    with pytest.raises(errors.CredentialsError, match="none of AZURE_STORAGE_CONNECTION_STRING"):
        ObjectStore(AzureContainer("abc", "acct", credentials="environment"), QUICK).read("k")
    key = "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
    nothing.setenv(
        "AZURE_STORAGE_CONNECTION_STRING",
        f"AccountName=acct;AccountKey={key};BlobEndpoint={azure_container.endpoint};",
    )
    ObjectStore(AzureContainer(azure_container.container), QUICK).write("k", b"v")
    kv = ts.KvStore.open(f"az://{azure_container.container}/").result()
    assert kv["k"] == b"v"


def test_azure_without_account(nothing: pytest.MonkeyPatch) -> None:
    """A container alone is not enough."""
    with pytest.raises(ValueError, match='give "account_name" or set AZURE_STORAGE_ACCOUNT_NAME'):
        ts.KvStore.open("az://abc/").result()["k"]


def test_without_obstore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the error says how to install it; opening an array elsewhere needs nothing."""
    object_library._library.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    try:
        with pytest.raises(errors.UnsupportedError, match=r'pip install "chunkwise\[cloud\]"'):
            ObjectStore(S3Bucket("bucket"), QUICK).read("k")
    finally:
        object_library._library.cache_clear()


@pytest.mark.parametrize("name", ["s3", "azure"])
def test_large_values_are_sent_in_parts(request: pytest.FixtureRequest, name: str) -> None:
    """A value of 40 MB is stored whole, and read by parts."""
    store = request.getfixturevalue(name)
    value = bytes(range(256)) * 160_000
    generation = store.write("k", value)
    found = store.read("k")
    assert found.value == value and found.generation == generation
    if name == "s3":
        assert generation.endswith(b'-5"')
    assert store.open_reader()("k", 20_000_000, 20_000_256) == value[20_000_000:20_000_256]


def test_pages_of_a_listing(s3: ObjectStore) -> None:
    """1,200 keys come in two pages, and are deleted in two requests."""
    from concurrent.futures import ThreadPoolExecutor

    keys = [f"d/{i:04d}" for i in range(1200)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: s3.write(key, b""), keys))
    assert sorted(s3.list("d/", "d0")) == keys
    assert s3.list_children("").prefixes == ["d"]
    s3.delete_range("d/", "d/1100")
    assert sorted(s3.list()) == keys[1100:]


def test_pace() -> None:
    """A rate limit spreads requests over time."""
    import time

    from chunkwise.kvstore.request_limits import Pace

    pace = Pace(100.0)
    begin = time.monotonic()
    for _ in range(11):
        pace.wait()
    assert time.monotonic() - begin >= 0.1
