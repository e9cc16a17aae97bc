"""How much an object sender has under way, and what becomes of it."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from chunkwise.kvstore import object_sender
from chunkwise.kvstore.object_sender import ObjectSender
from chunkwise.kvstore.request_limits import Limits, RequestSlots


class Held:
    """A server that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, Callable[[bool], None]]] = []

    def send(self, key: str, value: Any, done: Callable[[bool], None]) -> None:
        self.asked.append((key, bytes(value or b""), done))

    def put(self, key: str, value: memoryview) -> str | None:
        raise AssertionError("values are sent")

    def answer(self, *, stored: bool = True) -> None:
        self.asked.pop(0)[2](stored)


def begin(sender: ObjectSender, values: list[bytes]) -> threading.Thread:
    def work() -> None:
        for i, value in enumerate(values):
            assert sender.write(f"k{i}", value)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def settled(server: Held) -> list[tuple[str, bytes]]:
    """Return what is under way once nothing more comes."""
    before = -1
    while len(server.asked) != before:
        before = len(server.asked)
        time.sleep(0.1)
    return [(key, value) for key, value, _ in server.asked]


@pytest.mark.parametrize(("limit", "most"), [(None, 128), (3, 3), (200, 200)])
def test_a_limit_that_is_set_holds_for_what_is_sent(limit: int | None, most: int) -> None:
    server, slots = Held(), RequestSlots(limit)
    assert slots.limit == (limit or 32)
    assert pickle.loads(pickle.dumps(slots)).sent.limit == slots.sent.limit == most
    sender = ObjectSender(server, Limits(slots), "")
    values = [bytes([i]) * 5 for i in range(250)]
    thread = begin(sender, values)
    assert settled(server) == [(f"k{i}", values[i]) for i in range(min(most, 32))]
    server.answer()  # it can do more
    assert settled(server) == [(f"k{i + 1}", values[i + 1]) for i in range(most)]
    for _ in values[1:]:
        while not server.asked:
            time.sleep(0.001)
        server.answer()
    thread.join(10)
    sender.wait()
    assert not server.asked and not sender.take_refused()


def test_beyond_the_usual_number_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_sender, "DEFAULT_CONCURRENCY", 2)
    monkeypatch.setattr(object_sender, "_MOST_BYTES", 10_000)
    server = Held()
    sender = ObjectSender(server, Limits(RequestSlots(20)), "")
    values = [b"a" * 9_000, b"b" * 9_000, b"c" * 4_000, *[b"d" * 1_000] * 12]
    thread = begin(sender, values)
    assert [len(value) for _, value in settled(server)] == [9_000, 9_000]  # as many as always
    server.answer()
    assert [len(value) for _, value in settled(server)] == [9_000, 4_000]
    server.answer()
    assert [len(value) for _, value in settled(server)] == [4_000, *[1_000] * 6]
    server.answer(stored=False)
    server.answer()
    server.answer()
    assert [len(value) for _, value in settled(server)] == [1_000] * 4  # until they are as few as always
    server.answer()
    server.answer()
    server.answer()
    assert [len(value) for _, value in settled(server)] == [1_000] * 2
    while thread.is_alive() or server.asked:
        if server.asked:
            server.answer()
        time.sleep(0.001)
    sender.wait()
    assert [(key, bytes(value or b"")) for key, value in sender.take_refused()] == [("k2", b"c" * 4_000)]


def test_what_can_not_be_copied_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Held()
    sender = ObjectSender(server, Limits(RequestSlots(1)), "")

    def refuse(self: ObjectSender, value: Any) -> memoryview:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(ObjectSender, "_copy", refuse)
        with pytest.raises(MemoryError):
            sender.write("k", b"v")
    sender.wait()
    assert sender.write("k", b"v")  # there is a slot
    server.answer()
    sender.wait()
    assert not sender.take_refused()
