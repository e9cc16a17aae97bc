"""One thread sends requests and reads their answers: whatever the server does, each is told of once."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from chunkwise.kvstore import plain_line, plain_sender
from chunkwise.kvstore.plain_http import Answer
from chunkwise.kvstore.plain_sender import PlainSender

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: e\r\n\r\nyes"
LARGE = bytes(range(256)) * (1 << 14)  # more than a socket takes at once

Serve = Callable[[socket.socket, bytes], bool]


@contextmanager
def serving(serve: Serve) -> Iterator[tuple[int, list[int]]]:
    """Run a server: ``serve(connection, request)`` answers, and says whether to go on with the connection.

    Yields the port, and a list with the number of the connection of each request.
    """
    seen: list[int] = []
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def work(connection: socket.socket, number: int) -> None:
        with connection, suppress(OSError):
            while not stop.is_set():
                request = b""
                while b"\r\n\r\n" not in request:
                    more = connection.recv(1 << 16)
                    if not more:
                        return
                    request += more
                head, _, body = request.partition(b"\r\n\r\n")
                n = int(head.rpartition(b" ")[2])
                while len(body) < n:
                    body += connection.recv(1 << 16)
                seen.append(number)
                if not serve(connection, body):
                    return

    def accept() -> None:
        number = 0
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=work, args=(connection, number), daemon=True).start()
            number += 1

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], seen
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


class Answers:
    """Collects what a sender tells."""

    def __init__(self, sender: PlainSender) -> None:
        self.sender = sender
        self.queue: SimpleQueue[tuple[int, Answer | None]] = SimpleQueue()

    def ask(self, *bodies: bytes) -> dict[int, Answer | None]:
        for number, body in enumerate(bodies):
            head = f"PUT / HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            self.sender.send(head, body, lambda answer, number=number: self.queue.put((number, answer)))  # type: ignore[misc]
        found = dict(self.queue.get(timeout=30) for _ in bodies)
        with pytest.raises(Empty):
            self.queue.get(timeout=0.02)
        return found


def test_many_requests() -> None:
    """Bodies of all sizes arrive, connections are used again, and answers go to who asked."""

    def serve(connection: socket.socket, body: bytes) -> bool:
        told = f"{len(body)} {body[-1:].hex()}".encode()
        connection.sendall(b"HTTP/1.1 201 X\r\nContent-Length: %d\r\n\r\n" % len(told) + told)
        return True

    bodies = [LARGE[: n * 7919] + bytes([n % 256]) for n in range(300)] + [b"", LARGE]
    with serving(serve) as (port, seen):
        found = Answers(PlainSender("127.0.0.1", port)).ask(*bodies)
        for number, body in enumerate(bodies):
            answer = found[number]
            assert answer is not None and answer.status == 201
            assert bytes(answer.body) == f"{len(body)} {body[-1:].hex()}".encode()
        first = set(seen)
        assert len(seen) == len(bodies)
        Answers(PlainSender("127.0.0.1", port)).ask(b"another sender")
        assert seen[-1] not in first


def test_few_connections_begin_at_a_time() -> None:
    """A server that has answered nothing yet gets no more than 32, and the rest of the requests later."""
    go_on = threading.Event()

    def serve(connection: socket.socket, body: bytes) -> bool:
        go_on.wait(30)
        connection.sendall(OK)
        return True

    with serving(serve) as (port, seen):
        answers: SimpleQueue[Answer | None] = SimpleQueue()
        sender = PlainSender("127.0.0.1", port)
        for _ in range(100):
            sender.send(b"PUT / HTTP/1.1\r\nContent-Length: 1\r\n\r\n", b"x", answers.put)
        before = -1
        while len(seen) != before:
            before = len(seen)
            time.sleep(0.3)
        assert sorted(seen) == list(range(32))
        go_on.set()
        assert all(
            (answer := answers.get(timeout=30)) is not None and answer.status == 200 for _ in range(100)
        )
        assert len(seen) == 100


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nabc",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nab",
        b"SSH-2.0-x\r\n\r\n",
        b"x" * (1 << 17),
    ],
)
def test_odd_answers_are_none(answer: bytes) -> None:
    """What is not the plain answer to the request is none, and its connection is not used again."""

    def serve(connection: socket.socket, body: bytes) -> bool:
        connection.sendall(OK if body == b"good" else answer)
        return body == b"good"

    with serving(serve) as (port, seen):
        answers = Answers(PlainSender("127.0.0.1", port))
        assert answers.ask(b"bad") == {0: None}
        good = answers.ask(b"good")[0]
        assert good is not None and bytes(good.body) == b"yes" and good.headers["etag"] == "e"
        assert seen[0] != seen[-1]


def test_an_early_answer_to_a_large_request() -> None:
    """A server that refuses a request without reading it is heard; the connection is not used again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
                kept.append(connection)

        kept: list[socket.socket] = []
        thread = threading.Thread(target=serve)
        thread.start()
        answers = Answers(PlainSender("127.0.0.1", listener.getsockname()[1]))
        for _ in range(2):
            answer = answers.ask(LARGE)[0]
            assert answer is not None and answer.status == 403
        thread.join(10)
        for connection in kept:
            connection.close()


