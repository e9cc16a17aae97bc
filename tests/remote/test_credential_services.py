"""Services that give credentials: what they answer, where they redirect to, and keys that rotate.

Each source is asked by a fake service; a bucket beside it takes only the newest credentials.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote_plus, urlsplit

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_web_servers import Web, answer, web

import chunkwise as ts
from chunkwise import errors
from chunkwise.core.kvstore.objects import azure, gcs
from chunkwise.core.kvstore.objects.azure import AzureContainer
from chunkwise.core.kvstore.objects.connection import learned
from chunkwise.core.kvstore.objects.gcs import GcsBucket
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots

QUICK = Limits(Slots(), Retries(1, 0.001, 0.001))
PROOF = "pr00f"  # what the service is shown
SECRET = "s3cr3t"  # what it gives, with a number


def _later() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _sts(n: int) -> bytes:
    keys = {
        "AccessKeyId": f"{SECRET}{n}",
        "SecretAccessKey": SECRET,
        "SessionToken": SECRET,
        "Expiration": _later(),
    }
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in keys.items())
    space = "https://sts.amazonaws.com/doc/2011-06-15/"
    return f'<R xmlns="{space}"><Result><Credentials>{inner}</Credentials></Result></R>'.encode()


def _token(n: int) -> bytes:
    return json.dumps({"access_token": f"{SECRET}{n}", "expires_in": 3600, "token_type": "Bearer"}).encode()


def _until(n: int) -> bytes:
    at = str(int(datetime.now(UTC).timestamp()) + 3600)
    return json.dumps({"access_token": f"{SECRET}{n}", "expires_on": at}).encode()


def _acting(n: int) -> bytes:
    """Return an answer that serves as the three of an exchange."""
    found = {"accessToken": f"{SECRET}{n}", "expireTime": _later()}
    return json.dumps({**found, **json.loads(_token(n))}).encode()


def _role(n: int) -> bytes:
    keys = {"AccessKeyId": f"{SECRET}{n}", "SecretAccessKey": SECRET, "Token": SECRET, "Expiration": _later()}
    return json.dumps(keys).encode()


class Source(NamedTuple):
    """A way to get credentials: what the service answers, and a bucket that uses it."""

    answer: Callable[[int], bytes]
    bucket: Callable[[str, str, Path, pytest.MonkeyPatch], Any]  # of the URLs of service and storage
    shown: str = PROOF  # a proof in the request
    n_requests: int = 1  # for one credential


def _proof(folder: Path) -> str:
    (folder / "proof").write_text(PROOF)
    return str(folder / "proof")


def _web_identity(service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", _proof(folder))
    patch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    patch.setenv("AWS_ENDPOINT_URL_STS", service)
    return S3Bucket("bucket", "us-east-1", storage)


def _container(service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service}/keys")
    patch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", _proof(folder))
    return S3Bucket("bucket", "us-east-1", storage)


def _google(service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr(gcs, "_GOOGLE", storage)
    patch.setenv("HOME", str(folder))
    return GcsBucket("bucket")


def _google_machine(service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setenv("GCE_METADATA_HOST", service.partition("//")[2])
    return _google(service, storage, folder, patch)


def _google_login(service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    found = {"type": "authorized_user", "client_id": "c", "client_secret": "x", "refresh_token": PROOF}
    (folder / "login.json").write_text(json.dumps(found))
    patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(folder / "login.json"))
    patch.setattr(gcs, "_SERVICE", service)
    return _google(service, storage, folder, patch)


def _other_provider(service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    (folder / "proof.json").write_text(json.dumps({"id": PROOF}))
    form = {"type": "json", "subject_token_field_name": "id"}
    return _external(service, storage, folder, patch, {"file": str(folder / "proof.json"), "format": form})


def _acting_provider(service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    return _external(
        service,
        storage,
        folder,
        patch,
        {"url": f"{service}/proof", "headers": {"X-Proof": PROOF}},
        service_account_impersonation_url=f"{service}/v1/projects/-/serviceAccounts/a:generateAccessToken",
    )


def _external(
    service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch, source: Any, **more: str
) -> Any:
    found = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/pool",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{service}/v1/token",
        "credential_source": source,
        **more,
    }
    (folder / "external.json").write_text(json.dumps(found))
    patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(folder / "external.json"))
    return _google(service, storage, folder, patch)


def _azure(storage: str) -> AzureContainer:
    return AzureContainer("bucket", "acc", storage)


def _workload(service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setenv("AZURE_CLIENT_ID", "client")
    patch.setenv("AZURE_TENANT_ID", "tenant")
    patch.setenv("AZURE_FEDERATED_TOKEN_FILE", _proof(folder))
    patch.setenv("AZURE_AUTHORITY_HOST", service)
    return _azure(storage)


def _principal(service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setenv("AZURE_CLIENT_ID", "client")
    patch.setenv("AZURE_TENANT_ID", "tenant")
    patch.setenv("AZURE_CLIENT_SECRET", PROOF)
    patch.setenv("AZURE_AUTHORITY_HOST", service)
    return _azure(storage)


def _azure_machine(service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr(azure, "_INSTANCE", f"{service}/metadata/identity/oauth2/token")
    return AzureContainer("bucket", "acc", storage, "managed_identity")


def _azure_service(service: str, storage: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setenv("IDENTITY_ENDPOINT", f"{service}/msi/token")
    patch.setenv("IDENTITY_HEADER", PROOF)
    return AzureContainer("bucket", "acc", storage, "managed_identity")


SOURCES = {
    "AWS, web identity": Source(_sts, _web_identity),
    "AWS, container": Source(_role, _container),
    "Google, machine": Source(_token, _google_machine, "Metadata-Flavor: Google"),
    "Google, login": Source(_token, _google_login),
    "Google, other provider": Source(_token, _other_provider),
    "Google, acting for an account": Source(_acting, _acting_provider, n_requests=3),
    "Azure, workload identity": Source(_token, _workload),
    "Azure, principal": Source(_token, _principal),
    "Azure, machine": Source(_token, _azure_machine, "Metadata: true"),
    "Azure, service": Source(_until, _azure_service),
}


class Now:
    """What the servers do: the number of the newest credentials, and a fault of the service."""

    def __init__(self) -> None:
        self.newest = 0
        self.asked = 0
        self.fault: bytes | None = None


@contextmanager
def servers(source: Source, patch: pytest.MonkeyPatch, folder: Path) -> Iterator[tuple[Now, Web, Web, Any]]:
    """Run a service and a bucket; yield them with what they do, and the description of the bucket."""
    now = Now()
    values = _array()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"):
        patch.delenv(name, raising=False)
    patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
    patch.setenv("AWS_CONFIG_FILE", str(folder / "none"))

    def service(target: str, head: str) -> Iterator[bytes]:
        now.asked += 1
        yield answer(source.answer(now.newest)) if now.fault is None else now.fault

    def bucket(target: str, head: str) -> Iterator[bytes]:
        if f"{SECRET}{now.newest}" not in head:
            code = "ExpiredToken" if "AWS4" in head else "InvalidAuthenticationInfo"
            yield answer(
                f"<Error><Code>{code}</Code></Error>".encode(), 400 if code == "ExpiredToken" else 401
            )
            return
        key = urlsplit(target).path.partition("/bucket/")[2]
        value = values.get(key)
        yield (
            answer(b"<Error><Code>NoSuchKey</Code></Error>", 404)
            if value is None
            else answer(value, ETag='"e"', Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT")
        )

    with web(service) as asked, web(bucket) as storage:
        described = source.bucket(asked.url, storage.url, folder, patch)
        learned(described).forget_access()
        yield now, asked, storage, described


def _array() -> dict[str, bytes]:
    """Return the keys of an array of 6 chunks."""
    context = ts.Context()
    store = ts.KvStore.open("memory://a/", context=context).result()
    ts.create_array("memory://a/", np.arange(1, 7, dtype=np.uint8), chunks=1, codec="none", context=context)
    return {key.decode(): bytes(store[key]) for key in store.list().result()}


@pytest.mark.parametrize("name", SOURCES)
def test_credentials_that_rotate(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job goes on while each credential is valid for two requests only."""
    source = SOURCES[name]
    with servers(source, monkeypatch, tmp_path) as (now, asked, storage, bucket):
        store = ObjectStore(bucket, QUICK)
        for i in range(6):
            now.newest = i // 2
            assert store.read(f"c/{i}").value == bytes([i + 1])
        assert now.asked == 3 * source.n_requests
        texts = [head + unquote_plus(body) for head, body in zip(asked.requests, asked.bodies, strict=True)]
        # The first request for each credential shows it.
        assert [source.shown in text for text in texts[:: source.n_requests]] == [True] * 3
        # The proof goes to the service only, what it gives to the bucket only.
        assert not any(PROOF in head for head in storage.requests)
        acting = source.n_requests > 1  # in which the first token pays for the second
        assert acting or not any(SECRET in head for head in asked.requests)


