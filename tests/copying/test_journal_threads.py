"""A journal that several threads mark: every fingerprint is in its sum."""

from __future__ import annotations

import json
import threading
from typing import Any

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
