"""Servers on loopback for tests and benchmarks: S3 and Azure, and places on them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from child_process import Children
from npm_packages import tail

HERE = Path(__file__).parent
ACCOUNT, ACCOUNT_KEY = "acct", base64.b64encode(b"k" * 32).decode()

_numbers = count()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


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


def new_s3_bucket(endpoint: str) -> str:
    name = f"bucket-{os.getpid()}-{next(_numbers)}"
    request = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()
    return name


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
