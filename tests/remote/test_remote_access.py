"""Credentials from each place that they can be in, and none where none are."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

import chunkwise as ts
from chunkwise import errors
from chunkwise.core.kvstore.objects import obstore as object_library
from chunkwise.core.kvstore.objects.azure import AzureContainer
from chunkwise.core.kvstore.objects.bucket import Access
from chunkwise.core.kvstore.objects.connection import learned
from chunkwise.core.kvstore.objects.failure import Failure
from chunkwise.core.kvstore.objects.gcs import GcsBucket
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.protocol import MISSING_GENERATION
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots

QUICK = Limits(Slots(), Retries(1, 0.02, 0.1))


class Service(BaseHTTPRequestHandler):
    """Metadata service of a container and of an instance, and a bucket: `seen` says who read its objects."""

    keys: ClassVar[dict[str, Any]] = {}
    status: ClassVar[int] = 200
    expired: ClassVar[str] = "none"
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        if self.path.startswith("/bucket/"):
            told = self.headers.get("Authorization", "")
            self.seen.append(told.partition("Credential=")[2].partition("/")[0])
            if self.seen[-1] == self.expired:
                self.answer(400, "<Error><Code>ExpiredToken</Code></Error>")
                return
            self.answer(200, "v", {"ETag": '"e"', "Last-Modified": "Mon, 05 Jan 2026 10:00:00 GMT"})
            return
        token = self.headers.get("X-aws-ec2-metadata-token") or self.headers.get("Authorization")
        if token != ("t" if self.path.startswith("/latest/") else "secret"):
            self.answer(401, "")
        elif self.path.endswith("/security-credentials/"):
            self.answer(200, "role")
        else:
            self.answer(self.status, json.dumps(self.keys))

    def do_PUT(self) -> None:
        self.answer(200, "t")

    def answer(self, status: int, body: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    """URL of the services."""
    later = datetime.now(UTC) + timedelta(hours=1)
    Service.keys = {
        "AccessKeyId": "FROMTHEMACHINE",
        "SecretAccessKey": "s",
        "Token": "t",
        "Expiration": later.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    Service.status = 200
    Service.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def asker(service: str, type: str, **options: str) -> str:
    """Return the access key that a read is signed with; empty if it isn't."""
    store = ObjectStore(S3Bucket("bucket", "", service, False, type, tuple(options.items())), QUICK)
    learned(store.bucket).forget_access()
    assert store.read("k").value == b"v"
    return Service.seen[-1]


@pytest.fixture
def nothing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No credentials anywhere; if there is a store, it has a value from before."""
    if "s3" in request.fixturenames:
        request.getfixturevalue("s3").write("written", b"v")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.delenv(name)
    return monkeypatch


def test_environment(service: str) -> None:
    """Keys in the environment are used by ``default`` and ``environment``, and by ``anonymous`` never."""
    assert [asker(service, t) for t in ("default", "environment")] == ["CWTESTKEY"] * 2
    assert asker(service, "anonymous") == ""


def test_profile(nothing: pytest.MonkeyPatch, service: str, tmp_path: Path) -> None:
    """Keys in the files of AWS's tools are found by the profile's name, or that of the environment."""
    (tmp_path / "c").write_text(
        "[science]\naws_access_key_id = PROFILEKEY\naws_secret_access_key = s\n"
        "[default]\naws_access_key_id = DEFAULTKEY\naws_secret_access_key = s\n"
    )
    (tmp_path / "f").write_text("[profile science]\nregion = eu-west-2\n[profile art]\nregion = x\n")
    files = {"credentials_file": str(tmp_path / "c"), "config_file": str(tmp_path / "f")}
    assert asker(service, "profile", profile="science", **files) == "PROFILEKEY"
    assert asker(service, "profile", **files) == "DEFAULTKEY"
    with pytest.raises(errors.CredentialsError, match="profile 'art' has no keys"):
        asker(service, "profile", profile="art", **files)
    with pytest.raises(errors.CredentialsError, match=f'no AWS profile "other" in {tmp_path}/f and'):
        asker(service, "profile", profile="other", **files)
    assert asker(service, "default") == ""
    nothing.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "c"))
    assert asker(service, "default") == "DEFAULTKEY"
    assert asker(service, "default", profile="science") == "PROFILEKEY"
    nothing.setenv("AWS_PROFILE", "science")
    assert asker(service, "default") == "PROFILEKEY"
    nothing.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENTKEY")
    nothing.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert asker(service, "default") == "ENVIRONMENTKEY"
    assert asker(service, "profile") == "PROFILEKEY"


def test_a_profile_says_where_its_keys_come_from(
    nothing: pytest.MonkeyPatch, service: str, tmp_path: Path
) -> None:
    """A process, and what is the matter with it; the region is the profile's."""
    keys = {"Version": 1, "AccessKeyId": "PROCESSKEY", "SecretAccessKey": "s"}
    (tmp_path / "keys").write_text(json.dumps(keys))
    (tmp_path / "f").write_text(
        f"[profile a]\ncredential_process = cat {tmp_path}/keys\nregion = eu-west-2\n"
        "[profile b]\ncredential_process = false\n"
    )
    options = {"config_file": str(tmp_path / "f")}
    assert asker(service, "profile", profile="a", **options) == "PROCESSKEY"
    bucket = S3Bucket("b", credentials="profile", options=(("profile", "a"), *options.items()))
    assert (
        bucket.connect(object_library.object_library(), Access(True), Retries()).config["region"]
        == "eu-west-2"
    )
    with pytest.raises(errors.CredentialsError, match='profile "b"'):
        asker(service, "profile", profile="b", **options)


