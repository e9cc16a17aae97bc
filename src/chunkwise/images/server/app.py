"""``asgi_app``: served arrays as an application for any ASGI server."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from time import monotonic
from typing import Any
from urllib.parse import quote

from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError, UnsupportedError
from chunkwise.extension.inside import as_nbytes, load
from chunkwise.images.server.answer import (
    Answer,
    Asked,
    Computed,
    Document,
    answer_bytes,
    answer_document,
    answer_stored,
    failure,
)
from chunkwise.images.server.page_api import page_content
from chunkwise.images.server.sources import Sources, sources_of
from chunkwise.images.server.spaces import SPACES, find_content, find_directory, index_page, json_listing

__all__ = ["Limits", "TooBusyError", "TooMuchError", "asgi_app", "limits_of", "make_app"]


# -- limits -------------------------------------------------------------------------------------------

# Limits on requests that are answered at a time, and on the memory they take together.


class TooBusyError(Exception):
    """More requests wait than are let in."""


class TooMuchError(Exception):
    """One request needs more memory than there is for all."""


class Limits:
    """The requests under way and the memory that they take.

    Parameters
    ----------
    max_requests : int
        How many are answered at a time.
    max_waiting : int
        How many wait for that; more are refused.
    max_nbytes : int
        Memory of all that are answered at a time.
    """

    def __init__(self, max_requests: int, max_waiting: int, max_nbytes: int) -> None:
        self.max_requests = max_requests
        self.max_waiting = max_waiting
        self.max_nbytes = max_nbytes
        self._n = self._n_waiting = self._nbytes = 0
        self._changed: asyncio.Condition | None = None  # of the loop that the first request comes on

    @asynccontextmanager
    async def work(self, nbytes: int) -> AsyncIterator[None]:
        """Wait until one more request that takes `nbytes` can be answered, and count it meanwhile.

        Raises
        ------
        TooMuchError, TooBusyError
            If it never can, or too many wait already.
        """
        if nbytes > self.max_nbytes:
            raise TooMuchError(f"it takes {nbytes:,} bytes of memory; all requests have {self.max_nbytes:,}")
        changed = self._changed = self._changed or asyncio.Condition()
        if not self._fits(nbytes):
            if self._n_waiting >= self.max_waiting:
                raise TooBusyError(f"{self._n_waiting} requests wait already")
            self._n_waiting += 1
            try:
                async with changed:
                    await changed.wait_for(lambda: self._fits(nbytes))
            finally:
                self._n_waiting -= 1
        self._n += 1
        self._nbytes += nbytes
        try:
            yield
        finally:
            self._n -= 1
            self._nbytes -= nbytes
            if self._n_waiting:
                async with changed:
                    changed.notify_all()

    def _fits(self, nbytes: int) -> bool:
        return self._n < self.max_requests and self._nbytes + nbytes <= self.max_nbytes


# -- the application ----------------------------------------------------------------------------------

MAX_REQUESTS = 16
MAX_WAITING = 2000
MAX_MEMORY = "1 GiB"
_LONGEST_PATH = 4096

# Handing a request to a thread and back takes a third of the time of one for a small chunk.  So such chunks
# are read on the loop.  On a slow disk, where requests must not wait for each other, that is tried now and
# then only: at most one part in ten of the time goes into it.
_QUICK = 2e-3
_PAGE_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}

_PREFLIGHT = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS",
    "Access-Control-Allow-Headers": "*",
    "Access-Control-Allow-Private-Network": "true",
    "Access-Control-Max-Age": "3600",
    "Allow": "GET, HEAD, OPTIONS",
}


def asgi_app(
    *what: Any,
    token: str | None = None,
    max_requests: int = MAX_REQUESTS,
    max_memory: int | str = MAX_MEMORY,
) -> Any:
    """Return an ASGI application that serves arrays as Zarr v3, N5 and neuroglancer precomputed, read-only.

    Parameters
    ----------
    *what : str, path-like, TensorStore, Group, ndarray, MultiscaleImage, list of TensorStore or mapping
        Objects to serve, each under its own name; a mapping gives names.
    token : str, optional
        First part of all paths, without which a request is refused.
    max_requests : int
        Number of requests answered at a time; others wait.
    max_memory : int or str
        Memory, in bytes or such as ``"1 GiB"``, of all requests that are answered at a time.

    Returns
    -------
    starlette.applications.Starlette

    Raises
    ------
    NotFoundError
        If there is no array or group at a path.
    ImportError
        If starlette is not installed (``chunkwise[serve]``).

    Examples
    --------
    ``uvicorn --factory module:function`` serves it, where the function returns ``asgi_app("volume.zarr")``.

    >>> import numpy as np
    >>> import chunkwise
    >>> app = chunkwise.asgi_app({"scan": np.zeros((64, 64), "uint16")})
    >>> callable(app)
    True
    """
    limits = limits_of(max_requests, max_memory)
    return make_app(sources_of(*what), token, limits)


def limits_of(max_requests: int, max_memory: int | str) -> Limits:
    """Return the limits that the arguments give."""
    if max_requests < 1:
        raise InvalidArgumentError(f"max_requests: expected at least 1, but received {max_requests}")
    return Limits(max_requests, MAX_WAITING, as_nbytes(max_memory, "max_memory"))


def make_app(sources: Sources, token: str | None, limits: Limits) -> Any:
    """Return the application for sources that are open."""
    applications = load("starlette.applications", "a server")
    routing = load("starlette.routing", "a server")
    handler = _Handler(sources, token, limits)
    route = routing.Route("/{path:path}", handler)
    return applications.Starlette(routes=[route])


class _Handler:
    """Answers the requests to one application."""

    def __init__(self, sources: Sources, token: str | None, limits: Limits) -> None:
        anyio = load("anyio", "a server")
        self._to_thread = anyio.to_thread.run_sync
        self._threads: Any = None  # made in the loop, one for each application
        self._new_threads: Callable[[int], Any] = anyio.CapacityLimiter
        self._request = load("starlette.requests", "a server").Request
        self._response = load("starlette.responses", "a server").Response
        self._sources = sources
        self._token = token
        self._limits = limits
        self._slow_until = float("-inf")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        request = self._request(scope, receive)
        found = await self._checked(request)
        headers = dict(found.headers)
        if found.size is not None and request.method == "HEAD":
            headers["Content-Length"] = str(found.size)
        response = self._response(content=found.body, status_code=found.status, headers=headers)
        await response(scope, receive, send)

    async def _checked(self, request: Any) -> Answer:
        if request.method == "OPTIONS":
            return Answer(204, b"", _PREFLIGHT)
        if request.method not in ("GET", "HEAD"):
            found = failure(405, f"{request.method} is not allowed: served data is read-only")
            return found._replace(headers={**found.headers, "Allow": _PREFLIGHT["Allow"]})
        scope = request.scope
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        if len(path) > _LONGEST_PATH or len(scope["query_string"]) > _LONGEST_PATH:
            return failure(414, f"the URL has more than {_LONGEST_PATH} characters")
        names = path.split("/")[1:]
        if self._token is not None:
            if not hmac.compare_digest(names[0].encode(), self._token.encode()):
                return failure(403, "the token, the first name of the path, is missing or wrong")
            names = names[1:]
        slash = not names or names[-1] == ""
        names = names[:-1] if slash and names else names
        if any(name in ("", ".", "..") or "\0" in name or "\\" in name for name in names):
            return failure(404, "a path has no empty names, no . and .., no NUL and no backslash")
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        asked = Asked(request.method == "HEAD", headers)

        def find() -> Answer | Computed:
            return self._found(asked, names, request, slash)

        begin = monotonic()
        if begin > self._slow_until and not slash and self._sources.are_quick(names[1:]):
            at_once = find()
            end = monotonic()
            if end - begin > _QUICK:
                self._slow_until = end + 9 * (end - begin)
            if isinstance(at_once, Answer):
                return at_once
        return await self._work(request, find, asked)

    def _base(self, request: Any) -> str:
        """Return the URL before all served paths."""
        root = f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"
        return root if self._token is None else f"{root}/{quote(self._token)}"

    async def _work(self, request: Any, find: Callable[[], Answer | Computed], asked: Asked) -> Answer:
        if self._threads is None:
            self._threads = self._new_threads(self._limits.max_requests)
        try:
            async with self._limits.work(0):
                found: Answer | Computed = await self._to_thread(find, limiter=self._threads)
            if isinstance(found, Answer):
                return found
            async with self._limits.work(found.nbytes):
                if await request.is_disconnected():  # while it waited
                    return failure(499, "the client has gone")
                answer: Answer = await self._to_thread(_computed, asked, found, limiter=self._threads)
                return answer
        except TooMuchError as e:
            return failure(413, str(e))
        except TooBusyError as e:
            busy = failure(503, str(e))
            return busy._replace(headers={**busy.headers, "Retry-After": "1"})

    def _found(self, asked: Asked, names: list[str], request: Any, slash: bool) -> Answer | Computed:
        """Return the answer to a request for a path, or the content to be computed for it."""
        try:
            if not names:
                return _page(asked, "index.html")
            if names[0] == "page" and len(names) == 2:
                return _page(asked, names[1])
            if names[0] == "api" and len(names) == 2:
                content = page_content(self._sources, names[1], request.query_params)
                if isinstance(content, Document):
                    return answer_document(asked, content)
                assert isinstance(content, Computed), "the page asks for nothing that is stored as it is"
                return content
            if names[0] in SPACES:
                return self._value(asked, names[0], names[1:], request, slash)
        except ChunkwiseError as e:
            return _failed(e)
        return failure(404, f"there is no {names[0]!r}; there are {', '.join(SPACES)}")

    def _value(
        self, asked: Asked, space: str, names: list[str], request: Any, slash: bool
    ) -> Answer | Computed:
        sources = self._sources
        content = None if slash or not names else find_content(sources, space, names)
        if content is None:
            directory = find_directory(sources, space, names)
            if directory is None:
                there = "" if sources.split(names) is not None else f"; there are {', '.join(sources)}"
                return failure(404, f"there is nothing at {'/'.join(names)!r}{there}")
            url = "/".join([self._base(request), space, *map(quote, names)])
            content = json_listing(url, directory) if slash else index_page(url, directory)
        if isinstance(content, Document):
            return answer_document(asked, content)
        return content if isinstance(content, Computed) else answer_stored(asked, content)


def _failed(error: ChunkwiseError) -> Answer:
    """Return the answer for an error of the data, or of the request."""
    if isinstance(error, UnsupportedError):
        return failure(501, error.message)
    if isinstance(error, NotFoundError):
        return failure(404, error.message)
    asked_for = isinstance(error, InvalidArgumentError)
    return failure(400 if asked_for else 500, error.message)


def _computed(asked: Asked, content: Computed) -> Answer:
    try:
        body = content.make()
    except ChunkwiseError as e:
        return _failed(e)
    if body is None:
        return failure(404, "this chunk is not stored, or all of it is the fill value")
    return answer_bytes(asked, body, content.media_type)


def _page(asked: Asked, name: str) -> Answer:
    media_type = _PAGE_TYPES.get(name.rpartition(".")[2])
    file = resources.files("chunkwise.images.server").joinpath("page", name)
    if media_type is None or not file.is_file():
        return failure(404, f"the page has no file {name!r}")
    return answer_bytes(asked, file.read_bytes(), media_type)
