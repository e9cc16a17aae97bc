"""A connection over which requests with bodies go to a server one after the other, and that never waits."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from chunkwise.kvstore.plain_http import Answer, OddAnswerError, acknowledge_at_once, parse_head
from chunkwise.kvstore.protocol import Buffer

__all__ = ["Done", "Line", "Request"]

Done: TypeAlias = Callable[["Answer | None"], None]
"""Called once for each request: with the answer, or None if none came."""

_LARGEST_ANSWER = 1 << 16
# A body that the system takes at once needs no more turns of the thread, and wakes the server less often.
_SEND_BUFFER = 1 << 20


class Request:
    """A request, and what has become of it: `again` if it may be sent over another connection."""

    __slots__ = ("again", "body", "done", "head")

    def __init__(self, head: bytes, body: Buffer, done: Done) -> None:
        self.head, self.body, self.done = head, body, done
        self.again = True


class Line:
    """A connection that has been begun.

    Parameters
    ----------
    place : (int, object)
        Family and address.

    Attributes
    ----------
    place : (int, object)
    socket : socket
    request : Request or None
        What is under way.
    connected : bool
    used : bool
        Whether a request was answered before.
    filled : int
        How much of an answer is there, in bytes.
    since : float
        When it last made progress, on the monotonic clock.

    Raises
    ------
    OSError
        If there are no more sockets.
    """

    def __init__(self, place: tuple[int, Any]) -> None:
        self.place = place
        family, address = place
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.request: Request | None = None
        self.connected = self.used = False
        self.filled = 0
        self.since = time.monotonic()
        self._left: list[memoryview] = []
        self._buffer = np.empty(_LARGEST_ANSWER, np.uint8).data  # of which most answers touch one page
        try:
            self.socket.setblocking(False)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            self.socket.connect_ex(address)
        except BaseException:
            self.socket.close()
            raise

    def is_refused(self) -> bool:
        """Whether the connection, of which the system has news, is none."""
        self.connected = not self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return not self.connected

    def begin(self, request: Request) -> None:
        """Take a request, of which nothing is sent yet."""
        self.request, self.filled = request, 0
        self._left = [memoryview(request.head), memoryview(request.body)]
        self.since = time.monotonic()

    def write(self) -> bool:
        """Send what the system takes; return whether that was all there is.

        Raises
        ------
        OSError
            If the connection is broken.
        """
        left = self._left
        try:
            while left:
                if hasattr(self.socket, "sendmsg"):
                    n = self.socket.sendmsg(left)
                else:
                    n = self.socket.send(left[0])
                self.since = time.monotonic()
                while left and n >= len(left[0]):
                    n -= len(left.pop(0))
                if left:
                    left[0] = left[0][n:]
        except (BlockingIOError, InterruptedError):
            return False
        acknowledge_at_once(self.socket)
        return True

    def read(self) -> tuple[Answer, bool] | None:
        """Return the answer if all of it has come, and whether another request may follow.

        Raises
        ------
        OSError
            If the connection is broken or closed.
        OddAnswerError
            If there will be no answer that makes sense.
        """
        try:
            n = self.socket.recv_into(self._buffer[self.filled :])
        except (BlockingIOError, InterruptedError):
            return None
        if n == 0:
            raise ConnectionResetError("the server closed the connection")
        self.filled += n
        self.since = time.monotonic()
        if self.request is None:
            raise OddAnswerError("an answer that nobody has asked for")
        answer = bytes(self._buffer[: self.filled])
        end = answer.find(b"\r\n\r\n")
        if end < 0:
            if self.filled == len(self._buffer):
                raise OddAnswerError(f"the head of the answer has more than {self.filled} bytes")
            return None
        status, headers, length, keep = parse_head(answer[:end])
        stop = end + 4 + length
        if stop > len(self._buffer) or self.filled > stop:
            raise OddAnswerError(f"an answer with {length} bytes, of which {self.filled - end - 4} came")
        if self.filled < stop:
            return None
        return Answer(status, headers, answer[end + 4 : stop]), keep and not self._left
