"""``serve``: a server of arrays in a thread of this process, and its URLs for each client."""

from __future__ import annotations

import errno
import json
import secrets
import socket
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from chunkwise.errors import ChunkwiseError, InvalidArgumentError, StorageError, UnsupportedError
from chunkwise.extension.inside import load, start_thread
from chunkwise.images.server.app import MAX_MEMORY, MAX_REQUESTS, Limits, limits_of, make_app
from chunkwise.images.server.formats import ZARR3
from chunkwise.images.server.image import image_at
from chunkwise.images.server.neuroglancer import neuroglancer_state
from chunkwise.images.server.sources import Sources, find_nodes, sources_of
from chunkwise.images.server.trees import ServedArray, ServedGroup

__all__ = ["Server", "ready_urls", "serve"]


_NEUROGLANCER = "https://neuroglancer-demo.appspot.com/#!"


def ready_urls(url: str, sources: Sources) -> dict[str, str]:
    """Return, by client, a URL or a line of code that opens the first thing that is served."""
    name = next(iter(sources))
    base = f"{url}zarr3/{quote(name)}"
    out = {"page": url}
    with suppress(UnsupportedError):
        state = neuroglancer_state(url, sources)
        out["neuroglancer"] = _NEUROGLANCER + quote(json.dumps(state, separators=(",", ":")))
    image, path = _first_image(sources)
    array = f"{url}zarr3/{'/'.join(map(quote, path))}"
    out |= {
        "napari": f"napari {url}zarr3/{'/'.join(map(quote, image))}",
        "zarr-python": f'zarr.open("{base}", mode="r")',
        "TensorStore": f'ts.open({{"driver": "zarr3", "kvstore": "{array}/"}})',
        "N5": f'ts.open({{"driver": "n5", "kvstore": "{array.replace("/zarr3/", "/n5/", 1)}/"}})',
        "fsspec": f'fsspec.get_mapper("{base}")',
    }
    if _is_nwb(sources, name):
        out["pynwb"] = f'chunkwise.hdmf.read_nwb("{base}")'
    return out


def _is_nwb(sources: Sources, name: str) -> bool:
    try:
        node = sources.find((name,))
    except ChunkwiseError:
        return False
    # Other formats have HDMF's types and references in forms that are none of Zarr v3's.
    is_stored = isinstance(node, ServedGroup) and node.node is not None and node.node.key == ZARR3.key
    return is_stored and isinstance(node, ServedGroup) and "nwb_version" in node.attributes


def _first_image(sources: Sources) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths of the first image, if there is one, and of an array, which is its first level."""
    first: tuple[str, ...] | None = None
    for path, node in find_nodes(sources):
        try:
            image = image_at(path, node)
        except ChunkwiseError:
            continue
        if image is not None:
            return path, (*path, *filter(None, image.paths[0].split("/")))
        if first is None and isinstance(node, ServedArray):
            first = path
    first = first or (next(iter(sources)),)
    return first, first


_LOCAL = ("127.0.0.1", "::1", "localhost")
_START = 10.0  # seconds
_BACKLOG = 2048


class _PortError(StorageError):
    """A port that can't be listened at; no storage has failed, so that the text has no status."""

    status = ""


class Server:
    """A server that runs until `stop`, the end of a ``with`` block, or the end of the process.

    Attributes
    ----------
    host : str
    port : int
    token : str or None
        First part of all paths.
    """

    def __init__(self, sources: Sources, host: str, port: int, token: str | None, limits: Limits) -> None:
        uvicorn = load("uvicorn", "a server")
        app = make_app(sources, token, limits)
        self._socket = _listen(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self.token = token
        self.sources = sources
        self._kept: list[Any] = []  # objects that live as long as the server
        config = uvicorn.Config(
            app,
            log_level="critical",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=75,  # longer than clients wait: none uses a connection that is being closed
        )
        self._server = uvicorn.Server(config)
        self._ended = False
        if not start_thread(self._run):
            raise StorageError("there can be no more threads")
        deadline = time.monotonic() + _START
        while not self._server.started and not self._ended and time.monotonic() < deadline:
            time.sleep(0.005)
        if not self._server.started:
            raise StorageError(f"the server on {host}:{self.port} doesn't start")

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._ended = True

    @property
    def url(self) -> str:
        """URL of the page, with the token."""
        host = socket.gethostname() if self.host in ("0.0.0.0", "::", "") else self.host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}/" + (f"{self.token}/" if self.token else "")

    def urls(self) -> dict[str, str]:
        """Return the URL or line of code for neuroglancer, napari, zarr-python, TensorStore and fsspec."""
        return ready_urls(self.url, self.sources)

    def keep(self, thing: object) -> None:
        """Keep an object alive as long as the server."""
        self._kept.append(thing)

    def wait(self) -> None:
        """Return when the server has stopped."""
        while not self._ended:
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the server; requests under way have a second to end."""
        self._server.should_exit = True
        while not self._ended:
            time.sleep(0.005)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<chunkwise server of {', '.join(self.sources)} at {self.url}>"


def serve(
    *what: Any,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | bool | None = None,
    max_requests: int = MAX_REQUESTS,
    max_memory: int | str = MAX_MEMORY,
) -> Server:
    """Serve arrays over HTTP as Zarr v3, N5 and neuroglancer precomputed, with a page that shows them.

    Parameters
    ----------
    *what : str, path-like, TensorStore, Group, ndarray, MultiscaleImage, list of TensorStore or mapping
        Objects to serve, each under its own name; a mapping gives names.
    host : str
        Address to listen at; by default only this machine.
    port : int
        Port to listen at; 0 for a free one.
    token : str or bool, optional
        First part of all paths, without which a request is refused.  By default a random one if `host` is not
        only this machine; true always makes one, false never.
    max_requests : int
        Number of requests answered at a time; others wait.
    max_memory : int or str
        Memory, in bytes or such as ``"1 GiB"``, of all requests that are answered at a time.

    Returns
    -------
    Server
        It runs in a thread until ``stop()`` or the end of a ``with`` block; ``url`` and ``urls()`` say how to
        reach it.

    Raises
    ------
    NotFoundError
        If there is no array or group at a path.
    StorageError
        If the port is in use.
    ImportError
        If starlette or uvicorn is not installed (``chunkwise[serve]``).

    Examples
    --------
    >>> import numpy as np
    >>> import chunkwise
    >>> with chunkwise.serve({"scan": np.zeros((64, 64), "uint16")}) as server:
    ...     sorted(server.urls())[:2]
    ['N5', 'TensorStore']
    """
    if not 0 <= port < 1 << 16:
        raise InvalidArgumentError(f"port: expected 0 to 65535, but received {port}")
    limits = limits_of(max_requests, max_memory)
    load("uvicorn", "a server")
    sources = sources_of(*what)
    if isinstance(token, str):
        if not token or not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
            raise InvalidArgumentError(f"token: expected letters, digits, - and _, but received {token!r}")
        secret: str | None = token
    else:
        wanted = host not in _LOCAL if token is None else token
        secret = secrets.token_urlsafe(18) if wanted else None
    return Server(sources, host, port, secret, limits)


def _listen(host: str, port: int) -> socket.socket:
    # With the protocol given, asyncio sets TCP_NODELAY: without, each answer could wait for 40 ms.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as e:
        listening.close()
        if e.errno == errno.EADDRINUSE:
            text = f"port {port} of {host} is in use; choose another, or 0 for one that is free"
        else:
            text = f"can't listen at {host}:{port}: {e.strerror or e}"
        raise _PortError(text, e.errno) from None
    return listening
