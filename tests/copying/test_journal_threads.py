"""A journal that several threads mark and change: what is done and the sum of fingerprints stay together."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from chunkwise.copying.journal import Journal
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.trees.location import locate
from chunkwise.core.trees.node import JOURNAL


class Slow(int):
    """A fingerprint that lets another thread in while it is added."""

    work: Any = None

    def __radd__(self, other: int) -> int:
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        self.thread.join(0.2)  # it waits, unless it is let in
        return other + int(self)


def test_marks_of_two_threads_are_both_in_the_sum() -> None:
    store = MemoryStore()
    journal = Journal(locate(store), {}, 4)
    journal.begin()
    slow = Slow(5)
    slow.work = lambda: journal.mark(1, fingerprint=7)
    journal.mark(0, fingerprint=slow)
    slow.thread.join()
    journal.save()
    document = json.loads(bytes(store.read(JOURNAL).value or b""))
    assert document["fingerprints"] == [f"{12:016x}"] and document["done"] == [[[0, 2]]]


@pytest.mark.parametrize(
    ("change", "seconds", "expected"),
    [
        ("write", 60, ([[[0, 1]]], 5)),
        ("save", 60, ([[[0, 1]]], 5)),
        ("beat", 60, ([[[0, 1]]], 5)),
        ("restart", 60, ([[]], 0)),
        ("delete", 0, None),
    ],
)
def test_a_change_waits_for_the_mark_of_another_thread(
    change: str, seconds: float, expected: tuple[Any, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chunkwise.copying.journal._SECONDS", seconds)
    monkeypatch.setattr("chunkwise.copying.journal._BEAT", 0)
    store = MemoryStore()
    journal = Journal(locate(store), {}, 4)
    journal.begin()
    slow = Slow(5)
    slow.work = getattr(journal, change)
    journal.mark(0, fingerprint=slow)
    slow.thread.join()
    if expected is None:
        assert store.read(JOURNAL).value is None
        return
    for save in (lambda: None, journal.write):  # what the change has written; what the journal knows
        save()
        document = json.loads(bytes(store.read(JOURNAL).value or b""))
        assert expected == (document["done"], int(document["fingerprints"][0], 16))
