"""Requests with bodies over plain HTTP, all sent, and their answers read, by one thread.

A thread for each request would be in the way of those that encode: each of its waits ends with a turn at the
interpreter lock, and on a machine whose processors are busy with the server as well they stand still for
it.  Writing 64 chunks of 64³ to a server on the same machine takes a tenth less time this way.

Connections are used again, and closed when nobody needed them for a while; the thread ends then, too.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from chunkwise.kvstore.plain_http import (
    CONNECT_TIMEOUT,
    LONGEST_IDLE,
    READ_TIMEOUT,
    Answer,
    OddAnswerError,
    acknowledge_at_once,
    parse_head,
)
from chunkwise.kvstore.protocol import Buffer

__all__ = ["Done", "PlainSender"]

Done: TypeAlias = Callable[["Answer | None"], None]
"""Called once for each request, in the sender's thread: with the answer, or None if none came."""

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_LARGEST_ANSWER = 1 << 16
# A body that the system takes at once needs no more turns of the thread, and wakes the server less often.
_SEND_BUFFER = 1 << 20
_LOOK_AROUND = 1.0  # seconds between two looks at what takes too long

_all: weakref.WeakSet[PlainSender] = weakref.WeakSet()


class _Request:
    """A request, and what has become of it: `again` if it may be sent over another connection."""

    __slots__ = ("again", "body", "done", "head")

    def __init__(self, head: bytes, body: Buffer, done: Done) -> None:
        self.head, self.body, self.done = head, body, done
        self.again = True


class _Line:
    """A connection; `left` is what of `request` is not sent yet, `since` when it last made progress."""

    __slots__ = ("address", "buffer", "connected", "filled", "left", "request", "since", "socket", "used")

    def __init__(self, connection: socket.socket, address: Any) -> None:
        self.socket = connection
        self.address = address
        self.buffer = bytearray(_LARGEST_ANSWER)
        self.connected = self.used = False
        self.request: _Request | None = None
        self.left: list[memoryview] = []
        self.filled = 0
        self.since = time.monotonic()


class PlainSender:
    """Sends requests to one server.

    Parameters
    ----------
    host : str
    port : int
    """

    def __init__(self, host: str, port: int) -> None:
        self._place = (host, port)
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._addresses: list[Any] = []
        self._waiting: deque[_Request] = deque()
        self._running = self._asleep = False
        self._loop: _Loop | None = None

    def send(self, head: bytes, body: Buffer, done: Done) -> None:
        """Begin a request; `done` is called when there is an answer, or none is to be expected any more.

        Raises
        ------
        OSError
            If there is no such server, or no more sockets or threads.
        """
        addresses = self._addresses
        if not addresses:  # looked up here, for the thread must not wait for that
            found = socket.getaddrinfo(*self._place, type=socket.SOCK_STREAM)
            addresses = self._addresses = [(family, address) for family, _, _, _, address in found]
        with self._lock:
            self._waiting.append(_Request(head, body, done))
            if not self._running:
                try:
                    loop = _Loop(self)
                    threading.Thread(target=loop.run, name="chunkwise-send", daemon=True).start()
                except BaseException:
                    self._waiting.pop()
                    raise
                self._running, self._loop = True, loop
            elif self._asleep:
                self._asleep = False
                assert self._loop is not None, "it is running"
                self._loop.wake()


