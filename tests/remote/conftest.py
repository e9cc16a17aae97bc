"""Real servers on loopback, started by the tests that need them; what can't be started fails those tests."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from npm_packages import cache_directory, installed
from servers import (
    ACCOUNT,
    ACCOUNT_KEY,
    HERE,
    free_port,
    new_azure_container,
    new_s3_bucket,
    server,
)

from chunkwise.core.kvstore.objects.azure import AzureContainer
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots

QUICK = Limits(Slots(), Retries(3, 0.05, 0.2))


@pytest.fixture(scope="session", autouse=True)
def credentials() -> Iterator[None]:
    """Credentials of the servers, in the environment; nothing of the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
                patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "CWTESTKEY")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "cwtestsecret")
        patch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
        yield


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of an S3 server."""
    port = free_port()
    command = [sys.executable, str(Path(__file__).parent / "moto_server.py"), str(port)]
    with server(command, port, tmp_path_factory.mktemp("moto") / "log"):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def s3_bucket(moto: str) -> S3Bucket:
    """A new, empty bucket."""
    return S3Bucket(new_s3_bucket(moto), endpoint=moto)


@pytest.fixture
def s3(s3_bucket: S3Bucket) -> ObjectStore:
    """A store of a new, empty bucket."""
    return ObjectStore(s3_bucket, QUICK)


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of an account on an Azure server."""
    port = free_port()
    script = installed(HERE / "azurite") / "node_modules/azurite/dist/src/blob/main.js"
    command = ["node", str(script), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
    work = tmp_path_factory.mktemp("azurite")
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    with server(command, port, work / "log", cwd=work, env=environment):
        yield f"http://127.0.0.1:{port}/{ACCOUNT}"


@pytest.fixture
def azure_container(azurite: str) -> AzureContainer:
    """A new, empty container."""
    return AzureContainer(new_azure_container(azurite), account=ACCOUNT, endpoint=azurite)


@pytest.fixture
def azure(azure_container: AzureContainer) -> ObjectStore:
    """A store of a new, empty container."""
    return ObjectStore(azure_container, QUICK)


@pytest.fixture
def run_server(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start a script of this directory with a port and other arguments, and return its URL."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def start(script: str, *arguments: str) -> str:
            port = free_port()
            command = [sys.executable, str(HERE / script), str(port), *arguments]
            stack.enter_context(server(command, port, tmp_path / f"{script}-{port}.log"))
            return f"http://127.0.0.1:{port}"

        yield start


class Proxy:
    """Proxy between a test and a server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def set(self, *faults: dict[str, Any], delay: float = 0.0, **settings: Any) -> None:
        """Let requests take longer, or go wrong; forget the log."""
        body = json.dumps({"delay": delay, "faults": faults, **settings}).encode()
        request = urllib.request.Request(f"{self.url}/proxy", data=body, method="PUT")
        urllib.request.urlopen(request, timeout=30).close()

    def log(self) -> list[str]:
        """Return the requests since, ``GET /path`` each."""
        with urllib.request.urlopen(f"{self.url}/proxy", timeout=30) as answer:
            found: list[str] = json.load(answer)
            return found

    def flight(self) -> list[int]:
        """Return, for each request that was delayed, how many were being delayed when it came."""
        with urllib.request.urlopen(f"{self.url}/proxy/flight", timeout=30) as answer:
            found: list[int] = json.load(answer)
            return found

    def rounds(self) -> int:
        """Return the length of the longest chain of requests, each begun after the one before had ended."""
        with urllib.request.urlopen(f"{self.url}/proxy/times", timeout=30) as answer:
            times: list[tuple[float, float]] = json.load(answer)
        n, last = 0, 0.0
        for begin, end in sorted(times, key=lambda pair: pair[1]):
            if begin >= last:
                n, last = n + 1, end
        return n

    def sizes(self) -> list[int]:
        """Return the bytes of the bodies of the answers since."""
        with urllib.request.urlopen(f"{self.url}/proxy/sizes", timeout=30) as answer:
            found: list[int] = json.load(answer)
            return found


@pytest.fixture
def proxy(run_server: Callable[..., str]) -> Callable[[str], Proxy]:
    """Start a proxy in front of a URL."""
    return lambda url: Proxy(run_server("proxy.py", url))


@pytest.fixture(scope="session")
def proxy_of_moto(moto: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    port = free_port()
    command = [sys.executable, str(HERE / "proxy.py"), str(port), moto]
    with server(command, port, tmp_path_factory.mktemp("proxy") / "log"):
        yield Proxy(f"http://127.0.0.1:{port}")


@pytest.fixture
def between(proxy_of_moto: Proxy) -> Proxy:
    """A proxy in front of the S3 server, which lets all requests pass until it is told otherwise."""
    proxy_of_moto.set()
    return proxy_of_moto


@pytest.fixture(scope="session")
def rgw_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of Ceph's S3 gateway."""
    port = free_port()
    cache = cache_directory("ceph")
    work = tmp_path_factory.mktemp("rgw")
    command = [sys.executable, str(HERE / "start_rgw.py"), str(port), str(cache), str(work)]
    with server(command, port, work / "output", patience=280):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def rgw(rgw_server: str) -> ObjectStore:
    """A store of a new, empty bucket of Ceph."""
    import boto3  # comes with moto

    name = f"bucket-{uuid.uuid4().hex}"
    client = boto3.client("s3", endpoint_url=rgw_server, region_name="us-east-1")
    client.create_bucket(Bucket=name)
    return ObjectStore(S3Bucket(name, endpoint=rgw_server), QUICK)