def test_profiles_need_boto3(nothing: pytest.MonkeyPatch, service: str, tmp_path: Path) -> None:
    """Without it a profile that is named is an error; files that nobody named are mentioned by one."""
    (tmp_path / "c").write_text("[default]\naws_access_key_id = KEY\naws_secret_access_key = s\n")
    nothing.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "c"))
    nothing.setitem(sys.modules, "boto3", None)
    nothing.delitem(sys.modules, "obstore.auth.boto3", raising=False)
    for type, options in (("profile", {}), ("default", {"profile": "science"})):
        with pytest.raises(errors.UnsupportedError, match=r'profile.*boto3: pip install "chunkwise\[aws\]"'):
            asker(service, type, **options)
    assert asker(service, "default") == ""
    denied = S3Bucket("b", credentials="default").advice(Failure("denied", ""))
    assert 'profile in AWS\'s files needs boto3: pip install "chunkwise[aws]"' in denied


def test_machine(nothing: pytest.MonkeyPatch, service: str, tmp_path: Path) -> None:
    """Keys of a container and of an instance are asked for."""
    (tmp_path / "token").write_text("secret")
    token = {"auth_token_file": str(tmp_path / "token")}
    assert asker(service, "ecs", endpoint=f"{service}/keys", **token) == "FROMTHEMACHINE"
    nothing.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service)
    assert asker(service, "imds") == "FROMTHEMACHINE"
    assert asker(service, "default") == ""  # nobody refuses
    nothing.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service}/keys")
    nothing.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token["auth_token_file"])
    assert asker(service, "ecs") == asker(service, "default") == "FROMTHEMACHINE"


@pytest.mark.parametrize("status", [404, 403, 412, 500])
@pytest.mark.parametrize("type", ["ecs", "imds"])
def test_what_a_credential_service_answers_is_not_the_buckets(
    nothing: pytest.MonkeyPatch, service: str, tmp_path: Path, type: str, status: int
) -> None:
    """No key is missing because there are no credentials."""
    nothing.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service)
    (tmp_path / "token").write_text("secret")
    options = {"endpoint": f"{service}/keys", "auth_token_file": str(tmp_path / "token")}
    Service.status = status
    with pytest.raises(errors.CredentialsError, match=rf"No credentials: .*{service}/"):
        asker(service, type, **(options if type == "ecs" else {}))
    assert not Service.seen