@pytest.mark.parametrize("abrupt", [False, True])
def test_closed_connections_are_replaced(abrupt: bool) -> None:
    """A connection that the server closed while nobody used it costs nothing but another one."""
    closed = threading.Event()

    def serve(connection: socket.socket, body: bytes) -> bool:
        if body == b"close":
            connection.sendall(OK)
            if abrupt:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
            closed.set()
            return False
        connection.sendall(OK)
        return True

    with serving(serve) as (port, seen):
        answers = Answers(PlainSender("127.0.0.1", port))
        for _ in range(5):
            closed.clear()
            assert answers.ask(b"close")[0] is not None
            assert answers.ask(b"go on")[0] is not None
        assert len(seen) == 10


def test_a_server_that_closes_each_time() -> None:
    """A request is sent again once if its connection was used before, and then no more."""
    hang_up = threading.Event()

    def serve(connection: socket.socket, body: bytes) -> bool:
        if hang_up.is_set():
            return False
        connection.sendall(OK)
        return True

    with serving(serve) as (port, seen):
        answers = Answers(PlainSender("127.0.0.1", port))
        assert answers.ask(b"a")[0] is not None
        hang_up.set()
        assert answers.ask(b"b") == {0: None}
        assert len(seen) == 3
        hang_up.clear()
        assert answers.ask(b"c")[0] is not None


def test_nobody_there() -> None:
    """Requests to a port where nobody listens end; so do those to a name that there is not."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    answers = Answers(PlainSender("127.0.0.1", port))
    assert answers.ask(b"", b"a", b"b") == {0: None, 1: None, 2: None}
    with pytest.raises(OSError):
        PlainSender("no-such-host.invalid", 80).send(b"", b"", lambda answer: None)


def test_all_addresses_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the addresses of a name those that refuse are passed over, also by many requests at once."""

    def serve(connection: socket.socket, body: bytes) -> bool:
        connection.sendall(OK)
        return True

    with socket.create_server(("127.0.0.1", 0)) as nobody:
        free = nobody.getsockname()[1]
    with serving(serve) as (port, _):
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", free)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: found)
        answers = Answers(PlainSender("name", 80))
        assert all(answer is not None for answer in answers.ask(*[b"x"] * 20).values())


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some time without progress a request has failed; another one is not kept waiting by it."""
    monkeypatch.setattr(plain_sender, "READ_TIMEOUT", 0.3)
    monkeypatch.setattr(plain_sender, "_LOOK_AROUND", 0.05)
    silent = threading.Event()

    def serve(connection: socket.socket, body: bytes) -> bool:
        if body == b"silence":
            silent.wait(10)
            return False
        connection.sendall(OK)
        return True

    with serving(serve) as (port, _):
        answers = Answers(PlainSender("127.0.0.1", port))
        begin = time.monotonic()
        found = answers.ask(b"silence", b"x", LARGE)
        assert found[0] is None and found[1] is not None and found[2] is not None
        assert time.monotonic() - begin >= 0.3
        silent.set()


def test_the_thread_ends_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without work the thread and its connections go after a while; later work starts it again."""
    monkeypatch.setattr(plain_sender, "LONGEST_IDLE", 0.1)
    monkeypatch.setattr(plain_sender, "_LOOK_AROUND", 0.02)

    def serve(connection: socket.socket, body: bytes) -> bool:
        connection.sendall(OK)
        return True

    with serving(serve) as (port, seen):
        sender = PlainSender("127.0.0.1", port)
        answers = Answers(sender)
        n_files = len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0
        for turn in range(3):
            assert all(answer is not None for answer in answers.ask(b"a", b"b", b"c").values())
            end = time.monotonic() + 10
            while sender._running and time.monotonic() < end:
                time.sleep(0.01)
            assert not sender._running and len(seen) == 3 * (turn + 1)
        while any(thread.name == "chunkwise-send" for thread in threading.enumerate()):
            time.sleep(0.01)
            assert time.monotonic() < end + 10
        while n_files and len(os.listdir("/dev/fd")) > n_files:
            time.sleep(0.01)  # the server's ends
            assert time.monotonic() < end + 10


def test_a_failure_of_the_thread_is_told_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the thread itself fails, nobody waits for ever, and the next request starts another one."""
    go_on = threading.Event()

    def serve(connection: socket.socket, body: bytes) -> bool:
        go_on.wait(10)
        connection.sendall(OK)
        return True

    def fail(*arguments: Any) -> None:
        raise RuntimeError("a mistake in this library")

    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    with serving(serve) as (port, _):
        answers = Answers(PlainSender("127.0.0.1", port))
        with monkeypatch.context() as patch:
            patch.setattr(plain_line, "parse_head", fail)
            threading.Timer(0.1, go_on.set).start()
            assert answers.ask(b"a", b"b", LARGE) == {0: None, 1: None, 2: None}
        assert answers.ask(b"a")[0] is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_its_own() -> None:
    """After a fork the child starts a thread and connections of its own, and the parent's go on."""

    def serve(connection: socket.socket, body: bytes) -> bool:
        connection.sendall(OK)
        return True

    with serving(serve) as (port, seen):
        answers = Answers(PlainSender("127.0.0.1", port))
        assert answers.ask(b"a")[0] is not None
        pid = os.fork()
        if not pid:
            code = 1
            try:
                code = 0 if answers.ask(b"b", b"c")[1] is not None else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert answers.ask(b"d")[0] is not None
        assert seen[0] == seen[-1] and seen[0] not in seen[1:-1]
