"""Requests with bodies over plain HTTP, all sent, and their answers read, by one thread.

A thread for each request would be in the way of those that encode: each of its waits ends with a turn at the
interpreter lock, and on a machine whose processors are busy with the server as well they stand still for
it.  Writing 64 chunks of 64³ to a server on the same machine takes a tenth less time this way.

Connections are used again, and closed when nobody needed them for a while; the thread ends then, too.
"""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections import deque
from typing import Any

from chunkwise.fork import new_lock, put_in_order_in_child
from chunkwise.kvstore.plain_http import CONNECT_TIMEOUT, LONGEST_IDLE, READ_TIMEOUT, OddAnswerError
from chunkwise.kvstore.plain_line import Done, Line, Request
from chunkwise.kvstore.protocol import Buffer
from chunkwise.thread import start_thread

__all__ = ["PlainSender"]

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_LOOK_AROUND = 1.0  # seconds between two looks at what takes too long
# Connections over which no answer has come yet: a server that gets too many at once resets some.
_MOST_NEW = 32


class PlainSender:
    """Sends requests to one server.

    Parameters
    ----------
    host : str
    port : int
    """

    def __init__(self, host: str, port: int) -> None:
        self._place = (host, port)
        self._lock = new_lock()
        self.after_fork()
        put_in_order_in_child(self)

    def after_fork(self) -> None:
        """Begin anew: the thread has stayed behind, and the connections are the other's."""
        self._addresses: list[Any] = []
        self._waiting: deque[Request] = deque()
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
            self._waiting.append(Request(head, body, done))
            if not self._running:
                try:
                    loop = self._loop = _Loop(self)
                    if not start_thread(loop.run):
                        loop.close()
                        raise OSError(errno.EAGAIN, "can't start new thread")
                except BaseException:
                    self._waiting.pop()
                    raise
                self._running = True
            elif self._asleep:
                self._asleep = False
                assert self._loop is not None, "it is running"
                self._loop.wake()


class _Loop:
    """What the thread of a sender does, and the connections that it has."""

    def __init__(self, sender: PlainSender) -> None:
        self._sender = sender
        self._idle: list[Line] = []
        self._busy: set[Line] = set()
        self._new: set[Line] = set()  # those of the busy ones that were never answered
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
            while waiting and self._may_begin():
                self._begin(waiting.popleft())
            with sender._lock:
                if waiting and self._may_begin():
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
        self.close()
        for request in failed:
            request.done(None)

    def close(self) -> None:
        """Close what it waits with."""
        self._selector.close()
        self._bell.close()
        self._button.close()

    def _may_begin(self) -> bool:
        return bool(self._idle) or len(self._new) < _MOST_NEW

    def _begin(self, request: Request) -> None:
        """Send a request over a connection that is not in use, or a new one."""
        line = self._idle.pop() if self._idle else None  # the one used last, so that others can be let go
        if line is None:
            addresses = self._sender._addresses
            if not addresses:
                request.done(None)
                return
            try:
                line = Line(addresses[0])
                self._selector.register(line.socket, _READ | _WRITE, line)
            except OSError:
                request.done(None)
                return
            self._new.add(line)
        line.begin(request)
        self._busy.add(line)
        if line.connected:
            self._write(line)

    def _go_on(self, line: Line, mask: int) -> None:
        if mask & _WRITE:
            if not line.connected and line.is_refused():
                self._refused(line)
                return
            self._write(line)
        if mask & _READ and line.socket.fileno() >= 0:
            self._read(line)

    def _refused(self, line: Line) -> None:
        """Try another address of the server, if there is one; all are looked up again some day."""
        sender, request = self._sender, line.request
        self._drop(line)
        if sender._addresses and sender._addresses[0] == line.place:
            sender._addresses = sender._addresses[1:]
        if request is not None:
            self._begin(request)

    def _write(self, line: Line) -> None:
        try:
            wanted = _READ if line.write() else _READ | _WRITE
        except OSError:
            self._broken(line)
            return
        if self._selector.get_key(line.socket).events != wanted:
            self._selector.modify(line.socket, wanted, line)

    def _read(self, line: Line) -> None:
        request = line.request
        try:
            found = line.read()
        except OSError:
            self._broken(line)
            return
        except OddAnswerError:
            self._drop(line)
            if request is not None:
                request.done(None)
            return
        if found is None:
            return
        assert request is not None, "an answer to it has come"
        answer, keep = found
        if keep:
            line.request, line.used = None, True
            self._busy.discard(line)
            self._new.discard(line)
            self._idle.append(line)
        else:
            self._drop(line)
        request.done(answer)

    def _broken(self, line: Line) -> None:
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

    def _drop(self, line: Line) -> None:
        self._busy.discard(line)
        self._new.discard(line)
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