FAULTS: dict[str, Callable[[Source, Web], bytes]] = {
    "html": lambda source, other: answer(b"<!DOCTYPE html><p>Sign in"),
    "nothing": lambda source, other: answer(b""),
    "a list": lambda source, other: answer(b"[1]"),
    "a text": lambda source, other: answer(b'"text"'),
    "no keys": lambda source, other: answer(b"{}"),
    "no texts": lambda source, other: answer(
        b'{"access_token": null, "AccessKeyId": 1, "expires_in": null, "expires_on": []}'
    ),
    "a date": lambda source, other: answer(
        json.dumps({"access_token": SECRET, "expires_on": "06/20/2026 02:57:58 +00:00"}).encode()
    ),
    "other xml": lambda source, other: answer(b"<Other/>"),
    "cut short": lambda source, other: answer(source.answer(0)[:-30]),
    "refused": lambda source, other: answer(f'{{"error": "{PROOF}"}}'.encode(), 403),
    "broken": lambda source, other: answer(b"", 500),
    "redirect": lambda source, other: answer(b"", 302, Location=f"{other.url}/there"),
    "redirect of a request": lambda source, other: answer(b"", 307, Location=f"{other.url}/there"),
    "redirect to the machine": lambda source, other: answer(b"", 308, Location="http://169.254.169.254/"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_answers_that_are_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is an error about the credentials, without a secret, and no proof goes to another server."""
    source, wrong = SOURCES[name], []
    with (
        servers(source, monkeypatch, tmp_path) as (now, _, _, bucket),
        web(lambda *_: iter([answer(source.answer(0))])) as other,
    ):
        for fault, made in FAULTS.items():
            now.fault = made(source, other)
            try:
                found = ObjectStore(bucket, QUICK).read("c/0")
            except errors.CredentialsError as e:
                text = "".join([str(e), *getattr(e, "__notes__", ())])
                if SECRET in text or PROOF in text:
                    wrong.append(f"{fault}: {text}")
            except BaseException as e:
                wrong.append(f"{fault}: raw {e!r}")
            else:
                wrong.append(f"{fault}: {found}")
            wrong += [f"{fault}: sent {head}" for head in other.requests]
            other.requests.clear()
    assert not wrong, "\n".join(wrong)