SET: list[tuple[str, dict[str, str], dict[str, str], str]] = [
    ("imds", {}, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, "would use AWS_ACCESS_KEY_ID and"),
    ("ecs", {}, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, "would use AWS_ACCESS_KEY_ID and"),
    ("ecs", {}, {"AWS_WEB_IDENTITY_TOKEN_FILE": "f", "AWS_ROLE_ARN": "r"}, "would use AWS_WEB_IDENTITY_TOK"),
    ("imds", {}, {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/a"}, "would use AWS_CONTAINER_CREDENTIALS_R"),
    ("imds", {}, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://a"}, "would use AWS_CONTAINER_CREDENTIALS_F"),
    (
        "ecs",
        {"endpoint": "http://a"},
        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/a"},
        "in place of the endp",
    ),
    (
        "ecs",
        {"endpoint": "http://a"},
        {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "t"},
        "AUTHORIZATION_TOKEN is not",
    ),
    ("ecs", {"endpoint": "http://a", "auth_token_file": "/nonexistent"}, {}, "/nonexistent"),
    ("ecs", {"endpoint": "http://a", "auth_token_file": __file__}, {}, "line break"),
    ("ecs", {}, {}, "no endpoint is set"),
    (
        "environment",
        {},
        {"AWS_ACCESS_KEY_ID": "a"},
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set",
    ),
]


@pytest.mark.parametrize(("type", "options", "environment", "told"), SET)
def test_a_source_that_obstore_would_not_ask_is_refused(
    nothing: pytest.MonkeyPatch,
    service: str,
    type: str,
    options: dict[str, str],
    environment: dict[str, str],
    told: str,
) -> None:
    """By the name of the type, and with what is in the way."""
    for name, value in environment.items():
        nothing.setenv(name, value)
    with pytest.raises(errors.CredentialsError, match=f'No AWS credentials of type "{type}": .*{told}'):
        asker(service, type, **options)
    assert not Service.seen


def test_nothing_is_explained(s3: ObjectStore, nothing: pytest.MonkeyPatch, s3_bucket: S3Bucket) -> None:
    """Without credentials requests are anonymous, and the error says that, and where they are looked for."""
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


@pytest.fixture
def service_account(nothing: pytest.MonkeyPatch) -> Any:
    """The key of a service account, in the environment."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.PKCS8
    text = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
    told = {
        "type": "service_account",
        "client_email": "me@science",
        "private_key": text,
        "private_key_id": "1",
    }
    nothing.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(told))
    return key


def test_service_account(service_account: Any) -> None:
    """Its token says who asks, for an hour, and the key signs it."""
    import base64

    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

    from chunkwise.core.kvstore.objects.gcs import google_token

    token = google_token(False).keys
    header, claims, signature = (base64.urlsafe_b64decode(part + "==") for part in token.split("."))
    text = token.rpartition(".")[0].encode()
    service_account.public_key().verify(signature, text, PKCS1v15(), hashes.SHA256())
    assert json.loads(header) == {"alg": "RS256", "typ": "JWT", "kid": "1"}
    told = json.loads(claims)
    assert told["iss"] == told["sub"] == "me@science" and told["exp"] - told["iat"] == 3600


def test_service_account_without_its_package(service_account: Any, nothing: pytest.MonkeyPatch) -> None:
    """The error says how to install it."""
    nothing.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(errors.UnsupportedError, match=r'pip install "chunkwise\[cloud\]"'):
        ObjectStore(GcsBucket("bucket"), QUICK).read("k")


def test_keys_that_rotate(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is refused since its keys have expired is repeated with those that are there now."""
    monkeypatch.setattr(Service, "expired", "CWTESTKEY", raising=False)
    calls = []

    def keys() -> dict[str, Any]:
        calls.append(1)
        name = "CWTESTKEY" if len(calls) == 1 else "NEWKEY"
        return {"access_key_id": name, "secret_access_key": "b", "token": "t", "expires_at": None}

    store = ObjectStore(S3Bucket("bucket", "us-east-1", service, provider=keys), QUICK)
    assert store.read("k").value == b"v" and Service.seen == ["CWTESTKEY", "NEWKEY"]
    assert store.read("k").value == b"v" and len(calls) == 2


@pytest.mark.parametrize("source", ["environment", "profile"])
def test_keys_of_this_machine_that_rotate(
    source: str, nothing: pytest.MonkeyPatch, service: str, tmp_path: Path
) -> None:
    """Keys of the environment, and of a process, that expire in the middle of a job."""
    nothing.setattr(Service, "expired", "none")
    file = tmp_path / "keys"
    (tmp_path / "f").write_text(f"[profile a]\ncredential_process = cat {file}\n")
    options = {"profile": "a", "config_file": str(tmp_path / "f")} if source == "profile" else {}

    def rotate(name: str) -> None:
        nothing.setenv("AWS_ACCESS_KEY_ID", name)
        nothing.setenv("AWS_SECRET_ACCESS_KEY", "s")
        if source == "profile":
            nothing.delenv("AWS_ACCESS_KEY_ID")
        file.write_text(json.dumps({"Version": 1, "AccessKeyId": name, "SecretAccessKey": "s"}))

    rotate("OLDKEY")
    store = ObjectStore(S3Bucket("bucket", "", service, False, source, tuple(options.items())), QUICK)
    learned(store.bucket).forget_access()
    assert store.read("k").value == b"v"
    rotate("NEWKEY")
    nothing.setattr(Service, "expired", "OLDKEY")
    assert store.read("k").value == b"v" and store.read("k").value == b"v"
    assert Service.seen[0] == "OLDKEY" and Service.seen[-2:] == ["NEWKEY"] * 2


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

    from chunkwise.core.kvstore.request_limits import Pace

    pace = Pace(100.0)
    begin = time.monotonic()
    for _ in range(11):
        pace.wait()
    assert time.monotonic() - begin >= 0.1
