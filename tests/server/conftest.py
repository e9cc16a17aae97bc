"""Imports of the helpers beside the tests, and requests through a real socket."""

from __future__ import annotations

import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from driven_page import FLAGS

VIEWPORT = {"width": 1200, "height": 800}
MILLISECONDS = 30_000  # that the browser waits for anything, unless a test says otherwise


class Got(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes


Ask = Callable[..., Got]


@pytest.fixture
def ask() -> Ask:
    """Send a request as it is written, without a client's corrections of the path."""

    def ask(url: str, method: str = "GET", **headers: str) -> Got:
        parts = urlsplit(url)
        assert parts.hostname is not None
        connection = HTTPConnection(parts.hostname, parts.port, timeout=20)
        target = url[url.index("/", 8) :]
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        response: HTTPResponse = connection.getresponse()
        found = Got(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        connection.close()
        return found

    return ask


@pytest.fixture
def counted() -> Iterator[Callable[..., tuple[str, list[str]]]]:
    """Serve an application; return its URL and the paths that are asked for, in a list that grows."""
    servers: list[tuple[Any, threading.Thread]] = []

    def start(app: Any) -> tuple[str, list[str]]:
        import uvicorn

        asked: list[str] = []

        async def counting(scope: Any, receive: Any, send: Any) -> None:
            asked.append(scope["path"])
            await app(scope, receive, send)

        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(counting, log_level="critical", lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{listening.getsockname()[1]}/", asked

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join()


@pytest.fixture
def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: Any = listening.getsockname()[1]
    return int(port)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start a browser."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.fail("NO BROWSER: the page can't be tested; install Debian's package chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser: Any) -> Any:
    """Open the page that the tests of a file use one after the other: each new one starts a process."""
    return browser.new_page(viewport=VIEWPORT)


@pytest.fixture
def page(tab: Any) -> Iterator[Any]:
    """An empty page, as it was when it was opened; errors in it fail the test."""
    errors: list[str] = []

    def note(error: Any) -> None:
        errors.append(str(error))

    tab.on("pageerror", note)
    yield tab
    tab.unroute_all(behavior="ignoreErrors")
    tab.goto("about:blank")
    tab.remove_listener("pageerror", note)
    tab.context.clear_permissions()
    tab.set_default_timeout(MILLISECONDS)
    tab.set_viewport_size(VIEWPORT)
    tab.mouse.move(0, 0)
    assert errors == []
