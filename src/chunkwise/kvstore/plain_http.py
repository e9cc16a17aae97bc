"""One request and its answer over a connection that stays open: HTTP without TLS, redirects and proxies.

A server that sends a small answer in two pieces, and has not switched off Nagle's algorithm, holds the
second one back until the first is acknowledged; Ceph's gateway is one.  The acknowledgement of a client
that has nothing to send waits for 40 ms, so that each such answer takes that long.  The connections here
acknowledge at once where the operating system lets them.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from chunkwise.kvstore.protocol import Buffer

__all__ = [
    "CONNECT_TIMEOUT",
    "LONGEST_IDLE",
    "READ_TIMEOUT",
    "Answer",
    "Memory",
    "OddAnswerError",
    "PlainServer",
    "acknowledge_at_once",
    "parse_head",
]

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 60.0
"""Seconds that the server may take for one step."""
LONGEST_IDLE = 30.0
"""A connection that nobody used for so long is not tried again: the server may have closed it."""
_HEAD = 1 << 16
# Memory for the bodies of larger answers is taken as they come, whatever length the server names.
_UNCHECKED = 1 << 26
# Fewer, longer waits: one for all of a body.
_WHOLE: int = getattr(socket, "MSG_WAITALL", 0) if sys.platform in ("linux", "darwin") else 0
_QUICK_ACK: int | None = getattr(socket, "TCP_QUICKACK", None)


class OddAnswerError(Exception):
    """The answer is one that only a complete implementation of HTTP understands, or breaks off."""


class Memory:
    """Memory for one value after the other; the last one is valid until the next comes."""

    def __init__(self) -> None:
        self._bytes = memoryview(bytearray())

    def of_size(self, n: int) -> memoryview:
        """Return memory for `n` bytes."""
        if len(self._bytes) < n:
            # a new one: what was returned before is perhaps still being looked at
            self._bytes = np.empty(n, np.uint8).data
        return self._bytes[:n]


class Answer(NamedTuple):
    """An answer, read to its end.

    Attributes
    ----------
    status : int
    headers : mapping
        By name in lower case.
    body : buffer
    """

    status: int
    headers: Mapping[str, str]
    body: Buffer


class PlainServer:
    """A server on TCP, and the connections to it that are not in use.

    Parameters
    ----------
    host : str
    port : int

    Attributes
    ----------
    place : (str, int)
        Both.
    """

    def __init__(self, host: str, port: int) -> None:
        self.place = (host, port)
        self._idle: list[_Connection] = []

    def ask(self, request: bytes, memory: Memory | None = None, body: Buffer = b"") -> Answer:
        """Send a request, which may be sent twice; return the answer, whatever its status.

        Parameters
        ----------
        request : bytes
            The head of it.
        memory : Memory, optional
            Where to put the body of the answer.
        body : buffer

        Raises
        ------
        OSError, OddAnswerError
            If there is none.
        """
        connection = self._take()
        if connection is not None:
            try:
                return self._exchange(connection, request, memory, body)
            except ConnectionError:
                if connection.filled:  # else the server had closed it before it saw the request
                    raise
        return self._exchange(_Connection(self.place), request, memory, body)

    def _take(self) -> _Connection | None:
        oldest = time.monotonic() - LONGEST_IDLE
        while True:
            try:
                connection = self._idle.pop()  # the one that was used last, so that others can be let go
            except IndexError:
                return None
            if connection.used > oldest:
                return connection
            connection.close()

    def _exchange(
        self, connection: _Connection, request: bytes, memory: Memory | None, body: Buffer
    ) -> Answer:
        try:
            answer, keep = connection.exchange(request, memory, body)
        except BaseException:  # also an interrupt: the rest of the answer must not become another's
            connection.close()
            raise
        if keep:
            connection.used = time.monotonic()
            self._idle.append(connection)
        else:
            connection.close()
        return answer


def parse_head(head: bytes | bytearray) -> tuple[int, dict[str, str], int, bool]:
    """Return the status, the headers, the size of the body, and whether the connection stays open.

    Raises
    ------
    OddAnswerError
        If that is not clear.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, status = first[:12].partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not status.isdecimal():
        raise OddAnswerError(f"no answer of HTTP: {first[:80]!r}")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    length = "0" if int(status) in (204, 304) else headers.get("content-length", "")
    if int(status) < 200 or "transfer-encoding" in headers or not length.isdecimal():
        raise OddAnswerError(f"HTTP status {status} with headers {sorted(headers)}")
    keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    return int(status), headers, int(length), keep


