"""Real servers on loopback, started by the tests that need them; what can't be started fails those tests."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from child_process import Children, run

from chunkwise.kvstore.azure import AzureContainer
from chunkwise.kvstore.object_store import Limits, ObjectStore
from chunkwise.kvstore.request_limits import RequestSlots, Retries
from chunkwise.kvstore.s3 import S3Bucket

HERE = Path(__file__).parent
ACCOUNT, ACCOUNT_KEY = "acct", base64.b64encode(b"k" * 32).decode()
QUICK = Limits(RequestSlots(), Retries(3, 0.05, 0.2))

_numbers = count()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def cache_directory(name: str) -> Path:
    root = os.environ.get("CHUNKWISE_TEST_CACHE") or os.path.expanduser("~/.cache/chunkwise-tests")
    path = Path(root) / name
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked(path: Path, patience: float = 280) -> Iterator[None]:
    """Hold the lock of a file, which another worker may hold for a while but not for ever."""
    with path.open("w") as file:
        end = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    pytest.fail(f"another process held {path} for {patience:g} s")
                time.sleep(0.1)
        yield


@contextmanager
def server(
    command: list[str], port: int, log: Path, *, patience: float = 60, **options: Any
) -> Iterator[None]:
    """Run a server until the end; fail with its output if it does not listen within ``patience`` seconds."""
    with log.open("wb") as out, Children() as children:
        process = children.start(command, stdout=out, stderr=subprocess.STDOUT, **options)
        end = time.monotonic() + patience
        while True:
            if process.poll() is not None:
                pytest.fail(f"{command} ended with {process.returncode}: {tail(log)}")
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > end:
                    pytest.fail(f"{command} did not listen on port {port} in {patience:g} s: {tail(log)}")
                time.sleep(0.05)
        yield


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


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
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with server(command, port, tmp_path_factory.mktemp("moto") / "log"):
        yield f"http://127.0.0.1:{port}"


def new_s3_bucket(endpoint: str) -> str:
    name = f"bucket-{os.getpid()}-{next(_numbers)}"
    request = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()
    return name


@pytest.fixture
def s3_bucket(moto: str) -> S3Bucket:
    """A new, empty bucket."""
    return S3Bucket(new_s3_bucket(moto), endpoint=moto)


@pytest.fixture
def s3(s3_bucket: S3Bucket) -> ObjectStore:
    """A store of a new, empty bucket."""
    return ObjectStore(s3_bucket, QUICK)


def install_azurite() -> str:
    """Return the script of azurite, installed by npm the first time."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.fail("azurite, the Azure server of the tests, needs node and npm on the PATH")
    wanted = [HERE / "azurite/package.json", HERE / "azurite/package-lock.json"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in wanted)).hexdigest()
    root = cache_directory(f"azurite-{digest[:12]}")
    with locked(root / "lock"):
        if not (root / "installed").exists():
            for path in wanted:
                shutil.copy(path, root)
            command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            for _ in range(3):
                if run(command, log=root / "log", cwd=root, seconds=90) == 0:
                    break
            else:
                pytest.fail(f"npm can't install azurite, three times: {tail(root / 'log')}")
            (root / "installed").touch()
    return str(root / "node_modules/azurite/dist/src/blob/main.js")


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of an account on an Azure server."""
    port = free_port()
    command = ["node", install_azurite(), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
    work = tmp_path_factory.mktemp("azurite")
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    with server(command, port, work / "log", cwd=work, env=environment):
        yield f"http://127.0.0.1:{port}/{ACCOUNT}"


def new_azure_container(endpoint: str) -> str:
    name = f"container-{os.getpid()}-{next(_numbers)}"
    date = formatdate(usegmt=True)
    headers = {"x-ms-date": date, "x-ms-version": "2023-11-03"}
    canonical = "".join(f"{k}:{v}\n" for k, v in sorted(headers.items()))
    text = "PUT" + "\n" * 12 + canonical + f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    key = base64.b64decode(ACCOUNT_KEY)
    signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    headers["Content-Length"] = "0"
    url = f"{endpoint}/{name}?restype=container"
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=30).close()
    except urllib.error.HTTPError as e:
        pytest.fail(f"azurite refuses to make a container: {e.read()!r}")
    return name


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
    """What is between a test and a server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def set(self, *faults: dict[str, Any], delay: float = 0.0, **settings: bool) -> None:
        """Let requests take longer, or go wrong; forget the log."""
        body = json.dumps({"delay": delay, "faults": faults, **settings}).encode()
        request = urllib.request.Request(f"{self.url}/proxy", data=body, method="PUT")
        urllib.request.urlopen(request, timeout=30).close()

    def log(self) -> list[str]:
        """Return the requests since, ``GET /path`` each."""
        with urllib.request.urlopen(f"{self.url}/proxy", timeout=30) as answer:
            found: list[str] = json.load(answer)
            return found


@pytest.fixture
def proxy(run_server: Callable[..., str]) -> Callable[[str], Proxy]:
    """Start a proxy in front of a URL."""
    return lambda url: Proxy(run_server("proxy.py", url))


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

    name = f"bucket-{os.getpid()}-{next(_numbers)}"
    client = boto3.client("s3", endpoint_url=rgw_server, region_name="us-east-1")
    client.create_bucket(Bucket=name)
    return ObjectStore(S3Bucket(name, endpoint=rgw_server), QUICK)