class _Loop:
    """What the thread of a sender does, and the connections that it has."""

    def __init__(self, sender: PlainSender) -> None:
        self._sender = sender
        self._idle: list[_Line] = []
        self._busy: set[_Line] = set()
        self._bell, self._button = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell, _READ, None)

    def wake(self) -> None:
        """Have it look for new requests."""
        self._button.send(b"\0")

    def run(self) -> None:
        """Work until there was nothing to do for a while."""
        try:
            self._work()
        finally:
            self._end()

    def _work(self) -> None:
        sender, waiting, looked = self._sender, self._sender._waiting, time.monotonic()
        while True:
            while waiting:
                self._begin(waiting.popleft())
            with sender._lock:
                if waiting:
                    continue
                sender._asleep = True
            events = self._selector.select(_LOOK_AROUND)
            sender._asleep = False
            for key, mask in events:
                if key.data is None:
                    self._bell.recv(4096)
                else:
                    self._go_on(key.data, mask)
            now = time.monotonic()
            if now - looked > _LOOK_AROUND:
                looked = now
                self._look_around(now)
                with sender._lock:
                    if not (self._idle or self._busy or waiting):
                        sender._loop, sender._running = None, False
                        return

    def _end(self) -> None:
        """Close everything; what is still to be done then has failed."""
        sender = self._sender
        failed = [line.request for line in self._busy if line.request is not None]
        with sender._lock:
            if sender._loop is self:  # something went wrong that nobody thought of
                sender._loop, sender._running = None, False
                failed += sender._waiting
                sender._waiting.clear()
        for line in [*self._busy, *self._idle]:
            line.socket.close()
        self._selector.close()
        self._bell.close()
        self._button.close()
        for request in failed:
            request.done(None)

    def _begin(self, request: _Request) -> None:
        """Send a request over a connection that is not in use, or a new one."""
        line = self._idle.pop() if self._idle else None  # the one used last, so that others can be let go
        if line is None:
            try:
                line = self._connect()
            except OSError:
                request.done(None)
                return
        line.request, line.filled = request, 0
        line.left = [memoryview(request.head), memoryview(request.body)]
        line.since = time.monotonic()
        self._busy.add(line)
        if line.connected:
            self._write(line)

    def _connect(self) -> _Line:
        addresses = self._sender._addresses
        if not addresses:
            raise ConnectionRefusedError
        family, address = addresses[0]
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            line = _Line(connection, addresses[0])
            connection.connect_ex(address)
            self._selector.register(connection, _READ | _WRITE, line)
        except BaseException:
            connection.close()
            raise
        return line

    def _go_on(self, line: _Line, mask: int) -> None:
        if mask & _WRITE:
            if not line.connected:
                if line.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    self._refused(line)
                    return
                line.connected = True
            self._write(line)
        if mask & _READ and line.socket.fileno() >= 0:
            self._read(line)

    def _refused(self, line: _Line) -> None:
        """Try another address of the server, if there is one; all are looked up again some day."""
        sender, request = self._sender, line.request
        self._drop(line)
        if sender._addresses and sender._addresses[0] == line.address:
            sender._addresses = sender._addresses[1:]
        if request is not None:
            self._begin(request)

    def _write(self, line: _Line) -> None:
        left = line.left
        try:
            while left:
                n = (
                    line.socket.sendmsg(left)
                    if hasattr(line.socket, "sendmsg")
                    else line.socket.send(left[0])
                )
                line.since = time.monotonic()
                while left and n >= len(left[0]):
                    n -= len(left.pop(0))
                if left:
                    left[0] = left[0][n:]
        except (BlockingIOError, InterruptedError):
            if self._selector.get_key(line.socket).events == _READ:
                self._selector.modify(line.socket, _READ | _WRITE, line)
            return
        except OSError:
            self._broken(line)
            return
        if self._selector.get_key(line.socket).events != _READ:
            self._selector.modify(line.socket, _READ, line)
        acknowledge_at_once(line.socket)

    def _read(self, line: _Line) -> None:
        try:
            n = line.socket.recv_into(memoryview(line.buffer)[line.filled :])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            n = 0
        if n == 0:
            self._broken(line)
            return
        line.filled += n
        line.since = time.monotonic()
        request = line.request
        if request is None:  # what nobody has asked for
            self._drop(line)
            return
        try:
            answer, keep = _answer(line)
        except OddAnswerError:
            self._drop(line)
            request.done(None)
            return
        if answer is None:
            return
        line.request = None
        if keep and not line.left:
            line.used = True
            self._busy.discard(line)
            self._idle.append(line)
        else:
            self._drop(line)
        request.done(answer)

    def _broken(self, line: _Line) -> None:
        """Send the request again if the server closed the connection before it saw it; else give it up."""
        request = line.request
        self._drop(line)
        if request is None:
            return
        if line.used and not line.filled and request.again:
            request.again = False
            self._sender._waiting.append(request)
        else:
            request.done(None)

    def _drop(self, line: _Line) -> None:
        self._busy.discard(line)
        if line in self._idle:
            self._idle.remove(line)
        if line.socket.fileno() >= 0:
            self._selector.unregister(line.socket)
            line.socket.close()
        line.request = None

    def _look_around(self, now: float) -> None:
        for line in list(self._busy):
            if now - line.since > (READ_TIMEOUT if line.connected else CONNECT_TIMEOUT):
                request = line.request
                self._drop(line)
                if request is not None:
                    request.done(None)
        for line in [line for line in self._idle if now - line.since > LONGEST_IDLE]:
            self._drop(line)


def _answer(line: _Line) -> tuple[Answer | None, bool]:
    """Return the answer if all of it has come, and whether another request may follow.

    Raises
    ------
    OddAnswerError
        If that will not happen.
    """
    end = line.buffer.find(b"\r\n\r\n", 0, line.filled)
    if end < 0:
        if line.filled == len(line.buffer):
            raise OddAnswerError(f"the head of the answer has more than {line.filled} bytes")
        return None, False
    status, headers, length, keep = parse_head(bytes(line.buffer[:end]))
    stop = end + 4 + length
    if stop > len(line.buffer) or line.filled > stop:
        raise OddAnswerError(f"an answer with {length} bytes, of which {line.filled - end - 4} came")
    if line.filled < stop:
        return None, False
    return Answer(status, headers, bytes(line.buffer[end + 4 : stop])), keep


def _forget() -> None:
    """In a process that was forked: the thread has stayed behind, and the connections are the other's."""
    for sender in list(_all):
        sender._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
