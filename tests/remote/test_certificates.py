"""Certificates that an authority of one's own has signed, dead proxies, and buckets in other regions."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from chunkwise import KvStore, errors
from chunkwise.core.kvstore.web.request import _proxy

SERVER = """
import http.server, ssl, sys, threading, time
from chunkwise import KvStore, errors

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(302 if self.path.endswith("/away") else 200)
        self.send_header("Location", "http://localhost:1/")
        self.send_header("ETag", '"e"')
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        self.send_header("Content-Length", "1")
        self.end_headers()
        self.wfile.write(b"v")
    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"https://localhost:{server.server_port}"
for spec in ({"driver": "http", "base_url": url}, {"driver": "s3", "bucket": "bucket", "endpoint": url}):
    begin = time.monotonic()
    for key in ("k", "away") if spec["driver"] == "http" else ("k",):
        try:
            print(spec["driver"], KvStore.open(spec).result().read(key).result().value)
        except errors.StorageError as e:
            print(spec["driver"], type(e).__name__, str(e).replace("\\n", " "))
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority's certificate, `ca.pem`, and a server's with its key, `server.pem`."""
    path = tmp_path_factory.mktemp("certificates")
    authority = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)

    def signed(name: str, public: Any, *extensions: tuple[Any, bool]) -> bytes:
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "an authority")])
        day = timedelta(1)
        builder = x509.CertificateBuilder(issuer, subject, public, len(name), now - day, now + day)
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    is_authority = x509.BasicConstraints(ca=True, path_length=None)
    own = signed("an authority", authority.public_key(), (is_authority, True))
    theirs = signed(
        "localhost",
        key.public_key(),
        (x509.SubjectAlternativeName([x509.DNSName("localhost")]), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
    )
    (path / "ca.pem").write_bytes(own)
    # As ``openssl req -x509 -newkey`` makes it: the server's certificate is an authority's, its own.
    names = (x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
    alone = signed("an authority", authority.public_key(), (is_authority, True), names)
    (path / "alone.pem").write_bytes(alone)
    (path / "alone-server.pem").write_bytes(
        authority.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + alone
    )
    (path / "server.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + theirs
    )
    return path


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "AWS_CA_BUNDLE"])
def test_a_self_signed_certificate_is_its_own_authority(certificates: Path, variable: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    environment[variable] = str(certificates / "alone.pem")
    command = [sys.executable, "-c", SERVER, str(certificates / "alone-server.pem")]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True)
    value, _, s3 = told.stdout.splitlines()
    assert (value, s3) == ("http b'v'", "s3 b'v'")


_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@pytest.mark.parametrize("variable", ["", "SSL_CERT_FILE", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "beside"])
def test_authorities_of_the_environment(certificates: Path, tmp_path: Path, variable: str) -> None:
    """Each variable is heeded by web servers and S3; else the error says what is wrong, without retries."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and name not in _VARIABLES
    }
    if variable == "beside":  # a file that doesn't have it
        (tmp_path / "none.pem").write_text("")
        environment["SSL_CERT_FILE"] = str(tmp_path / "none.pem")
        variable = "AWS_CA_BUNDLE"
    if variable:
        environment[variable] = str(certificates / "ca.pem")
    command = [sys.executable, "-c", SERVER, str(certificates / "server.pem")]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True)
    value, away, s3 = told.stdout.splitlines()
    if variable:
        assert (value, s3) == ("http b'v'", "s3 b'v'")
        assert away.endswith("redirected to http://localhost:1/, expected the scheme https")
    else:
        for text in (value, away, s3):
            assert "StorageError" in text and "certificate is not trusted" in text and "SSL_CERT_FILE" in text
            assert "attempts" not in text


def test_a_file_of_certificates_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    for spec in ({"driver": "http", "base_url": "https://localhost:1"}, {"driver": "s3", "bucket": "bucket"}):
        with pytest.raises(errors.StorageError, match=r"REQUESTS_CA_BUNDLE names '.*none.pem'"):
            KvStore.open(spec).result().read("k").result()


@pytest.mark.parametrize("driver", ["http", "s3"])
def test_a_dead_proxy_is_told_from_a_dead_server(monkeypatch: pytest.MonkeyPatch, driver: str) -> None:
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    few = {"max_retries": 0}
    spec: dict[str, Any] = {"driver": driver, "context": {f"{driver}_request_retries": few}}
    spec |= {"base_url": "http://a.invalid:1"} if driver == "http" else {}
    spec |= {"bucket": "bucket", "endpoint": "http://a.invalid:1"} if driver == "s3" else {}
    monkeypatch.delenv("http_proxy", raising=False)
    with pytest.raises(errors.UnavailableError) as direct:
        KvStore.open(spec).result().read("k").result()
    assert "proxy" not in str(direct.value)
    _proxy.cache_clear()
    monkeypatch.setenv("http_proxy", "http://user:secret@127.0.0.1:9")
    if driver == "s3":  # a new one, that isn't connected yet
        spec["bucket"] = "other-bucket"
    with pytest.raises(errors.UnavailableError) as through:
        KvStore.open(spec).result().read("k").result()
    assert "proxy" in str(through.value) and "127.0.0.1:9" in str(through.value)
    assert "secret" not in str(through.value)
    _proxy.cache_clear()


class _Region(BaseHTTPRequestHandler):
    """Answers as AWS does in another region than the bucket's."""

    protocol_version = "HTTP/1.1"
    wanted: ClassVar[str] = "eu-west-3"

    def do_GET(self) -> None:
        body = b"v"
        region = self.headers.get("Authorization", "").partition("Credential=")[2].split("/")[2:3]
        if region == [self.wanted]:
            self.send_response(200)
            self.send_header("ETag", '"e"')
            self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        else:
            body = b"<Error><Code>PermanentRedirect</Code><Message>m</Message></Error>"
            self.send_response(301)
            self.send_header("x-amz-bucket-region", self.wanted)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def _served(handler: Any) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
    thread.join()


def test_the_region_is_found_in_a_header() -> None:
    """A redirect names neither region nor place: the header of an answer to anybody does."""
    with _served(_Region) as url:
        spec = {"driver": "s3", "bucket": "bucket", "endpoint": url}
        assert KvStore.open(spec).result().read("k").result().value == b"v"
        wrong = {**spec, "aws_region": "us-west-1"}
        with pytest.raises(errors.WrongEndpointError, match='the bucket is in "eu-west-3"'):
            KvStore.open(wrong).result().read("k").result()


CONFIG = """
[profile lab]
services = of-lab
aws_access_key_id = key
aws_secret_access_key = secret
[services of-lab]
s3 =
  endpoint_url = URL
[profile plain]
endpoint_url = URL
"""


@pytest.mark.parametrize("profile", ["lab", "plain"])
def test_endpoints_of_profiles(
    profile: str, tmp_path: Path, moto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read as the AWS CLI reads them; a profile that doesn't exist is named."""
    from servers import new_s3_bucket

    (tmp_path / "config").write_text(CONFIG.replace("URL", moto))
    bucket = new_s3_bucket(moto)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", profile)
    kv = KvStore.open({"driver": "s3", "bucket": bucket}).result()
    kv.write("k", b"v").result()
    assert kv.read("k").result().value == b"v"
    named = {"type": "profile", "profile": "none-such"}
    with pytest.raises(errors.CredentialsError, match=r'no AWS profile "none-such".*named by the spec'):
        KvStore.open({"driver": "s3", "bucket": bucket, "aws_credentials": named}).result().read("k").result()