def acknowledge_at_once(connection: socket.socket) -> None:
    """Have what the server sends next acknowledged without delay; the system forgets it after a while."""
    if _QUICK_ACK is not None:
        connection.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)


def _limit_waits(connection: socket.socket, seconds: float) -> None:
    """Let each wait for the server end after some time.

    Where the system itself can do that, Python need not ask before each call whether it would wait, and
    passes the interpreter lock half as often.
    """
    if sys.platform in ("linux", "darwin"):
        limit = struct.pack("@ll", int(seconds), 0)
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    else:
        connection.settimeout(seconds)


class _Connection:
    """A connection; ``filled`` is how many bytes of an answer came into ``buffer``, ``used`` when."""

    def __init__(self, place: tuple[str, int]) -> None:
        self.socket = socket.create_connection(place, CONNECT_TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _limit_waits(self.socket, READ_TIMEOUT)
        self.buffer = bytearray(_HEAD)
        self.filled = 0
        self.used = 0.0

    def close(self) -> None:
        """Close it."""
        self.socket.close()

    def __del__(self) -> None:
        connection = getattr(self, "socket", None)  # none if there never was a connection
        if connection is not None:
            connection.close()

    def exchange(self, request: bytes, memory: Memory | None, body: Buffer) -> tuple[Answer, bool]:
        """Return the answer to `request`, and whether another request may follow."""
        self.filled = 0
        if not len(body):
            self.socket.sendall(request)
        else:
            self._send_both(request, memoryview(body).cast("B"))
        acknowledge_at_once(self.socket)
        end = self._read_head()
        status, headers, length, keep = parse_head(self.buffer[:end])
        found = self._read_body(end + 4, length, memory or Memory())
        return Answer(status, headers, found), keep

    def _send_both(self, head: bytes, body: memoryview) -> None:
        if hasattr(self.socket, "sendmsg"):  # in one piece, so that the server is woken once
            sent = self.socket.sendmsg([head, body]) - len(head)
        else:
            sent = -len(head)
        if sent < 0:
            self.socket.sendall(head[sent:])
            sent = 0
        if sent < len(body):
            self.socket.sendall(body[sent:])

    def _read_head(self) -> int:
        """Read until the head of the answer is in the buffer; return where it ends."""
        view = memoryview(self.buffer)
        while True:
            n = self.socket.recv_into(view[self.filled :])
            if n == 0:
                raise ConnectionResetError("the server closed the connection")
            searched = max(0, self.filled - 3)
            self.filled += n
            end = self.buffer.find(b"\r\n\r\n", searched, self.filled)
            if end >= 0:
                return end
            if self.filled == len(view):
                raise OddAnswerError(f"the head of the answer has more than {len(view)} bytes")

    def _read_body(self, start: int, length: int, memory: Memory) -> memoryview:
        """Return the body, which begins in the buffer and is put into `memory`."""
        filled = self.filled - start
        if filled > length:
            raise OddAnswerError("more was sent than the answer")
        view = memory.of_size(min(length, _UNCHECKED))
        view[:filled] = memoryview(self.buffer)[start : self.filled]
        while filled < length:
            if filled == len(view):
                begun, view = view, memory.of_size(min(length, 2 * filled))
                view[:filled] = begun
            n = self.socket.recv_into(view[filled:], 0, _WHOLE)
            if n == 0:
                raise OddAnswerError(f"the answer has {filled} bytes, expected {length}")
            filled += n
        return view
